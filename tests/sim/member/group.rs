//! Membership and commits, as the coordinator actor hosts them.

use std::time::Duration;

use nearside::group::{self, Output, Standing};
use nearside::ids::TopicPartition;
use nearside::offsets::commit::{self, Due, Observed};
use nearside::offsets::resolve;
use nearside::wire;

use super::asking::Machine;
use super::{Member, is_due};

impl Member {
    pub(super) fn feed_group(&mut self, input: group::Input) {
        let (now, draw) = (self.now, self.draw());
        self.group.handle(input, &*self.snapshot, draw, now);
        while let Some(output) = self.group.poll_output() {
            self.on_group(output);
        }
    }

    fn on_group(&mut self, output: Output) {
        match output {
            Output::Send {
                to,
                request,
                token,
                timeout,
            } => self.ask((Machine::Group, token), to, request, timeout),
            Output::Coordinator(endpoint) => {
                if let Some(former) = self.coordinator {
                    self.retired.push_back((former, wire::Class::Coordinator));
                }
                self.coordinator = endpoint.as_ref().map(|at| at.broker);
                let known = endpoint.is_some();
                self.feed_committer(commit::Input::Coordinator(known));
                self.feed_resolver(resolve::Input::Coordinator(known));
            }
            Output::Standing(standing) => self.stand(standing),
            Output::Starts(open) => self.gate(!open),
            Output::Step(step) => self.run_step(step),
            Output::Lead(lead) => {
                let led = lead.solve();
                self.owed.push_back(group::Input::Led(led));
            }
            Output::WantTopics(topics) => panic!("everybody reads one topic: {topics:?}"),
            Output::Event(event) => self.tell(format_args!("{event:?}")),
            Output::Fatal(error) => panic!("{} gives up: {error}", self.name),
            Output::Left => {
                self.tell(format_args!("left"));
                self.left = true;
            }
        }
    }

    fn stand(&mut self, standing: Standing) {
        let generation = standing.identity().map(|identity| identity.generation);
        if let Some(generation) = generation.filter(|current| *current != self.generation) {
            self.generation = generation;
            self.feed_host(nearside::handler::Input::Generation(generation));
        }
        self.feed_committer(commit::Input::Standing(standing.clone()));
        self.feed_resolver(resolve::Input::Standing(standing));
    }

    fn gate(&mut self, shut: bool) {
        let partitions: Vec<TopicPartition> = self.slots.keys().cloned().collect();
        for partition in partitions {
            self.feed_host(nearside::handler::Input::Gate {
                partition,
                gate: nearside::handler::Gate::CoordinatorAway,
                shut,
            });
        }
    }

    pub(super) fn feed_committer(&mut self, input: commit::Input) {
        let (now, draw) = (self.now, self.draw());
        self.committer.handle(input, draw, now);
        while let Some(output) = self.committer.poll_output() {
            match output {
                commit::Output::Send {
                    to,
                    request,
                    token,
                    timeout,
                } => self.ask((Machine::Committer, token), to, request, timeout),
                commit::Output::Committed(state) => {
                    self.tell(format_args!(
                        "committed {} {}",
                        state.partition, state.offset
                    ));
                }
                commit::Output::Flushed { id, .. } => self.flushed(id),
                commit::Output::CoordinatorMoved => {
                    self.owed.push_back(group::Input::CoordinatorMoved);
                }
                commit::Output::Refused { generation, error } => {
                    self.owed
                        .push_back(group::Input::Refused { generation, error });
                }
                commit::Output::Event(event) => self.tell(format_args!("{event:?}")),
            }
        }
    }

    pub(super) fn tick_group(&mut self) {
        let now = self.now;
        if is_due(self.group.next_deadline(), now) {
            self.feed_group(group::Input::Tick);
        }
        if is_due(self.committer.next_deadline(), now) {
            self.feed_committer(commit::Input::Tick);
        }
        if is_due(self.resolver.next_deadline(), now) {
            self.feed_resolver(resolve::Input::Tick);
        }
        self.expire_questions();
    }

    /// Shows the commit plan every ledger that moved.
    pub(super) fn scan_progress(&mut self) {
        if self.now < self.next_scan {
            return;
        }
        self.next_scan = self.now + SCAN;
        let partitions: Vec<TopicPartition> = self.slots.keys().cloned().collect();
        for partition in partitions {
            let moved = self
                .slots
                .get_mut(&partition)
                .and_then(|slot| slot.account.as_mut())
                .is_some_and(|account| std::mem::take(&mut account.moved));
            if let Some(state) = self.observed(&partition).filter(|_| moved) {
                self.feed_committer(commit::Input::Observed(state, Due::Interval));
            }
        }
    }

    /// What a partition may commit, while it is ours.
    pub(super) fn observed(&self, partition: &TopicPartition) -> Option<Observed> {
        let slot = self.slots.get(partition)?;
        let ledger = &slot.account.as_ref()?.ledger;
        (self.owned.get(partition) == Some(&slot.epoch)).then(|| Observed {
            partition: partition.clone(),
            assignment_epoch: slot.epoch,
            generation: ledger.generation(),
            offset: ledger.watermark(),
            leader_epoch: ledger.leader_epoch(),
        })
    }
}

/// How often the ledgers are looked at.
const SCAN: Duration = Duration::from_millis(250);
