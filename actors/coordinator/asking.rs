//! Requests of the three machines, and their answers.

use std::time::Duration;

use super::CoordinatorActor;
use crate::actors::broker::{Answer, Exchange, LinkLot};
use crate::cluster::Target;
use crate::group::{self, NoAnswer, To, Token};
use crate::ids::{BrokerId, Moment};
use crate::offsets::{commit, resolve, sampler};
use crate::wire::{Class, Completion, Request, RequestFailure, Response};

/// A request that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    machine: Machine,
    token: Token,
    /// When it counts as lost, whatever its connection says.
    pub(super) until: Moment,
}

/// Whose request it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    Member,
    Committer,
    Resolver,
    Sampler,
}

impl CoordinatorActor {
    /// Sends a machine's request where it belongs. Every one is answered exactly once.
    pub(super) fn ask(
        &mut self,
        (machine, token): (Machine, Token),
        to: To,
        request: Request,
        timeout: Duration,
    ) {
        self.last_token += 1;
        let id = self.last_token;
        let until = self.now() + timeout;
        self.asked.insert(
            id,
            Asked {
                machine,
                token,
                until,
            },
        );
        let sent = match to {
            To::Coordinator => self.port_request(id, request),
            To::CoordinatorControl => {
                let node = self.port.node().map(Target::Broker);
                node.is_some_and(|node| self.by_link(node, id, request))
            }
            To::Any => {
                let any = self.any_target(id);
                any.is_some_and(|target| self.by_link(target, id, request))
            }
        };
        if !sent {
            self.complete(id, Err(NoAnswer::Lost("no connection to ask over".into())));
        }
    }

    /// Sends a leader's question over its control connection.
    pub(super) fn ask_broker(
        &mut self,
        (machine, token): (Machine, Token),
        broker: BrokerId,
        request: Request,
        timeout: Duration,
    ) {
        self.last_token += 1;
        let id = self.last_token;
        let until = self.now() + timeout;
        self.asked.insert(
            id,
            Asked {
                machine,
                token,
                until,
            },
        );
        if !self.by_link(Target::Broker(broker), id, request) {
            self.complete(
                id,
                Err(NoAnswer::Lost(format!("broker {broker} has no address"))),
            );
        }
    }

    /// The end of a request that a link carried.
    pub(super) fn answered(&mut self, answer: Answer) {
        self.complete(answer.token, answer_of(answer.completion));
    }

    /// Hands an answer to the machine that asked. A second one, or a late one, finds nobody.
    pub(super) fn complete(&mut self, id: u64, result: Result<Response, NoAnswer>) {
        let Some(Asked { machine, token, .. }) = self.asked.remove(&id) else {
            return;
        };
        match machine {
            Machine::Member => self.feed_member(group::Input::Answer { token, result }),
            Machine::Committer => self.feed_committer(commit::Input::Answer { token, result }),
            Machine::Resolver => self.feed_resolver(resolve::Input::Answer { token, result }),
            Machine::Sampler => self.feed_sampler(sampler::Input::Answer { token, result }),
        }
    }

    /// Ends requests whose time is over.
    pub(super) fn expire_questions(&mut self) {
        let now = self.now();
        let late: Vec<u64> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.until <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.complete(id, Err(NoAnswer::Lost("timed out".into())));
        }
    }

    fn by_link(&self, target: Target, token: u64, request: Request) -> bool {
        let reply = self.port.me.clone();
        let exchange = Exchange {
            class: Class::Control,
            request,
            token,
            reply,
        };
        self.links
            .directory
            .link(target)
            .is_some_and(|link| link.try_send(LinkLot::Exchange(exchange)).is_ok())
    }

    /// Some broker, one whose control connection is Ready before others, another one each time.
    fn any_target(&self, turn: u64) -> Option<Target> {
        let known: Vec<Target> = self
            .snapshot
            .brokers()
            .map(|broker| Target::Broker(broker.id))
            .collect();
        let ready: Vec<Target> = known
            .iter()
            .copied()
            .filter(|target| self.links.directory.ready.contains(target))
            .collect();
        let choice = if ready.is_empty() { known } else { ready };
        let index = usize::try_from(turn)
            .unwrap_or(0)
            .checked_rem(choice.len())?;
        choice.get(index).copied()
    }
}

/// A connection's completion as the machines want it.
pub(super) fn answer_of(completion: Completion) -> Result<Response, NoAnswer> {
    completion.result.map_err(|error| match error.reason {
        RequestFailure::Unsupported(_) | RequestFailure::Encode(_) => NoAnswer::Unsupported,
        RequestFailure::TimedOut
        | RequestFailure::Disconnected
        | RequestFailure::Busy
        | RequestFailure::Moved(_)
        | RequestFailure::Closed(_)
        | RequestFailure::Authentication(_)
        | RequestFailure::Malformed(_)
        | RequestFailure::Desynchronised => NoAnswer::Lost(error.to_string()),
    })
}
