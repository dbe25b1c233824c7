//! The task's side of a stint: beginning units, guarding them against panics, sharing the thread.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::handler::stint::{Cause, Failure, Place, Stint, StintEnd, Verdict};
use crate::handler::tether::{Leave, Tether};
use crate::handler::{Context, HandlerError, Hint};
use crate::ids::{Moment, Offset};

/// A stint in progress.
pub(crate) struct Work<'a> {
    stint: &'a Stint,
    tether: &'a Arc<Tether>,
    /// Records finished, which names the unit in hand.
    finished: u32,
    attempt: u32,
    began: Moment,
    /// When the thread was last left to others.
    yielded: Moment,
    /// Units since the clock was read.
    unread: u32,
    /// Every unit is timed: those of blocking handlers, which never wait in a way that could be
    /// seen.
    timed: bool,
    odd_nulls: u32,
}

impl<'a> Work<'a> {
    pub(crate) fn begin(stint: &'a Stint, timed: bool) -> Self {
        let tether = &stint.tether;
        tether.take_up();
        let began = tether.now();
        let attempt = stint.attempt;
        Self {
            stint,
            tether,
            finished: 0,
            attempt,
            began,
            yielded: began,
            unread: 0,
            timed,
            odd_nulls: 0,
        }
    }

    /// Whether the first unit may begin: the host may have thought better of it while the task
    /// waited for a thread.
    pub(crate) fn leave(&self) -> Leave {
        self.tether.leave()
    }

    /// The context of the unit whose first record lies at `offset`.
    #[inline]
    pub(crate) fn context(&self, offset: Offset) -> Context {
        Context {
            tether: Arc::clone(self.tether),
            unit: self.finished,
            attempt: self.attempt,
            offset,
            time_allowed: self.stint.limits.deadline,
        }
    }

    /// Runs one unit of user code; a panic becomes a failure.
    #[inline]
    pub(crate) async fn attempt<R>(&mut self, unit: impl Future<Output = R>) -> Result<R, Failure> {
        if self.timed {
            self.tether.time();
        }
        let mut guarded = Guarded {
            tether: self.tether,
            unit: pin!(unit),
            waited: false,
        };
        let result = (&mut guarded).await;
        if guarded.waited {
            self.yielded = self.tether.now();
            self.unread = CLOCK_INTERVAL;
        }
        result
    }

    /// Counts records as finished and says how to go on; lets others have the thread now and then.
    #[inline]
    pub(crate) async fn finish(&mut self, records: u32) -> Leave {
        self.finished = self.finished.saturating_add(records);
        self.attempt = 1;
        let leave = self.tether.finish(records);
        self.unread += 1;
        if leave != Leave::GoOn || (self.unread < CLOCK_INTERVAL && !self.timed) {
            return leave;
        }
        self.share_thread().await
    }

    #[cold]
    async fn share_thread(&mut self) -> Leave {
        self.unread = 0;
        let now = self.tether.now();
        if now.since(self.began) >= self.stint.limits.stint_time {
            return Leave::End;
        }
        if now.since(self.yielded) >= THREAD_TIME && !self.timed {
            self.yielded = now;
            yield_now().await;
        }
        self.tether.leave()
    }

    /// Notes lengths below -1 that were read as null.
    pub(crate) fn note_odd_nulls(&mut self, odd: u32) {
        self.odd_nulls = self.odd_nulls.saturating_add(odd);
    }

    /// How the stint ends.
    pub(crate) fn end(&self, place: Place, verdict: Verdict) -> StintEnd {
        StintEnd {
            place,
            verdict,
            odd_nulls: self.odd_nulls,
        }
    }

    /// Attempt number of the unit in hand.
    pub(crate) fn attempt_number(&self) -> u32 {
        self.attempt
    }

    /// Whether the unit in hand was told to end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.tether.is_cancelled(self.finished)
    }
}

impl Failure {
    /// What becomes of a handler's error by the default rules (runtime.md H1).
    pub(crate) fn of(error: &HandlerError) -> Self {
        let cause = match error.hint() {
            Hint::Retryable => Cause::Error,
            Hint::Permanent => Cause::Permanent,
        };
        Self::new(cause, error)
    }

    /// A failure whose text is cut to what logs and events should carry.
    pub(crate) fn new(cause: Cause, text: &(impl ToString + ?Sized)) -> Self {
        let mut text = text.to_string();
        if text.len() > TEXT_BYTES_MAX {
            let end = (0..=TEXT_BYTES_MAX)
                .rev()
                .find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
        }
        Self {
            cause,
            after: None,
            text,
        }
    }
}

/// User code whose panics end up in its result.
struct Guarded<'a, F> {
    tether: &'a Tether,
    unit: Pin<&'a mut F>,
    waited: bool,
}

impl<F: Future> Future for Guarded<'_, F> {
    type Output = Result<F::Output, Failure>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Nothing of ours is changed inside, and a future that panicked is not polled again.
        match catch_unwind(AssertUnwindSafe(|| this.unit.as_mut().poll(task))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => {
                if !this.waited {
                    this.waited = true;
                    this.tether.time();
                }
                Poll::Pending
            }
            Err(panic) => Poll::Ready(Err(Failure::new(Cause::Panic, panic_text(&*panic)))),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}

/// Lets other tasks of the thread run once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|task| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Units between two looks at the clock.
const CLOCK_INTERVAL: u32 = 64;
/// Time after which a stint that never waits lets other tasks run.
const THREAD_TIME: Duration = Duration::from_millis(10);
const TEXT_BYTES_MAX: usize = 1_024;
