//! Events of a route, for people and for replay.

use std::time::Duration;

use super::cooldown::Fault;
use super::stamp::{Lane, Role};
use super::state::Why;
use crate::ids::{
    BrokerId, LeaderEpoch, MetadataVersion, Moment, Offset, Rack, RouteGeneration, TopicIncarnation,
};
use crate::wire::ErrorCode;

/// Something a route tells the world.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The serving broker or the lane changed; exactly one per route generation.
    RoutingChange(Box<RoutingChange>),
    /// The position moved by policy, not by delivery.
    PositionReset {
        /// Offset that could not be read.
        from: Offset,
        /// Offset read next.
        to: Offset,
        /// Which end of the leader's log it lay beyond.
        bound: Bound,
    },
    /// The log was truncated below the fetch end.
    Truncated {
        /// Fetch end before.
        from: Offset,
        /// Fetch end now.
        to: Offset,
        /// Epochs of the last record before either end, as far as known.
        epochs: (Option<LeaderEpoch>, Option<LeaderEpoch>),
    },
    /// `caught_up_with_leader`, `caught_up_with_replica`: the fetch end reached the end that the
    /// leader, or the follower being read, told last. Once per route and position generation; a
    /// follower's end is no end of the log (routing.md 14.1).
    CaughtUp {
        /// Whose end.
        with: Role,
        /// The end.
        end: Offset,
    },
    /// The leader itself serves a batch that fails its checks. The batch policy decides; the
    /// position stays.
    CorruptBatch {
        /// Offset of the fetch.
        offset: Offset,
    },
    /// The leader refuses for a reason that retrying alone does not mend. Told once until it serves
    /// again.
    Refused {
        /// The code.
        code: ErrorCode,
    },
    /// Reading stopped until a seek.
    Halted(Halt),
    /// Gauge `route_lease_overdue`: the hard stop passed while the leader is out of reach.
    LeaseOverdue(bool),
    /// Gauge `leader_unreachable`: the leader is silent and nobody may be read instead, or the
    /// position waits for it.
    LeaderUnreachable(bool),
    /// Gauge `route_starving`: the leader answers and gives nothing on any lane.
    Starving(bool),
    /// The topic does not exist any more.
    TopicGone,
}

/// Why a partition stands still for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Halt {
    /// There is no offset to read from, and the reset policy is `none`.
    NoOffset,
    /// The log was truncated below the position, and the reset policy is `none` (KIP-320).
    Truncated,
    /// The leader says that the log is compressed in a way that needs a newer client: code 76.
    Compression,
}

impl Halt {
    /// Its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoOffset => "no_offset",
            Self::Truncated => "truncated",
            Self::Compression => "compression",
        }
    }

    /// The reason in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoOffset => "no offset to read from, and auto.offset.reset=none",
            Self::Truncated => "log truncated below the position, and auto.offset.reset=none",
            Self::Compression => "the leader answers that this client cannot read the compression",
        }
    }
}

/// The end of the leader's log beyond which an offset lay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// Below the first record kept.
    BelowStart,
    /// Above the end, and it stayed there.
    AboveEnd,
}

impl Bound {
    /// Its name in events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BelowStart => "below_start",
            Self::AboveEnd => "above_end",
        }
    }
}

/// One change of the route.
#[derive(Clone, PartialEq, Debug)]
pub struct RoutingChange {
    /// Life of the topic name.
    pub incarnation: TopicIncarnation,
    /// Served so before.
    pub from: Endpoint,
    /// Served so now.
    pub to: Endpoint,
    /// Why.
    pub reason: Reason,
    /// Time left until the leader is asked again; `None` without a lease.
    pub lease_left: Option<Duration>,
    /// `full` or `trial`; `None` without a lease.
    pub lease_kind: Option<&'static str>,
    /// The generation this change began.
    pub generation: RouteGeneration,
    /// The hint that caused it, if one did.
    pub hint: Option<BrokerId>,
    /// The leader as known.
    pub leader: Option<BrokerId>,
    /// Its epoch.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Metadata version last heard of.
    pub version: MetadataVersion,
    /// When.
    pub at: Moment,
}

/// One end of a [`RoutingChange`].
#[derive(Clone, PartialEq, Debug)]
pub struct Endpoint {
    /// State name.
    pub state: &'static str,
    /// Serving broker.
    pub broker: Option<BrokerId>,
    /// Its zone, if it reports a rack.
    pub zone: Option<Rack>,
    /// Lane.
    pub lane: Option<Lane>,
}

/// Why a route changed (routing.md 18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// First route of an assignment.
    Assigned,
    /// The leader hinted a follower.
    HintAdopted,
    /// The leader hinted another follower.
    HintMoved,
    /// A probe named another follower.
    ProbeMoved,
    /// A probe named nobody: the leader serves.
    LeaderSaidStay,
    /// The follower left the ISR.
    IsrLost,
    /// The hinted follower came into the ISR.
    IsrGained,
    /// The hinted follower is still being dialled.
    Connecting,
    /// Its link became Ready.
    Connected,
    /// Metadata lists the follower offline.
    ReplicaOffline,
    /// The follower cools.
    Cooldown(Fault),
    /// Another hold began.
    Hold(Why),
    /// A hold is over.
    HoldEnded,
    /// The follower's breaker opened.
    BreakerOpen,
    /// The lease ran out and no probe was answered.
    LeaseHardStop,
    /// Leader or epoch changed.
    LeaderChanged,
    /// There is no leader, or it has no address.
    LeaderLost,
    /// The leader is silent; the follower it granted last serves meanwhile.
    LeaderUnreachable,
    /// The leader is silent; a refuge serves meanwhile.
    Refuge,
    /// A refuge failed, or somebody better may be read again.
    RefugeMoved,
    /// The refuge is not needed any more, or there is none.
    RefugeEnded,
    /// The no-rack lane went to v10.
    LaneV10,
    /// The no-rack lane came back.
    LaneRestored,
    /// The topic has a new id.
    TopicRecreated,
    /// The topic is gone.
    TopicGone,
    /// The partition is no longer ours.
    Revoked,
}

impl Reason {
    /// Its name in events: `hint_adopted`, `cooldown_transport`, `hold_policy`, and so on.
    pub fn name(self) -> String {
        let plain = match self {
            Self::Cooldown(fault) => return format!("cooldown_{}", fault.name()),
            Self::Hold(why) => return format!("hold_{}", why.name()),
            Self::Assigned => "assigned",
            Self::HintAdopted => "hint_adopted",
            Self::HintMoved => "hint_moved",
            Self::ProbeMoved => "probe_moved",
            Self::LeaderSaidStay => "leader_said_stay",
            Self::IsrLost => "isr_lost",
            Self::IsrGained => "isr_gained",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::ReplicaOffline => "replica_offline",
            Self::HoldEnded => "hold_ended",
            Self::BreakerOpen => "breaker_open",
            Self::LeaseHardStop => "lease_hard_stop",
            Self::LeaderChanged => "leader_changed",
            Self::LeaderLost => "leader_lost",
            Self::LeaderUnreachable => "leader_unreachable",
            Self::Refuge => "refuge",
            Self::RefugeMoved => "refuge_moved",
            Self::RefugeEnded => "refuge_ended",
            Self::LaneV10 => "lane_v10",
            Self::LaneRestored => "lane_restored",
            Self::TopicRecreated => "topic_recreated",
            Self::TopicGone => "topic_gone",
            Self::Revoked => "revoked",
        };
        plain.to_owned()
    }
}
