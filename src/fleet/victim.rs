//! Whom a test may crash.

use crate::ids::{BrokerId, TopicPartition};

/// An actor that [`FleetHandle::crash`](super::FleetHandle::crash) makes panic.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Victim {
    /// The actor of an assigned partition.
    Partition(TopicPartition),
    /// The link to a broker.
    Link(BrokerId),
    /// The handler host of the first data thread.
    HandlerHost,
    /// The partition supervisor of the first data thread.
    PartitionSupervisor,
    /// The metadata actor.
    Metadata,
    /// The coordinator actor.
    Coordinator,
    /// The producer of dead letters.
    Producer,
    /// The fleet supervisor.
    FleetSupervisor,
}
