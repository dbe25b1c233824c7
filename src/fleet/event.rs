//! What a fleet tells while it runs (runtime.md 13 V7).

use serde::Serialize;
use tracing::Level;

use crate::fleet::LaneName;
use crate::ids::{
    AssignmentEpoch, BrokerId, Generation, LeaderEpoch, MemberId, MetadataVersion, Moment, Offset,
    Rack, TopicIncarnation, TopicName, TopicPartition,
};
use crate::routing;

/// Something that happened, as a fleet's [`events`](super::FleetHandle::events) deliver it.
#[derive(Clone, Debug, Serialize)]
pub struct NumberedEvent {
    /// Counts from 1 without gaps; a reader that sees a gap was too slow.
    pub number: u64,
    /// Unix time in milliseconds.
    pub at_ms: i64,
    /// What happened.
    pub event: Event,
}

/// One thing that happened in a fleet. Serialises under snake case names.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "type")]
#[non_exhaustive]
pub enum Event {
    /// The fleet opens its first connection.
    FleetStarting,
    /// Actors run and metadata of the subscribed topics is known.
    FleetStarted,
    /// A stop began.
    FleetStopping {
        /// Why, in words.
        reason: String,
    },
    /// Everything is drained, committed and closed.
    FleetStopped,
    /// The member is part of a generation.
    MemberJoined {
        /// Its id.
        member: MemberId,
        /// The generation.
        generation: Generation,
    },
    /// The member left the group.
    MemberLeft,
    /// The coordinator refused the member for good.
    MemberFatal {
        /// The error in one line.
        error: String,
    },
    /// Partitions were assigned; also sent with an empty set, once per reconciliation.
    Assigned {
        /// Which, with the epoch of each assignment.
        partitions: Vec<(TopicPartition, AssignmentEpoch)>,
    },
    /// Partitions were drained, committed and released.
    Revoked {
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// Partitions are no longer ours; nothing was committed for them.
    Lost {
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// A partition is read from another broker or lane.
    RoutingChange(RouteChange),
    /// The reset policy moved a position.
    PositionReset {
        /// The partition.
        partition: TopicPartition,
        /// Position before; none if there was no commit.
        from: Option<Offset>,
        /// Position now.
        to: Offset,
        /// Offsets between the two: records skipped, or to be read again.
        gap: u64,
        /// `no_commit`, or the end of the log it lay beyond: `below_start`, `above_end`.
        cause: &'static str,
    },
    /// The log was truncated below a position (KIP-320).
    Truncated {
        /// The partition.
        partition: TopicPartition,
        /// Position before.
        from: Offset,
        /// Position now.
        to: Offset,
        /// Leader epoch of the record before the old position, if it is known.
        epoch_before: Option<LeaderEpoch>,
        /// Leader epoch of the record before the new position, if the leader told.
        epoch: Option<LeaderEpoch>,
    },
    /// Reading reached the end of the log as its leader told it last. Once per route and position
    /// (routing.md 14.1).
    CaughtUpWithLeader {
        /// The partition.
        partition: TopicPartition,
        /// The end.
        end: Offset,
    },
    /// Reading reached the end of the replica it reads from. The leader may be further.
    CaughtUpWithReplica {
        /// The partition.
        partition: TopicPartition,
        /// The replica's end.
        end: Offset,
    },
    /// A record batch cannot be read. Its partition halts, or goes on behind it if
    /// `wire.batch.policy` allows that (wire.md 8.6).
    CorruptBatch {
        /// The partition.
        partition: TopicPartition,
        /// The first offset that was not delivered.
        offset: Offset,
        /// The batch's base offset, as far as it is known.
        base: Option<Offset>,
        /// Offset behind the batch, if its checksum vouches for it: only then can it be skipped.
        next: Option<Offset>,
        /// Size of the batch on the wire; 0 if only the broker has seen it.
        bytes: Option<usize>,
        /// Whether it was skipped; else the partition halts, or waits for its dead letter.
        skipped: bool,
        /// Whether it is to become a dead letter, which [`Event::DeadLettered`] will tell.
        kept: bool,
        /// Why, in words.
        reason: String,
    },
    /// What could not be handled lies in its dead letter topic, and counts as finished.
    DeadLettered {
        /// The partition it came from.
        partition: TopicPartition,
        /// The first offset finished by it.
        from: Offset,
        /// The offset behind the last one.
        to: Offset,
        /// Why, as a fixed word such as `poison`.
        reason: &'static str,
        /// Where the letter lies.
        letter: TopicPartition,
        /// Its offset there; unknown if the broker recognised a batch it already had.
        offset: Option<Offset>,
    },
    /// A commit was refused for good or is late.
    CommitFailed {
        /// The partition.
        partition: TopicPartition,
        /// The broker's words.
        error: String,
    },
    /// A handler attempt panicked; the record is retried.
    AttemptPanicked {
        /// The partition.
        partition: TopicPartition,
        /// First offset of the handled unit.
        offset: Offset,
        /// The attempt, from 1.
        attempt: u32,
        /// The panic's text.
        text: String,
    },
    /// A handler attempt passed its deadline and was asked to end.
    AttemptDeadline {
        /// The partition.
        partition: TopicPartition,
    },
    /// An attempt did not end within the grace and was aborted.
    AttemptAbandoned {
        /// The partition.
        partition: TopicPartition,
        /// First offset of the handled unit.
        offset: Offset,
    },
    /// An aborted attempt still holds its thread; its partition stands still until it ends.
    AttemptStuck {
        /// The partition.
        partition: TopicPartition,
        /// First offset of the handled unit, if it is known.
        offset: Option<Offset>,
    },
    /// An actor died and was started again from its cell.
    ActorRestarted {
        /// Which, in words.
        actor: String,
        /// Why it died.
        reason: String,
    },
    /// A partition stopped for good and holds its offset; it stays assigned.
    PartitionFailed {
        /// The partition.
        partition: TopicPartition,
        /// Why.
        reason: String,
    },
    /// A topic cannot be read.
    TopicError {
        /// The topic.
        topic: TopicName,
        /// Why.
        error: String,
        /// Whether a permission is missing.
        denied: bool,
    },
    /// A broker connection changed state; sent for losses and recoveries only.
    BrokerLink {
        /// The broker.
        broker: BrokerId,
        /// The connection's class.
        class: String,
        /// Its new state.
        state: String,
        /// Why.
        reason: String,
    },
    /// A drain did not finish within its budget.
    DrainOverrun {
        /// Partitions with work in hand when it ended.
        partitions: Vec<TopicPartition>,
    },
    /// A diagnostic of the set-up, such as a rack that no broker has.
    Diagnostic {
        /// Its fixed name.
        name: &'static str,
        /// In words.
        detail: String,
        /// Whether it is over: told once when it begins and once when it ends.
        cleared: bool,
    },
    /// The breaker of a broker changed (routing.md 9.2).
    BreakerChanged {
        /// The broker.
        broker: BrokerId,
        /// `closed`, `open` or `readmitting`.
        state: &'static str,
    },
}

impl Event {
    /// How loudly an event is logged. What comes often, or in lists as long as the assignment, or
    /// is logged in better words where it happens, is left to those who debug.
    pub(crate) fn level(&self) -> Level {
        match self {
            Self::MemberFatal { .. } | Self::PartitionFailed { .. } => Level::ERROR,
            Self::PositionReset { cause, .. } if *cause == "no_commit" => Level::INFO,
            Self::PositionReset { .. }
            | Self::Truncated { .. }
            | Self::CorruptBatch { .. }
            | Self::DeadLettered { .. }
            | Self::CommitFailed { .. }
            | Self::AttemptDeadline { .. }
            | Self::AttemptAbandoned { .. }
            | Self::AttemptStuck { .. }
            | Self::ActorRestarted { .. }
            | Self::TopicError { .. }
            | Self::DrainOverrun { .. } => Level::WARN,
            Self::FleetStarting
            | Self::FleetStarted
            | Self::FleetStopping { .. }
            | Self::FleetStopped
            | Self::MemberLeft
            | Self::BreakerChanged { .. } => Level::INFO,
            Self::MemberJoined { .. }
            | Self::Assigned { .. }
            | Self::Revoked { .. }
            | Self::Lost { .. }
            | Self::RoutingChange(_)
            | Self::CaughtUpWithLeader { .. }
            | Self::CaughtUpWithReplica { .. }
            | Self::AttemptPanicked { .. }
            | Self::BrokerLink { .. }
            | Self::Diagnostic { .. } => Level::DEBUG,
        }
    }
}

/// A partition is read from another broker or lane from now on (routing.md 18).
#[derive(Clone, Debug, Serialize)]
pub struct RouteChange {
    /// The partition.
    pub partition: TopicPartition,
    /// How it was read before.
    pub from: RouteEnd,
    /// How it is read now.
    pub to: RouteEnd,
    /// Why, as a fixed name such as `hint_adopted`.
    pub reason: String,
    /// Counts the changes of this assignment.
    pub generation: u64,
    /// The broker the leader recommended, if that caused it.
    pub hint: Option<BrokerId>,
    /// The leader as known.
    pub leader: Option<BrokerId>,
    /// Its epoch.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The lease, if the route has one.
    pub lease: Option<RouteLease>,
    /// Life of the topic name: +1 per new topic id.
    pub topic_incarnation: TopicIncarnation,
    /// Metadata version last heard of.
    pub metadata_version: MetadataVersion,
    /// When, on the fleet's clock.
    pub at: Moment,
}

/// The lease of a follower route (routing.md 8.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RouteLease {
    /// `full` or `trial`.
    pub kind: &'static str,
    /// Milliseconds until the leader is asked again.
    pub left_ms: u64,
}

/// One side of a [`RouteChange`].
#[derive(Clone, Debug, Serialize)]
pub struct RouteEnd {
    /// `parked`, `leader`, `follower` or `forced`.
    pub state: &'static str,
    /// The serving broker.
    pub broker: Option<BrokerId>,
    /// Its rack.
    pub zone: Option<Rack>,
    /// The lane.
    pub lane: Option<LaneName>,
}

impl RouteChange {
    pub(crate) fn new(partition: TopicPartition, change: &routing::RoutingChange) -> Self {
        let end = |end: &routing::Endpoint| RouteEnd {
            state: end.state,
            broker: end.broker,
            zone: end.zone.clone(),
            lane: end.lane.map(LaneName::from),
        };
        Self {
            partition,
            from: end(&change.from),
            to: end(&change.to),
            reason: change.reason.name(),
            generation: change.generation.0,
            hint: change.hint,
            leader: change.leader,
            leader_epoch: change.leader_epoch,
            lease: change.lease_left.map(|left| RouteLease {
                kind: change.lease_kind.unwrap_or("full"),
                left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            }),
            topic_incarnation: change.incarnation,
            metadata_version: change.version,
            at: change.at,
        }
    }
}
