//! From the bytes of a row to batches a handler can read: checked, indexed, inflated, in order.

use std::collections::VecDeque;

use crate::ids::{LeaderEpoch, Offset};
use crate::records::{AbortedTransaction, BatchError, BatchSet, BatchView, ReadSettings};
use crate::routing::{Delivery, Indexed};

/// What one row's records turned out to be.
#[derive(Debug)]
pub(crate) struct Index {
    /// Batches to deliver, in order; some may still be compressed.
    pub(crate) views: Vec<BatchView>,
    /// Offsets that hold nothing to deliver: control, aborted and compacted ones. In order, not
    /// overlapping.
    pub(crate) gaps: Vec<(Offset, Offset)>,
    /// What the route is owed.
    pub(crate) indexed: Indexed,
    /// Epoch of the last batch delivered.
    pub(crate) epoch: Option<LeaderEpoch>,
}

/// Walks the records of a delivery once.
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
        match batch {
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
    if set.position() > reached {
        gaps.push((reached, set.position()));
    }
    let epoch = views.last().and_then(BatchView::leader_epoch);
    let indexed = judge(&set, start, epoch, failure);
    Index {
        views,
        gaps,
        indexed,
        epoch,
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
    set: &BatchSet,
    start: Offset,
    epoch: Option<LeaderEpoch>,
    failure: Option<BatchError>,
) -> Indexed {
    match failure {
        Some(BatchError::RecordTooLarge { needed, .. }) if set.position() == start => {
            Indexed::TooLarge {
                needed: i32::try_from(needed).unwrap_or(i32::MAX),
            }
        }
        Some(_) if set.position() == start => Indexed::Corrupt,
        Some(_) | None => Indexed::Advanced {
            fetch_end: set.position(),
            epoch,
        },
    }
}

/// Batches on their way to the handler. Those that take long to inflate do so elsewhere, and what
/// lies behind them waits: order is kept.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    waiting: VecDeque<Slot>,
    last_ticket: u64,
}

#[derive(Debug)]
enum Slot {
    Open(BatchView),
    Elsewhere(u64),
}

/// An inflated batch coming back from the compute pool.
#[derive(Debug)]
pub(crate) struct Opened {
    ticket: u64,
    view: Result<BatchView, BatchError>,
}

/// A batch to be inflated on the compute pool.
#[derive(Debug)]
pub(crate) struct Job {
    ticket: u64,
    view: BatchView,
    bytes_max: usize,
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

impl Opening {
    /// Takes batches in, up to the first that cannot be inflated here; those to be inflated
    /// elsewhere are returned with that failure.
    pub(crate) fn push(
        &mut self,
        views: Vec<BatchView>,
        bytes_max: usize,
    ) -> (Vec<Job>, Option<BatchError>) {
        let mut jobs = Vec::new();
        for view in views {
            if !view.is_compressed() {
                self.waiting.push_back(Slot::Open(view));
            } else if view.size() <= INLINE_BYTES_MAX {
                match view.inflate(bytes_max) {
                    Ok(view) => self.waiting.push_back(Slot::Open(view)),
                    Err(error) => return (jobs, Some(error)),
                }
            } else {
                self.last_ticket += 1;
                self.waiting.push_back(Slot::Elsewhere(self.last_ticket));
                jobs.push(Job {
                    ticket: self.last_ticket,
                    view,
                    bytes_max,
                });
            }
        }
        (jobs, None)
    }

    /// Puts an inflated batch in its place. One that was given up meanwhile is dropped.
    ///
    /// # Errors
    ///
    /// If it could not be inflated.
    pub(crate) fn opened(&mut self, opened: Opened) -> Result<(), BatchError> {
        let awaited = |slot: &&mut Slot| match slot {
            Slot::Elsewhere(ticket) => *ticket == opened.ticket,
            Slot::Open(_) => false,
        };
        if let Some(slot) = self.waiting.iter_mut().find(awaited) {
            *slot = Slot::Open(opened.view?);
        }
        Ok(())
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
        self.waiting.is_empty()
    }

    /// Gives everything up, for a position that moved.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// Above this size on the wire a batch is inflated on the compute pool (runtime.md 3).
const INLINE_BYTES_MAX: usize = 64 * 1024;
