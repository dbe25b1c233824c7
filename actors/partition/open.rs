//! From the bytes of a row to batches a handler can read: checked, indexed, inflated, in order.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ids::{LeaderEpoch, Offset};
use crate::records::{AbortedTransaction, BatchError, BatchSet, BatchView, ReadSettings};
use crate::routing::{Delivery, Indexed};

/// What one row's records turned out to be.
#[derive(Debug)]
pub(crate) struct Index {
    /// Batches to deliver, in order; large ones are still compressed.
    pub(crate) views: Vec<BatchView>,
    /// Offsets that hold nothing to deliver: control, aborted and compacted ones. In order, not
    /// overlapping.
    pub(crate) gaps: Vec<(Offset, Offset)>,
    /// What the route is owed.
    pub(crate) indexed: Indexed,
    /// Epoch of the last batch delivered.
    pub(crate) epoch: Option<LeaderEpoch>,
    /// What is wrong with the first batch, if it cannot be read.
    pub(crate) damage: Option<BatchError>,
}

/// Walks the records of a delivery once, and inflates the batches that are quickly inflated.
pub(crate) fn index(delivery: &Delivery, read_committed: bool, settings: ReadSettings) -> Index {
    let start = delivery.stamp.offset;
    let records = delivery.records.clone();
    let mut set = if read_committed {
        BatchSet::read_committed(records, start, aborted(delivery), settings)
    } else {
        BatchSet::new(records, start, settings)
    };
    let (mut views, mut gaps, mut failure) = (Vec::new(), Vec::new(), None);
    let mut reached = start;
    for batch in &mut set {
        match batch.and_then(|view| opened_here(view, settings.inflated_bytes_max)) {
            Ok(view) => {
                if view.base_offset() > reached {
                    gaps.push((reached, view.base_offset()));
                }
                reached = view.next_offset();
                views.push(view);
            }
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    // Of a batch that cannot be read nothing is passed.
    let position = match &failure {
        Some(error) => error.position().max(reached),
        None => set.position(),
    };
    if position > reached {
        gaps.push((reached, position));
    }
    let epoch = views.last().and_then(BatchView::leader_epoch);
    Index {
        views,
        gaps,
        indexed: judge(position, start, epoch, failure),
        epoch,
        damage: failure.filter(|it| position == start && it.place().is_some()),
    }
}

/// A batch as it can be read, unless inflating it takes long.
fn opened_here(view: BatchView, bytes_max: usize) -> Result<BatchView, BatchError> {
    if view.is_compressed() && view.size() <= INLINE_BYTES_MAX {
        view.inflate(bytes_max)
    } else {
        Ok(view)
    }
}

fn aborted(delivery: &Delivery) -> impl Iterator<Item = AbortedTransaction> + '_ {
    delivery.aborted.iter().map(|one| AbortedTransaction {
        first_offset: one.first_offset,
        producer_id: one.producer_id,
    })
}

/// Whole batches count even if a broken one follows: the next fetch begins with that one and judges
/// it alone.
fn judge(
    position: Offset,
    start: Offset,
    epoch: Option<LeaderEpoch>,
    failure: Option<BatchError>,
) -> Indexed {
    match failure.filter(|_| position == start) {
        Some(BatchError::RecordTooLarge { needed, .. }) => Indexed::TooLarge {
            needed: i32::try_from(needed).unwrap_or(i32::MAX),
        },
        // Bytes in vain: the route waits before it asks again.
        Some(BatchError::NoProgress { .. } | BatchError::NoMemory { .. }) | None => {
            Indexed::Advanced {
                fetch_end: position,
                epoch,
            }
        }
        Some(error) if error.skip_to().is_some() => Indexed::Poison,
        Some(
            BatchError::Corrupt { .. }
            | BatchError::Poison { .. }
            | BatchError::StillCompressed { .. },
        ) => Indexed::Corrupt,
    }
}

/// Batches on their way to the handler. Those that take long to inflate do so elsewhere, and what
/// lies behind them waits: order is kept.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    waiting: VecDeque<Slot>,
    last_ticket: u64,
    /// Set by a batch that halted the partition: nothing more is taken in.
    halted: bool,
}

#[derive(Debug)]
enum Slot {
    Open(BatchView),
    Elsewhere(u64),
}

