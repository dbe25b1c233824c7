//! What of a partition outlives its actor.

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::interest::Interest;
use crate::ids::{AssignmentEpoch, Incarnation, LeaderEpoch, Offset, PositionGeneration};
use crate::offsets::Ledger;
use crate::records::BatchError;

/// The surviving state of one assigned partition. Lives on the partition's thread; one writer at a
/// time, told by the ticket of the newest incarnation (runtime.md S2).
#[derive(Clone, Debug)]
pub(crate) struct Cell(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    assignment: AssignmentEpoch,
    ticket: std::cell::Cell<Incarnation>,
    rewinds: std::cell::Cell<u64>,
    account: RefCell<Option<Account>>,
    /// Boxed: hardly any partition ever waits for a letter.
    letter: RefCell<Option<Box<Awaited>>>,
    progress: Arc<Progress>,
    interest: Interest,
}

/// Ledger and cursor, once the position is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    /// What is finished.
    pub(crate) ledger: Ledger,
    /// Next offset to fetch.
    pub(crate) fetch_end: Offset,
    /// Everything below was handed to the handler host, or holds nothing to hand over. A new life
    /// of the actor reads on from here.
    pub(crate) delivered: Offset,
    /// Epoch of the record before `delivered`, if known.
    pub(crate) delivered_epoch: Option<LeaderEpoch>,
}

/// A dead letter that is to be written before reading goes on behind its batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Awaited {
    /// The number of this wait.
    pub(crate) number: u64,
    /// What is wrong with the batch.
    pub(crate) error: BatchError,
}

impl Account {
    /// An account that starts at `at`.
    pub(crate) fn new(at: Offset, epoch: Option<LeaderEpoch>) -> Self {
        let ledger = Ledger::new(at, epoch);
        Self {
            ledger,
            fetch_end: at,
            delivered: at,
            delivered_epoch: epoch,
        }
    }
}

impl Cell {
    /// An empty cell for one assignment.
    pub(crate) fn new(assignment: AssignmentEpoch, progress: Arc<Progress>) -> Self {
        Self(Rc::new(Inner {
            assignment,
            ticket: std::cell::Cell::new(Incarnation(0)),
            rewinds: std::cell::Cell::new(0),
            account: RefCell::new(None),
            letter: RefCell::new(None),
            progress,
            interest: Interest::new(),
        }))
    }

    /// The assignment it belongs to.
    pub(crate) fn assignment(&self) -> AssignmentEpoch {
        self.0.assignment
    }

    /// How often the position moved back so far; what the handler host says carries the number it
    /// knew, so that what it finished before is told from what it finished since.
    pub(crate) fn rewinds(&self) -> u64 {
        self.0.rewinds.get()
    }

    /// Counts a position that moved back.
    pub(crate) fn rewind(&self) {
        self.0.rewinds.set(self.0.rewinds.get() + 1);
    }

    /// The incarnation that may write.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.0.ticket.get()
    }

    /// Hands the right to write to the next incarnation and returns it. It fetches again what the
    /// last one had fetched and not delivered.
    pub(crate) fn next_incarnation(&self) -> Incarnation {
        if let Some(account) = self.0.account.borrow_mut().as_mut() {
            account.fetch_end = account.delivered;
        }
        // The next life comes to the same batch by itself.
        self.forget_letter();
        self.0.interest.reset();
        let next = Incarnation(self.0.ticket.get().0 + 1);
        self.0.ticket.set(next);
        next
    }

    /// Waits for a letter; any other is forgotten.
    pub(crate) fn await_letter(&self, awaited: Awaited) {
        *self.0.letter.borrow_mut() = Some(Box::new(awaited));
    }

    /// Ends the wait for letter `number`, if that is the one awaited.
    pub(crate) fn take_letter(&self, number: u64) -> Option<BatchError> {
        let mut letter = self.0.letter.borrow_mut();
        Some(letter.take_if(|awaited| awaited.number == number)?.error)
    }

    /// The number of the letter it waits for.
    pub(crate) fn letter(&self) -> Option<u64> {
        self.0
            .letter
            .borrow()
            .as_ref()
            .map(|awaited| awaited.number)
    }

    /// Where the batch lies whose letter it waits for.
    pub(crate) fn letter_at(&self) -> Option<Offset> {
        let letter = self.0.letter.borrow();
        Some(letter.as_ref()?.error.position())
    }

    /// Waits for no letter any more; whether it did.
    pub(crate) fn forget_letter(&self) -> bool {
        self.0.letter.borrow_mut().take().is_some()
    }

    /// What its actor wants to hear of.
    pub(super) fn interest(&self) -> &Interest {
        &self.0.interest
    }

    /// The account as it stands; `None` before the position is known.
    pub(crate) fn account(&self) -> Ref<'_, Option<Account>> {
        self.0.account.borrow()
    }

    /// Changes the account and publishes the progress; an older ticket writes nothing.
    pub(crate) fn write(&self, ticket: Incarnation, change: impl FnOnce(&mut Option<Account>)) {
        if ticket == self.0.ticket.get() {
            self.change(change);
        }
    }

    /// Finishes `from..to`. Done by the cell's owner and not by the actor, so that nothing finished
    /// is lost with a life.
    pub(crate) fn finish(&self, from: Offset, to: Offset, epoch: Option<LeaderEpoch>) {
        self.change(|slot| {
            if let Some(account) = slot {
                let epoch = epoch.or(account.ledger.leader_epoch());
                account.ledger.finish(from, to, epoch);
            }
        });
    }

    /// What is to be committed; `None` before the position is known.
    pub(crate) fn commit(&self) -> Option<Committable> {
        self.account()
            .as_ref()
            .map(|account| Committable::of(&account.ledger))
    }

    fn change(&self, change: impl FnOnce(&mut Option<Account>)) {
        let mut account: RefMut<'_, Option<Account>> = self.0.account.borrow_mut();
        change(&mut account);
        if let Some(account) = account.as_ref() {
            self.0.progress.publish(&account.ledger);
        }
    }
}

