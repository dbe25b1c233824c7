//! Requests and their answers; questions of routes about their positions.

use std::time::Duration;

use nearside::cluster::{self, Reason};
use nearside::group::{self, NoAnswer, To, Token};
use nearside::ids::{
    AssignmentEpoch, BrokerId, Moment, Offset, PositionGeneration, TopicPartition,
};
use nearside::invariants::routing as invariants;
use nearside::offsets::commit::{self, Due, Observed};
use nearside::offsets::resolve::{self, Outcome, Question, ResetCause};
use nearside::routing::{Class, Found, Input, Output, Resolve, Source, Verdict, broker};
use nearside::wire::{self, Completion, Request, RequestFailure, Response};

use super::Member;
use crate::net::Wire;

/// What a request was sent for.
#[derive(Debug)]
pub(super) enum Purpose {
    Metadata(cluster::RequestToken),
    Fetch(BrokerId, broker::Ticket),
    Question(u64),
}

/// A request of the group's machines that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    machine: Machine,
    token: Token,
    pub(super) until: Moment,
}

/// Whose request it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    Group,
    Committer,
    Resolver,
}

/// What a route asked; it decides in which terms the answer is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asking {
    Start,
    Refused(Offset),
    History,
    End,
}

impl Member {
    pub(super) fn send(&mut self, wire: Wire, request: Request, purpose: Purpose) {
        self.check_request(wire, &request);
        let (now, draw) = (self.now, self.draw());
        self.last_token += 1;
        self.purposes.insert(self.last_token, purpose);
        let token = wire::Token(self.last_token);
        self.net.request(wire, token, request, draw, now);
    }

    /// I11, I18 and I19.
    fn check_request(&mut self, (to, _): Wire, request: &Request) {
        let lawful = invariants::asks_leaders_only(request, to, &*self.snapshot);
        assert!(lawful, "I11: {} sends {request:?} to {to}", self.name);
        let Request::Fetch(fetch) = request else {
            return;
        };
        let ours = self.routing.rack_sent();
        let known = invariants::rack_is_ours(fetch.rack.as_ref(), ours);
        assert!(known, "I19: {} sends {:?}", self.name, fetch.rack);
        if (fetch.session_id, fetch.session_epoch, fetch.max_bytes) == (0, -1, 1) {
            let rate = self.probe_budget.rate();
            self.probing.probed(self.now, fetch.partitions.len(), rate);
        }
    }

    /// Sends a request of the group's machines. Every one is answered exactly once.
    pub(super) fn ask(
        &mut self,
        (machine, token): (Machine, Token),
        to: To,
        request: Request,
        timeout: Duration,
    ) {
        let wire = match to {
            To::Coordinator => self
                .coordinator
                .map(|broker| (broker, wire::Class::Coordinator)),
            To::CoordinatorControl => self.coordinator.map(|broker| (broker, CONTROL)),
            To::Any => self.any_broker().map(|broker| (broker, CONTROL)),
        };
        self.ask_over(wire, (machine, token), request, timeout);
    }

    fn ask_over(
        &mut self,
        wire: Option<Wire>,
        (machine, token): (Machine, Token),
        request: Request,
        timeout: Duration,
    ) {
        let id = self.last_token + 1;
        let until = self.now + timeout;
        let asked = Asked {
            machine,
            token,
            until,
        };
        self.asked.insert(id, asked);
        match wire {
            Some(wire) => self.send(wire, request, Purpose::Question(id)),
            None => {
                self.last_token = id;
                self.answer(id, Err(NoAnswer::Lost("nobody to ask".into())));
            }
        }
    }

    /// Some broker, one whose control connection is Ready before others, another one each time.
    fn any_broker(&self) -> Option<BrokerId> {
        let known: Vec<BrokerId> = self.snapshot.brokers().map(|broker| broker.id).collect();
        let ready = |id: &BrokerId| self.brokers.is_ready(*id, Class::Control);
        let ready: Vec<BrokerId> = known.iter().copied().filter(ready).collect();
        let choice = if ready.is_empty() { known } else { ready };
        let turn = usize::try_from(self.last_token).unwrap();
        choice.get(turn.checked_rem(choice.len())?).copied()
    }

