//! The latest facts of one partition, as anybody may read them without asking its actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use super::partition::Progress;
use crate::fleet::PartitionReport;
use crate::ids::{BrokerId, Moment, Offset, TopicPartition};
use crate::routing::Route;

/// Written by the partition's thread only.
#[derive(Debug)]
pub(crate) struct PartitionStatus {
    state: AtomicUsize,
    why: AtomicUsize,
    broker: AtomicI64,
    position: AtomicI64,
    leader_end: AtomicI64,
    replica_end: AtomicI64,
    committed: AtomicI64,
    lease_overdue: AtomicBool,
    starving: AtomicBool,
    leader_unreachable: AtomicBool,
    confirmed_at: AtomicU64,
    end_told_at: AtomicU64,
    progress: Arc<Progress>,
}

/// The moments behind two gauges, if they were ever set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    /// When the leader last confirmed the role being read.
    pub(crate) confirmed_at: Option<Moment>,
    /// When the end of the log was last told.
    pub(crate) end_told_at: Option<Moment>,
}

impl PartitionStatus {
    /// A partition that is starting.
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        let unknown = || AtomicI64::new(UNKNOWN);
        Self {
            state: AtomicUsize::new(0),
            why: AtomicUsize::new(0),
            broker: unknown(),
            position: unknown(),
            leader_end: unknown(),
            replica_end: unknown(),
            committed: unknown(),
            lease_overdue: AtomicBool::new(false),
            starving: AtomicBool::new(false),
            leader_unreachable: AtomicBool::new(false),
            confirmed_at: AtomicU64::new(NEVER),
            end_told_at: AtomicU64::new(NEVER),
            progress,
        }
    }

    /// Publishes where the route stands. A failed partition stays failed.
    pub(crate) fn publish(&self, route: &Route) {
        let index = index_of(&STATES, route.state().name());
        if self.state.load(Ordering::Relaxed) != FAILED {
            self.state.store(index, Ordering::Relaxed);
        }
        let why = route.state().why().map_or("", |why| why.name());
        self.why.store(index_of(&WHYS, why), Ordering::Relaxed);
        let broker = route
            .served()
            .map_or(UNKNOWN, |(broker, _)| i64::from(broker.0));
        self.broker.store(broker, Ordering::Relaxed);
        self.position.store(route.fetch_end().0, Ordering::Relaxed);
        let marks = route.watermarks();
        let number = |offset: Option<Offset>| offset.map_or(UNKNOWN, |offset| offset.0);
        self.leader_end
            .store(number(marks.leader_hw), Ordering::Relaxed);
        self.replica_end
            .store(number(marks.replica_hw), Ordering::Relaxed);
        self.publish_health(route);
    }

    fn publish_health(&self, route: &Route) {
        let health = route.health();
        let flags = [
            (&self.lease_overdue, health.lease_overdue),
            (&self.starving, health.starving),
            (&self.leader_unreachable, health.leader_unreachable),
        ];
        for (flag, value) in flags {
            flag.store(value, Ordering::Relaxed);
        }
        let moment = |at: Option<Moment>| at.map_or(NEVER, |at| at.0);
        self.confirmed_at
            .store(moment(health.confirmed_at), Ordering::Relaxed);
        self.end_told_at
            .store(moment(health.end_told_at), Ordering::Relaxed);
    }

    /// Marks the partition failed for good.
    pub(crate) fn fail(&self) {
        self.state.store(FAILED, Ordering::Relaxed);
    }

    /// The coordinator accepted a commit.
    pub(crate) fn committed(&self, offset: Offset) {
        self.committed.store(offset.0, Ordering::Relaxed);
    }

    /// What two gauges are measured from.
    pub(crate) fn told(&self) -> Told {
        let moment = |slot: &AtomicU64| {
            let micros = slot.load(Ordering::Relaxed);
            (micros != NEVER).then_some(Moment(micros))
        };
        Told {
            confirmed_at: moment(&self.confirmed_at),
            end_told_at: moment(&self.end_told_at),
        }
    }

    /// The partition at this moment.
    pub(crate) fn report(&self, partition: TopicPartition) -> PartitionReport {
        let number = |slot: &AtomicI64| Some(slot.load(Ordering::Relaxed)).filter(|n| *n >= 0);
        let flag = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let watermark = self.progress.read().map(|state| state.offset);
        let end = number(&self.leader_end)
            .max(number(&self.replica_end))
            .map(Offset);
        let lag = end
            .zip(watermark)
            .map(|(end, at)| end.0.saturating_sub(at.0));
        PartitionReport {
            partition,
            state: name_of(&STATES, &self.state).unwrap_or("starting"),
            why: name_of(&WHYS, &self.why).filter(|why| !why.is_empty()),
            broker: number(&self.broker)
                .and_then(|id| i32::try_from(id).ok())
                .map(BrokerId),
            position: watermark.and(number(&self.position)).map(Offset),
            watermark,
            committed: number(&self.committed).map(Offset),
            end,
            lag: lag.map(|lag| u64::try_from(lag).unwrap_or(0)),
            lease_overdue: flag(&self.lease_overdue),
            starving: flag(&self.starving),
            leader_unreachable: flag(&self.leader_unreachable),
        }
    }
}

fn index_of(names: &[&'static str], wanted: &str) -> usize {
    names.iter().position(|name| *name == wanted).unwrap_or(0)
}

fn name_of(names: &[&'static str], slot: &AtomicUsize) -> Option<&'static str> {
    names.get(slot.load(Ordering::Relaxed)).copied()
}

/// What a partition can be, as reports name it.
const STATES: [&str; 6] = [
    "starting", "parked", "leader", "follower", "forced", "failed",
];
/// Index of the last of [`STATES`].
const FAILED: usize = 5;
/// Why a partition can be forced; the first one means that it is not.
const WHYS: [&str; 11] = [
    "",
    "connecting",
    "cooldown",
    "not_in_isr",
    "unknown_broker",
    "not_yet",
    "starved",
    "flap",
    "self_hint",
    "former_leader",
    "policy",
];
/// The value of an atomic that holds nothing.
const UNKNOWN: i64 = -1;
/// The same for moments.
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::Why;

    #[test]
    fn every_reason_to_be_forced_has_its_name_here() {
        let broker = BrokerId(1);
        // A new reason does not compile until it is looked at here.
        let known = |why: Why| match why {
            Why::Connecting(_)
            | Why::Cooldown(_)
            | Why::NotInIsr(_)
            | Why::UnknownBroker(_)
            | Why::NotYet(_)
            | Why::FormerLeader(_)
            | Why::Starved
            | Why::Flap
            | Why::SelfHint
            | Why::Policy => WHYS.contains(&why.name()),
        };
        let all = [
            Why::Connecting(broker),
            Why::Cooldown(broker),
            Why::NotInIsr(broker),
            Why::UnknownBroker(broker),
            Why::NotYet(broker),
            Why::FormerLeader(broker),
            Why::Starved,
            Why::Flap,
            Why::SelfHint,
            Why::Policy,
        ];
        assert!(all.into_iter().all(known));
        assert_eq!(all.len() + 1, WHYS.len());
    }
}
