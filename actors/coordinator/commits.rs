//! Carries out what the commit plan decided, and shows it what the ledgers reached.

use std::time::Duration;

use super::CoordinatorActor;
use super::asking::Machine;
use crate::actors::partition::Committable;
use crate::actors::telemetry::bump;
use crate::fleet::Event;
use crate::group::{self, Assigned};
use crate::ids::{AssignmentEpoch, TopicPartition};
use crate::offsets::commit::{self, Due, Input, Observed, Output};
use crate::offsets::resolve;

impl CoordinatorActor {
    /// Feeds the commit plan and performs what it asks for.
    pub(super) fn feed_committer(&mut self, input: Input) {
        let (draw, now) = (self.entropy.draw(), self.now());
        self.committer.handle(input, draw, now);
        while let Some(output) = self.committer.poll_output() {
            match output {
                Output::Send {
                    to,
                    request,
                    token,
                    timeout,
                } => {
                    self.ask((Machine::Committer, token), to, request, timeout);
                }
                Output::Committed(state) => {
                    bump(&self.telemetry.counts.commits_accepted, 1);
                    self.telemetry.committed(&state.partition, state.offset);
                }
                Output::Flushed { id, unfinished } => self.flushed(id, &unfinished),
                Output::CoordinatorMoved => self.owed.push_back(group::Input::CoordinatorMoved),
                Output::Refused { generation, error } => {
                    self.owed
                        .push_back(group::Input::Refused { generation, error });
                }
                Output::Event(event) => self.tell_commit(event),
            }
        }
    }

    pub(super) fn tick_committer(&mut self) {
        if self
            .committer
            .next_deadline()
            .is_some_and(|due| due <= self.now())
        {
            self.feed_committer(Input::Tick);
        }
    }

    /// Shows the plan every watermark that may have moved: a few atomics a partition, no message.
    pub(super) fn scan_progress(&mut self) {
        let now = self.now();
        if now < self.next_scan {
            return;
        }
        self.next_scan = now + SCAN;
        let mut moved: Vec<Observed> = Vec::new();
        for (partition, owned) in &mut self.owned {
            let version = owned.progress.version();
            if version == owned.shown {
                continue;
            }
            owned.shown = version;
            if let Some(state) = owned.progress.read() {
                moved.push(observed(partition.clone(), owned.epoch, state));
            }
        }
        for state in moved {
            self.feed_committer(Input::Observed(state, Due::Interval));
        }
    }

    /// Stops committing for partitions that are released or lost.
    pub(super) fn forget(&mut self, partitions: &[Assigned]) {
        for assigned in partitions {
            self.owned.remove(&assigned.partition);
            self.asking.remove(&assigned.partition);
        }
        self.feed_committer(Input::Forget(partitions.to_vec()));
        self.feed_resolver(resolve::Input::Forget(partitions.to_vec()));
    }

    fn tell_commit(&self, event: commit::Event) {
        match event {
            commit::Event::CommitFailed { partition, error } => {
                bump(&self.telemetry.counts.commits_refused, 1);
                let error = error.to_string();
                self.telemetry
                    .emit(Event::CommitFailed { partition, error });
            }
            commit::Event::CommitStuck { partition, error } => {
                let error = format!("{error}, for a minute now");
                self.telemetry
                    .emit(Event::CommitFailed { partition, error });
            }
            commit::Event::CommitLate { partitions } => {
                tracing::warn!(partitions, "no commit was accepted for three intervals");
            }
            commit::Event::CommitSplit { partitions, error } => {
                tracing::info!(partitions, %error, "commit split");
            }
            commit::Event::StaleObservation(partition) => {
                tracing::debug!(%partition, "stale observation dropped");
            }
        }
    }
}

/// A ledger's state as the commit plan wants it.
pub(super) fn observed(
    partition: TopicPartition,
    assignment_epoch: AssignmentEpoch,
    state: Committable,
) -> Observed {
    Observed {
        partition,
        assignment_epoch,
        generation: state.generation,
        offset: state.offset,
        leader_epoch: state.leader_epoch,
    }
}

/// How often the progress of all partitions is read. Far below the commit interval, so that a
/// commit is at most this much behind; a partition that stands still costs one atomic load.
const SCAN: Duration = Duration::from_millis(250);
