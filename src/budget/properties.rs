//! Whatever is asked, comes, is kept and dropped: the sums hold, and nobody waits for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use proptest::prelude::*;

use super::{Arrival, Budget, Permit, Place};

const LIMIT: usize = 1 << 20;

/// What may happen to the budget. Numbers choose among what there is at the time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take(usize),
    Wait(usize),
    /// One of those who wait is gone.
    Leave(usize),
    /// An answer of this many bytes comes under a permit, in three rows.
    Arrive(usize, usize),
    DropPermit(usize),
    DropSlice(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = 0..LIMIT / 2;
    prop_oneof![
        bytes.clone().prop_map(Step::Take),
        bytes.clone().prop_map(Step::Wait),
        any::<usize>().prop_map(Step::Leave),
        (any::<usize>(), bytes).prop_map(|(which, bytes)| Step::Arrive(which, bytes)),
        any::<usize>().prop_map(Step::DropPermit),
        any::<usize>().prop_map(Step::DropSlice),
    ]
}

/// Everybody who has to do with one budget.
struct World {
    budget: Budget,
    permits: Vec<Permit>,
    slices: Vec<Bytes>,
    waiters: Vec<Waiter>,
}

/// One who waits, or is woken and does not know yet.
struct Waiter {
    want: usize,
    place: Place,
    calls: Arc<AtomicUsize>,
}

impl Waiter {
    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl World {
    fn step(&mut self, step: Step) {
        let before = self.budget.charged();
        match step {
            Step::Take(want) => {
                let permit = self.budget.take(want);
                assert!(permit.is_none() || self.budget.charged() <= LIMIT);
                self.permits.extend(permit);
            }
            Step::Wait(want) => {
                let calls = Arc::new(AtomicUsize::new(0));
                let woken = Arc::clone(&calls);
                let place = self.budget.when_free(want, move || {
                    woken.fetch_add(1, Ordering::SeqCst);
                });
                self.waiters.push(Waiter { want, place, calls });
            }
            Step::Leave(which) => {
                if let Some(Waiter { place, calls, .. }) = left(&mut self.waiters, which) {
                    let before = calls.load(Ordering::SeqCst);
                    drop(place);
                    assert_eq!(calls.load(Ordering::SeqCst), before, "nobody is there");
                }
            }
            Step::Arrive(which, bytes) => {
                let Some(permit) = removed(&mut self.permits, which) else {
                    return;
                };
                let granted = permit.bytes();
                permit.settle(bytes);
                let arrival = Arrival::new(Arc::new(permit));
                let frame = Bytes::from(vec![0; bytes]);
                for row in [0..bytes / 40, bytes / 40..bytes / 2, bytes / 2..bytes] {
                    self.slices.push(arrival.keep(frame.slice(row)));
                }
                // No more than came and the rows that are copied.
                let charged = self.budget.charged();
                assert!(charged <= before - granted + bytes + bytes / 2);
            }
            Step::DropPermit(which) => drop(removed(&mut self.permits, which)),
            Step::DropSlice(which) => drop(removed(&mut self.slices, which)),
        }
        self.woken_try();
        let asked: usize = self.permits.iter().map(Permit::bytes).sum();
        let kept: usize = self.slices.iter().map(Bytes::len).sum();
        assert!(
            self.budget.charged() >= asked + kept,
            "what is kept is charged"
        );
    }

    /// Those who were woken try, in their turn. The first who still waits has no room.
    fn woken_try(&mut self) {
        let (woken, waiting): (Vec<_>, _) = std::mem::take(&mut self.waiters)
            .into_iter()
            .partition(|waiter| waiter.calls() > 0);
        self.waiters = waiting;
        for waiter in woken {
            assert_eq!(waiter.calls(), 1);
            self.permits.extend(self.budget.take_in_turn(waiter.want));
        }
        assert_eq!(
            self.budget.0.waiting.anybody(),
            !self.waiters.is_empty(),
            "only the living wait"
        );
        if let Some(first) = self.waiters.first() {
            assert!(self.budget.take_in_turn(first.want).is_none(), "it starves");
        }
    }
}

/// The same in order.
fn left<T>(among: &mut Vec<T>, which: usize) -> Option<T> {
    let at = which.checked_rem(among.len())?;
    Some(among.remove(at))
}

fn removed<T>(among: &mut Vec<T>, which: usize) -> Option<T> {
    let at = which.checked_rem(among.len())?;
    Some(among.swap_remove(at))
}

proptest! {
    #[test]
    fn what_is_kept_is_charged_and_all_of_it_comes_back(
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut world = World {
            budget: Budget::new(LIMIT),
            permits: Vec::new(),
            slices: Vec::new(),
            waiters: Vec::new(),
        };
        for step in steps {
            world.step(step);
        }
        world.permits.clear();
        world.slices.clear();
        prop_assert_eq!(world.budget.charged(), 0);
        prop_assert!(!world.budget.0.is_tight());
        prop_assert!(world.waiters.iter().all(|waiter| waiter.calls() == 1));
        prop_assert!(world.budget.take(LIMIT).is_some_and(|all| all.bytes() == LIMIT));
    }
}