    pub(super) fn completed(&mut self, (broker, class): Wire, completion: Completion) {
        if let (CONTROL, Ok(_), Some(time)) = (class, &completion.result, completion.round_trip) {
            self.feed_link(broker, broker::Input::RoundTrip(time));
        }
        let Some(purpose) = self.purposes.remove(&completion.token.0) else {
            return;
        };
        match (purpose, completion.result) {
            (Purpose::Metadata(token), Ok(Response::Metadata(answer))) => {
                let answer = Box::new(answer);
                self.feed_metadata(cluster::Input::Response { token, answer });
            }
            (Purpose::Metadata(token), _) => {
                self.feed_metadata(cluster::Input::Failed { token });
            }
            (Purpose::Fetch(broker, ticket), result) => {
                let input = match result {
                    Ok(Response::Fetch(response)) => broker::Input::Answered { ticket, response },
                    Ok(_) | Err(_) => broker::Input::Failed { ticket },
                };
                if self.links.contains_key(&broker) {
                    self.feed_link(broker, input);
                }
            }
            (Purpose::Question(id), result) => {
                let result = result.map_err(|error| match error.reason {
                    RequestFailure::Unsupported(_) | RequestFailure::Encode(_) => {
                        NoAnswer::Unsupported
                    }
                    RequestFailure::TimedOut
                    | RequestFailure::Disconnected
                    | RequestFailure::Busy
                    | RequestFailure::Moved(_)
                    | RequestFailure::Closed(_)
                    | RequestFailure::Authentication(_)
                    | RequestFailure::Malformed(_)
                    | RequestFailure::Desynchronised => NoAnswer::Lost(error.to_string()),
                });
                self.answer(id, result);
            }
        }
    }

    /// Hands an answer to the machine that asked. A late one finds nobody.
    fn answer(&mut self, id: u64, result: Result<Response, NoAnswer>) {
        let Some(Asked { machine, token, .. }) = self.asked.remove(&id) else {
            return;
        };
        match machine {
            Machine::Group => self.owed.push_back(group::Input::Answer { token, result }),
            Machine::Committer => self.feed_committer(commit::Input::Answer { token, result }),
            Machine::Resolver => self.feed_resolver(resolve::Input::Answer { token, result }),
        }
    }

