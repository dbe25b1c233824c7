//! What the metadata machine asks of its host.

use std::sync::Arc;

use super::diff::Diff;
use super::input::{Reason, Waiter};
use super::snapshot::Snapshot;
use crate::ids::BrokerId;
use crate::wire::api::metadata::Request;

/// One output of the [`Metadata`](super::Metadata) machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a Metadata request; a connection that is not open is to be opened.
    SendMetadata {
        /// To whom.
        to: Target,
        /// What to ask.
        request: Request,
        /// Comes back with the answer or the failure.
        token: RequestToken,
    },
    /// This is the cluster now. Comes before the differences it holds.
    Publish(Arc<Snapshot>),
    /// What changed.
    Diff(Diff),
    /// The refresh somebody waited for is done.
    WaiterDone(Waiter),
    /// Close every connection of every class and resolve the bootstrap names again; answer with
    /// [`Input::Resolved`](super::Input::Resolved).
    Rebootstrap,
    /// Something worth a counter happened.
    Counted(Counted),
}

/// Who is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Target {
    /// The bootstrap address with this index; its broker id is not known.
    Bootstrap(usize),
    /// A known broker.
    Broker(BrokerId),
}

/// Names one Metadata request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct RequestToken(pub u64);

/// What the machine counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Counted {
    /// A refresh was asked for.
    Refresh(Reason),
    /// A request got no answer in time.
    RequestFailed,
    /// An answer came after it was given up.
    LateAnswer,
    /// An answer brought nothing that was wanted.
    NoProgress,
    /// A row had an epoch below the floor.
    StaleRow,
    /// Two brokers named different leaders for one epoch.
    LeaderConflict,
    /// A row without an epoch met a known floor.
    RowWithoutEpoch,
    /// A retired topic id was reported.
    RetiredTopicId,
    /// An answer had fewer partitions than known.
    FewerPartitions,
    /// An ISR that went back to the previous list was held for confirmation.
    IsrHeld,
    /// A hint was applied.
    HintApplied,
    /// A hint came on a code that carries none.
    HintOnOtherCode,
    /// A hint was about another life of the topic.
    HintOfOtherIncarnation,
    /// A hint named another leader for the current epoch.
    HintConflict,
    /// A hint told nothing new, or something old.
    HintWithoutNews,
    /// A hint had no usable leader or epoch.
    HintWithoutContent,
    /// Hints of a partition went in circles and are not believed for a while.
    HintDistrusted,
    /// A hinted address was not taken.
    HintEndpointRefused,
    /// An answer listed no broker.
    EmptyBrokerList,
    /// An answer of another cluster was refused.
    ForeignCluster,
}