/// The state of a ledger that may be committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Committable {
    /// The watermark.
    pub(crate) offset: Offset,
    /// Leader epoch of the last finished record below it.
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    /// The ledger's position generation.
    pub(crate) generation: PositionGeneration,
}

impl Committable {
    fn of(ledger: &Ledger) -> Self {
        Self {
            offset: ledger.watermark(),
            leader_epoch: ledger.leader_epoch(),
            generation: ledger.generation(),
        }
    }
}

/// What the coordinator reads of a partition when a commit is due: a few atomics, no message.
#[derive(Debug)]
pub(crate) struct Progress {
    // Odd while being written, so that a reader never pairs the parts of two states (a seqlock).
    version: AtomicU64,
    watermark: AtomicI64,
    epoch: AtomicI64,
    generation: AtomicU64,
}

impl Progress {
    /// Nothing known yet.
    pub(crate) fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            watermark: AtomicI64::new(UNKNOWN),
            epoch: AtomicI64::new(UNKNOWN),
            generation: AtomicU64::new(0),
        }
    }

    /// Rises with every change: who remembers it need not read what stands still.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// What is to be committed; `None` before the position is known.
    pub(crate) fn read(&self) -> Option<Committable> {
        loop {
            let before = self.version.load(Ordering::SeqCst);
            let watermark = self.watermark.load(Ordering::SeqCst);
            let epoch = self.epoch.load(Ordering::SeqCst);
            let generation = self.generation.load(Ordering::SeqCst);
            if before.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == before {
                let epoch = i32::try_from(epoch).ok().filter(|epoch| *epoch >= 0);
                return (watermark != UNKNOWN).then_some(Committable {
                    offset: Offset(watermark),
                    leader_epoch: epoch.map(LeaderEpoch),
                    generation: PositionGeneration(generation),
                });
            }
            std::hint::spin_loop();
        }
    }

    fn publish(&self, ledger: &Ledger) {
        let state = Committable::of(ledger);
        let epoch = state
            .leader_epoch
            .map_or(UNKNOWN, |epoch| i64::from(epoch.0));
        self.version.fetch_add(1, Ordering::SeqCst);
        self.watermark.store(state.offset.0, Ordering::SeqCst);
        self.epoch.store(epoch, Ordering::SeqCst);
        self.generation.store(state.generation.0, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

/// The value of an atomic that holds nothing yet.
const UNKNOWN: i64 = -1;

#[cfg(test)]
mod tests {
    use super::*;

    fn account(at: i64) -> Account {
        Account::new(Offset(at), Some(LeaderEpoch(4)))
    }

    #[test]
    fn an_older_ticket_writes_nothing() {
        let progress = Arc::new(Progress::new());
        let cell = Cell::new(AssignmentEpoch(1), Arc::clone(&progress));
        let old = cell.next_incarnation();
        let new = cell.next_incarnation();
        cell.write(old, |slot| *slot = Some(account(5)));
        assert_eq!(progress.read(), None);
        cell.write(new, |slot| *slot = Some(account(7)));
        let read = progress.read().unwrap();
        assert_eq!(
            (read.offset, read.leader_epoch),
            (Offset(7), Some(LeaderEpoch(4)))
        );
    }
}
