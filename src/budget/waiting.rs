//! Those who wait for bytes to be given back, in the order in which they came.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who waits. They are counted besides, so that giving back costs no lock while nobody does.
#[derive(Default)]
pub(super) struct Waiting {
    queue: Mutex<VecDeque<Waiter>>,
    count: AtomicUsize,
}

struct Waiter {
    want: usize,
    wake: Wake,
}

/// Says whether the bytes are still wanted.
type Wake = Box<dyn FnOnce() -> bool + Send>;

impl Waiting {
    pub(super) fn anybody(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Who joins looks for room once more afterwards: what was given back before is told to nobody.
    pub(super) fn join(&self, want: usize, wake: impl FnOnce() -> bool + Send + 'static) {
        let wake = Box::new(wake);
        let mut queue = self.queue();
        queue.push_back(Waiter { want, wake });
        self.count.store(queue.len(), Ordering::SeqCst);
    }

    /// Wakes from the front as long as `served` says yes to what is wanted: else who wants little
    /// would overtake who wants much for ever. True if one of them wants nothing any more, so that
    /// there is more for the others.
    pub(super) fn wake(&self, mut served: impl FnMut(usize) -> bool) -> bool {
        if !self.anybody() {
            return false;
        }
        let mut queue = self.queue();
        let count = queue
            .iter()
            .take_while(|waiter| served(waiter.want))
            .count();
        let ready: Vec<Waiter> = queue.drain(..count).collect();
        self.count.store(queue.len(), Ordering::SeqCst);
        drop(queue);
        let mut all = true;
        for waiter in ready {
            all &= (waiter.wake)();
        }
        !all
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
