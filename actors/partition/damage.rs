//! What becomes of a batch that cannot be read: the policy decides (wire.md 8.6).

use super::PartitionActor;
use crate::actors::telemetry::bump;
use crate::fleet::Event;
use crate::ids::Offset;
use crate::records::{self, BatchDecision, BatchError, Corruption, Place, RawBatch};
use crate::routing::{self, Delivery};

/// A batch that cannot be read.
#[derive(Debug)]
pub(super) struct Damage {
    error: BatchError,
    /// How it lies in the log, where it may have to be kept.
    raw: Option<RawBatch>,
}

/// What is done about a batch that cannot be read.
enum Measure {
    /// The partition stands still from now on.
    Stand,
    /// These offsets count as finished.
    Pass(Offset, Offset),
    /// The batch becomes a dead letter first.
    Keep,
}

impl PartitionActor {
    /// The damage of a row's first batch. The bytes are a slice of the row, charged as that is.
    pub(super) fn damage_in(&self, delivery: &Delivery, error: BatchError) -> Damage {
        let keeps = self.keeps(&error);
        let raw = keeps.then(|| self.raw_batch(delivery)).flatten();
        Damage { error, raw }
    }

    /// The leader's copy of the batch at `offset` cannot be read either.
    pub(super) fn judge_row(&mut self, offset: Offset) {
        let seen = self
            .damage
            .take()
            .filter(|it| it.error.position() == offset);
        let (error, raw) = seen.map_or((told_by_broker(offset), None), |it| (it.error, it.raw));
        let error = error.confirmed();
        match (self.decide(&error), raw) {
            (Measure::Stand, _) => self.stand_still(error.to_string()),
            (Measure::Pass(_, to), _) => self.seek(to),
            (Measure::Keep, Some(raw)) => self.post(&error, raw),
            // What the broker alone has seen has no end, and so is never kept.
            (Measure::Keep, None) => self.stand_still(error.to_string()),
        }
    }

    /// A large batch cannot be inflated. Its checksum held where it was read, so another copy would
    /// be no better, and the route has passed it.
    pub(super) fn judge_elsewhere(&mut self, ticket: u64, error: &BatchError) {
        let error = error.confirmed();
        match self.decide(&error) {
            Measure::Stand => {
                self.opening.halt_at(ticket);
                self.stand_still(error.to_string());
            }
            Measure::Pass(from, to) => {
                self.opening.pass_over(ticket);
                self.cell.finish(from, to, None);
            }
            Measure::Keep => {
                let raw = self.opening.raw(ticket);
                self.opening.halt_at(ticket);
                match raw {
                    Some(raw) => self.post(&error, raw),
                    None => self.fetch_for_keeping(error),
                }
            }
        }
    }

    /// The handler host met a record that cannot be read; all before it is finished (E6). What lies
    /// behind the batch is fetched again. A host that had seen fewer `rewinds` speaks of records
    /// that may be others by now.
    pub(super) fn judge_handed(&mut self, error: &BatchError, rewinds: u64) {
        if rewinds != self.cell.rewinds() {
            bump(&self.thread.telemetry.counts.late_results, 1);
            return;
        }
        let error = error.confirmed();
        match self.decide(&error) {
            Measure::Stand => {
                self.give_up_delivered();
                self.stand_still(error.to_string());
            }
            Measure::Pass(from, to) => {
                self.cell.finish(from, to, None);
                if self.route.fetch_end() == to {
                    self.rewind(to);
                }
                self.seek(to);
            }
            Measure::Keep => self.fetch_for_keeping(error),
        }
    }

    /// Of what was handed on only the records are here: the batch is fetched again.
    fn fetch_for_keeping(&mut self, error: BatchError) {
        self.seek(error.position());
        self.sought = Some(Box::new(error));
    }

    /// Keeps the batch that was fetched for that, if `delivery` begins with it; whether it does.
    pub(super) fn found_sought(&mut self, delivery: &Delivery) -> bool {
        let Some(error) = &self.sought else {
            return false;
        };
        let at = delivery.stamp.offset;
        // A batch that did not come whole is asked for again as any other would be.
        let found = (error.position() == at).then(|| self.raw_batch(delivery));
        let (Some(raw), Some(error)) = (found.flatten(), self.sought.take()) else {
            return false;
        };
        if self.draining || error.skip_to() != Some(raw.next) {
            return false;
        }
        self.post(&error, raw);
        true
    }

    fn raw_batch(&self, delivery: &Delivery) -> Option<RawBatch> {
        let settings = self.reading.settings;
        records::raw_batch(&delivery.records, delivery.stamp.offset, settings)
    }

    fn keeps(&self, error: &BatchError) -> bool {
        match self.thread.policy.decide(&error.confirmed()) {
            BatchDecision::DeadLetterRaw { .. } => true,
            BatchDecision::Halt | BatchDecision::Skip { .. } => false,
        }
    }

    /// Of a partition that stands still nothing is held: what was handed to the host and not
    /// finished is dropped there, and a new life of this actor fetches it again.
    fn give_up_delivered(&mut self) {
        self.opening.halt();
        self.drop_queue();
        self.cell.write(self.ticket, |slot| {
            if let Some(account) = slot {
                account.delivered = account.ledger.watermark();
                account.delivered_epoch = account.ledger.leader_epoch();
            }
        });
    }

    /// Tells of `error` and what is done about it.
    fn decide(&self, error: &BatchError) -> Measure {
        let measure = match self.thread.policy.decide(error) {
            BatchDecision::Halt => Measure::Stand,
            BatchDecision::Skip { from, to } => Measure::Pass(from, to),
            BatchDecision::DeadLetterRaw { .. } => Measure::Keep,
        };
        metrics::counter!("nearside_wire_poison_total", "reason" => error.label()).increment(1);
        self.thread.telemetry.emit(Event::CorruptBatch {
            partition: self.partition.clone(),
            offset: error.position(),
            base: error.place().map(|at| at.base),
            next: error.skip_to(),
            bytes: error.place().map(|at| at.size),
            skipped: matches!(measure, Measure::Pass(..)),
            kept: matches!(measure, Measure::Keep),
            reason: error.to_string(),
        });
        measure
    }

    /// Fails the partition: it stays assigned and holds its offset.
    pub(super) fn stand_still(&mut self, reason: String) {
        let partition = self.partition.clone();
        self.status.fail();
        self.thread
            .telemetry
            .emit(Event::PartitionFailed { partition, reason });
        // Owed, not handed in at once: the route may be in the middle of its outputs.
        self.owed.push_back(routing::Input::Pause);
    }

    pub(super) fn seek(&mut self, offset: Offset) {
        let epoch = self.route.fetched_epoch();
        self.owed.push_back(routing::Input::Seek { offset, epoch });
    }
}

/// A broker that answers CORRUPT_MESSAGE says no more than that.
fn told_by_broker(offset: Offset) -> BatchError {
    let at = Place {
        position: offset,
        base: offset,
        next: None,
        size: 0,
    };
    let reason = Corruption::Checksum;
    BatchError::Corrupt { at, reason }
}
