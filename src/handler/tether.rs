//! What an attempt and the host that started it share: progress one way, cancellation the other.
//!
//! One task works through a whole stint of units, so both sides name a unit by the number of
//! records of the stint that were finished before it began. Everything is atomics but for the
//! wakers of tasks that wait for cancellation.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use crate::handler::{Assignment, Clock};
use crate::ids::Moment;

/// The shared state of one stint.
#[derive(Debug)]
pub(crate) struct Tether {
    assignment: Arc<Assignment>,
    clock: Arc<dyn Clock>,
    /// Finished records in the low half, flags above.
    word: AtomicU64,
    /// When the unit in hand began, in microseconds, or one of the two marks.
    began: AtomicU64,
    /// When the handler last reported progress.
    stirred: AtomicU64,
    /// Units that began before this many records were finished are cancelled.
    cancelled_below: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
}

/// What the host lets the task do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// Begin the next unit.
    GoOn,
    /// End here; what was finished counts.
    End,
    /// Given up: what was just finished came too late.
    Late,
}

/// What [`Tether::observe`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sight {
    /// Records finished so far, which is also the name of the unit in hand.
    pub(crate) finished: u32,
    pub(crate) began: Began,
}

/// When a unit began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Began {
    /// Not yet: the task waits for a thread.
    NotYet,
    /// The clock was not read: most units end without ever waiting, and reading it costs as much as
    /// they do.
    Untimed,
    /// At this moment.
    At(Moment),
}