    pub(super) fn expire_questions(&mut self) {
        let now = self.now;
        let late = self.asked.iter().filter(|(_, asked)| asked.until <= now);
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.answer(id, Err(NoAnswer::Lost("timed out".into())));
        }
    }

    /// A route asks about its position.
    pub(super) fn question(&mut self, partition: TopicPartition, output: &Output) {
        let Some(epoch) = self.owned.get(&partition).copied() else {
            return;
        };
        let (generation, asking, question) = match *output {
            Output::Resolve { generation, what } => match what {
                Resolve::Start => (generation, Asking::Start, Question::Start),
                Resolve::Anew => {
                    let question = Question::Reset(self.resolver.settings().reset);
                    (generation, Asking::Start, question)
                }
                Resolve::OutOfRange { offset, epoch } => {
                    let question = Question::OutOfRange { offset, epoch };
                    (generation, Asking::Refused(offset), question)
                }
            },
            Output::Validate {
                generation,
                offset,
                epoch,
                leader_epoch,
                told,
            } => {
                let question = Question::Validate {
                    offset,
                    epoch,
                    leader_epoch,
                    told,
                };
                (generation, Asking::History, question)
            }
            Output::Sample { generation } => (generation, Asking::End, Question::End),
            ref other => panic!("no question: {other:?}"),
        };
        if asking != Asking::End {
            self.asking.insert(partition.clone(), asking);
        }
        self.feed_resolver(resolve::Input::Resolve {
            partition,
            assignment_epoch: epoch,
            generation,
            question,
            unix_ms: 0,
        });
    }

    pub(super) fn feed_resolver(&mut self, input: resolve::Input) {
        let (now, draw) = (self.now, self.draw());
        self.resolver.handle(input, &*self.snapshot, draw, now);
        while let Some(output) = self.resolver.poll_output() {
            self.on_resolver(output);
        }
    }

    fn on_resolver(&mut self, output: resolve::Output) {
        match output {
            resolve::Output::Send {
                to,
                request,
                token,
                timeout,
            } => {
                let from = (Machine::Resolver, token);
                match to {
                    resolve::To::Coordinator => self.ask(from, To::Coordinator, request, timeout),
                    resolve::To::CoordinatorControl => {
                        self.ask(from, To::CoordinatorControl, request, timeout);
                    }
                    resolve::To::Broker(broker) => {
                        self.ask_over(Some((broker, CONTROL)), from, request, timeout);
                    }
                }
            }
            resolve::Output::Resolved {
                partition,
                assignment_epoch,
                generation,
                outcome,
            } => self.resolved(partition, assignment_epoch, generation, outcome),
            resolve::Output::Unanswered {
                partition,
                assignment_epoch,
                generation,
            } => {
                if self.owned.get(&partition) == Some(&assignment_epoch) {
                    let unanswered = Input::Unanswered { generation };
                    self.owed_routes.push_back((partition, unanswered));
                }
            }
            resolve::Output::Refresh(partition) => {
                self.refresh_for_link(vec![partition], Reason::NotLeader);
            }
            resolve::Output::CoordinatorMoved => {
                self.owed.push_back(group::Input::CoordinatorMoved);
            }
            resolve::Output::Refused(error) => {
                let generation = self.generation;
                self.owed
                    .push_back(group::Input::Refused { generation, error });
            }
            resolve::Output::Event(event) => self.tell(format_args!("{event:?}")),
        }
    }

    fn resolved(
        &mut self,
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        generation: PositionGeneration,
        outcome: Outcome,
    ) {
        if self.owned.get(&partition) != Some(&epoch) {
            return;
        }
        if let Outcome::Reset {
            offset,
            cause: ResetCause::NoCommit,
        } = outcome
        {
            self.commit_start(&partition, epoch, offset);
        }
        if let Outcome::End(leader_end) = outcome {
            let sampled = Input::Sampled {
                generation,
                leader_end,
            };
            self.owed_routes.push_back((partition, sampled));
            return;
        }
        let asking = self.asking.remove(&partition).unwrap_or(Asking::Start);
        if let Some(input) = put(asking, generation, outcome) {
            self.owed_routes.push_back((partition, input));
        }
    }

    /// A position from the policy is committed at once (runtime.md X8).
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
}

/// The resolver's answer in the terms of the question.
fn put(asking: Asking, generation: PositionGeneration, outcome: Outcome) -> Option<Input> {
    let found = |found| Input::Resolved { generation, found };
    let at = |offset, epoch, source| {
        found(Found::Offset {
            offset,
            epoch,
            source,
        })
    };
    let verdict = |verdict| Input::Validated {
        generation,
        verdict,
    };
    Some(match outcome {
        Outcome::Committed { offset, epoch } => at(offset, epoch, Source::Committed),
        Outcome::Reset { offset, .. } | Outcome::At(offset) | Outcome::End(offset) => {
            at(offset, None, Source::Reset)
        }
        Outcome::Inside => match asking {
            Asking::Refused(offset) => at(offset, None, Source::Inside),
            Asking::Start | Asking::History | Asking::End => return None,
        },
        Outcome::Agrees => verdict(Verdict::Agrees),
        Outcome::Unknown => verdict(Verdict::Unknown),
        Outcome::Truncated { to, epoch } => match asking {
            Asking::Start | Asking::Refused(_) | Asking::End => at(to, epoch, Source::Diverged),
            Asking::History => verdict(Verdict::Truncated { to, epoch }),
        },
        Outcome::Halt => match asking {
            Asking::Start | Asking::Refused(_) | Asking::End => found(Found::Nothing),
            Asking::History => verdict(Verdict::Halt),
        },
    })
}

const CONTROL: wire::Class = wire::Class::Control;
