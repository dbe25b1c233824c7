//! Carries questions of routes to the resolver, and its answers back.

use std::sync::Arc;

use super::CoordinatorActor;
use super::asking::Machine;
use crate::actors::clock::unix_ms;
use crate::actors::metadata::Need;
use crate::actors::partition::{Ask, Lot, Question};
use crate::cluster::Reason;
use crate::fleet::{Event, StartAt};
use crate::group::{self, To};
use crate::ids::{AssignmentEpoch, Offset, PositionGeneration, TopicPartition};
use crate::offsets::commit::{self, Due, Observed};
use crate::offsets::resolve::{self, Input, Outcome, Output, ResetCause};
use crate::routing::{self, Found, Resolve, Source, Verdict};

/// What a route asked; it decides in which terms the answer is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asking {
    /// Where to begin.
    Start,
    /// What to do about an offset that the leader refused.
    Refused(Offset),
    /// Whether our history agrees with the leader's.
    History,
}

impl CoordinatorActor {
    /// Feeds the resolver and performs what it asks for.
    pub(super) fn feed_resolver(&mut self, input: Input) {
        let (draw, now) = (self.entropy.draw(), self.now());
        let snapshot = Arc::clone(&self.snapshot);
        self.resolver.handle(input, &*snapshot, draw, now);
        while let Some(output) = self.resolver.poll_output() {
            self.carry_out_resolve(output);
        }
    }

    pub(super) fn tick_resolver(&mut self) {
        if self
            .resolver
            .next_deadline()
            .is_some_and(|due| due <= self.now())
        {
            self.feed_resolver(Input::Tick);
        }
    }

    /// Takes the questions of one thread.
    pub(super) fn questions(&mut self, questions: Vec<Question>) {
        for Question {
            partition,
            assignment,
            ask,
        } in questions
        {
            // Asked before the partition was given up: nobody waits for the answer.
            if !self.owns(&partition, assignment) {
                continue;
            }
            let (generation, asking, question) = match ask {
                Ask::Resolve { generation, what } => match self.asked(&partition, what) {
                    Ok((asking, question)) => (generation, asking, question),
                    Err(offset) => {
                        let outcome = Outcome::At(offset);
                        self.resolved(partition, assignment, generation, outcome);
                        continue;
                    }
                },
                Ask::Sample { generation } => {
                    self.sample(partition, assignment, generation);
                    continue;
                }
                Ask::Validate {
                    generation,
                    offset,
                    epoch,
                    leader_epoch,
                    told,
                } => (
                    generation,
                    Asking::History,
                    resolve::Question::Validate {
                        offset,
                        epoch,
                        leader_epoch,
                        told,
                    },
                ),
            };
            self.asking.insert(partition.clone(), asking);
            self.feed_resolver(Input::Resolve {
                partition,
                assignment_epoch: assignment,
                generation,
                question,
                unix_ms: unix_ms(),
            });
        }
    }

    /// What to ask the resolver; the offset itself if it was given beforehand.
    fn asked(
        &mut self,
        partition: &TopicPartition,
        what: Resolve,
    ) -> Result<(Asking, resolve::Question), Offset> {
        let question = match what {
            Resolve::Start => match self.start_of(partition) {
                Some(StartAt::Offset(offset)) => return Err(offset),
                Some(StartAt::Timestamp(at_ms)) => resolve::Question::Timestamp(at_ms),
                None => resolve::Question::Start,
            },
            Resolve::Anew => resolve::Question::Reset(self.resolver.settings().reset),
            Resolve::OutOfRange { offset, epoch } => {
                let question = resolve::Question::OutOfRange { offset, epoch };
                return Ok((Asking::Refused(offset), question));
            }
        };
        Ok((Asking::Start, question))
    }

    /// Where a partition begins that this fleet never had before, if that was said.
    fn start_of(&mut self, partition: &TopicPartition) -> Option<StartAt> {
        let start = self.start?;
        self.begun.insert(partition.clone()).then_some(start)
    }

