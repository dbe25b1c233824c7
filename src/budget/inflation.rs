//! The share of the budget that decompression has to itself (wire.md 4.2, runtime.md 11 B1, B4).
//!
//! Fetching never takes from it, so that bytes that came compressed cannot keep the decoder from
//! the room it needs to get rid of them. A batch charges its output before it grows; without room
//! it stays compressed and waits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::waiting::Waiting;
use super::{Budget, Permit};
use crate::records::Charge;

/// The right to hold inflated bytes, shared by all partitions of a process. Clones share it.
#[derive(Clone)]
pub struct Inflation(Arc<Share>);

struct Share {
    limit: usize,
    charged: AtomicUsize,
    /// What is held beyond the share is taken from fetching.
    fetching: Budget,
    /// Whether a batch is open beyond the share: one may be at a time.
    overdrawn: AtomicBool,
    waiting: Waiting,
}

/// A partition's place among those who inflate. It knows what the partition holds.
#[derive(Clone)]
pub struct InflationSeat {
    share: Arc<Share>,
    held: Arc<AtomicUsize>,
}

/// What one batch is charged, from before its output grows until its last slice is dropped.
pub struct InflationCharge {
    seat: InflationSeat,
    /// Bytes of the share.
    bytes: usize,
    beyond: Beyond,
    /// Whether it takes its turn before others who wait.
    in_turn: bool,
}

/// What a charge may take once the share is used up.
enum Beyond {
    Nothing,
    /// What it needs, unless another batch does so already.
    OneAtATime,
    /// What it needs.
    Anything,
    /// It has done so.
    Taken {
        permit: Permit,
        /// Whether others wait for it to end before they may.
        alone: bool,
    },
}

impl Inflation {
    /// A share of `limit` bytes. What one batch takes beyond it is charged to `fetching`, which
    /// sends nothing until that is repaid.
    pub fn new(limit: usize, fetching: Budget) -> Self {
        Self(Arc::new(Share {
            limit,
            charged: AtomicUsize::new(0),
            fetching,
            overdrawn: AtomicBool::new(false),
            waiting: Waiting::default(),
        }))
    }

    /// A share that grants everything.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX, Budget::unlimited())
    }

    /// The share in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes of the share that are held; those beyond it are the fetching budget's.
    pub fn charged(&self) -> usize {
        self.0.charged.load(Ordering::Acquire)
    }

    /// A place for one partition.
    pub fn seat(&self) -> InflationSeat {
        InflationSeat {
            share: Arc::clone(&self.0),
            held: Arc::default(),
        }
    }
}

impl InflationSeat {
    /// A charge for a batch that may as well stay compressed: within the share, behind all who
    /// wait.
    pub fn charge(&self) -> InflationCharge {
        self.with(Beyond::Nothing)
    }

    /// A charge for a batch that a handler has room for: with the share used up it goes beyond, if
    /// no other batch does at present.
    pub fn charge_next(&self) -> InflationCharge {
        self.with(Beyond::OneAtATime)
    }

    /// A charge that is never refused, for a partition that holds nothing and has waited long.
    pub fn charge_overdue(&self) -> InflationCharge {
        self.with(Beyond::Anything).in_turn()
    }

    /// Whether nothing that the partition inflated is held any more.
    pub fn is_empty(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// Calls `wake` once, from any thread, when a batch refused at `bytes` is worth trying again;
    /// at once if it is already. `wake` says whether it is still wanted; if not, the next is woken.
    pub fn when_room(&self, bytes: usize, wake: impl FnOnce() -> bool + Send + 'static) {
        self.share.waiting.join(bytes, wake);
        self.share.wake();
    }

    /// Leaves the turn to the next: for who was woken and wants nothing any more.
    pub fn pass_on(&self) {
        self.share.wake();
    }

    fn with(&self, beyond: Beyond) -> InflationCharge {
        InflationCharge {
            seat: self.clone(),
            bytes: 0,
            beyond,
            in_turn: false,
        }
    }
}

impl InflationCharge {
    /// The same charge for who has waited and was woken.
    #[must_use]
    pub fn in_turn(mut self) -> Self {
        self.in_turn = true;
        self
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match &self.beyond {
            Beyond::Taken { permit, .. } => self.bytes + permit.bytes(),
            Beyond::Nothing | Beyond::OneAtATime | Beyond::Anything => self.bytes,
        }
    }

