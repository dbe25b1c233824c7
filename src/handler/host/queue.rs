//! The records of one partition that are fetched and not finished.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::budget::{Budget, KeptRow};
use crate::handler::message::Origin;
use crate::handler::stint::{Place, advance};
use crate::ids::{LeaderEpoch, Moment, Offset};
use crate::records::{BatchView, RecordCursor};

/// Batches in offset order. Those at the front may be in the hands of a stint; they stay here until
/// it settles, so that nothing is lost with it.
#[derive(Debug, Default)]
pub(super) struct Queue {
    origins: VecDeque<Arc<Origin>>,
    /// Place in the front batch; `None` is its start.
    cursor: Option<RecordCursor>,
    /// Number of batches in the hands of a stint.
    lent: usize,
    /// Everything below is finished; `None` before the first delivery at a new position.
    position: Option<Offset>,
    waiting_records: usize,
    waiting_bytes: usize,
}

/// What is left of a batch that lies in a row.
#[derive(Debug)]
pub(super) struct Part {
    at: usize,
    cursor: RecordCursor,
    bytes: usize,
    row: KeptRow,
}

/// Offsets that became finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) from: Offset,
    pub(super) to: Offset,
    pub(super) leader_epoch: Option<LeaderEpoch>,
}

impl Queue {
    pub(super) fn push(&mut self, origin: Arc<Origin>) {
        self.position.get_or_insert(origin.view.first_wanted());
        self.waiting_records += records(&origin.view);
        self.waiting_bytes += origin.view.held_bytes();
        self.origins.push_back(origin);
    }

    /// Lends the front batches, up to `bytes` of them but at least one, to a stint.
    pub(super) fn lend(&mut self, bytes: usize) -> (Vec<Arc<Origin>>, Option<RecordCursor>) {
        let mut lent = Vec::new();
        let mut lent_bytes = 0_usize;
        for origin in &self.origins {
            let held = origin.view.held_bytes();
            if !lent.is_empty() && lent_bytes.saturating_add(held) > bytes {
                break;
            }
            lent_bytes += held;
            self.waiting_records = self.waiting_records.saturating_sub(records(&origin.view));
            self.waiting_bytes = self.waiting_bytes.saturating_sub(held);
            lent.push(Arc::clone(origin));
        }
        self.lent = lent.len();
        (lent, self.cursor)
    }

    /// Takes back what was lent, without what lies before `place`. Returns what became finished.
    pub(super) fn settle(&mut self, place: Place) -> Option<Span> {
        let from = self.position?;
        let mut to = from;
        let mut leader_epoch = None;
        let mut finish = |view: &BatchView, position: Offset| {
            if position > to {
                to = position;
                leader_epoch = view.leader_epoch();
            }
        };
        let left = self.lent.saturating_sub(place.batches);
        for origin in self.origins.drain(..place.batches.min(self.lent)) {
            finish(&origin.view, origin.view.next_offset());
        }
        self.lent = 0;
        self.cursor = place.cursor;
        if let (Some(front), Some(cursor)) = (self.origins.front(), place.cursor) {
            finish(&front.view, front.view.records_from(cursor).position());
        }
        self.position = Some(to);
        let dropped = usize::from(self.drop_finished_front(to));
        self.take_back(left.saturating_sub(dropped));
        (to > from).then_some(Span {
            from,
            to,
            leader_epoch,
        })
    }

    /// The place behind the first `records` records that were lent.
    pub(super) fn place_after(&self, records: u32) -> Place {
        let start = Place {
            batches: 0,
            cursor: self.cursor,
        };
        let lent = self
            .origins
            .iter()
            .take(self.lent)
            .map(|origin| &origin.view);
        advance(lent, start, usize::try_from(records).unwrap_or(usize::MAX))
    }

    /// Copies what is left, if it is little and would keep much in memory for long by the time it
    /// is worked on again, at `next` (runtime.md B2). The copies are charged to `budget`.
    pub(super) fn shed(&mut self, next: Moment, budget: &Budget) {
        let Some(front) = self.origins.front() else {
            return;
        };
        if self.lent > 0 || next.since(front.since) < LONG {
            return;
        }
        let start = self.cursor.unwrap_or(RecordCursor::START);
        if is_little_of_its_own(&front.view, start) {
            self.copy(0, start, budget);
        }
        for part in self.tell_wanted(budget) {
            if part.row.is_waste() {
                self.copy(part.at, part.cursor, budget);
            }
        }
    }

