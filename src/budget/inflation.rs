//! The share of the budget that decompression has to itself (wire.md 4.2, runtime.md 11 B1, B4).
//!
//! Fetching never takes from it, so that bytes that came compressed cannot keep the decoder from
//! the room it needs to get rid of them. A batch charges its output before it grows; without room
//! it stays compressed and waits.

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::overdue::Overdue;
use super::waiting::{Ticket, Waiting};
use super::{Budget, Permit};
use crate::records::Charge;

/// The right to hold inflated bytes, shared by all partitions of a process. Clones share it.
#[derive(Clone)]
pub struct Inflation(Arc<Share>);

pub(super) struct Share {
    limit: usize,
    charged: AtomicUsize,
    /// What is held beyond the share is taken from fetching.
    fetching: Budget,
    /// Whether a batch is open beyond the share: one may be at a time.
    overdrawn: AtomicBool,
    /// Bytes held beyond the share.
    beyond: AtomicUsize,
    pub(super) overdue: Overdue,
    waiting: Waiting,
}

/// A partition's place among those who inflate. It knows what the partition holds.
#[derive(Clone)]
pub struct InflationSeat {
    pub(super) share: Arc<Share>,
    held: Arc<AtomicUsize>,
}

/// What one batch is charged, from before its output grows until its last slice is dropped.
pub struct InflationCharge {
    seat: InflationSeat,
    /// Bytes of the share.
    bytes: usize,
    right: Right,
    /// Bytes beyond the share.
    beyond: Option<Permit>,
    /// Whether it takes its turn before others who wait.
    in_turn: bool,
}

/// What a charge may take once the share is used up.
#[derive(Clone, Copy)]
pub(super) enum Right {
    Nothing,
    /// What it needs, unless another batch does so already.
    OneAtATime,
    /// What those who are overdue leave each other.
    Overdue,
}

/// A place among those who wait for room. Dropping it leaves it, and lets the next one look.
#[must_use]
pub struct Turn {
    share: Arc<Share>,
    ticket: Option<Ticket>,
}

impl Inflation {
    /// A share of `limit` bytes. What one batch takes beyond it is charged to `fetching`, which
    /// sends nothing until that is repaid.
    pub fn new(limit: usize, fetching: Budget) -> Self {
        Self(Arc::new(Share {
            limit,
            charged: AtomicUsize::new(0),
            fetching,
            overdrawn: AtomicBool::new(false),
            beyond: AtomicUsize::new(0),
            overdue: Overdue::default(),
            waiting: Waiting::default(),
        }))
    }

    /// A share that grants everything.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX, Budget::unlimited())
    }

    /// The share in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes of the share that are held; those beyond it are the fetching budget's.
    pub fn charged(&self) -> usize {
        self.0.charged.load(Ordering::Acquire)
    }

    /// Bytes that are held beyond the share.
    pub fn beyond(&self) -> usize {
        self.0.beyond.load(Ordering::Acquire)
    }

    /// A place for one partition.
    pub fn seat(&self) -> InflationSeat {
        InflationSeat {
            share: Arc::clone(&self.0),
            held: Arc::default(),
        }
    }
}

impl InflationSeat {
    /// A charge for a batch that may as well stay compressed: within the share, behind all who
    /// wait.
    pub fn charge(&self) -> InflationCharge {
        self.with(Right::Nothing)
    }

    /// A charge for a batch that a handler has room for: with the share used up it goes beyond, if
    /// no other batch does at present.
    pub fn charge_next(&self) -> InflationCharge {
        self.with(Right::OneAtATime)
    }

    /// Whether nothing that the partition inflated is held any more.
    pub fn is_empty(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// Calls `wake` once, from any thread, when a batch refused at `bytes` is worth trying again;
    /// at once if it is already.
    pub fn when_room(&self, bytes: usize, wake: impl FnOnce() + Send + 'static) -> Turn {
        let ticket = Some(self.share.waiting.join(bytes, wake));
        let share = Arc::clone(&self.share);
        share.wake();
        Turn { share, ticket }
    }

    pub(super) fn with(&self, right: Right) -> InflationCharge {
        InflationCharge {
            seat: self.clone(),
            bytes: 0,
            right,
            beyond: None,
            in_turn: false,
        }
    }
}

impl Turn {
    /// For who was woken and makes use of it: the next waits on.
    pub fn take(mut self) {
        self.ticket = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.share.waiting.leave(ticket);
            self.share.wake();
        }
    }
}

