//! What others need of the metadata actor.

use actix::prelude::{Message, Recipient};

use super::ClusterNews;
use crate::actors::supervise::on_purpose;
use crate::cluster::{HintLot, Input, LinkState, Reason, Snapshot, Target, Want};
use crate::ids::{BrokerId, LeaderEpoch, TopicName, TopicPartition};
use crate::routing::Leadership;
use crate::routing::broker::ProbeNeed;

/// One message to the metadata actor. Its mailbox holds 64; senders keep what does not fit.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) enum Need {
    /// The control connection to a peer changed.
    Link(Target, LinkState),
    /// Leadership that came with codes 6 or 74 (KIP-951).
    Hints(HintLot),
    /// These partitions need a fresh look.
    Refresh {
        partitions: Vec<TopicPartition>,
        reason: Reason,
    },
    /// A route needs a newer leader, or fresher ISR news.
    Route {
        partition: TopicPartition,
        reason: Reason,
        epoch: Option<LeaderEpoch>,
        leader: Option<BrokerId>,
    },
    /// A producer needs this.
    Want(Reason, Want),
    /// What the link to a broker has to probe; answered with its share of the budget.
    Probing(BrokerId, ProbeNeed),
    /// Leaders known by a hint have served these partitions.
    Served(Vec<TopicPartition>),
    /// These topics are wanted besides what is known.
    Topics(Vec<TopicName>),
    /// Somebody wants to hear of every change from now on, beginning with the snapshot.
    Listen(Recipient<ClusterNews>),
    /// Panic.
    Crash,
}

impl Need {
    /// What a route that believes in `leadership` needs.
    pub(crate) fn of_route(
        partition: TopicPartition,
        reason: Reason,
        leadership: Leadership,
    ) -> Self {
        let Leadership { leader, epoch, .. } = leadership;
        Self::Route {
            partition,
            reason,
            epoch,
            leader,
        }
    }

    /// The machine's input, if the need is one.
    pub(super) fn into_input(self, snapshot: &Snapshot) -> Option<Input> {
        let (reason, wants, prefer) = match self {
            Self::Link(target, state) => return Some(Input::LinkChanged { target, state }),
            Self::Hints(lot) => return Some(Input::Hints(lot)),
            Self::Listen(_) | Self::Probing(..) | Self::Served(_) => return None,
            Self::Crash => {
                on_purpose();
                return None;
            }
            Self::Refresh { partitions, reason } => {
                let leader = |partition: TopicPartition| {
                    let failed = snapshot.partition(&partition).and_then(|row| row.floor);
                    Want::Leader { partition, failed }
                };
                (reason, partitions.into_iter().map(leader).collect(), None)
            }
            Self::Route {
                partition,
                reason: Reason::OutsideIsr,
                leader,
                ..
            } => (
                Reason::OutsideIsr,
                vec![Want::Topic(partition.topic)],
                leader,
            ),
            Self::Route {
                partition,
                reason,
                epoch,
                ..
            } => (
                reason,
                vec![Want::Leader {
                    partition,
                    failed: epoch,
                }],
                None,
            ),
            Self::Want(reason, want) => (reason, vec![want], None),
            Self::Topics(topics) => (
                Reason::Subscription,
                topics.into_iter().map(Want::Topic).collect(),
                None,
            ),
        };
        Some(Input::Refresh {
            reason,
            wants,
            prefer,
            waiter: None,
        })
    }
}
