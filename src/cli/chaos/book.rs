//! What was acknowledged and what was delivered, when: all judgements are taken from here.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::actors::{Clock, unix_ms};
use crate::ids::{Moment, Offset};

/// The records of one topic, numbered from 0 in every partition in the order of their appends.
#[derive(Debug)]
pub(super) struct Book {
    clock: Clock,
    started: Moment,
    started_unix_ms: i64,
    tracks: Vec<Mutex<Track>>,
}

/// One partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    /// When each record was acknowledged by all in-sync replicas.
    acked: Vec<Option<Moment>>,
    /// When a handler first got it.
    delivered: Vec<Option<Moment>>,
    /// Where in the log it was first.
    offsets: Vec<Option<Offset>>,
    /// One above the highest delivered.
    next: usize,
    /// Deliveries of records that had been delivered before.
    pub(super) repeats: Vec<(u64, Moment)>,
    /// Deliveries of numbers that had been delivered from another place in the log: written twice.
    pub(super) copies: Vec<(u64, Moment)>,
    /// First deliveries that came while a lower record was missing, or after a higher one.
    pub(super) strays: Vec<(u64, Moment)>,
}

/// From one moment to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) from: Moment,
    pub(super) to: Moment,
}

impl Book {
    pub(super) fn new(partitions: usize) -> Self {
        let clock = Clock::start();
        Self {
            started: clock.now(),
            started_unix_ms: unix_ms(),
            clock,
            tracks: (0..partitions).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Time since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.now().since(self.started)
    }

    /// The moment of a Unix time, as events carry it.
    pub(super) fn at_unix(&self, ms: i64) -> Moment {
        let since = u64::try_from(ms - self.started_unix_ms).unwrap_or(0);
        self.started + Duration::from_millis(since)
    }

    pub(super) fn acked(&self, partition: usize, number: u64) {
        let now = self.now();
        self.with(partition, |track| track.acked(number, now));
    }

    pub(super) fn delivered(&self, partition: usize, number: u64, offset: Offset) {
        let now = self.now();
        self.with(partition, |track| track.delivered(number, offset, now));
    }

    /// Records acknowledged and not delivered yet.
    pub(super) fn missing(&self) -> usize {
        self.tracks().iter().map(Track::missing).sum()
    }

    /// Records acknowledged so far.
    pub(super) fn acknowledged(&self) -> usize {
        let count = |track: &Track| track.acked.iter().flatten().count();
        self.tracks().iter().map(count).sum()
    }

    /// A copy of everything at this moment.
    pub(super) fn tracks(&self) -> Vec<Track> {
        self.tracks
            .iter()
            .map(|track| lock(track).clone())
            .collect()
    }

    fn with(&self, partition: usize, act: impl FnOnce(&mut Track)) {
        if let Some(track) = self.tracks.get(partition) {
            act(&mut lock(track));
        }
    }
}

fn lock(track: &Mutex<Track>) -> MutexGuard<'_, Track> {
    track.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Track {
    /// Records by the moments of their acknowledgement and delivery.
    #[cfg(test)]
    pub(super) fn of(records: &[(Moment, Moment)]) -> Self {
        let mut track = Self::default();
        for (number, (acked, delivered)) in (0..).zip(records) {
            track.acked(number, *acked);
            track.delivered(number, place(number), *delivered);
        }
        track
    }

    fn acked(&mut self, number: u64, now: Moment) {
        if let Some(slot) = slot(&mut self.acked, number) {
            slot.get_or_insert(now);
        }
    }

    fn delivered(&mut self, number: u64, offset: Offset, now: Moment) {
        let next = self.next;
        let Some(first) = slot(&mut self.offsets, number) else {
            return;
        };
        let first = *first.get_or_insert(offset);
        let Some(slot) = slot(&mut self.delivered, number) else {
            return;
        };
        if slot.is_some() {
            let again = if first == offset {
                &mut self.repeats
            } else {
                &mut self.copies
            };
            again.push((number, now));
            return;
        }
        *slot = Some(now);
        if usize::try_from(number) != Ok(next) {
            self.strays.push((number, now));
        }
        self.next = self.next.max(self.delivered.len());
    }

    /// Both moments of every record that was acknowledged.
    fn pairs(&self) -> impl Iterator<Item = (Moment, Option<Moment>)> {
        let pair = |(number, acked): (usize, &Option<Moment>)| {
            Some(((*acked)?, self.delivered.get(number).copied().flatten()))
        };
        self.acked.iter().enumerate().filter_map(pair)
    }

    fn missing(&self) -> usize {
        self.pairs()
            .filter(|(_, delivered)| delivered.is_none())
            .count()
    }

    /// Records acknowledged within `span` and never delivered.
    pub(super) fn lost(&self, span: Span) -> usize {
        self.pairs()
            .filter(|(acked, delivered)| span.holds(*acked) && delivered.is_none())
            .count()
    }

    /// When the next acknowledgement came.
    pub(super) fn acknowledged_from(&self, moment: Moment) -> Option<Moment> {
        let acked = self.acked.iter().flatten().copied();
        acked.filter(|at| *at >= moment).min()
    }

    /// The longest time within `span` without an acknowledgement.
    pub(super) fn write_gap(&self, span: Span) -> Duration {
        span.longest_gap(self.acked.iter().flatten().copied())
    }

    /// The longest time within `span` without a delivery.
    pub(super) fn read_gap(&self, span: Span) -> Duration {
        span.longest_gap(self.delivered.iter().flatten().copied())
    }

    /// How late the latest record delivered within `span` came: counted from its acknowledgement,
    /// or from `since` if that was later. A record never delivered counts up to the end of the
    /// span.
    pub(super) fn delay(&self, span: Span, since: Moment) -> Duration {
        let delays = self.pairs().filter_map(|(acked, delivered)| {
            let delivered = delivered.unwrap_or(span.to);
            let within = span.holds(delivered) && acked < span.to;
            within.then(|| delivered.since(acked.max(since)))
        });
        delays.max().unwrap_or_default()
    }
}

impl Span {
    pub(super) fn holds(self, moment: Moment) -> bool {
        self.from <= moment && moment <= self.to
    }

