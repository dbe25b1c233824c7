//! What an answer does to the batch it is about (wire.md 10.2 to 10.4).

use crate::cluster::{Reason, Want};
use crate::ids::{Draw, Moment, Offset};
use crate::wire::ErrorCode;
use crate::wire::api::produce::Produced;

use super::batch::{Batch, Flight};
use super::leaders::Leader;
use super::message::{Outcome, Output, ProduceError, SendToken};
use super::queue::{Effects, Queue};
use super::settings::Settings;
use super::verdict::Verdict;

/// Attempts that a batch gets although its bytes arrive damaged.
const DAMAGED_MAX: u32 = 3;

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply<'a> {
    /// With this row of an answer.
    Row(&'a Produced),
    /// Without an answer to this batch.
    Nothing(Outcome),
}

/// What a step needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) settings: &'a Settings,
    pub(super) draw: Draw,
    pub(super) now: Moment,
}

impl Queue {
    /// Takes the end of an attempt at batch `id`.
    pub(super) fn settle(
        &mut self,
        (id, token): (u64, SendToken),
        reply: Reply<'_>,
        step: Step<'_>,
        effects: &mut Effects,
    ) {
        let found = self
            .sealed
            .iter()
            .enumerate()
            .find_map(|(index, batch)| match batch.flight {
                Flight::Out { token: sent, to } if sent == token && batch.id == id => {
                    Some((index, to))
                }
                Flight::Out { .. } | Flight::Waiting { .. } => None,
            });
        let Some((index, to)) = found else { return };
        match reply {
            Reply::Row(row) => self.judge(index, to, row, step, effects),
            Reply::Nothing(outcome) => {
                self.want_leader(Reason::LinkLost, to, effects);
                self.retry(index, to, outcome.min(Outcome::Unknown), step, effects);
            }
        }
    }

    fn judge(
        &mut self,
        index: usize,
        to: Leader,
        row: &Produced,
        step: Step<'_>,
        effects: &mut Effects,
    ) {
        match Verdict::of(row.error) {
            Verdict::Written => self.acknowledge(index, to, row.base_offset, effects),
            Verdict::Duplicate => self.acknowledge(index, to, None, effects),
            Verdict::Moved => {
                self.want_leader(Reason::NotLeader, to, effects);
                self.retry(index, to, Outcome::NotWritten, step, effects);
            }
            Verdict::Stale => {
                self.want_leader(Reason::NotHosted, to, effects);
                self.retry(index, to, Outcome::NotWritten, step, effects);
            }
            Verdict::Wait => self.retry(index, to, Outcome::NotWritten, step, effects),
            Verdict::Doubt { refresh } => {
                if refresh {
                    self.want_leader(Reason::NotHosted, to, effects);
                }
                self.retry(index, to, Outcome::Unknown, step, effects);
            }
            Verdict::TooLarge => self.split(index, step, effects),
            Verdict::Damaged => self.damaged(index, to, row, step, effects),
            Verdict::Refused => self.refuse(index, row, step, effects),
            Verdict::OutOfOrder if index > 0 => self.wait_for_the_head(index, step, effects),
            Verdict::OutOfOrder | Verdict::OldEpoch => {
                self.mark_gap(step.settings);
                self.retry(index, to, Outcome::NotWritten, step, effects);
            }
            Verdict::Forgotten => self.forgotten(index, to, row, step, effects),
        }
    }

    fn acknowledge(
        &mut self,
        index: usize,
        to: Leader,
        base: Option<Offset>,
        effects: &mut Effects,
    ) {
        let Some(batch) = self.sealed.remove(index) else {
            return;
        };
        // Success at a former leader proves nothing about the present one.
        self.proven |= self.led == Some(to);
        effects.released += batch.held;
        for (at, token) in batch.tokens.into_iter().enumerate() {
            let offset = Batch::offset(base, at);
            self.acked = self.acked.max(offset);
            effects.counts.acked += 1;
            let partition = self.partition.clone();
            effects.outputs.push_back(Output::Acked {
                token,
                partition,
                offset,
            });
        }
    }

