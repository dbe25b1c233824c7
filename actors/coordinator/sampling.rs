//! Carries questions about replicas that stand still to the sampler, and its answers back.

use std::sync::Arc;

use super::CoordinatorActor;
use super::asking::Machine;
use crate::actors::metadata::Need;
use crate::actors::partition::Lot;
use crate::cluster::Reason;
use crate::ids::{AssignmentEpoch, PositionGeneration, TopicPartition};
use crate::offsets::sampler::{Input, Output};
use crate::routing;

impl CoordinatorActor {
    /// Feeds the sampler and performs what it asks for.
    pub(super) fn feed_sampler(&mut self, input: Input) {
        let (snapshot, now) = (Arc::clone(&self.snapshot), self.now());
        self.sampler.handle(input, &*snapshot, now);
        while let Some(output) = self.sampler.poll_output() {
            self.carry_out_sample(output);
        }
    }

    pub(super) fn tick_sampler(&mut self) {
        let due = self.sampler.next_deadline();
        if due.is_some_and(|due| due <= self.now()) {
            self.feed_sampler(Input::Tick);
        }
    }

    /// Takes the question of a route that this group owns.
    pub(super) fn sample(
        &mut self,
        partition: TopicPartition,
        assignment_epoch: AssignmentEpoch,
        generation: PositionGeneration,
    ) {
        self.feed_sampler(Input::Sample {
            partition,
            assignment_epoch,
            generation,
        });
    }

    fn carry_out_sample(&mut self, output: Output) {
        match output {
            Output::Send {
                to,
                request,
                token,
                timeout,
            } => self.ask_broker((Machine::Sampler, token), to, request.into(), timeout),
            Output::Sampled {
                partition,
                assignment_epoch,
                generation,
                leader_end,
            } => {
                if self.owns(&partition, assignment_epoch) {
                    let input = routing::Input::Sampled {
                        generation,
                        leader_end,
                    };
                    let thread = self.threads.of(&partition);
                    self.threads
                        .post(thread, Lot::Routes(vec![(partition, input)]));
                }
            }
            Output::Refresh(partition) => {
                let partitions = vec![partition];
                self.to_metadata.post(Need::Refresh {
                    partitions,
                    reason: Reason::NotLeader,
                });
            }
        }
    }
}
