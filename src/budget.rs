//! The byte budget: how much fetched data may be held at a time (wire.md 4.2, runtime.md 11).
//! What is inflated has a share of its own: [`Inflation`].
//!
//! A Fetch takes its permit before it is sent, for as much as it allows the broker to answer. The
//! answer shrinks the permit to what came, and then the frame has it ([`Arrival`]): the last slice
//! to be dropped gives it back. So the sum of what is asked for, on its way, queued and in the
//! hands of handlers stays below the limit, whatever the number of brokers and partitions.

mod arrival;
mod inflation;
mod overdue;
#[cfg(test)]
mod properties;
mod rows;
mod waiting;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rows::Rows;
use waiting::{Ticket, Waiting};

pub use arrival::Arrival;
pub use inflation::{Inflation, InflationCharge, InflationSeat, Turn};
pub use overdue::OverduePlace;
pub use rows::KeptRow;

/// The right to hold bytes, shared by all who fetch. Clones share one pool.
///
/// An answer may be larger than its permit (KIP-74: a batch comes whole), so the limit may be
/// overdrawn; nothing is granted until that is repaid.
#[derive(Clone)]
pub struct Budget(Arc<Pool>);

struct Pool {
    limit: usize,
    charged: AtomicUsize,
    /// What of that has come.
    held: AtomicUsize,
    seats: AtomicUsize,
    waiting: Waiting,
    rows: Rows,
}

/// A place among those who share the budget; dropping it leaves more for the others.
pub struct Seat(Arc<Pool>);

/// Bytes granted, given back when dropped.
pub struct Permit {
    pool: Arc<Pool>,
    bytes: AtomicUsize,
}

/// A place among those who wait for bytes. Dropping it leaves it, so that those who are gone hold
/// nobody up.
#[must_use]
pub struct Place {
    pool: Arc<Pool>,
    ticket: Ticket,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Pool {
            limit,
            charged: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            seats: AtomicUsize::new(0),
            waiting: Waiting::default(),
            rows: Rows::default(),
        }))
    }

    /// A budget that grants everything.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes granted at this moment; above the limit while overdrawn.
    pub fn charged(&self) -> usize {
        self.0.charged.load(Ordering::Acquire)
    }

    /// Joins those who share the budget.
    pub fn seat(&self) -> Seat {
        self.0.seats.fetch_add(1, Ordering::AcqRel);
        Seat(Arc::clone(&self.0))
    }

    /// Grants up to `want` bytes, at most an equal part of the limit for every seat; nothing if
    /// less than a quarter of that is free, or if others wait already.
    pub fn take(&self, want: usize) -> Option<Permit> {
        if self.0.waiting.anybody() {
            None
        } else {
            self.take_in_turn(want)
        }
    }

    /// The same for who has waited and was woken.
    pub fn take_in_turn(&self, want: usize) -> Option<Permit> {
        let want = want.min(self.0.part());
        let least = self.0.worthwhile(want);
        let grant = |charged: usize| {
            let free = self.0.limit.saturating_sub(charged);
            (free >= least).then(|| want.min(free))
        };
        let charge = |charged: usize| Some(charged.saturating_add(grant(charged)?));
        let charged = &self.0.charged;
        let before = charged
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, charge)
            .ok()?;
        Some(self.permit(grant(before)?))
    }

    /// Charges bytes that are here already, whatever is free.
    pub fn charge(&self, bytes: usize) -> Permit {
        self.0.charged.fetch_add(bytes, Ordering::AcqRel);
        self.permit(bytes)
    }

    /// Calls `wake` once, from any thread, when a refused [`take`](Self::take) of `want` bytes is
    /// worth repeating; at once if it is already. Who waits keeps the place until it is woken.
    pub fn when_free(&self, want: usize, wake: impl FnOnce() + Send + 'static) -> Place {
        let ticket = self.0.waiting.join(want, wake);
        self.0.wake();
        let pool = Arc::clone(&self.0);
        Place { pool, ticket }
    }

    fn permit(&self, bytes: usize) -> Permit {
        Permit {
            pool: Arc::clone(&self.0),
            bytes: AtomicUsize::new(bytes),
        }
    }
}

impl Permit {
    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Goes to what has come: gives the rest back, or overdraws.
    pub fn settle(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::AcqRel);
        if bytes > before {
            self.pool
                .charged
                .fetch_add(bytes - before, Ordering::AcqRel);
        } else {
            self.pool.give_back(before - bytes);
        }
    }
}

impl Pool {
    /// The least that is granted of `want` bytes: crumbs would cost a request each.
    fn worthwhile(&self, want: usize) -> usize {
        (want / 4).max(CRUMB.min(self.limit)).min(want)
    }

