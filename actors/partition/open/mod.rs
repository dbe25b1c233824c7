//! From the bytes of a row to batches a handler can read: checked, indexed, inflated, in order.

mod job;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use tokio::sync::watch;

pub(crate) use job::{Job, Opened, elsewhere};

use crate::budget::InflationSeat;
use crate::ids::{LeaderEpoch, Offset};
use crate::records::{
    AbortedTransaction, BatchError, BatchSet, BatchView, InflateError, PoisonReason, RawBatch,
    ReadCounts, ReadSettings,
};
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
    /// What was passed over and tolerated.
    pub(crate) counts: ReadCounts,
}

impl Index {
    /// Bytes that the batches inflated here came to.
    pub(crate) fn inflated_bytes(&self) -> usize {
        self.views.iter().map(inflated_bytes).sum()
    }
}

/// How rows are read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) settings: ReadSettings,
    pub(crate) read_committed: bool,
    /// What inflated bytes are charged to.
    pub(crate) seat: InflationSeat,
}

/// Walks the records of a delivery once, and inflates the batches that are quickly inflated, to at
/// most `room` bytes together: a row of small batches may hold far more than it weighs.
pub(crate) fn index(delivery: &Delivery, reading: &Reading, mut room: usize) -> Index {
    let start = delivery.stamp.offset;
    let mut set = reading.set(delivery);
    let (mut views, mut gaps, mut failure) = (Vec::new(), Vec::new(), None);
    let mut reached = start;
    for batch in &mut set {
        match batch.and_then(|view| reading.opened_here(view, &mut room)) {
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
        counts: set.counts(),
        damage: failure.filter(|it| position == start && it.place().is_some()),
    }
}

impl Reading {
    fn set(&self, delivery: &Delivery) -> BatchSet {
        let (records, start) = (delivery.records.clone(), delivery.stamp.offset);
        let set = if self.read_committed {
            BatchSet::read_committed(records, start, aborted(delivery), self.settings)
        } else {
            BatchSet::new(records, start, self.settings)
        };
        set.charged_to(&self.seat)
    }

    /// A batch as it can be read, unless inflating it takes long, or more than `room`, or more than
    /// the budget has. The first that stays compressed uses the room up: what is behind it cannot
    /// go on before it, and would hold bytes that it waits for.
    fn opened_here(&self, view: BatchView, room: &mut usize) -> Result<BatchView, BatchError> {
        if !view.is_compressed() {
            return Ok(view);
        }
        if view.size() > INLINE_BYTES_MAX || *room == 0 {
            *room = 0;
            return Ok(view);
        }
        let bytes_max = self.settings.inflated_bytes_max;
        let limit = bytes_max.min(*room);
        match view.inflate_charged(limit, self.seat.charge()) {
            Ok(open) => {
                *room -= open.held_bytes().min(*room);
                Ok(open)
            }
            Err(InflateError::Batch(BatchError::Poison {
                reason: PoisonReason::Inflated { .. },
                ..
            })) if limit < bytes_max => {
                *room = 0;
                Ok(view)
            }
            Err(InflateError::NoRoom { .. }) => {
                *room = 0;
                Ok(view)
            }
            Err(InflateError::Batch(error)) => Err(error),
        }
    }
}

fn aborted(delivery: &Delivery) -> impl Iterator<Item = AbortedTransaction> + '_ {
    delivery.aborted.iter().map(|one| AbortedTransaction {
        first_offset: one.first_offset,
        producer_id: one.producer_id,
    })
}

/// Bytes that a batch came to when it was inflated; none if it never was.
fn inflated_bytes(view: &BatchView) -> usize {
    match view.raw() {
        None => view.held_bytes(),
        Some(_) => 0,
    }
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

/// Batches on their way to the handler. Those that take long to inflate do so elsewhere, one at a
/// time, and what lies behind them waits: order is kept, and no more is inflated than goes on.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    waiting: VecDeque<Slot>,
    last_ticket: u64,
    /// Whether a batch is on the compute pool, still wanted or not.
    busy: bool,
    /// Set by a batch that halted the partition: nothing more is taken in.
    halted: bool,
}

