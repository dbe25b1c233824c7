//! What the link to one broker asks its host to do.

use std::time::Duration;

use super::share::ProbeNeed;
use crate::cluster::{HintLot, Reason};
use crate::ids::{BrokerId, TopicPartition};
use crate::routing::facts::{Breaker, Class};
use crate::routing::input::Input;
use crate::routing::stamp::{Gate, Lane, Stamp};
use crate::wire::api::fetch::{Request, Row};

/// An output of the broker machine, to be carried out in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Send this Fetch; answer by `Answered`, `Failed` or the loss of the connection.
    Send {
        /// On which connection.
        class: Class,
        /// The request.
        request: Request,
        /// Names it.
        ticket: Ticket,
    },
    /// The connection is to be closed: a Fetch went unanswered past its time, or the breaker wants
    /// it so.
    Hangup(Class),
    /// Open this connection.
    Dial(Class),
    /// The byte budget has too little for the next Fetch: hand in
    /// [`Input::Budget`](super::Input::Budget) when
    /// [`Budget::when_free`](crate::budget::Budget::when_free) calls.
    AwaitBudget {
        /// The lane that waits.
        class: Class,
        /// What it would ask for.
        bytes: usize,
    },
    /// A row of a reading fetch, for [`routing::Input::Row`](crate::routing::Input::Row).
    Row {
        /// Whose row.
        partition: TopicPartition,
        /// Stamp of the fetch.
        stamp: Stamp,
        /// The row.
        row: Row,
        /// Whether its emptiness says nothing.
        inconclusive: bool,
    },
    /// A drain is over, for [`routing::Input::Drained`](crate::routing::Input::Drained).
    Drained {
        /// Whose.
        partition: TopicPartition,
        /// Stamp of the fetch that ended, or of the demand that was never sent.
        stamp: Stamp,
    },
    /// The row of a probe, for [`routing::Input::ProbeRow`](crate::routing::Input::ProbeRow).
    ProbeRow {
        /// Whose row.
        partition: TopicPartition,
        /// Stamp of the probe.
        stamp: Stamp,
        /// The row.
        row: Row,
    },
    /// The probe got no answer, for
    /// [`routing::Input::ProbeFailed`](crate::routing::Input::ProbeFailed).
    ProbeFailed {
        /// Whose probe.
        partition: TopicPartition,
        /// Its stamp.
        stamp: Stamp,
    },
    /// The row of a hedge, for [`routing::Input::HedgeRow`](crate::routing::Input::HedgeRow).
    HedgeRow {
        /// Whose row.
        partition: TopicPartition,
        /// Stamp of the hedge.
        stamp: Stamp,
        /// The row.
        row: Row,
    },
    /// A hedge got no answer, for
    /// [`routing::Input::HedgeFailed`](crate::routing::Input::HedgeFailed).
    HedgeFailed {
        /// Whose hedge.
        partition: TopicPartition,
        /// Its stamp.
        stamp: Stamp,
    },
    /// A lane went silent (`true`) or spoke again: update the facts of all threads; when it went
    /// silent, tell the routes concerned.
    Silence {
        /// Which lane.
        class: Class,
        /// Whether it is silent now.
        silent: bool,
    },
    /// No byte came from a lane for `fetch.max.wait.ms` + 500 ms: tell the routes concerned.
    Quiet(Class),
    /// A lane gave an answer that says something about every partition in its session: update the
    /// facts of all threads. Told at most every quarter of a second.
    Answered(Class),
    /// The smoothed round trip of the control connection changed by much: update the facts of all
    /// threads.
    RoundTrip(Duration),
    /// Leadership told along with codes 6 and 74 (KIP-951), for the metadata machine.
    Leadership(HintLot),
    /// Refresh the metadata of these partitions.
    Refresh {
        /// Which.
        partitions: Vec<TopicPartition>,
        /// Why.
        reason: Reason,
    },
    /// For [`ProbeBudget::report`](super::ProbeBudget::report), whose answer comes back as
    /// [`Input::ProbeShare`](super::Input::ProbeShare).
    Probing(ProbeNeed),
    /// The breaker changed: update the facts of all threads; when it opened, tell the routes
    /// concerned.
    Breaker(Breaker),
    /// This partition may probe its leader about us, for
    /// [`routing::Input::Readmitted`](crate::routing::Input::Readmitted).
    Permit(TopicPartition),
    /// The no-rack lane went to v10 (`true`) or back: update the facts, tell the forced routes led
    /// by this broker.
    V10(bool),
    /// Something worth counting.
    Count(Count),
}

impl Output {
    /// The route it is for and what that is to hear, `broker` being the broker of the machine;
    /// `None` if it is for the host.
    pub fn for_route(self, broker: BrokerId) -> Option<(TopicPartition, Input)> {
        match self {
            Self::Row {
                partition,
                stamp,
                row,
                inconclusive,
            } => {
                let input = Input::Row {
                    stamp,
                    row,
                    inconclusive,
                };
                Some((partition, input))
            }
            Self::Drained { partition, stamp } => Some((partition, Input::Drained { stamp })),
            Self::ProbeRow {
                partition,
                stamp,
                row,
            } => Some((partition, Input::ProbeRow { stamp, row })),
            Self::ProbeFailed { partition, stamp } => {
                Some((partition, Input::ProbeFailed { stamp }))
            }
            Self::HedgeRow {
                partition,
                stamp,
                row,
            } => Some((partition, Input::HedgeRow { stamp, row })),
            Self::HedgeFailed { partition, stamp } => {
                Some((partition, Input::HedgeFailed { stamp }))
            }
            Self::Permit(partition) => Some((partition, Input::Readmitted { broker })),
            Self::Send { .. }
            | Self::Hangup(_)
            | Self::Dial(_)
            | Self::AwaitBudget { .. }
            | Self::Silence { .. }
            | Self::Quiet(_)
            | Self::Answered(_)
            | Self::RoundTrip(_)
            | Self::Leadership(_)
            | Self::Refresh { .. }
            | Self::Probing(_)
            | Self::Breaker(_)
            | Self::V10(_)
            | Self::Count(_) => None,
        }
    }
}

/// Names one Fetch of one broker machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ticket(pub u64);

/// What carried record bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Traffic {
    /// Reading fetches.
    Lane(Lane),
    /// A probe.
    Probe,
    /// A hedge.
    Hedge,
}

/// A counter of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// `route_fetch_bytes{broker, zone, lane}`: record-set bytes received, wasted ones included.
    Bytes {
        /// What carried them.
        traffic: Traffic,
        /// How many.
        bytes: usize,
    },
    /// `route_wasted_bytes{gate}`: bytes of rows nobody waits for any more.
    Wasted {
        /// The check they would fail.
        gate: Gate,
        /// How many.
        bytes: usize,
    },
    /// `fetch_session_resets{cause}`.
    SessionReset(&'static str),
    /// `fetch_unasked_rows`: rows of partitions the session does not hold.
    UnaskedRow,
    /// `fetch_hold_ended`: the lane waited its full time for partitions without room.
    HoldEnded,
}