    fn overdraw(&mut self, bytes: usize) -> bool {
        let share = &self.seat.share;
        let alone = match &self.beyond {
            Beyond::Nothing => return false,
            Beyond::Taken { permit, .. } => {
                permit.settle(permit.bytes() + bytes);
                return true;
            }
            Beyond::OneAtATime if share.overdrawn.swap(true, Ordering::SeqCst) => return false,
            Beyond::OneAtATime => true,
            Beyond::Anything => false,
        };
        let permit = share.fetching.charge(bytes);
        self.beyond = Beyond::Taken { permit, alone };
        true
    }
}

impl Charge for InflationCharge {
    fn grow(&mut self, bytes: usize) -> bool {
        // What has begun is not held up by those who wait: that would be work for nothing.
        let first = self.bytes() == 0 && !self.in_turn;
        if first && self.seat.share.waiting.anybody() {
            return false;
        }
        let within = self.seat.share.take(bytes);
        if within {
            self.bytes += bytes;
        }
        let grown = within || self.overdraw(bytes);
        if grown {
            self.seat.held.fetch_add(bytes, Ordering::AcqRel);
        }
        grown
    }

    fn shrink(&mut self, bytes: usize) {
        let share = &self.seat.share;
        let mut rest = bytes;
        // What is beyond the share goes first, as it holds up fetching.
        if let Beyond::Taken { permit, .. } = &self.beyond {
            let repaid = rest.min(permit.bytes());
            permit.settle(permit.bytes() - repaid);
            rest -= repaid;
        }
        let own = rest.min(self.bytes);
        self.bytes -= own;
        share.charged.fetch_sub(own, Ordering::SeqCst);
        self.seat
            .held
            .fetch_sub(bytes - (rest - own), Ordering::AcqRel);
        share.wake();
    }
}

impl Drop for InflationCharge {
    fn drop(&mut self) {
        let share = &self.seat.share;
        self.seat.held.fetch_sub(self.bytes(), Ordering::AcqRel);
        share.charged.fetch_sub(self.bytes, Ordering::SeqCst);
        if let Beyond::Taken { alone, permit } =
            std::mem::replace(&mut self.beyond, Beyond::Nothing)
        {
            drop(permit);
            if alone {
                share.overdrawn.store(false, Ordering::SeqCst);
            }
        }
        share.wake();
    }
}

impl Share {
    /// Takes `bytes` if they are free.
    fn take(&self, bytes: usize) -> bool {
        let within = |charged: usize| charged.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.charged
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, within)
            .is_ok()
    }

    fn wake(&self) {
        while self.wake_some() {}
    }

    /// Wakes those who fit, and one more if nobody is beyond the share. True if one of them wants
    /// nothing any more.
    fn wake_some(&self) -> bool {
        let mut free = self
            .limit
            .saturating_sub(self.charged.load(Ordering::SeqCst));
        let mut one_more = !self.overdrawn.load(Ordering::SeqCst);
        // What is larger than the share tries once all of it is free.
        self.waiting
            .wake(|want| match free.checked_sub(want.min(self.limit)) {
                Some(rest) => {
                    free = rest;
                    true
                }
                None => std::mem::take(&mut one_more),
            })
    }
}

impl fmt::Debug for Inflation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inflation({} of {})", self.charged(), self.limit())
    }
}

impl fmt::Debug for InflationSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InflationSeat({})", self.held.load(Ordering::Acquire))
    }
}