impl Tether {
    pub(crate) fn new(assignment: Arc<Assignment>, clock: Arc<dyn Clock>) -> Self {
        Self {
            assignment,
            clock,
            word: AtomicU64::new(0),
            began: AtomicU64::new(NOT_YET),
            stirred: AtomicU64::new(0),
            cancelled_below: AtomicU64::new(0),
            wakers: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn assignment(&self) -> &Arc<Assignment> {
        &self.assignment
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    // The task's side.

    /// Notes that a thread took the stint up.
    pub(crate) fn take_up(&self) {
        self.began.store(UNTIMED, Release);
    }

    /// Starts the clock of the unit in hand, unless it runs already. Returns when it was started.
    pub(crate) fn time(&self) -> Moment {
        let now = self.clock.now();
        match self.began.compare_exchange(UNTIMED, now.0, AcqRel, Acquire) {
            Ok(_) | Err(NOT_YET) => now,
            Err(began) => Moment(began),
        }
    }

    /// Counts `records` as finished; the next unit is untimed.
    ///
    /// The mark is written first, so that an observer can only ever take a unit for too young.
    #[inline]
    pub(crate) fn finish(&self, records: u32) -> Leave {
        self.began.store(UNTIMED, Release);
        match self.word.fetch_add(u64::from(records), AcqRel) & (SEVERED | CLOSED) {
            0 => Leave::GoOn,
            CLOSED => Leave::End,
            _ => Leave::Late,
        }
    }

    /// Whether a unit may begin.
    pub(crate) fn leave(&self) -> Leave {
        match self.word.load(Acquire) & (SEVERED | CLOSED) {
            0 => Leave::GoOn,
            CLOSED => Leave::End,
            _ => Leave::Late,
        }
    }

    /// Whether results still count.
    pub(crate) fn is_intact(&self) -> bool {
        self.word.load(Acquire) & SEVERED == 0
    }

    pub(crate) fn is_cancelled(&self, unit: u32) -> bool {
        u64::from(unit) < self.cancelled_below.load(Acquire)
    }

    /// Resolves when `unit` is cancelled.
    pub(crate) fn cancelled(&self, unit: u32) -> Cancelled<'_> {
        Cancelled { tether: self, unit }
    }

    pub(crate) fn stir(&self) {
        self.stirred.store(self.clock.now().0, Release);
    }

    // The host's side.

    pub(crate) fn observe(&self) -> Sight {
        // `began` is read last: see `finish`.
        let finished = count(self.word.load(Acquire));
        let began = match self.began.load(Acquire) {
            NOT_YET => Began::NotYet,
            UNTIMED => Began::Untimed,
            at => Began::At(Moment(at)),
        };
        Sight { finished, began }
    }

    /// When the handler last reported progress, if it ever did.
    pub(crate) fn stirred(&self) -> Option<Moment> {
        let stirred = self.stirred.load(Acquire);
        (stirred != 0).then_some(Moment(stirred))
    }

    /// Lets the unit in hand end and no further one begin.
    pub(crate) fn close(&self) {
        self.word.fetch_or(CLOSED, AcqRel);
    }

    /// Asks `unit` to end; later units are not affected.
    pub(crate) fn cancel(&self, unit: u32) {
        self.cancelled_below.fetch_max(u64::from(unit) + 1, AcqRel);
        self.wake();
    }

    /// Asks every unit to end.
    pub(crate) fn cancel_all(&self) {
        self.cancelled_below.store(u64::MAX, Release);
        self.wake();
    }

    /// Ends the authority of the task: whatever it finishes from now on counts for nothing. Returns
    /// the number of records that were finished in time.
    pub(crate) fn sever(&self) -> u32 {
        let finished = count(self.word.fetch_or(SEVERED, AcqRel));
        self.cancel_all();
        finished
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut *self.wakers());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        // A list of wakers is never half written, so a poisoned lock holds a good one.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves when its unit is cancelled. Cancellation safe: it holds nothing.
#[derive(Debug)]
pub(crate) struct Cancelled<'a> {
    tether: &'a Tether,
    unit: u32,
}

impl Future for Cancelled<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<()> {
        if self.tether.is_cancelled(self.unit) {
            return Poll::Ready(());
        }
        let mut wakers = self.tether.wakers();
        if !wakers.iter().any(|waker| waker.will_wake(task.waker())) {
            // A bound on what handlers that poll from ever new tasks can leave behind.
            if wakers.len() >= WAKERS_MAX {
                wakers.remove(0).wake();
            }
            wakers.push(task.waker().clone());
        }
        drop(wakers);
        // The host may have cancelled between the check and the registration.
        if self.tether.is_cancelled(self.unit) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

fn count(word: u64) -> u32 {
    u32::try_from(word & COUNT).unwrap_or(u32::MAX)
}

const COUNT: u64 = 0xFFFF_FFFF;
const CLOSED: u64 = 1 << 62;
const SEVERED: u64 = 1 << 63;
const NOT_YET: u64 = u64::MAX;
const UNTIMED: u64 = u64::MAX - 1;
const WAKERS_MAX: usize = 64;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ids::{Generation, TopicPartition};

    /// A clock that stands still.
    #[derive(Debug)]
    pub(crate) struct Still(pub(crate) Moment);

    impl Clock for Still {
        fn now(&self) -> Moment {
            self.0
        }
    }

    pub(crate) fn assignment() -> Arc<Assignment> {
        Arc::new(Assignment {
            group: "billing".into(),
            partition: TopicPartition::new("orders", 3),
            topic_id: None,
            generation: Generation(7),
            epoch: 1.into(),
        })
    }

    fn tether() -> Tether {
        Tether::new(assignment(), Arc::new(Still(Moment::from_ms(5))))
    }

    #[test]
    fn cancelling_one_unit_leaves_the_next_alone() {
        let tether = tether();
        assert_eq!(tether.finish(3), Leave::GoOn);
        tether.cancel(tether.observe().finished);
        assert!(tether.is_cancelled(3));
        assert!(!tether.is_cancelled(4));
    }

    #[test]
    fn what_is_finished_after_severing_counts_for_nothing() {
        let tether = tether();
        assert_eq!(tether.finish(2), Leave::GoOn);
        tether.close();
        assert_eq!(tether.finish(1), Leave::End);
        assert_eq!(tether.sever(), 3);
        assert_eq!(tether.finish(1), Leave::Late);
        assert!(!tether.is_intact());
    }

    #[test]
    fn the_clock_of_a_unit_starts_once() {
        let tether = tether();
        assert_eq!(
            tether.observe(),
            Sight {
                finished: 0,
                began: Began::NotYet
            }
        );
        tether.take_up();
        assert_eq!(tether.observe().began, Began::Untimed);
        assert_eq!(tether.time(), Moment::from_ms(5));
        assert_eq!(tether.observe().began, Began::At(Moment::from_ms(5)));
        tether.finish(1);
        assert_eq!(
            tether.observe(),
            Sight {
                finished: 1,
                began: Began::Untimed
            }
        );
    }

    #[test]
    fn a_waiting_task_is_woken_by_cancellation() {
        struct Flag(std::sync::atomic::AtomicBool);
        impl std::task::Wake for Flag {
            fn wake(self: Arc<Self>) {
                self.0.store(true, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let tether = tether();
        let flag = Arc::new(Flag(false.into()));
        let waker = Waker::from(Arc::clone(&flag));
        let mut task = TaskContext::from_waker(&waker);
        let mut cancelled = std::pin::pin!(tether.cancelled(0));
        assert!(cancelled.as_mut().poll(&mut task).is_pending());
        tether.cancel(0);
        assert!(flag.0.load(std::sync::atomic::Ordering::SeqCst));
        assert!(cancelled.as_mut().poll(&mut task).is_ready());
    }
}
