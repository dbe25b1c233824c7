//! The coordinator's part of the rig: the resolver, its questions to leaders, and what its answers
//! mean for a route.

use nearside::cluster;
use nearside::group::{NoAnswer, Token};
use nearside::ids::{AssignmentEpoch, Offset, PositionGeneration, TopicPartition};
use nearside::offsets::resolve::{self, Outcome, Question, To};
use nearside::routing::{Found, Input, Output, Resolve, Source, Verdict};
use nearside::wire::{self, RequestError, Response};

use super::host::Purpose;
use super::{Rig, partition};

impl Rig {
    /// What becomes of an offset out of range; `earliest` unless said otherwise.
    pub(crate) fn reset_to(&mut self, reset: resolve::Reset) {
        self.resolver = resolve::Resolver::new(resolve::Settings {
            reset,
            ..resolve::Settings::new(None)
        });
    }

    /// The end of the log as its leader tells it, as a bounded read asks at its start.
    pub(crate) fn ask_end(&mut self) -> Offset {
        self.end = None;
        self.resolver_input(resolve::Input::Resolve {
            partition: partition(),
            assignment_epoch: AssignmentEpoch(0),
            generation: PositionGeneration(0),
            question: Question::End,
            unix_ms: 0,
        });
        self.run_until(|rig| rig.end.is_some());
        self.end.unwrap()
    }

    fn question_of(&self, output: &Output) -> Option<(PositionGeneration, Question)> {
        if let Output::Resolve { generation, what } = *output {
            let question = match what {
                Resolve::Start => Question::Start,
                Resolve::Anew => Question::Reset(self.resolver.settings().reset),
                Resolve::OutOfRange { offset, epoch } => Question::OutOfRange { offset, epoch },
            };
            return Some((generation, question));
        }
        let Output::Validate {
            generation,
            offset,
            epoch,
            leader_epoch,
            told,
        } = *output
        else {
            return None;
        };
        let question = Question::Validate {
            offset,
            epoch,
            leader_epoch,
            told,
        };
        Some((generation, question))
    }

    /// A route asks about its position.
    pub(super) fn question(&mut self, partition: TopicPartition, output: &Output) {
        let Some((generation, question)) = self.question_of(output) else {
            panic!("no question: {output:?}");
        };
        self.asking.insert(partition.clone(), question);
        let input = resolve::Input::Resolve {
            partition,
            assignment_epoch: AssignmentEpoch(0),
            generation,
            question,
            unix_ms: 0,
        };
        self.resolver_input(input);
    }

    pub(super) fn resolver_input(&mut self, input: resolve::Input) {
        let (now, draw) = (self.now, self.sample());
        let view = self.metadata.snapshot();
        self.resolver.handle(input, &**view, draw, now);
    }

    pub(super) fn on_resolver(&mut self, output: resolve::Output) {
        match output {
            resolve::Output::Send {
                to, request, token, ..
            } => {
                let To::Broker(leader) = to else {
                    panic!("the rig has no group: {to:?}")
                };
                self.positions_asked.push(self.now);
                let purpose = Purpose::Position(token);
                self.send((leader, wire::Class::Control), request, purpose);
            }
            resolve::Output::Resolved {
                outcome: Outcome::End(end),
                ..
            } => self.end = Some(end),
            resolve::Output::Resolved {
                partition,
                generation,
                outcome,
                ..
            } => {
                let question = self.asking.remove(&partition).unwrap();
                self.tell(&partition, answer(question, generation, outcome));
            }
            resolve::Output::Unanswered {
                partition,
                generation,
                ..
            } => self.tell(&partition, Input::Unanswered { generation }),
            resolve::Output::Refresh(partition) => {
                self.refresh(partition, cluster::Reason::NotLeader);
            }
            resolve::Output::Event(_) => {}
            resolve::Output::CoordinatorMoved | resolve::Output::Refused(_) => {
                panic!("the rig has no group")
            }
        }
    }

    pub(super) fn on_position(&mut self, token: Token, result: Result<Response, RequestError>) {
        let result = result.map_err(NoAnswer::from);
        self.resolver_input(resolve::Input::Answer { token, result });
    }
}

/// The resolver's answer in the terms of the question.
fn answer(question: Question, generation: PositionGeneration, outcome: Outcome) -> Input {
    let history = matches!(question, Question::Validate { .. });
    let found = |offset: Offset, epoch, source| Input::Resolved {
        generation,
        found: Found::Offset {
            offset,
            epoch,
            source,
        },
    };
    let verdict = |verdict| Input::Validated {
        generation,
        verdict,
    };
    match (outcome, question) {
        (Outcome::Reset { offset, .. } | Outcome::At(offset), _) => {
            found(offset, None, Source::Reset)
        }
        (Outcome::Inside, Question::OutOfRange { offset, epoch }) => {
            found(offset, epoch, Source::Inside)
        }
        (Outcome::Agrees, _) => verdict(Verdict::Agrees),
        (Outcome::Unknown, _) => verdict(Verdict::Unknown),
        (Outcome::Truncated { to, epoch }, _) if history => {
            verdict(Verdict::Truncated { to, epoch })
        }
        (Outcome::Truncated { to, epoch }, _) => found(to, epoch, Source::Diverged),
        (Outcome::Halt, _) if history => verdict(Verdict::Halt),
        (Outcome::Halt, _) => Input::Resolved {
            generation,
            found: Found::Nothing,
        },
        (Outcome::Inside | Outcome::Committed { .. } | Outcome::End(_), _) => {
            panic!("{outcome:?} answers no {question:?}")
        }
    }
}
