//! Whatever is asked, comes, is kept and dropped: the sums hold, and nobody waits for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use proptest::prelude::*;

use super::{Arrival, Budget, Permit};

const LIMIT: usize = 1 << 20;

/// What may happen to the budget. Numbers choose among what there is at the time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take(usize),
    Wait(usize),
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
    woken: Arc<AtomicUsize>,
    waited: usize,
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
                let woken = Arc::clone(&self.woken);
                self.waited += 1;
                self.budget.when_free(want, move || {
                    woken.fetch_add(1, Ordering::SeqCst);
                });
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
        let asked: usize = self.permits.iter().map(Permit::bytes).sum();
        let kept: usize = self.slices.iter().map(Bytes::len).sum();
        assert!(
            self.budget.charged() >= asked + kept,
            "what is kept is charged"
        );
    }
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
            woken: Arc::default(),
            waited: 0,
        };
        for step in steps {
            world.step(step);
            prop_assert!(world.woken.load(Ordering::SeqCst) <= world.waited);
        }
        world.permits.clear();
        world.slices.clear();
        prop_assert_eq!(world.budget.charged(), 0);
        prop_assert!(!world.budget.0.is_tight());
        prop_assert_eq!(world.woken.load(Ordering::SeqCst), world.waited);
        prop_assert!(world.budget.take(LIMIT).is_some_and(|all| all.bytes() == LIMIT));
    }
}
