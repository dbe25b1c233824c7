//! Those who wait for bytes to be given back, in the order in which they came.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who waits. They are counted besides, so that giving back costs no lock while nobody does.
#[derive(Default)]
pub(super) struct Waiting {
    queue: Mutex<Queue>,
    count: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    /// In the order of their tickets.
    waiters: VecDeque<Waiter>,
    last: Ticket,
}

struct Waiter {
    ticket: Ticket,
    want: usize,
    wake: Wake,
}

/// Tells who waits from all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Ticket(u64);

type Wake = Box<dyn FnOnce() + Send>;

impl Waiting {
    pub(super) fn anybody(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Who joins looks for room once more afterwards: what was given back before is told to nobody.
    pub(super) fn join(&self, want: usize, wake: impl FnOnce() + Send + 'static) -> Ticket {
        let wake = Box::new(wake);
        let mut queue = self.queue();
        let ticket = Ticket(queue.last.0 + 1);
        queue.last = ticket;
        queue.waiters.push_back(Waiter { ticket, want, wake });
        self.count.store(queue.waiters.len(), Ordering::SeqCst);
        ticket
    }

    /// Whether it waited still. Who leaves lets the next look for room: it may have stood before
    /// one that fits, or it was woken for nothing.
    pub(super) fn leave(&self, ticket: Ticket) -> bool {
        let mut queue = self.queue();
        let at = queue.waiters.binary_search_by_key(&ticket, |it| it.ticket);
        let left = at.ok().and_then(|at| queue.waiters.remove(at));
        self.count.store(queue.waiters.len(), Ordering::SeqCst);
        drop(queue);
        left.is_some()
    }

    /// Wakes from the front as long as `served` says yes to what is wanted: else who wants little
    /// would overtake who wants much for ever.
    pub(super) fn wake(&self, mut served: impl FnMut(usize) -> bool) {
        if !self.anybody() {
            return;
        }
        let mut queue = self.queue();
        let count = queue
            .waiters
            .iter()
            .take_while(|waiter| served(waiter.want))
            .count();
        let ready: Vec<Waiter> = queue.waiters.drain(..count).collect();
        self.count.store(queue.waiters.len(), Ordering::SeqCst);
        drop(queue);
        for waiter in ready {
            (waiter.wake)();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
