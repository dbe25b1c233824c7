//! The coordinator's other part of the rig: samples of leaders' ends (routing.md 14.2).

use nearside::cluster;
use nearside::ids::{AssignmentEpoch, PositionGeneration, TopicPartition};
use nearside::offsets::sampler::{Input, Output};
use nearside::routing;
use nearside::wire;

use super::Rig;
use super::host::Purpose;

impl Rig {
    /// A route wants its leader's end sampled.
    pub(super) fn sample_end(&mut self, partition: TopicPartition, generation: PositionGeneration) {
        self.sampler_input(Input::Sample {
            partition,
            assignment_epoch: AssignmentEpoch(0),
            generation,
        });
    }

    pub(super) fn sampler_input(&mut self, input: Input) {
        let view = self.metadata.snapshot();
        self.sampler.handle(input, &**view, self.now);
    }

    pub(super) fn on_sampler(&mut self, output: Output) {
        match output {
            Output::Send {
                to, request, token, ..
            } => {
                let purpose = Purpose::Sample(token);
                self.send((to, wire::Class::Control), request.into(), purpose);
            }
            Output::Sampled {
                partition,
                generation,
                leader_end,
                ..
            } => {
                let input = routing::Input::Sampled {
                    generation,
                    leader_end,
                };
                self.tell(&partition, input);
            }
            Output::Refresh(partition) => {
                self.refresh(partition, cluster::Reason::NotLeader);
            }
        }
    }
}
