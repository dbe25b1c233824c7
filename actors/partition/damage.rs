//! What becomes of a batch that cannot be read: the policy decides (wire.md 8.6).

use super::PartitionActor;
use crate::actors::telemetry::bump;
use crate::fleet::Event;
use crate::ids::Offset;
use crate::records::{BatchDecision, BatchError, Corruption, Place};
use crate::routing;

impl PartitionActor {
    /// The leader's copy of the batch at `offset` cannot be read either.
    pub(super) fn judge_row(&mut self, offset: Offset) {
        let seen = self.damage.take().filter(|it| it.position() == offset);
        let error = seen.unwrap_or_else(|| told_by_broker(offset)).confirmed();
        if let Some((_, to)) = self.decide(&error) {
            self.seek(to);
        }
    }

    /// A large batch cannot be inflated. Its checksum held where it was read, so another copy would
    /// be no better, and the route has passed it.
    pub(super) fn judge_elsewhere(&mut self, ticket: u64, error: &BatchError) {
        if let Some((from, to)) = self.decide(&error.confirmed()) {
            self.opening.pass_over(ticket);
            self.cell.finish(from, to, None);
        } else {
            self.opening.halt_at(ticket);
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
        if let Some((from, to)) = self.decide(&error.confirmed()) {
            self.cell.finish(from, to, None);
            if self.route.fetch_end() == to {
                self.rewind(to);
            }
            self.seek(to);
        } else {
            self.give_up_delivered();
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

    /// Tells of `error`; the offsets to pass, or none if the partition stands still from now on.
    fn decide(&mut self, error: &BatchError) -> Option<(Offset, Offset)> {
        let reason = error.to_string();
        let passed = match self.thread.policy.decide(error) {
            // A fleet that cannot write dead letters refuses that policy when it is built.
            BatchDecision::Halt | BatchDecision::DeadLetterRaw { .. } => None,
            BatchDecision::Skip { from, to } => Some((from, to)),
        };
        metrics::counter!("nearside_wire_poison_total", "reason" => error.label()).increment(1);
        let partition = self.partition.clone();
        self.thread.telemetry.emit(Event::CorruptBatch {
            partition: partition.clone(),
            offset: error.position(),
            base: error.place().map(|at| at.base),
            next: error.skip_to(),
            bytes: error.place().map(|at| at.size),
            skipped: passed.is_some(),
            reason: reason.clone(),
        });
        if passed.is_none() {
            self.status.fail();
            self.thread
                .telemetry
                .emit(Event::PartitionFailed { partition, reason });
            // Owed, not handed in at once: the route may be in the middle of its outputs.
            self.owed.push_back(routing::Input::Pause);
        }
        passed
    }

    fn seek(&mut self, offset: Offset) {
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