impl fmt::Debug for InflationCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InflationCharge({})", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> (Inflation, Budget) {
        let fetching = Budget::new(1_000);
        (Inflation::new(100, fetching.clone()), fetching)
    }

    fn woken(seat: &InflationSeat, bytes: usize) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let calls = Arc::clone(&count);
        seat.when_room(bytes, move || {
            calls.fetch_add(1, Ordering::AcqRel);
            true
        });
        count
    }

    fn calls<const N: usize>(counts: [&Arc<AtomicUsize>; N]) -> [usize; N] {
        counts.map(|count| count.load(Ordering::Acquire))
    }

    #[test]
    fn what_may_stay_compressed_keeps_within_the_share() {
        let (inflation, fetching) = shares();
        let seat = inflation.seat();
        let mut one = seat.charge();
        assert!(one.grow(60) && one.grow(40));
        assert!(!one.grow(1) && !seat.charge().grow(1));
        assert_eq!((inflation.charged(), fetching.charged()), (100, 0));
        assert!(!seat.is_empty());
        drop(one);
        assert_eq!(inflation.charged(), 0);
        assert!(seat.is_empty());
    }

    #[test]
    fn with_the_share_used_up_one_batch_at_a_time_goes_beyond_at_the_cost_of_fetching() {
        let (inflation, fetching) = shares();
        let full = inflation.seat();
        let mut all = full.charge();
        assert!(all.grow(100));
        let (mut one, mut two) = (inflation.seat().charge_next(), full.charge_next());
        assert!(one.grow(30) && one.grow(40));
        assert!(!two.grow(1), "one at a time");
        assert_eq!((one.bytes(), fetching.charged()), (70, 70));
        drop(one);
        assert_eq!(fetching.charged(), 0);
        assert!(two.grow(1), "its turn");
        drop((all, two));
        assert_eq!((inflation.charged(), fetching.charged()), (0, 0));
    }

    #[test]
    fn a_batch_that_outgrows_the_share_goes_on_beyond_it() {
        let (inflation, fetching) = shares();
        let mut one = inflation.seat().charge_next();
        assert!(one.grow(90) && one.grow(90));
        assert_eq!((inflation.charged(), fetching.charged()), (90, 90));
        one.shrink(100);
        assert_eq!((inflation.charged(), fetching.charged()), (80, 0));
        assert_eq!(one.bytes(), 80);
        drop(one);
        assert_eq!((inflation.charged(), fetching.charged()), (0, 0));
    }

    #[test]
    fn who_waits_is_woken_in_turn_when_there_is_room_and_nobody_overtakes() {
        let (inflation, _) = shares();
        let seat = inflation.seat();
        let (mut all, mut beyond) = (seat.charge(), seat.charge_next());
        assert!(all.grow(100) && beyond.grow(10));
        let (first, second) = (woken(&seat, 60), woken(&seat, 30));
        assert_eq!(calls([&first, &second]), [0, 0]);
        drop(all);
        assert_eq!(calls([&first, &second]), [1, 1], "90 of 100");
        let third = woken(&seat, 100);
        assert_eq!(calls([&third]), [1], "room at once");
        drop(beyond);
        assert!(seat.charge().grow(100), "nobody waits any more");
    }

    #[test]
    fn the_end_of_the_one_beyond_wakes_one_other() {
        let (inflation, _) = shares();
        let seat = inflation.seat();
        let (mut all, mut beyond) = (seat.charge(), seat.charge_next());
        assert!(all.grow(100) && beyond.grow(10));
        let (first, second) = (woken(&seat, 60), woken(&seat, 30));
        drop(beyond);
        assert_eq!(calls([&first, &second]), [1, 0]);
        assert!(!seat.charge_next().grow(10), "not before those who wait");
        assert!(seat.charge_next().in_turn().grow(60));
        seat.pass_on();
        assert_eq!(calls([&second]), [1], "the turn was given back");
        drop(all);
    }

    #[test]
    fn who_wants_nothing_any_more_when_woken_leaves_it_to_the_next() {
        let (inflation, _) = shares();
        let seat = inflation.seat();
        let (mut all, mut beyond) = (seat.charge(), seat.charge_next());
        assert!(all.grow(100) && beyond.grow(10));
        for _ in 0..100_000 {
            seat.when_room(60, || false);
        }
        let last = woken(&seat, 60);
        drop(beyond);
        assert_eq!(calls([&last]), [1]);
        drop(all);
    }

    #[test]
    fn who_has_waited_long_and_holds_nothing_is_not_refused() {
        let (inflation, fetching) = shares();
        let seat = inflation.seat();
        let (mut all, mut beyond) = (seat.charge(), seat.charge_next());
        assert!(all.grow(100) && beyond.grow(10));
        let other = inflation.seat();
        assert!(other.is_empty());
        let mut overdue = other.charge_overdue();
        assert!(overdue.grow(50));
        assert_eq!(fetching.charged(), 60);
        drop(overdue);
        assert!(!other.charge_next().grow(1), "the turn is still another's");
        drop((all, beyond));
    }
}
