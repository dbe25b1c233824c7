//! Topics and partitions as the snapshot shows them.

use std::sync::Arc;

use super::output::Target;
use super::shared::Shared;
use crate::ids::{
    BrokerId, LeaderEpoch, Moment, PartitionIndex, TopicId, TopicIncarnation, TopicName,
};
use crate::wire::ErrorCode;

/// One topic of the snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Its id (KIP-516), once a broker told one.
    pub id: Option<TopicId>,
    /// Which life of the name this is.
    pub incarnation: TopicIncarnation,
    /// Ids the name had in earlier lives, oldest first; at most [`Topic::RETIRED_MAX`].
    pub retired: Vec<TopicId>,
    /// Whether it is believed to exist.
    pub state: TopicState,
    /// Its partitions, by index.
    pub partitions: Shared<PartitionIndex, Partition>,
}

impl Topic {
    /// Retired ids remembered per name; the oldest is forgotten first.
    pub const RETIRED_MAX: usize = 16;

    /// A topic of which only the name is known.
    pub fn unseen(name: TopicName, incarnation: TopicIncarnation, now: Moment) -> Self {
        Self {
            name,
            id: None,
            incarnation,
            retired: Vec::new(),
            state: TopicState::Unconfirmed {
                since: now,
                answers: 0,
            },
            partitions: Shared::new(),
        }
    }

    /// The partition at `index`.
    pub fn partition(&self, index: PartitionIndex) -> Option<&Partition> {
        self.partitions.get(&index)
    }

    /// Number of partitions known, one above the highest index.
    pub fn partition_count(&self) -> i32 {
        let last = self.partitions.last_key();
        last.map_or(0, |top| top.0.saturating_add(1))
    }
}

/// Whether a topic is believed to exist (metadata.md 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicState {
    /// The last answer listed it.
    Known,
    /// Absent from the last answers; its rows stay in use until that is certain.
    Unconfirmed {
        /// First answer without it, or when it was first asked for.
        since: Moment,
        /// Answers without it since then.
        answers: u32,
    },
    /// Absent long enough and by enough brokers.
    Gone,
    /// A broker refuses to speak about it, with this error code (17 or 29).
    Error(ErrorCode),
}

/// One partition of the snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Who leads it.
    pub leadership: Leadership,
    /// Highest leader epoch ever accepted in this incarnation; `None` on clusters without epochs.
    pub floor: Option<LeaderEpoch>,
    /// Whether the leader's address is known; false without a leader.
    pub addressable: bool,
    /// All replicas, preferred leader first.
    pub replicas: Arc<[BrokerId]>,
    /// Replicas listed offline, ascending.
    pub offline: Arc<[BrokerId]>,
    /// In-sync replicas as last published, ascending.
    pub isr: Arc<[BrokerId]>,
    /// Leader epoch of the row that brought `isr`.
    pub isr_epoch: Option<LeaderEpoch>,
    /// Who sent the row that brought `isr`.
    pub source: Target,
    /// When a row of this partition was last accepted.
    pub observed_at: Moment,
}

impl Partition {
    /// The current leader, if it is known.
    pub const fn leader(&self) -> Option<BrokerId> {
        match self.leadership {
            Leadership::Known { leader, .. } => Some(leader),
            Leadership::Lost { .. } | Leadership::None => None,
        }
    }

    /// The in-sync replicas, if the list belongs to the current leader epoch (routing.md 2, "ISR
    /// view").
    pub fn isr_view(&self) -> Option<&[BrokerId]> {
        (self.isr_epoch == self.floor).then_some(&*self.isr)
    }

    /// Whether `broker` is listed offline for this partition.
    pub fn is_offline(&self, broker: BrokerId) -> bool {
        self.offline.contains(&broker)
    }
}

/// What is known about the leader of a partition at its floor epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leadership {
    /// A broker leads.
    Known {
        /// The leader.
        leader: BrokerId,
        /// Taken from a row without an epoch while ours was unknown: a guess that the fence will
        /// check.
        provisional: bool,
    },
    /// No leader at an epoch that had one.
    Lost {
        /// The leader of that epoch.
        last: BrokerId,
    },
    /// No leader since the epoch began.
    None,
}