impl Slot {
    fn awaits(&self, ticket: u64) -> bool {
        match self {
            Self::Elsewhere(awaited) => *awaited == ticket,
            Self::Open(_) => false,
        }
    }
}

/// An inflated batch coming back from the compute pool.
#[derive(Debug)]
pub(crate) struct Opened {
    ticket: u64,
    view: Result<BatchView, BatchError>,
}

/// A batch to be inflated on the compute pool.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    ticket: u64,
    view: BatchView,
    bytes_max: usize,
}

impl Opened {
    /// Which batch it is.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    fn found_no_memory(&self) -> bool {
        matches!(self.view, Err(BatchError::NoMemory { .. }))
    }
}

impl Job {
    /// Inflates the batch. Takes as long as the batch is large; for the compute pool.
    pub(crate) fn run(self) -> Opened {
        Opened {
            ticket: self.ticket,
            view: self.view.inflate(self.bytes_max),
        }
    }
}

/// Runs `job` on the compute pool, again and again while it finds no memory and is `wanted`. A
/// codec that panics tells nothing of the batch, so the batch counts as one that does not decode.
/// `None` if nobody wants it any more, or the runtime is being shut down.
pub(crate) async fn elsewhere(
    job: Job,
    run: impl Fn(Job) -> Opened + Clone + Send + 'static,
    wanted: impl Fn() -> bool,
) -> Option<Opened> {
    while wanted() {
        let (run, copy) = (run.clone(), job.clone());
        match tokio::task::spawn_blocking(move || run(copy)).await {
            Ok(opened) if opened.found_no_memory() => tokio::time::sleep(MEMORY_RETRY).await,
            Ok(opened) => return Some(opened),
            Err(failure) if failure.is_panic() => {
                let (ticket, view) = (job.ticket, Err(job.view.undecodable()));
                return Some(Opened { ticket, view });
            }
            Err(_) => return None,
        }
    }
    None
}

impl Opening {
    /// Takes batches in, in order; those to be inflated elsewhere are returned.
    pub(crate) fn push(&mut self, views: Vec<BatchView>, bytes_max: usize) -> Vec<Job> {
        let mut jobs = Vec::new();
        if self.halted {
            return jobs;
        }
        for view in views {
            if !view.is_compressed() {
                self.waiting.push_back(Slot::Open(view));
                continue;
            }
            self.last_ticket += 1;
            self.waiting.push_back(Slot::Elsewhere(self.last_ticket));
            jobs.push(Job {
                ticket: self.last_ticket,
                view,
                bytes_max,
            });
        }
        jobs
    }

    /// Puts an inflated batch in its place. One that was given up meanwhile is dropped.
    ///
    /// # Errors
    ///
    /// If it could not be inflated. Its place stays taken, so that nothing behind it goes on, until
    /// [`Opening::pass_over`].
    pub(crate) fn opened(&mut self, opened: Opened) -> Result<(), BatchError> {
        if let Some(slot) = self.slot(opened.ticket) {
            *slot = Slot::Open(opened.view?);
        }
        Ok(())
    }

    /// Goes on without a batch that could not be inflated.
    pub(crate) fn pass_over(&mut self, ticket: u64) {
        self.waiting.retain(|slot| !slot.awaits(ticket));
    }

    /// Stops at a batch that could not be inflated: what lies before it may go on, the rest is given
    /// up and holds no bytes while the partition stands still.
    pub(crate) fn halt_at(&mut self, ticket: u64) {
        if let Some(at) = self.waiting.iter().position(|slot| slot.awaits(ticket)) {
            self.waiting.truncate(at);
            self.halted = true;
        }
    }

    /// Gives everything up and takes nothing more in.
    pub(crate) fn halt(&mut self) {
        self.waiting.clear();
        self.halted = true;
    }

    fn slot(&mut self, ticket: u64) -> Option<&mut Slot> {
        self.waiting.iter_mut().find(|slot| slot.awaits(ticket))
    }

    /// The batches at the front that are ready.
    pub(crate) fn ready(&mut self) -> Vec<BatchView> {
        let mut views = Vec::new();
        while let Some(Slot::Open(_)) = self.waiting.front() {
            if let Some(Slot::Open(view)) = self.waiting.pop_front() {
                views.push(view);
            }
        }
        views
    }

