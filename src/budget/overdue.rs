//! Batches that have waited too long for others to give bytes back. They open beyond the share, one
//! after the other, and together hold at most as much as fetching has to itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::inflation::{InflationCharge, InflationSeat, Right};
use super::waiting::{Ticket, Waiting};

/// Who is overdue, and what they hold.
#[derive(Default)]
pub(super) struct Overdue {
    /// Beyond the share.
    bytes: AtomicUsize,
    /// Whether one is being inflated: several that grow side by side might all be refused halfway.
    busy: AtomicBool,
    line: Waiting,
}

/// A place in the line of those who are overdue, and at its head until it is dropped.
#[must_use]
#[derive(Debug)]
pub struct OverduePlace {
    seat: InflationSeat,
    ticket: Ticket,
}

impl InflationSeat {
    /// Calls `wake` once, from any thread, when it is the turn of a batch that was refused at
    /// `bytes`, of a partition that holds nothing and has waited long. The place is to be kept
    /// until the batch is inflated, and only so long.
    pub fn when_overdue(&self, bytes: usize, wake: impl FnOnce() + Send + 'static) -> OverduePlace {
        let ticket = self.share.overdue.line.join(bytes, wake);
        let seat = self.clone();
        self.share.wake();
        OverduePlace { seat, ticket }
    }
}

impl OverduePlace {
    /// A charge for the batch whose turn it is.
    pub fn charge(&self) -> InflationCharge {
        self.seat.with(Right::Overdue).in_turn()
    }
}

impl Drop for OverduePlace {
    fn drop(&mut self) {
        let share = Arc::clone(&self.seat.share);
        if !share.overdue.line.leave(self.ticket) {
            share.overdue.busy.store(false, Ordering::SeqCst);
        }
        share.wake();
    }
}

impl Overdue {
    /// Takes `bytes` more for who holds `own`, if all hold at most `limit` with them, or nobody
    /// else holds anything.
    pub(super) fn take(&self, own: usize, bytes: usize, limit: usize) -> bool {
        let more = |sum: usize| {
            sum.checked_add(bytes)
                .filter(|more| *more <= limit || sum == own)
        };
        self.bytes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_ok()
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Wakes the first in line if it fits and no other is at it.
    pub(super) fn wake(&self, limit: usize) {
        self.line.wake(|want| {
            let free = limit.saturating_sub(self.bytes.load(Ordering::SeqCst));
            want.min(limit) <= free && !self.busy.swap(true, Ordering::SeqCst)
        });
    }
}
