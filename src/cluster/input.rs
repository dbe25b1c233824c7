//! What happens to the metadata machine.

use std::collections::BTreeSet;

use regex::Regex;

use super::output::{RequestToken, Target};
use super::snapshot::Endpoint;
use crate::ids::{BrokerId, LeaderEpoch, TopicId, TopicIncarnation, TopicName, TopicPartition};
use crate::wire::api::metadata::Response;
use crate::wire::{ErrorCode, api};

/// One input of the [`Metadata`](super::Metadata) machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// The answer to a request; also when it comes after the request was given up.
    Response {
        /// Which request.
        token: RequestToken,
        /// What it said.
        answer: Box<Response>,
    },
    /// A request ended without an answer.
    Failed {
        /// Which request.
        token: RequestToken,
    },
    /// The leadership a Fetch or Produce answer carried (KIP-951).
    Hints(HintLot),
    /// The leader of a hinted partition served it: the hint was good.
    LeaderServed(TopicPartition),
    /// The control connection to a peer changed.
    LinkChanged {
        /// Which peer.
        target: Target,
        /// How it stands.
        state: LinkState,
    },
    /// What the process is interested in, replacing what it was before.
    Subscribe(Interest),
    /// Somebody needs fresh metadata.
    Refresh {
        /// Why.
        reason: Reason,
        /// What exactly must become known.
        wants: Vec<Want>,
        /// The broker whose view is the freshest for this question (the leader, for ISR questions).
        prefer: Option<BrokerId>,
        /// Told when the first response that was sent after this input has been applied.
        waiter: Option<Waiter>,
    },
    /// The bootstrap names were resolved; these are the addresses now.
    Resolved(Vec<Endpoint>),
    /// The deadline passed.
    Tick,
}

/// Names a party that waits for a refresh.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Waiter(pub u64);

/// The topics a process reads, writes or otherwise follows.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    /// By name.
    pub topics: BTreeSet<TopicName>,
    /// By pattern, matched anywhere in the name unless it is anchored. Asked with every periodic
    /// refresh.
    pub patterns: Vec<Regex>,
}

impl Interest {
    /// Interest in exactly these topics.
    pub fn topics<N: Into<TopicName>>(names: impl IntoIterator<Item = N>) -> Self {
        Self {
            topics: names.into_iter().map(Into::into).collect(),
            patterns: Vec::new(),
        }
    }

    /// Whether `topic` is of interest.
    pub fn includes(&self, topic: &TopicName) -> bool {
        self.topics.contains(topic)
            || self
                .patterns
                .iter()
                .any(|pattern| pattern.is_match(topic.as_str()))
    }
}

/// Something that must become known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Want {
    /// The topic: its existence, id and partitions.
    Topic(TopicName),
    /// An addressable leader of the partition, newer than the one that failed.
    Leader {
        /// Which partition.
        partition: TopicPartition,
        /// The epoch at which a leader was asked in vain; `None` if any leader will do.
        failed: Option<LeaderEpoch>,
    },
}

/// Why metadata is wanted (metadata.md 8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Reason {
    /// A broker said it does not lead (5, 6), or is fenced (74).
    NotLeader,
    /// A broker does not know the topic or its id (3, 100, 103), or its storage failed (56).
    NotHosted,
    /// A leader is behind us: 75.
    UnknownLeaderEpoch,
    /// The connection to a leader was lost.
    LinkLost,
    /// A hint named an unknown broker.
    UnknownBroker,
    /// A hint named a broker outside the ISR view.
    OutsideIsr,
    /// A new topic is to be read.
    Subscription,
    /// A leadership hint (KIP-951) was applied or contested.
    Hint,
    /// An answer was incomplete, stale or contested.
    Contested,
    /// The periodic refresh.
    Age,
}

/// How the control connection to a peer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// Not open, and no attempt has failed.
    Idle,
    /// Being made.
    Connecting,
    /// Ready to carry requests.
    Ready,
    /// Ready, but muted by a throttle (KIP-219).
    Throttled,
    /// Open, but an answer is overdue (routing.md 2).
    Silent,
    /// Was ready and went away other than by idle close.
    Lost,
    /// The last attempt failed.
    Failed,
}

/// The leadership hints of one answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HintLot {
    /// Who sent the answer, whatever its role.
    pub from: BrokerId,
    /// The hints, one per partition row that carried one.
    pub hints: Vec<Hint>,
    /// The endpoints that came with them.
    pub endpoints: Vec<api::Endpoint>,
}

/// One leadership hint. The host leaves out hints of versions that cannot carry them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hint {
    /// Whose leader.
    pub partition: TopicPartition,
    /// The topic id the request was about, if it carried one.
    pub topic_id: Option<TopicId>,
    /// The life of the topic the request was about.
    pub incarnation: TopicIncarnation,
    /// The error code of the row.
    pub code: ErrorCode,
    /// The leader; the wire's -1 is `None`.
    pub leader: Option<BrokerId>,
    /// Its epoch; the wire's -1 is `None`.
    pub epoch: Option<LeaderEpoch>,
}
