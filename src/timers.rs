//! Deadlines as data: a table for the few deadlines of one machine, a wheel for the many of one
//! thread.

use std::collections::BTreeSet;
use std::fmt;

use crate::ids::Moment;

/// The deadlines of one machine, indexed by a small enum of `N` timers.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadlineTable<const N: usize> {
    /// `NEVER` where no timer is set: half the size of an option, in every partition.
    due: [Moment; N],
}

/// No deadline.
const NEVER: Moment = Moment(u64::MAX);

impl<const N: usize> DeadlineTable<N> {
    /// A table in which no timer is set.
    pub const fn new() -> Self {
        Self { due: [NEVER; N] }
    }

    /// Sets timer `index` to `due`, replacing what it had. An index of `N` or above is ignored.
    pub fn set(&mut self, index: usize, due: Moment) {
        if let Some(slot) = self.due.get_mut(index) {
            *slot = due;
        }
    }

    /// Stops timer `index`.
    pub fn clear(&mut self, index: usize) {
        if let Some(slot) = self.due.get_mut(index) {
            *slot = NEVER;
        }
    }

    /// When timer `index` is due.
    pub fn due(&self, index: usize) -> Option<Moment> {
        self.due.get(index).copied().filter(|due| *due != NEVER)
    }

    /// The earliest deadline of all timers.
    pub fn next(&self) -> Option<Moment> {
        self.due.iter().min().copied().filter(|due| *due != NEVER)
    }

    /// Takes the first timer that is due at `now`, lowest index first, and stops it.
    pub fn expire(&mut self, now: Moment) -> Option<usize> {
        let index = self
            .due
            .iter()
            .position(|due| *due <= now && *due != NEVER)?;
        self.clear(index);
        Some(index)
    }
}

impl<const N: usize> Default for DeadlineTable<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Debug for DeadlineTable<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let due = (0..N).map(|index| self.due(index));
        f.debug_list().entries(due).finish()
    }
}

/// The deadlines of many owners on one thread: a hashed wheel of `SLOTS` slots of `TICK_MS`
/// milliseconds.
///
/// A deadline never fires early and at most one tick late. Cost is per entry that fires or moves,
/// not per entry that waits. An owner has at most one entry; setting it again moves it.
#[derive(Debug, Clone)]
pub struct Wheel<K: Ord + Clone> {
    slots: Vec<BTreeSet<(u64, K)>>,
    entries: std::collections::BTreeMap<K, u64>,
    tick: u64,
}

impl<K: Ord + Clone> Wheel<K> {
    /// Milliseconds per slot.
    pub const TICK_MS: u64 = 10;
    /// Slots per turn: one turn lasts 5.12 s.
    pub const SLOTS: u64 = 512;

    /// An empty wheel standing at `now`.
    pub fn new(now: Moment) -> Self {
        Self {
            slots: (0..Self::SLOTS).map(|_| BTreeSet::new()).collect(),
            entries: std::collections::BTreeMap::new(),
            tick: now.as_ms() / Self::TICK_MS,
        }
    }

    /// Sets the deadline of `key`, replacing the one it had.
    pub fn set(&mut self, key: K, due: Moment) {
        let due_tick = due.0.div_ceil(Self::TICK_MS * 1_000).max(self.tick + 1);
        if self.entries.get(&key) == Some(&due_tick) {
            return;
        }
        self.clear(&key);
        if let Some(slot) = self.slot(due_tick) {
            slot.insert((due_tick, key.clone()));
        }
        self.entries.insert(key, due_tick);
    }

    /// Removes the deadline of `key`, if it has one.
    pub fn clear(&mut self, key: &K) {
        if let Some(tick) = self.entries.remove(key)
            && let Some(slot) = self.slot(tick)
        {
            slot.remove(&(tick, key.clone()));
        }
    }

    /// Moves the wheel to `now` and returns the keys whose deadline passed, earliest first.
    pub fn advance(&mut self, now: Moment) -> Vec<K> {
        let target = now.as_ms() / Self::TICK_MS;
        if target <= self.tick {
            return Vec::new();
        }
        let turns = (target - self.tick).min(Self::SLOTS);
        let mut fired = BTreeSet::new();
        for step in 1..=turns {
            if let Some(slot) = self.slot(self.tick + step) {
                while slot.first().is_some_and(|(tick, _)| *tick <= target) {
                    fired.extend(slot.pop_first());
                }
            }
        }
        self.tick = target;
        fired
            .into_iter()
            .map(|(_, key)| {
                self.entries.remove(&key);
                key
            })
            .collect()
    }

    /// Number of keys with a deadline.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no key has a deadline.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn slot(&mut self, tick: u64) -> Option<&mut BTreeSet<(u64, K)>> {
        let index = usize::try_from(tick % Self::SLOTS).ok()?;
        self.slots.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_expires_each_timer_once() {
        let mut table = DeadlineTable::<2>::new();
        table.set(1, Moment::from_ms(5));
        assert_eq!(table.next(), Some(Moment::from_ms(5)));
        assert_eq!(table.expire(Moment::from_ms(4)), None);
        assert_eq!(table.expire(Moment::from_ms(5)), Some(1));
        assert_eq!(table.expire(Moment::from_ms(9)), None);
    }

    #[test]
    fn a_wheel_fires_in_order_and_never_early() {
        let mut wheel = Wheel::new(Moment::ZERO);
        wheel.set("late", Moment::from_ms(9_000));
        wheel.set("soon", Moment::from_ms(31));
        wheel.set("moved", Moment::from_ms(20));
        wheel.set("moved", Moment::from_ms(50));
        assert!(wheel.advance(Moment::from_ms(30)).is_empty());
        assert_eq!(wheel.advance(Moment::from_ms(60)), ["soon", "moved"]);
        assert!(wheel.advance(Moment::from_ms(8_990)).is_empty());
        assert_eq!(wheel.advance(Moment::from_ms(20_000)), ["late"]);
        assert!(wheel.is_empty());
    }
}
