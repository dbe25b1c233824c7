//! What a route asks its host to do.

use bytes::Bytes;

use super::cooldown::Fault;
use super::event::Event;
use super::facts::Class;
use super::stamp::{Gate, Lane, Stamp};
use super::state::Wish;
use crate::cluster::Reason;
use crate::ids::{BrokerId, LeaderEpoch, Offset, PositionGeneration, TopicId};
use crate::wire::api::fetch::Aborted;

/// An output of the route machine, to be carried out in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Fetch for this partition; stands until a row consumes it, or a later demand or withdrawal
    /// replaces it.
    Want(Demand),
    /// Fetch no more for it on this lane. The answer of a fetch in flight may be dropped.
    Withdraw {
        /// Whose lane.
        broker: BrokerId,
        /// Which lane.
        lane: Lane,
    },
    /// Fetch no more for it on this lane, but hand in the row of a fetch in flight; with none in
    /// flight, or when it ends without a row, answer [`Input::Drained`](super::Input::Drained).
    Drain {
        /// Whose lane.
        broker: BrokerId,
        /// Which lane.
        lane: Lane,
    },
    /// Ask the leader whom it recommends. Replaces an earlier probe of this partition.
    Probe {
        /// Offset, epochs and stamp to ask with; the stamp names the leader.
        question: Demand,
        /// What it is for.
        wish: Wish,
    },
    /// The probe is no longer of interest.
    CancelProbe {
        /// The broker it was meant for.
        broker: BrokerId,
    },
    /// Fetch for this partition at the leader beside the reading fetch, because that one stays away
    /// (routing.md 8.5). Answered by [`Input::HedgeRow`](super::Input::HedgeRow) or
    /// [`Input::HedgeFailed`](super::Input::HedgeFailed).
    Hedge {
        /// Offset, epochs and stamp to ask with; the stamp names the leader.
        question: Demand,
    },
    /// The hedge is no longer of interest.
    CancelHedge {
        /// The broker it was meant for.
        broker: BrokerId,
    },
    /// Ask the leader, through the coordinator actor, for the end of the log: the follower being
    /// read stands still (routing.md 14.2). Answered by [`Input::Sampled`](super::Input::Sampled),
    /// or not at all.
    Sample {
        /// Names the question.
        generation: PositionGeneration,
    },
    /// Open a connection if none is open or being opened.
    Dial {
        /// To whom.
        broker: BrokerId,
        /// Of which class.
        class: Class,
    },
    /// The no-rack lane of this broker answers with hints: go on at Fetch v10.
    DropLane {
        /// Whose lane.
        broker: BrokerId,
    },
    /// Refresh this partition's metadata; coalesced by the metadata actor.
    Refresh(Reason),
    /// Ask the coordinator actor for an offset; answered by
    /// [`Input::Resolved`](super::Input::Resolved).
    Resolve {
        /// Names the question.
        generation: PositionGeneration,
        /// What to resolve.
        what: Resolve,
    },
    /// Ask the coordinator actor to validate a position; answered by
    /// [`Input::Validated`](super::Input::Validated).
    Validate {
        /// Names the question.
        generation: PositionGeneration,
        /// Next offset to fetch.
        offset: Offset,
        /// Epoch of the record before it.
        epoch: LeaderEpoch,
        /// Epoch to send as current.
        leader_epoch: Option<LeaderEpoch>,
        /// A divergence a Fetch row told of: the first of the two answers that count.
        told: Option<(LeaderEpoch, Offset)>,
    },
    /// Index these records and answer with [`Input::Indexed`](super::Input::Indexed).
    Deliver(Delivery),
    /// Drop buffered, undelivered records at or past this offset, then tell the user.
    Truncate {
        /// Fetch end before.
        from: Offset,
        /// Fetch end now.
        to: Offset,
    },
    /// Tell the breaker of this broker that the partition left it.
    Cooling {
        /// The broker left.
        broker: BrokerId,
        /// Why; `None` if its breaker had opened by itself.
        fault: Option<Fault>,
    },
    /// Something worth telling.
    Event(Event),
    /// Something worth counting.
    Count(Count),
}

/// A wish to fetch one partition. Topic name and partition are known to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The stamp; broker, lane, offset and current leader epoch to send are in it.
    pub stamp: Stamp,
    /// The topic's id, if the cluster has ids.
    pub topic_id: Option<TopicId>,
    /// `last_fetched_epoch`, sent from Fetch v12.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// Byte limit of the row.
    pub max_bytes: i32,
}

/// Records of an accepted row.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// Stamp of the fetch; records below its offset are skipped.
    pub stamp: Stamp,
    /// The batches, still encoded.
    pub records: Bytes,
    /// The aborted transactions among them.
    pub aborted: Aborted,
    /// High watermark of the broker that served it.
    pub high_watermark: Option<Offset>,
    /// Last stable offset of the broker that served it.
    pub last_stable: Option<Offset>,
}
/// What to resolve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolve {
    /// Where to start: the commit, else the reset policy.
    Start,
    /// Where the reset policy points to: the topic is another one, and so are its commits.
    Anew,
    /// The leader says this position is out of range (routing.md 11, right column).
    OutOfRange {
        /// The offset refused.
        offset: Offset,
        /// Epoch of the record before it.
        epoch: Option<LeaderEpoch>,
    },
}

/// A counter to raise by one; routing.md 18 names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// `route_hints{outcome}`: what became of a hint; `H1` to `H12` or `adopted`, `repeated`.
    Hint(&'static str),
    /// `route_probes{outcome, wish}`.
    Probe {
        /// How it ended.
        outcome: &'static str,
        /// What it was for.
        wish: Wish,
    },
    /// `route_wasted_bytes{gate}`: record bytes that were paid for and dropped.
    Wasted {
        /// The check that failed; `None` for probe records.
        gate: Option<Gate>,
        /// How many.
        bytes: usize,
    },
    /// `route_cooldowns{reason}`.
    Cooldown(Fault),
    /// `route_hedges{outcome}`: `leader` or `follower` answered first, `failed`, `neither`.
    Hedge(&'static str),
    /// `route_unknown_codes{code}`: a code outside routing.md 10.
    UnknownCode(i16),
    /// `route_validations_skipped`: epochs are unknown.
    ValidationSkipped,
}