#[derive(Debug)]
enum Slot {
    Open(BatchView),
    Packed(BatchView),
    Elsewhere {
        ticket: u64,
        view: BatchView,
        /// Tells the job that it is given up, by being dropped.
        _place: watch::Sender<()>,
    },
}

impl Slot {
    fn of(view: BatchView) -> Self {
        if view.is_compressed() {
            Self::Packed(view)
        } else {
            Self::Open(view)
        }
    }

    fn awaits(&self, ticket: u64) -> bool {
        match self {
            Self::Elsewhere { ticket: own, .. } => *own == ticket,
            Self::Open(_) | Self::Packed(_) => false,
        }
    }
}

impl Opening {
    /// Bytes that the batches of a row may take that are inflated at once, before the handler has
    /// room for them. None behind a batch that is not open yet: they go on no sooner than that one.
    pub(crate) fn room_at_once(&self, partition_bytes: i32, bytes_max: usize) -> usize {
        let fetched = usize::try_from(partition_bytes).unwrap_or(0);
        match self.waiting.is_empty() {
            true => fetched.saturating_mul(AT_ONCE_FACTOR).min(bytes_max),
            false => 0,
        }
    }

    /// Takes batches in, in order.
    pub(crate) fn push(&mut self, views: Vec<BatchView>) {
        if !self.halted {
            self.waiting.extend(views.into_iter().map(Slot::of));
        }
    }

    /// The batch to be inflated elsewhere now, if one is due: the one everything behind waits for.
    pub(crate) fn next_job(&mut self, bytes_max: usize) -> Option<Job> {
        if self.busy {
            return None;
        }
        let slot = self.waiting.front_mut()?;
        let view = match slot {
            Slot::Packed(view) => view.clone(),
            Slot::Open(_) | Slot::Elsewhere { .. } => return None,
        };
        self.last_ticket += 1;
        let (ticket, (_place, place)) = (self.last_ticket, watch::channel(()));
        *slot = Slot::Elsewhere {
            ticket,
            view: view.clone(),
            _place,
        };
        self.busy = true;
        Some(Job {
            ticket,
            view,
            bytes_max,
            place,
        })
    }

    /// Puts an inflated batch in its place. One that was given up meanwhile is dropped.
    ///
    /// # Errors
    ///
    /// If it could not be inflated. Its place stays taken, so that nothing behind it goes on, until
    /// [`Opening::pass_over`].
    pub(crate) fn opened(&mut self, opened: Opened) -> Result<(), BatchError> {
        self.busy = false;
        if let Some(slot) = self.slot(opened.ticket) {
            *slot = Slot::Open(opened.view?);
        }
        Ok(())
    }

    /// The bytes of a batch that could not be inflated, as they came.
    pub(crate) fn raw(&self, ticket: u64) -> Option<RawBatch> {
        self.waiting.iter().find_map(|slot| match slot {
            Slot::Elsewhere {
                ticket: own, view, ..
            } if *own == ticket => Some(RawBatch {
                bytes: view.raw()?.clone(),
                next: view.next_offset(),
            }),
            Slot::Elsewhere { .. } | Slot::Open(_) | Slot::Packed(_) => None,
        })
    }

    /// Goes on without a batch that could not be inflated.
    pub(crate) fn pass_over(&mut self, ticket: u64) {
        self.waiting.retain(|slot| !slot.awaits(ticket));
    }

    /// Stops at a batch that could not be inflated: what lies before it may go on, the rest is
    /// given up and holds no bytes while the partition stands still.
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

    /// Takes in again what comes behind a batch that halted it; what lies before is still there.
    pub(crate) fn go_on(&mut self) {
        self.halted = false;
    }

    /// Gives everything up, for a position that moved.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.halted = false;
    }
}

/// Above this size on the wire a batch is inflated on the compute pool (runtime.md 3).
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// What is inflated at once, in multiples of the largest fetch of a partition.
const AT_ONCE_FACTOR: usize = 4;
