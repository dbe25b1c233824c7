//! The deadlines of one route.

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

const COUNT: usize = 10;

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