    /// Tells `budget` how much of the rows that it keeps is wanted still; several partitions may
    /// keep one frame. Returns the parts of them.
    pub(super) fn tell_wanted(&self, budget: &Budget) -> Vec<Part> {
        if self.lent > 0 {
            return Vec::new();
        }
        let start = self.cursor.unwrap_or(RecordCursor::START);
        let cursors = std::iter::once(start).chain(std::iter::repeat(RecordCursor::START));
        let parts: Vec<_> = (0..)
            .zip(cursors)
            .zip(&self.origins)
            .filter_map(|((at, cursor), origin)| {
                Some(Part {
                    at,
                    cursor,
                    bytes: origin.view.bytes_from(cursor),
                    row: budget.row_around(origin.view.raw()?)?,
                })
            })
            .collect();
        for of_one_row in parts.chunk_by(|one, next| one.row == next.row) {
            if let Some(part) = of_one_row.first() {
                part.row
                    .want(of_one_row.iter().map(|part| part.bytes).sum());
            }
        }
        parts
    }

    /// Puts a copy in place of what lies behind `cursor` in a batch that nobody has.
    fn copy(&mut self, at: usize, cursor: RecordCursor, budget: &Budget) {
        let Some(origin) = self.origins.get_mut(at) else {
            return;
        };
        let (view, copy) = (&origin.view, |bytes: &[u8]| budget.keep_copy(bytes));
        self.waiting_records = self.waiting_records.saturating_sub(records(view));
        self.waiting_bytes = self.waiting_bytes.saturating_sub(view.held_bytes());
        let view = view.copied_from(cursor, copy);
        self.waiting_records += records(&view);
        self.waiting_bytes += view.held_bytes();
        *origin = Arc::new(Origin {
            assignment: Arc::clone(&origin.assignment),
            view,
            since: origin.since,
        });
        if at == 0 {
            self.cursor = None;
        }
    }

    /// Drops what no stint has.
    pub(super) fn drop_waiting(&mut self) {
        self.origins.truncate(self.lent);
        self.waiting_records = 0;
        self.waiting_bytes = 0;
        if self.lent == 0 {
            *self = Self::default();
        }
    }

    /// Forgets everything: the position moved, or work goes on with what is delivered next.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Everything below is finished.
    pub(super) fn position(&self) -> Option<Offset> {
        self.position
    }

    /// Offset of the first unfinished record.
    pub(super) fn head(&self) -> Option<Offset> {
        let view = &self.origins.front()?.view;
        let mut records = match self.cursor {
            Some(cursor) => view.records_from(cursor),
            None => view.records(),
        };
        match records.next() {
            Some(Ok(record)) => Some(record.offset),
            Some(Err(_)) | None => self.position,
        }
    }

    pub(super) fn waiting_records(&self) -> usize {
        self.waiting_records
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Drops the front batch if a stint ended right behind its last record; whether it did.
    fn drop_finished_front(&mut self, position: Offset) -> bool {
        let finished = self.cursor.is_some()
            && self
                .origins
                .front()
                .is_some_and(|front| front.view.next_offset() <= position);
        if finished {
            self.origins.pop_front();
            self.cursor = None;
        }
        finished
    }

    /// Whether what is counted as waiting is what nobody has.
    pub(super) fn counts_add_up(&self) -> bool {
        let waiting = || {
            self.origins
                .iter()
                .skip(self.lent)
                .map(|origin| &origin.view)
        };
        let bytes: usize = waiting().map(BatchView::held_bytes).sum();
        let all: usize = waiting().map(records).sum();
        (self.waiting_records, self.waiting_bytes) == (all, bytes)
    }

    /// Counts the first `batches` as waiting again.
    fn take_back(&mut self, batches: usize) {
        for origin in self.origins.iter().take(batches) {
            self.waiting_records += records(&origin.view);
            self.waiting_bytes += origin.view.held_bytes();
        }
    }
}

fn records(view: &BatchView) -> usize {
    usize::try_from(view.count()).unwrap_or(usize::MAX)
}

/// Whether what lies behind `cursor` is little of a large batch with a buffer of its own.
fn is_little_of_its_own(view: &BatchView, cursor: RecordCursor) -> bool {
    let left = view.count().saturating_sub(cursor.records_passed());
    let (held, bytes_left) = (view.held_bytes(), view.bytes_from(cursor));
    let little = left < view.count() / LITTLE && bytes_left < held / LITTLE_BYTES;
    view.raw().is_none() && held > LARGE_BYTES && little
}

/// A buffer above this is not kept for little.
const LARGE_BYTES: usize = 64 << 10;
/// Little is below this part of the records, and of the bytes.
const LITTLE: u32 = 16;
const LITTLE_BYTES: usize = 16;
/// How long it may be kept all the same.
pub(super) const LONG: Duration = Duration::from_secs(5);