    /// Sends the same bytes again: at once if a newer leader is known, else after a backoff.
    fn retry(
        &mut self,
        index: usize,
        to: Leader,
        outcome: Outcome,
        step: Step<'_>,
        effects: &mut Effects,
    ) {
        let epoch = self.leader.and_then(|leader| leader.epoch);
        let Some(batch) = self.sealed.get_mut(index) else {
            return;
        };
        batch.failed_at(to.epoch, outcome);
        let free = batch.take_free_retry(epoch, step.now);
        effects.counts.free_retries += u64::from(free);
        let backoff = step
            .settings
            .retry_backoff
            .delay(batch.failures - 1, step.draw);
        let until = if free { step.now } else { step.now + backoff };
        batch.flight = Flight::Waiting { until };
        if batch.expired {
            self.give_up_sealed(index, None, step.settings, effects);
        }
    }

    /// A later batch met the gap that an earlier one has yet to fill.
    fn wait_for_the_head(&mut self, index: usize, step: Step<'_>, effects: &mut Effects) {
        let Some(batch) = self.sealed.get_mut(index) else {
            return;
        };
        batch.flight = Flight::Waiting { until: step.now };
        if batch.expired {
            self.give_up_sealed(index, None, step.settings, effects);
        }
    }

    /// Halves keep the sequence range, so that nothing behind them changes.
    fn split(&mut self, index: usize, step: Step<'_>, effects: &mut Effects) {
        let Some(batch) = self.sealed.get(index) else {
            return;
        };
        let halves = (batch.tokens.len() > 1).then(|| batch.split(step.settings, self.next_id + 1));
        let Some([head, tail]) = halves.flatten() else {
            let size = batch.bytes.len();
            let error = ProduceError::RecordTooLarge { size };
            return self.give_up_sealed(index, Some(error), step.settings, effects);
        };
        self.next_id += 1;
        effects.counts.splits += 1;
        if let Some(slot) = self.sealed.get_mut(index) {
            *slot = head;
        }
        self.sealed.insert(index + 1, tail);
    }

    fn damaged(
        &mut self,
        index: usize,
        to: Leader,
        row: &Produced,
        step: Step<'_>,
        effects: &mut Effects,
    ) {
        let Some(batch) = self.sealed.get_mut(index) else {
            return;
        };
        batch.damaged += 1;
        if batch.damaged > DAMAGED_MAX {
            self.refuse(index, row, step, effects);
        } else {
            self.retry(index, to, Outcome::NotWritten, step, effects);
        }
    }

    /// Fails the batch; a record that the broker names hears what it said about it (KIP-467).
    fn refuse(&mut self, index: usize, row: &Produced, step: Step<'_>, effects: &mut Effects) {
        let first = effects.outputs.len();
        let error = refusal(row.error, row.message.clone());
        self.give_up_sealed(index, Some(error), step.settings, effects);
        for named in &row.record_errors {
            let at = usize::try_from(named.index)
                .ok()
                .and_then(|at| first.checked_add(at));
            let failed = at.and_then(|at| effects.outputs.get_mut(at));
            if let Some(Output::Failed { error, .. }) = failed
                && matches!(error, ProduceError::Refused { .. })
                && named.message.is_some()
            {
                *error = refusal(row.error, named.message.clone());
            }
        }
    }

    /// The broker lost our state. If all it had from us was deleted by retention, nothing is in
    /// doubt.
    fn forgotten(
        &mut self,
        index: usize,
        to: Leader,
        row: &Produced,
        step: Step<'_>,
        effects: &mut Effects,
    ) {
        if row.log_start.is_some() && row.log_start > self.acked {
            for batch in &mut self.sealed {
                batch.outcome = Outcome::NotWritten;
            }
        } else if index > 0 {
            return self.wait_for_the_head(index, step, effects);
        }
        self.mark_gap(step.settings);
        self.retry(index, to, Outcome::NotWritten, step, effects);
    }

    fn want_leader(&self, reason: Reason, asked: Leader, effects: &mut Effects) {
        let want = Want::Leader {
            partition: self.partition.clone(),
            failed: asked.epoch,
        };
        effects.outputs.push_back(Output::Refresh { reason, want });
    }
}

fn refusal(code: ErrorCode, message: Option<String>) -> ProduceError {
    ProduceError::Refused { code, message }
}
