//! The deadlines of one route.

use std::time::Duration;

use crate::ids::Moment;
use crate::timers::DeadlineTable;

/// What a route waits for by the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// R33: the lease asks the leader again.
    Reask,
    /// R34: the lease ends.
    HardStop,
    /// R35: a hold ends.
    Hold,
    /// While a replica cools: ask whether another one of our rack will do.
    Alternative,
    /// R21: a failed probe is repeated.
    ProbeRetry,
    /// The next fetch after a refusal.
    Backoff,
    /// A deferred change no longer waits for the fetch in flight.
    Flight,
    /// H12: the hinted replica's link had its chance.
    Connect,
    /// 7.2: ask for a further metadata version.
    Refresh,
    /// R39: after a long pause, fetching waits for the probe no longer.
    Resume,
    /// R44: on a refuge, ask the leader whether it is back.
    Refuge,
    /// R43, R45: somebody who may be read instead stops cooling.
    Recheck,
    /// The silence of the serving broker is old news until then: it has answered since.
    Trust,
    /// R29: neither the follower nor the hedge answered.
    Hedge,
    /// R13, R16: below the known end, and no row.
    Starve,
    /// R13: the leader sent no row at all.
    Quiet,
    /// R36: the end of the follower's log stands still.
    Stuck,
    /// R36: the follower had time to reach the end that was sampled.
    Grace,
    /// Nobody in reach may be read: metadata is asked again.
    Unreachable,
}

impl Timer {
    pub(super) const ALL: [Self; COUNT] = [
        Self::Reask,
        Self::HardStop,
        Self::Hold,
        Self::Alternative,
        Self::ProbeRetry,
        Self::Backoff,
        Self::Flight,
        Self::Connect,
        Self::Refresh,
        Self::Resume,
        Self::Refuge,
        Self::Recheck,
        Self::Trust,
        Self::Hedge,
        Self::Starve,
        Self::Quiet,
        Self::Stuck,
        Self::Grace,
        Self::Unreachable,
    ];
}

/// The deadline table of a route, spoken to by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Timers(DeadlineTable<COUNT>);

impl Timers {
    pub(super) const fn new() -> Self {
        Self(DeadlineTable::new())
    }

    pub(super) fn set(&mut self, timer: Timer, due: Moment) {
        self.0.set(timer as usize, due);
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        self.0.clear(timer as usize);
    }

    /// Moves `timer`, if it is set.
    pub(super) fn postpone(&mut self, timer: Timer, by: Duration) {
        if let Some(due) = self.due(timer) {
            self.set(timer, due + by);
        }
    }

    pub(super) fn due(&self, timer: Timer) -> Option<Moment> {
        self.0.due(timer as usize)
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.due(timer).is_some()
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.0.next()
    }

    pub(super) fn expire(&mut self, now: Moment) -> Option<Timer> {
        self.0
            .expire(now)
            .and_then(|index| Timer::ALL.get(index).copied())
    }
}

const COUNT: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timer_finds_its_own_slot() {
        for (index, timer) in Timer::ALL.into_iter().enumerate() {
            assert_eq!(timer as usize, index);
        }
    }
}