    fn longest_gap(self, moments: impl Iterator<Item = Moment>) -> Duration {
        let mut last = self.from;
        let mut longest = Duration::ZERO;
        for moment in moments
            .filter(|moment| self.holds(*moment))
            .chain([self.to])
        {
            longest = longest.max(moment.since(last));
            last = last.max(moment);
        }
        longest
    }
}

/// The place of a number, made if need be; `None` for numbers that no run reaches.
fn slot<T: Clone>(places: &mut Vec<Option<T>>, number: u64) -> Option<&mut Option<T>> {
    let index = usize::try_from(number)
        .ok()
        .filter(|index| *index < NUMBERS_MAX)?;
    if places.len() <= index {
        places.resize(index + 1, None);
    }
    places.get_mut(index)
}

/// Where a record lies if every record before it was written once.
#[cfg(test)]
fn place(number: u64) -> Offset {
    Offset(i64::try_from(number).unwrap())
}

const NUMBERS_MAX: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Moment {
        Moment::from_ms(ms)
    }

    const ALL: Span = Span {
        from: Moment::ZERO,
        to: Moment::from_ms(1_000),
    };

    fn track(deliveries: &[(u64, u64)]) -> Track {
        let mut track = Track::default();
        for number in 0..4 {
            track.acked(number, ms(number * 100));
        }
        for (number, at) in deliveries {
            track.delivered(*number, place(*number), ms(*at));
        }
        track
    }

    #[test]
    fn a_record_that_comes_before_a_lower_one_is_a_stray_and_so_is_the_lower_one() {
        let track = track(&[(0, 1), (2, 2), (1, 3), (3, 4)]);
        assert_eq!(track.strays, [(2, ms(2)), (1, ms(3))]);
        assert_eq!(track.lost(ALL), 0);
    }

    #[test]
    fn what_comes_twice_is_a_repeat_and_what_never_comes_is_lost() {
        let track = track(&[(0, 1), (1, 2), (0, 3), (1, 4)]);
        assert_eq!(track.repeats, [(0, ms(3)), (1, ms(4))]);
        assert_eq!((track.lost(ALL), track.missing()), (2, 2));
        assert!(track.strays.is_empty());
    }

    #[test]
    fn what_comes_from_another_place_in_the_log_was_written_twice() {
        let mut track = track(&[(0, 1), (1, 2)]);
        track.delivered(1, Offset(7), ms(5));
        assert_eq!(track.copies, [(1, ms(5))]);
        assert!(track.repeats.is_empty());
    }

    #[test]
    fn gaps_reach_to_both_ends_of_the_span() {
        let track = track(&[(0, 400), (1, 450), (2, 500)]);
        assert_eq!(track.read_gap(ALL).as_millis(), 500);
        assert_eq!(track.write_gap(ALL).as_millis(), 700);
        let until_then = Span { to: ms(600), ..ALL };
        assert_eq!(track.read_gap(until_then).as_millis(), 400);
    }

    #[test]
    fn a_delay_counts_from_the_acknowledgement_or_from_a_later_moment() {
        let track = track(&[(0, 50), (1, 150), (2, 450), (3, 460)]);
        assert_eq!(track.delay(ALL, Moment::ZERO).as_millis(), 250);
        assert_eq!(track.delay(ALL, ms(400)).as_millis(), 60);
    }

    #[test]
    fn a_record_still_missing_counts_up_to_the_end() {
        let track = track(&[(0, 50), (1, 150), (2, 250)]);
        assert_eq!(track.delay(ALL, Moment::ZERO).as_millis(), 700);
    }
}
