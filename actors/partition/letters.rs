//! Dead letters of a partition: posted, awaited, ended (runtime.md 10 Q2).
//!
//! While a letter is out the partition stands at its batch and stays owned. What it waits for lies
//! in its cell, so that an acknowledgement counts even while its actor is down; whatever moves the
//! position gives the wait up, and an end that comes later is dropped by its number.

use super::PartitionActor;
use super::cell::Awaited;
use super::messages::Told;
use super::supervisor::{Life, PartitionSupervisor};
use crate::actors::telemetry::bump;
use crate::ids::{AssignmentEpoch, Moment, Offset, TopicPartition};
use crate::producer::letters::{End, Letter, Reason, Ticket};
use crate::records::{BatchError, RawBatch};
use crate::routing;

/// A drain that is over but for a letter.
#[derive(Debug)]
pub(super) struct HeldDrain {
    partition: TopicPartition,
    epoch: AssignmentEpoch,
    abandoned: bool,
    until: Moment,
}

impl PartitionActor {
    /// Sends the batch that `error` is about as a letter and stands still until its end.
    pub(super) fn post(&mut self, error: &BatchError, raw: RawBatch) {
        // Whoever reads on after us comes to the same batch.
        if self.draining {
            return;
        }
        let number = self.thread.next_letter();
        let awaited = Awaited {
            number,
            error: *error,
        };
        self.cell.await_letter(awaited);
        self.awaited = Some(number);
        let ticket = Ticket {
            partition: self.partition.clone(),
            assignment: self.assignment,
            number,
        };
        let letter = Letter {
            origin: self.partition.clone(),
            topic_id: self.route.topic_id(),
            leader_epoch: raw.leader_epoch(),
            offset: error.place().map_or(error.position(), |at| at.base),
            first_undelivered: error.position(),
            next: raw.next,
            reason: Reason::Poison,
            error: error.to_string(),
            value: raw.bytes,
        };
        self.thread.post_letter(ticket, letter);
        // The pause first, or the seek would ask for more; the seek has whatever is on its way
        // dropped.
        self.owed.push_back(routing::Input::Pause);
        self.seek(error.position());
    }

    /// What became of letter `number`. It may have been given up since its end was sent: then the
    /// offsets behind it are no longer where reading goes on.
    pub(super) fn letter_ended(&mut self, number: u64, end: LetterEnd) {
        if self.awaited.take_if(|own| *own == number).is_none() {
            bump(&self.thread.telemetry.counts.late_results, 1);
            return;
        }
        match end {
            LetterEnd::Written { to } => self.seek(to),
            LetterEnd::Again(error) => {
                self.seek(error.position());
                self.sought = Some(Box::new(error));
            }
            LetterEnd::Hopeless(reason) => return self.stand_still(reason),
        }
        if !self.draining {
            self.opening.go_on();
            self.owed.push_back(routing::Input::Resume);
        }
    }

    /// Whether the position moved to where the batch lies that the awaited letter is about. What
    /// was fetched behind it is forgotten; nothing of that was handed on, so what was goes on.
    pub(super) fn stands_at_letter(&self, to: Offset) -> bool {
        let stands = self.cell.letter_at() == Some(to);
        if stands {
            self.cell.write(self.ticket, |slot| {
                if let Some(account) = slot {
                    account.fetch_end = to;
                }
            });
        }
        stands
    }

    /// The position moved for another reason: the letter is not waited for any more, even if its
    /// end is on its way here and the cell has ended the wait.
    pub(super) fn give_up_letter(&mut self) {
        self.cell.forget_letter();
        if self.awaited.take().is_some() && !self.draining {
            self.opening.go_on();
            self.owed.push_back(routing::Input::Resume);
        }
    }
}

/// What the actor of a partition hears of its letter.
#[derive(Debug)]
pub(crate) enum LetterEnd {
    /// Its offsets are finished; reading goes on at `to`.
    Written { to: Offset },
    /// The batch is to be fetched and sent again.
    Again(BatchError),
    /// It can never be written.
    Hopeless(String),
}

impl PartitionSupervisor {
    /// What became of a letter. The ledger is written here, so that an acknowledgement is not lost
    /// with an actor's life.
    pub(super) fn letter_ended(&mut self, ticket: Ticket, end: End) {
        let partition = ticket.partition;
        let awaited = self
            .slots
            .get_mut(&partition)
            .filter(|slot| slot.assignment.epoch == ticket.assignment)
            .and_then(|slot| Some((slot.cell.take_letter(ticket.number)?, slot)));
        let Some((error, slot)) = awaited else {
            bump(&self.thread.telemetry.counts.late_results, 1);
            return;
        };
        let end = match (end, error.skip_to()) {
            (End::Written, Some(to)) => {
                slot.cell.finish(error.position(), to, None);
                LetterEnd::Written { to }
            }
            // Only what has an end becomes a letter.
            (End::Written, None) | (End::Again, _) => LetterEnd::Again(error),
            (End::Hopeless(why), _) => {
                LetterEnd::Hopeless(format!("{error}, and its dead letter: {why}"))
            }
        };
        // A life that is yet to come begins at what was handed on, whatever was finished since.
        if let Life::Up(..) = slot.life {
            slot.life.tell(Told::Letter(ticket.number, end));
        }
        self.end_held_drains();
    }

    /// The producer died: whoever waits for a letter sends it again.
    pub(super) fn letters_lost(&mut self) {
        let waiting = self.slots.iter().filter_map(|(partition, slot)| {
            Some(Ticket {
                partition: partition.clone(),
                assignment: slot.assignment.epoch,
                number: slot.cell.letter()?,
            })
        });
        for ticket in waiting.collect::<Vec<_>>() {
            self.letter_ended(ticket, End::Again);
        }
    }

    /// The handler host is done with a drain. A letter that is out is work in hand, too (runtime.md
    /// 8).
    pub(super) fn host_drained(
        &mut self,
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        abandoned: bool,
    ) {
        let until = self
            .slots
            .get(&partition)
            .filter(|slot| slot.cell.letter().is_some())
            .and_then(|slot| slot.draining);
        match until {
            Some(until) => self.held_drains.push(HeldDrain {
                partition,
                epoch,
                abandoned,
                until,
            }),
            None => self.report_drained(partition, epoch, abandoned),
        }
    }

    /// Reports drains whose letter has ended, or whose time is up.
    pub(super) fn end_held_drains(&mut self) {
        if self.held_drains.is_empty() {
            return;
        }
        let now = self.thread.now();
        for held in std::mem::take(&mut self.held_drains) {
            let waits = self.is_current(&held.partition, held.epoch)
                && self
                    .slots
                    .get(&held.partition)
                    .is_some_and(|slot| slot.cell.letter().is_some());
            if waits && held.until > now {
                self.held_drains.push(held);
            } else {
                self.report_drained(held.partition, held.epoch, held.abandoned || waits);
            }
        }
    }
}