    fn carry_out_resolve(&mut self, output: Output) {
        match output {
            Output::Send {
                to,
                request,
                token,
                timeout,
            } => match to {
                resolve::To::Coordinator => {
                    self.ask(
                        (Machine::Resolver, token),
                        To::Coordinator,
                        request,
                        timeout,
                    );
                }
                resolve::To::CoordinatorControl => {
                    self.ask(
                        (Machine::Resolver, token),
                        To::CoordinatorControl,
                        request,
                        timeout,
                    );
                }
                resolve::To::Broker(broker) => {
                    self.ask_broker((Machine::Resolver, token), broker, request, timeout);
                }
            },
            Output::Resolved {
                partition,
                assignment_epoch,
                generation,
                outcome,
            } => {
                self.resolved(partition, assignment_epoch, generation, outcome);
            }
            Output::Unanswered {
                partition,
                assignment_epoch,
                generation,
            } => {
                if self.owns(&partition, assignment_epoch) {
                    self.tell_route(partition, routing::Input::Unanswered { generation });
                }
            }
            Output::Refresh(partition) => {
                let partitions = vec![partition];
                self.to_metadata.post(Need::Refresh {
                    partitions,
                    reason: Reason::NotLeader,
                });
            }
            Output::CoordinatorMoved => self.owed.push_back(group::Input::CoordinatorMoved),
            Output::Refused(error) => {
                let generation = self.generation;
                self.owed
                    .push_back(group::Input::Refused { generation, error });
            }
            Output::Event(event) => self.tell_resolve(event),
        }
    }

    fn resolved(
        &mut self,
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        generation: PositionGeneration,
        outcome: Outcome,
    ) {
        if !self.owns(&partition, epoch) {
            return;
        }
        if let Outcome::Reset {
            offset,
            cause: ResetCause::NoCommit,
        } = outcome
        {
            self.commit_start(&partition, epoch, offset);
            self.telemetry.emit(Event::PositionReset {
                partition: partition.clone(),
                from: None,
                to: offset,
                gap: 0,
                cause: "no_commit",
            });
        }
        let asking = self.asking.remove(&partition).unwrap_or(Asking::Start);
        let found = |found| routing::Input::Resolved { generation, found };
        let at = |offset, epoch, source| {
            found(Found::Offset {
                offset,
                epoch,
                source,
            })
        };
        let verdict = |verdict| routing::Input::Validated {
            generation,
            verdict,
        };
        let input = match outcome {
            Outcome::Committed { offset, epoch } => at(offset, epoch, Source::Committed),
            Outcome::Reset { offset, .. } | Outcome::At(offset) | Outcome::End(offset) => {
                at(offset, None, Source::Reset)
            }
            Outcome::Inside => match asking {
                Asking::Refused(offset) => at(offset, None, Source::Inside),
                Asking::Start | Asking::History => return,
            },
            Outcome::Agrees => verdict(Verdict::Agrees),
            Outcome::Unknown => verdict(Verdict::Unknown),
            Outcome::Truncated { to, epoch } => match asking {
                Asking::Start | Asking::Refused(_) => at(to, epoch, Source::Diverged),
                Asking::History => verdict(Verdict::Truncated { to, epoch }),
            },
            Outcome::Halt => match asking {
                Asking::Start | Asking::Refused(_) => found(Found::Nothing),
                Asking::History => verdict(Verdict::Halt),
            },
        };
        self.tell_route(partition, input);
    }

    fn tell_route(&mut self, partition: TopicPartition, input: routing::Input) {
        let thread = self.threads.of(&partition);
        self.threads
            .post(thread, Lot::Routes(vec![(partition, input)]));
    }

    /// A position from the policy is committed at once, so that a restart before the first record
    /// does not ask the policy again (runtime.md X8).
    fn commit_start(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch, offset: Offset) {
        let state = Observed {
            partition: partition.clone(),
            assignment_epoch: epoch,
            generation: PositionGeneration::default(),
            offset,
            leader_epoch: None,
        };
        self.feed_committer(commit::Input::Observed(state, Due::Now));
    }

    fn tell_resolve(&self, event: resolve::Event) {
        match event {
            resolve::Event::ResolveLate {
                partition,
                waiting_for,
            } => {
                tracing::warn!(%partition, waiting_for, "offset not resolved yet");
            }
            resolve::Event::Forbidden(partition) => {
                let error = "no permission to read the topic".to_owned();
                self.telemetry.emit(Event::TopicError {
                    topic: partition.topic,
                    error,
                    denied: true,
                });
            }
            resolve::Event::ForeignMetadata(partition) => {
                metrics::counter!("nearside_foreign_metadata_total").increment(1);
                tracing::debug!(%partition, "commit metadata of another client ignored");
            }
            resolve::Event::StaleAnswer(partition) => {
                tracing::debug!(%partition, "stale answer dropped");
            }
        }
    }
}
