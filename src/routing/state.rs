//! The states of a route and its two facets (routing.md 4.1).

use serde::{Deserialize, Serialize};

use super::lease::{Hold, Lease};
use super::stamp::ProbeId;
use crate::ids::{BrokerId, Moment};

/// From whom a partition is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// From nobody: no leader, no address, or not assigned.
    #[default]
    Parked,
    /// From the leader on the rack lane; every fetch asks for a hint as well.
    Leader,
    /// From another replica on the rack lane.
    Follower {
        /// The replica.
        broker: BrokerId,
        /// Why, and for how long.
        hold: Hold,
    },
    /// From the leader on the no-rack lane, which serves records whatever it would rather
    /// recommend.
    Forced {
        /// What forbids the rack lane.
        why: Why,
        /// Until when.
        until: Until,
        /// What the replica was read under, to go back to if `why` is a mere delay.
        resume: Option<Hold>,
    },
}

/// Why a partition is `Forced`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The hinted replica is still being dialled.
    Connecting(BrokerId),
    /// The replica cools, or its breaker is open.
    Cooldown(BrokerId),
    /// The replica is outside the ISR view.
    NotInIsr(BrokerId),
    /// The hinted broker is unknown, has no address or is listed offline.
    UnknownBroker(BrokerId),
    /// The replica lags behind metadata or log (75, 78).
    NotYet(BrokerId),
    /// The leader hinted and held back records.
    Starved,
    /// Too many adoptions in a short time.
    Flap,
    /// The leader hints itself.
    SelfHint,
    /// The hint names the leader of a moment ago.
    FormerLeader(BrokerId),
    /// Hints are not followed here.
    Policy,
}

/// What ends a `Forced` route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// This moment.
    At(Moment),
    /// The link to the replica becoming Ready, or its dial failing.
    Link,
    /// The next metadata version, or a changed ISR.
    Version,
    /// A readmission permit of the broker's breaker.
    Permit,
    /// The next leader epoch.
    Epoch,
    /// Nothing more: the hold is over and a probe will decide.
    Probe,
}

/// Whether there is an offset to fetch from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// Not assigned.
    #[default]
    Unset,
    /// The coordinator actor was asked for an offset.
    Resolving,
    /// Fetching may go on.
    Ready,
    /// The coordinator actor was asked whether our history still agrees with the leader's
    /// (KIP-320).
    Validating,
    /// Given up; only a seek or a new assignment helps.
    Halted,
}

/// The question to the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Probe {
    /// None.
    #[default]
    None,
    /// To be asked as soon as the position allows.
    Wanted(Wish),
    /// Handed to the leader's link.
    InFlight(ProbeId, Wish),
}

/// What a probe is wanted for; the label of `route_probes`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Wish {
    /// The lease asks again.
    Lease,
    /// The replica left the ISR, or came back.
    Isr,
    /// A follower hinted.
    FollowerHint,
    /// A hold or cooldown is over, or another replica of our rack may do meanwhile.
    HoldEnded,
    /// The breaker readmitted the partition.
    Readmission,
    /// A new metadata version may have changed the answer.
    Version,
    /// R44: the leader was silent; a refuge serves meanwhile.
    Refuge,
    /// R13: the leader sent no row for long; it may have left out a hint.
    Quiet,
    /// The fetch end stays beyond the end of the follower being read (routing.md 14.1).
    Ahead,
}

impl State {
    /// Its name in events and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Leader => "leader",
            Self::Follower { .. } => "follower",
            Self::Forced { .. } => "forced",
        }
    }

    /// The follower being read, if one is.
    pub const fn follower(&self) -> Option<BrokerId> {
        match self {
            Self::Follower { broker, .. } => Some(*broker),
            Self::Parked | Self::Leader | Self::Forced { .. } => None,
        }
    }

    /// Why the route is forced, if it is.
    pub const fn why(&self) -> Option<Why> {
        match self {
            Self::Forced { why, .. } => Some(*why),
            Self::Parked | Self::Leader | Self::Follower { .. } => None,
        }
    }

    /// The kind of that lease: `full` or `trial`.
    pub const fn lease_kind(&self) -> Option<&'static str> {
        match self {
            Self::Follower { hold, .. } => match hold {
                Hold::Full(_) => Some("full"),
                Hold::Trial(_) => Some("trial"),
                Hold::Refuge => None,
            },
            Self::Parked | Self::Leader | Self::Forced { .. } => None,
        }
    }

    /// What a follower is read under.
    pub const fn hold(&self) -> Option<Hold> {
        match self {
            Self::Follower { hold, .. } => Some(*hold),
            Self::Parked | Self::Leader | Self::Forced { .. } => None,
        }
    }

    /// The lease of a follower route.
    pub fn lease(&self) -> Option<Lease> {
        self.hold().and_then(|hold| hold.lease())
    }
}

impl Why {
    /// The broker it is about, if it is about one.
    pub const fn broker(self) -> Option<BrokerId> {
        match self {
            Self::Connecting(broker)
            | Self::Cooldown(broker)
            | Self::NotInIsr(broker)
            | Self::UnknownBroker(broker)
            | Self::NotYet(broker)
            | Self::FormerLeader(broker) => Some(broker),
            Self::Starved | Self::Flap | Self::SelfHint | Self::Policy => None,
        }
    }

    /// Its name in events and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting(_) => "connecting",
            Self::Cooldown(_) => "cooldown",
            Self::NotInIsr(_) => "not_in_isr",
            Self::UnknownBroker(_) => "unknown_broker",
            Self::NotYet(_) => "not_yet",
            Self::Starved => "starved",
            Self::Flap => "flap",
            Self::SelfHint => "self_hint",
            Self::FormerLeader(_) => "former_leader",
            Self::Policy => "policy",
        }
    }
}

impl Wish {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Isr => "isr",
            Self::FollowerHint => "follower_hint",
            Self::HoldEnded => "hold_ended",
            Self::Readmission => "readmission",
            Self::Version => "version",
            Self::Refuge => "refuge",
            Self::Quiet => "quiet",
            Self::Ahead => "ahead",
        }
    }
}
