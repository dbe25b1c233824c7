//! Whatever is inflated, dropped, waited for and given up: the share holds, one batch at a time is
//! beyond it, and nobody for whom there is room stays asleep.

use proptest::prelude::*;

use super::*;

const SHARE: usize = 1_000;
const FETCHING: usize = 2_000;

/// What may happen. Numbers choose among what there is at the time.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A batch of this many bytes that may stay compressed.
    Early(usize),
    /// One that a handler has room for; without room it waits.
    Next(usize),
    /// One of those who wait is gone.
    Leave(usize),
    /// The end of a batch is cut off.
    Shrink(usize),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = 1..SHARE + SHARE / 2;
    prop_oneof![
        bytes.clone().prop_map(Step::Early),
        bytes.prop_map(Step::Next),
        any::<usize>().prop_map(Step::Leave),
        any::<usize>().prop_map(Step::Shrink),
        any::<usize>().prop_map(Step::Drop),
    ]
}

struct Waiter {
    bytes: usize,
    turn: Turn,
    calls: Arc<AtomicUsize>,
}

struct World {
    inflation: Inflation,
    fetching: Budget,
    held: Vec<InflationCharge>,
    waiters: Vec<Waiter>,
}

impl World {
    fn step(&mut self, step: Step) {
        let seat = self.inflation.seat();
        match step {
            Step::Early(bytes) => {
                let mut charge = seat.charge();
                let waited_for = !self.waiters.is_empty();
                let grown = charge.grow(bytes);
                assert!(!(grown && waited_for), "it overtakes");
                self.held.extend(grown.then_some(charge));
            }
            Step::Next(bytes) => {
                let mut charge = seat.charge_next();
                if charge.grow(bytes) {
                    self.held.push(charge);
                } else {
                    drop(charge);
                    self.wait(bytes);
                }
            }
            Step::Leave(which) => {
                if let Some(at) = which.checked_rem(self.waiters.len()) {
                    drop(self.waiters.remove(at));
                }
            }
            Step::Shrink(which) => {
                if let Some(at) = which.checked_rem(self.held.len()) {
                    let half = self.held[at].bytes() / 2;
                    self.held[at].shrink(half);
                }
            }
            Step::Drop(which) => {
                if let Some(at) = which.checked_rem(self.held.len()) {
                    drop(self.held.swap_remove(at));
                }
            }
        }
        self.woken_try();
        self.check();
    }

    fn wait(&mut self, bytes: usize) {
        let calls = Arc::new(AtomicUsize::new(0));
        let woken = Arc::clone(&calls);
        let wake = move || {
            woken.fetch_add(1, Ordering::SeqCst);
        };
        let turn = self.inflation.seat().when_room(bytes, wake);
        self.waiters.push(Waiter { bytes, turn, calls });
    }

    /// Those who were woken try until nobody is any more.
    fn woken_try(&mut self) {
        let is_woken = |waiter: &Waiter| waiter.calls.load(Ordering::SeqCst) > 0;
        let mut tries = 0;
        while let Some(at) = self.waiters.iter().position(is_woken) {
            tries += 1;
            assert!(tries < 1_000, "woken in vain, again and again");
            let Waiter { bytes, turn, calls } = self.waiters.remove(at);
            assert_eq!(calls.load(Ordering::SeqCst), 1);
            turn.take();
            let mut charge = self.inflation.seat().charge_next().in_turn();
            if charge.grow(bytes) {
                self.held.push(charge);
            } else {
                drop(charge);
                self.wait(bytes);
            }
        }
    }

    fn check(&self) {
        let share = &self.inflation.0;
        let all: usize = self.held.iter().map(InflationCharge::bytes).sum();
        assert_eq!(self.inflation.charged() + self.inflation.beyond(), all);
        assert_eq!(self.fetching.charged(), self.inflation.beyond());
        assert!(self.inflation.charged() <= SHARE);
        let beyond = self.held.iter().filter(|charge| charge.beyond.is_some());
        assert!(beyond.count() <= 1, "one at a time");
        assert_eq!(share.waiting.anybody(), !self.waiters.is_empty());
        if !self.waiters.is_empty() {
            assert!(share.overdrawn.load(Ordering::SeqCst), "the first starves");
        }
    }
}

proptest! {
    #[test]
    fn the_share_holds_one_is_beyond_it_and_nobody_starves(
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let fetching = Budget::new(FETCHING);
        let inflation = Inflation::new(SHARE, fetching.clone());
        let mut world = World { inflation, fetching, held: Vec::new(), waiters: Vec::new() };
        for step in steps {
            world.step(step);
        }
        // Each batch is handled in its time: all who wait come through.
        for _ in 0..1_000 {
            world.step(Step::Drop(0));
        }
        prop_assert!(world.waiters.is_empty() && world.held.is_empty());
        prop_assert_eq!((world.inflation.charged(), world.fetching.charged()), (0, 0));
    }
}