    /// What one seat may take at once.
    fn part(&self) -> usize {
        let seats = self.seats.load(Ordering::Acquire).max(1);
        (self.limit / seats).max(CRUMB)
    }

    /// Whether more than half is held.
    fn is_tight(&self) -> bool {
        self.held.load(Ordering::Acquire) > self.limit / 2
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            // Sequential, as the count of those who wait: either we see that one more waits, or
            // that one sees what we give back.
            self.charged.fetch_sub(bytes, Ordering::SeqCst);
            self.wake();
        }
    }

    /// Wakes those for whom it is worth trying. More may be woken than can be served; waking fewer
    /// would leave one asleep if another does not want any more.
    fn wake(&self) {
        self.waiting.wake(|want| {
            let charged = self.charged.load(Ordering::SeqCst);
            self.worthwhile(want.min(self.part())) <= self.limit.saturating_sub(charged)
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.give_back(self.bytes());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.pool.waiting.leave(self.ticket) {
            self.pool.wake();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.seats.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Budgets of one limit are alike: what is charged is no setting.
impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        self.limit() == other.limit()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({} of {})", self.charged(), self.limit())
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seat")
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({:?})", self.ticket)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.bytes())
    }
}

/// Nobody is granted less, unless nobody wants more: the quantum of runtime.md B3.
pub const CRUMB: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    fn waits(budget: &Budget, want: usize) -> (Place, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let calls = Arc::clone(&count);
        let place = budget.when_free(want, move || {
            calls.fetch_add(1, Ordering::AcqRel);
        });
        (place, count)
    }

    #[test]
    fn an_overdraft_is_repaid_before_anything_is_granted() {
        let budget = Budget::new(1_000 * KIB);
        let permit = budget.take(900 * KIB).unwrap();
        permit.settle(1_200 * KIB);
        assert!(budget.take(KIB).is_none());
        permit.settle(1_000 * KIB);
        assert!(budget.take(KIB).is_none());
        permit.settle(999 * KIB);
        assert_eq!(budget.take(KIB).unwrap().bytes(), KIB);
    }

    #[test]
    fn seats_share_the_limit_and_one_that_is_left_makes_room() {
        let budget = Budget::new(1_000 * KIB);
        let seats = [budget.seat(), budget.seat(), budget.seat(), budget.seat()];
        let first = budget.take(1_000 * KIB).unwrap();
        assert_eq!(first.bytes(), 250 * KIB);
        drop(seats);
        assert_eq!(budget.take(1_000 * KIB).unwrap().bytes(), 750 * KIB);
    }

    #[test]
    fn crumbs_are_not_granted() {
        let budget = Budget::new(1_000 * KIB);
        let most = budget.charge(900 * KIB);
        assert!(budget.take(1_000 * KIB).is_none());
        most.settle(700 * KIB);
        assert_eq!(budget.take(1_000 * KIB).unwrap().bytes(), 300 * KIB);
    }

    #[test]
    fn who_waits_is_woken_once_when_trying_again_is_worth_it() {
        let budget = Budget::new(1_000 * KIB);
        let all = budget.charge(1_000 * KIB);
        let waiting = [400 * KIB, 800 * KIB, 400 * KIB].map(|want| waits(&budget, want));
        let counts = || {
            waiting
                .each_ref()
                .map(|(_, count)| count.load(Ordering::Acquire))
        };
        all.settle(950 * KIB);
        assert_eq!(counts(), [0, 0, 0]);
        all.settle(850 * KIB);
        assert_eq!(counts(), [1, 0, 0], "nobody overtakes who wants much");
        assert!(budget.take(10).is_none(), "nor does who comes later");
        drop(budget.take_in_turn(400 * KIB).unwrap());
        drop(all);
        assert_eq!(counts(), [1, 1, 1]);
        assert!(budget.take(10).is_some());
    }

    #[test]
    fn who_comes_to_wait_when_there_is_room_is_woken_at_once() {
        let budget = Budget::new(1_000 * KIB);
        let (_place, count) = waits(&budget, 10);
        assert_eq!(count.load(Ordering::Acquire), 1);
    }

    #[test]
    fn who_is_gone_waits_no_longer_and_holds_nobody_up() {
        let budget = Budget::new(1_000 * KIB);
        let _most = budget.charge(900 * KIB);
        let (gone, never) = waits(&budget, 1_000 * KIB);
        let (_place, next) = waits(&budget, 80 * KIB);
        assert_eq!(next.load(Ordering::Acquire), 0, "behind who wants much");
        drop(gone);
        assert_eq!(next.load(Ordering::Acquire), 1);
        assert_eq!(never.load(Ordering::Acquire), 0);
        for _ in 0..1_000 {
            drop(waits(&budget, 1_000 * KIB));
        }
        assert!(!budget.0.waiting.anybody());
        assert!(budget.take(KIB).is_some());
    }
}