impl InflationCharge {
    /// The same charge for who has waited and was woken.
    #[must_use]
    pub fn in_turn(mut self) -> Self {
        self.in_turn = true;
        self
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes + self.bytes_beyond()
    }

    fn bytes_beyond(&self) -> usize {
        self.beyond.as_ref().map_or(0, Permit::bytes)
    }

    fn overdraw(&mut self, bytes: usize) -> bool {
        let (share, own) = (&self.seat.share, self.bytes_beyond());
        let granted = match self.right {
            Right::Nothing => false,
            Right::OneAtATime => {
                self.beyond.is_some() || !share.overdrawn.swap(true, Ordering::SeqCst)
            }
            Right::Overdue => share.overdue.take(own, bytes, share.fetching.limit()),
        };
        match &self.beyond {
            Some(permit) if granted => permit.settle(own + bytes),
            None if granted => self.beyond = Some(share.fetching.charge(bytes)),
            Some(_) | None => {}
        }
        if granted {
            share.beyond.fetch_add(bytes, Ordering::AcqRel);
        }
        granted
    }

    /// Gives back what is no longer held beyond the share.
    fn repay(&self, bytes: usize) {
        if let Some(permit) = &self.beyond {
            permit.settle(permit.bytes() - bytes);
            let beyond = &self.seat.share.beyond;
            beyond.fetch_sub(bytes, Ordering::AcqRel);
        }
        if let Right::Overdue = self.right {
            self.seat.share.overdue.give_back(bytes);
        }
    }
}

impl Charge for InflationCharge {
    fn grow(&mut self, bytes: usize) -> bool {
        // What has begun is not held up by those who wait: that would be work for nothing.
        let first = self.bytes() == 0 && !self.in_turn;
        if first && self.seat.share.waiting.anybody() {
            return false;
        }
        let within = self.seat.share.take(bytes);
        if within {
            self.bytes += bytes;
        }
        let grown = within || self.overdraw(bytes);
        if grown {
            self.seat.held.fetch_add(bytes, Ordering::AcqRel);
        }
        grown
    }

    fn shrink(&mut self, bytes: usize) {
        let share = &self.seat.share;
        let mut rest = bytes;
        // What is beyond the share goes first, as it holds up fetching.
        let repaid = rest.min(self.bytes_beyond());
        self.repay(repaid);
        rest -= repaid;
        let own = rest.min(self.bytes);
        self.bytes -= own;
        share.charged.fetch_sub(own, Ordering::SeqCst);
        self.seat
            .held
            .fetch_sub(bytes - (rest - own), Ordering::AcqRel);
        share.wake();
    }
}

impl Drop for InflationCharge {
    fn drop(&mut self) {
        let share = &self.seat.share;
        self.seat.held.fetch_sub(self.bytes(), Ordering::AcqRel);
        share.charged.fetch_sub(self.bytes, Ordering::SeqCst);
        self.repay(self.bytes_beyond());
        if let (Right::OneAtATime, Some(_)) = (self.right, self.beyond.take()) {
            share.overdrawn.store(false, Ordering::SeqCst);
        }
        share.wake();
    }
}

impl Share {
    /// Takes `bytes` if they are free.
    fn take(&self, bytes: usize) -> bool {
        let within = |charged: usize| charged.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.charged
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, within)
            .is_ok()
    }

    /// Wakes those who fit, one more if nobody is beyond the share, and who is overdue.
    pub(super) fn wake(&self) {
        let mut free = self
            .limit
            .saturating_sub(self.charged.load(Ordering::SeqCst));
        let mut one_more = !self.overdrawn.load(Ordering::SeqCst);
        self.waiting.wake(|want| match free.checked_sub(want) {
            Some(rest) => {
                free = rest;
                true
            }
            None => std::mem::take(&mut one_more),
        });
        self.overdue.wake(self.fetching.limit());
    }
}

impl fmt::Debug for Inflation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inflation({} of {})", self.charged(), self.limit())
    }
}

impl fmt::Debug for InflationSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InflationSeat({})", self.held.load(Ordering::Acquire))
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({:?})", self.ticket)
    }
}

impl fmt::Debug for InflationCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InflationCharge({})", self.bytes())
    }
}
