//! Batches that are inflated on the compute pool, once there is room for what comes out.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::inflated_bytes;
use crate::actors::clock::Clock;
use crate::budget::{InflationCharge, InflationSeat};
use crate::records::{BatchError, BatchView, InflateError};

/// A batch to be inflated on the compute pool.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(super) ticket: u64,
    pub(super) view: BatchView,
    pub(super) bytes_max: usize,
    /// Ends with the place that waits for the batch.
    pub(super) place: watch::Receiver<()>,
}

/// What came of a job.
#[derive(Debug)]
pub(crate) enum Ran {
    /// The batch, or what is wrong with it.
    Opened(Opened),
    /// There was no room for so many bytes.
    NoRoom(usize),
}

/// An inflated batch coming back from the compute pool.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(super) ticket: u64,
    pub(super) view: Result<BatchView, BatchError>,
}

impl Opened {
    /// Which batch it is.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Bytes that it came to.
    pub(crate) fn inflated_bytes(&self) -> usize {
        self.view.as_ref().map_or(0, inflated_bytes)
    }

    fn found_no_memory(&self) -> bool {
        matches!(self.view, Err(BatchError::NoMemory { .. }))
    }
}

impl Job {
    /// Inflates the batch. Takes as long as the batch is large; for the compute pool.
    pub(crate) fn run(self, charge: InflationCharge) -> Ran {
        match self.view.inflate_charged(self.bytes_max, charge) {
            Ok(view) => self.told(Ok(view)),
            Err(InflateError::Batch(error)) => self.told(Err(error)),
            Err(InflateError::NoRoom { bytes }) => Ran::NoRoom(bytes),
        }
    }

    fn told(&self, view: Result<BatchView, BatchError>) -> Ran {
        let ticket = self.ticket;
        Ran::Opened(Opened { ticket, view })
    }

    /// Nobody looks at what is said of a batch whose place is gone.
    fn given_up(self) -> Opened {
        let (ticket, offset) = (self.ticket, self.view.first_wanted());
        let view = Err(BatchError::NoMemory { offset });
        Opened { ticket, view }
    }

    fn is_wanted(&self) -> bool {
        self.place.has_changed().is_ok()
    }

    /// Returns once the place that waits for the batch is gone.
    async fn unwanted(&self) {
        let mut place = self.place.clone();
        while place.changed().await.is_ok() {}
    }
}

/// Runs `job` on the compute pool: again when there is room, if there was none, and while it finds
/// no memory, for as long as its place waits for it. A codec that panics tells nothing of the
/// batch, so the batch counts as one that does not decode. `None` if the runtime is being shut
/// down.
pub(crate) async fn elsewhere(
    job: Job,
    seat: InflationSeat,
    run: impl Fn(Job, InflationCharge) -> Ran + Clone + Send + 'static,
    clock: Clock,
) -> Option<Opened> {
    let mut charge = seat.charge_next();
    while job.is_wanted() {
        let (run, copy) = (run.clone(), job.clone());
        match tokio::task::spawn_blocking(move || run(copy, charge)).await {
            Ok(Ran::Opened(opened)) if opened.found_no_memory() => {
                tokio::time::sleep(MEMORY_RETRY).await;
                charge = seat.charge_next();
            }
            Ok(Ran::Opened(opened)) => return Some(opened),
            Ok(Ran::NoRoom(bytes)) => charge = room(&job, &seat, bytes, clock).await,
            Err(failure) if failure.is_panic() => {
                let (ticket, view) = (job.ticket, Err(job.view.undecodable()));
                return Some(Opened { ticket, view });
            }
            Err(_) => return None,
        }
    }
    // It may have been woken for nothing.
    seat.pass_on();
    Some(job.given_up())
}

/// Waits until `job`, which was refused at `bytes`, is worth another try, and gives what to try it
/// with. Nobody starves: a partition that holds nothing is not held up for long by others whose
/// handlers are stuck on all there is.
async fn room(job: &Job, seat: &InflationSeat, bytes: usize, clock: Clock) -> InflationCharge {
    let since = clock.now();
    let (wake, mut woken) = oneshot::channel();
    seat.when_room(bytes, move || wake.send(()).is_ok());
    let charge = loop {
        tokio::select! {
            biased;
            _ = &mut woken => break seat.charge_next().in_turn(),
            () = job.unwanted() => break seat.charge(),
            () = tokio::time::sleep(PATIENCE) => if seat.is_empty() {
                break seat.charge_overdue();
            },
        }
    };
    metrics::histogram!("nearside_wire_permit_wait_seconds").record(clock.now().since(since));
    charge
}

/// When a batch is tried again that found no memory.
const MEMORY_RETRY: Duration = Duration::from_millis(100);
/// How long a partition that holds nothing waits for others to give bytes back.
const PATIENCE: Duration = Duration::from_secs(1);