    /// Whether everything taken in has gone on.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.halted
    }

    /// Gives everything up, for a position that moved.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.halted = false;
    }
}

/// Above this size on the wire a batch is inflated on the compute pool (runtime.md 3).
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// When a batch is tried again that found no memory.
const MEMORY_RETRY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::records::{BatchWriter, Compression, NewRecord};

    /// A batch of one record whose value is `size` zeros, at `base`.
    fn packed(base: i64, size: usize) -> Vec<u8> {
        let mut writer = BatchWriter::new(Compression::Gzip);
        let value = vec![0; size];
        let record = NewRecord {
            value: Some(&value),
            ..NewRecord::default()
        };
        writer.push(&record).expect("fits");
        let mut bytes = writer.seal().expect("not empty").to_vec();
        // Outside of what the checksum covers.
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes
    }

    fn view(base: i64, size: usize) -> BatchView {
        let bytes = packed(base, size).into();
        let mut set = BatchSet::new(bytes, Offset(base), ReadSettings::default());
        set.next().expect("one batch").expect("sound")
    }

    #[tokio::test]
    async fn a_batch_whose_inflation_panics_is_judged_as_one_that_does_not_decode() {
        let mut opening = Opening::default();
        let jobs = opening.push(vec![view(7, 100)], 1 << 20);
        let job = jobs.into_iter().next().expect("one job");
        let opened = elsewhere(job, |_| panic!("a broken codec"), || true).await;
        let error = opening.opened(opened.expect("told")).expect_err("no batch");
        assert_eq!(error.label(), "corrupt");
        assert_eq!(error.position(), Offset(7));
        assert_eq!(error.skip_to(), Some(Offset(8)), "its checksum held");
        assert!(!opening.is_empty(), "nothing behind it goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_finds_no_memory_is_tried_again_until_it_does() {
        let mut opening = Opening::default();
        let jobs = opening.push(vec![view(7, 100)], 1 << 20);
        let job = jobs.into_iter().next().expect("one job");
        let tries = Arc::new(AtomicUsize::new(0));
        let run = {
            let tries = Arc::clone(&tries);
            move |job: Job| {
                let offset = Offset(7);
                match tries.fetch_add(1, Ordering::SeqCst) {
                    0 | 1 => Opened {
                        ticket: job.ticket,
                        view: Err(BatchError::NoMemory { offset }),
                    },
                    _ => job.run(),
                }
            }
        };
        let given_up = elsewhere(job.clone(), run.clone(), || {
            tries.load(Ordering::SeqCst) == 0
        });
        assert!(given_up.await.is_none(), "nobody wants it");
        let opened = elsewhere(job, run, || true).await.expect("told");
        assert_eq!(tries.load(Ordering::SeqCst), 3);
        opening.opened(opened).expect("readable");
        assert_eq!(opening.ready().len(), 1);
    }

    #[test]
    fn what_waits_behind_a_batch_that_halts_its_partition_is_given_up() {
        let open = |base| view(base, 10).inflate(100).expect("sound");
        let mut opening = Opening::default();
        let views = vec![open(6), view(7, 100), open(8), view(9, 100)];
        let jobs = opening.push(views, 1 << 20);
        opening.halt_at(jobs.first().expect("one job").ticket);
        assert!(
            opening
                .push(vec![open(10), view(11, 100)], 1 << 20)
                .is_empty()
        );
        let ready = opening.ready();
        let left: Vec<_> = ready.iter().map(BatchView::base_offset).collect();
        assert_eq!(left, [Offset(6)], "what lies before it goes on");
        assert!(opening.waiting.is_empty(), "no bytes are held");
        assert!(!opening.is_empty(), "not everything has gone on");
        opening.clear();
        assert!(opening.is_empty(), "the position moved");
    }

    #[test]
    fn a_row_that_finds_no_memory_is_fetched_again_and_is_no_damage() {
        let offset = Offset(7);
        let none = Some(BatchError::NoMemory { offset });
        let expected = Indexed::Advanced {
            fetch_end: offset,
            epoch: None,
        };
        assert_eq!(judge(offset, offset, None, none), expected);
    }
}
