//! Batches that are inflated on the compute pool, once there is room for what comes out.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::inflated_bytes;
use crate::actors::clock::Clock;
use crate::budget::{InflationCharge, InflationSeat, OverduePlace};
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
    let (mut charge, mut place) = (seat.charge_next(), None);
    while job.is_wanted() {
        let (run, copy) = (run.clone(), job.clone());
        let inflating = move || {
            let _until_inflated: Option<OverduePlace> = place;
            run(copy, charge)
        };
        match tokio::task::spawn_blocking(inflating).await {
            Ok(Ran::Opened(opened)) if opened.found_no_memory() => {
                tokio::time::sleep(MEMORY_RETRY).await;
                (charge, place) = (seat.charge_next(), None);
            }
            Ok(Ran::Opened(opened)) => return Some(opened),
            Ok(Ran::NoRoom(bytes)) => (charge, place) = room(&job, &seat, bytes, clock).await,
            Err(failure) if failure.is_panic() => {
                let (ticket, view) = (job.ticket, Err(job.view.undecodable()));
                return Some(Opened { ticket, view });
            }
            Err(_) => return None,
        }
    }
    Some(job.given_up())
}

/// Waits until `job`, which was refused at `bytes`, is worth another try, and gives what to try it
/// with. A partition that holds nothing is not held up for long by others whose handlers are stuck
/// on all there is: it goes beyond the share, as far as others that did so leave room.
async fn room(
    job: &Job,
    seat: &InflationSeat,
    bytes: usize,
    clock: Clock,
) -> (InflationCharge, Option<OverduePlace>) {
    let since = clock.now();
    let (wake, woken) = oneshot::channel();
    let turn = seat.when_room(bytes, told(wake));
    let found = tokio::select! {
        biased;
        _ = woken => {
            turn.take();
            (seat.charge_next().in_turn(), None)
        },
        () = job.unwanted() => (seat.charge(), None),
        place = overdue(seat, bytes) => (place.charge(), Some(place)),
    };
    metrics::histogram!("nearside_wire_permit_wait_seconds").record(clock.now().since(since));
    found
}

/// Waits until the partition has held nothing for long and it is its turn among those like it.
async fn overdue(seat: &InflationSeat, bytes: usize) -> OverduePlace {
    tokio::time::sleep(PATIENCE).await;
    while !seat.is_empty() {
        tokio::time::sleep(PATIENCE).await;
    }
    let (wake, woken) = oneshot::channel();
    let place = seat.when_overdue(bytes, told(wake));
    // Nobody drops the other end unused while the place is kept.
    woken.await.ok();
    place
}

/// Who does not listen any more has left its place besides.
fn told(wake: oneshot::Sender<()>) -> impl FnOnce() + Send + 'static {
    move || {
        wake.send(()).ok();
    }
}

/// When a batch is tried again that found no memory.
const MEMORY_RETRY: Duration = Duration::from_millis(100);
/// How long a partition that holds nothing waits for others to give bytes back.
const PATIENCE: Duration = Duration::from_secs(1);
