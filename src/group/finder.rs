//! Finding the group's coordinator.

use super::classic::{ClassicMember, Facts, Phase, Timer, What};
use super::input::{Event, Output, To, Token};
use super::verdict::Verdict;
use crate::backoff::Backoff;
use crate::wire::ErrorCode;
use crate::wire::api::{Endpoint, find_coordinator};

/// What is known of the coordinator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Finder {
    pub(super) known: Option<Endpoint>,
    out: Option<Token>,
    failures: u32,
    /// Connections in a row that brought no answer.
    losses: u32,
}

impl ClassicMember {
    /// Drops what is known of the coordinator; [`look_for_coordinator`](Self::look_for_coordinator)
    /// goes on.
    pub(super) fn forget_coordinator(&mut self) {
        if self.finder.known.take().is_some() {
            self.push(Output::Coordinator(None));
        }
    }

    /// The coordinator cannot be reached. Until an election the others may still name the dead
    /// broker, so the question is repeated no faster than a refused one.
    pub(super) fn lose_coordinator(&mut self, facts: Facts<'_>) {
        if self.finder.known.is_none() {
            return;
        }
        self.forget_coordinator();
        let delay = self.settings.retry.delay(self.finder.losses, facts.draw);
        self.finder.losses = self.finder.losses.saturating_add(1);
        self.set_timer(Timer::Find, facts.now + delay);
    }

    /// The coordinator answered.
    pub(super) fn coordinator_answered(&mut self) {
        self.finder.losses = 0;
    }

    /// Asks any broker for the coordinator, if one is needed and not known.
    pub(super) fn look_for_coordinator(&mut self) {
        let idle = matches!(self.phase, Phase::Idle | Phase::Ended | Phase::Leaving(_));
        let busy = self.finder.out.is_some() || self.is_waiting_for(Timer::Find);
        if idle || busy || self.finder.known.is_some() {
            return;
        }
        let request = find_coordinator::Request {
            key: self.settings.group.as_str().to_owned(),
            kind: find_coordinator::KeyKind::Group,
        };
        let patience = PATIENCE.plain(self.finder.failures);
        let timeout = patience.min(self.settings.request_timeout);
        self.finder.out = Some(self.send(To::Any, What::Find, request.into(), timeout));
    }

    pub(super) fn on_found(
        &mut self,
        token: Token,
        answer: Result<find_coordinator::Response, String>,
        facts: Facts<'_>,
    ) {
        if self.finder.out != Some(token) {
            return;
        }
        self.finder.out = None;
        let (error, why) = match answer {
            Ok(answer) => match (answer.error, answer.coordinator) {
                (ErrorCode::NONE, Some(coordinator)) => {
                    self.finder.failures = 0;
                    self.finder.known = Some(coordinator.clone());
                    self.push(Output::Coordinator(Some(coordinator)));
                    self.catch_up_heartbeat(facts);
                    return;
                }
                (error, _) => (error, error.to_string()),
            },
            Err(why) => (ErrorCode::NETWORK_EXCEPTION, why),
        };
        if let Verdict::Fatal(kind, text) = Verdict::of(error) {
            self.fail(kind, text, error, facts);
            return;
        }
        let delay = self.settings.retry.delay(self.finder.failures, facts.draw);
        self.finder.failures = self.finder.failures.saturating_add(1);
        self.set_timer(Timer::Find, facts.now + delay);
        self.tell(Event::Retrying {
            what: "FindCoordinator",
            why,
        });
    }
}

/// How long one broker is asked who coordinates before another one is: it may have died with the
/// question, and a session lasts shorter than a request may take. Brokers that are only slow are
/// waited for in the end.
const PATIENCE: Backoff = Backoff::from_ms(2_000, 30_000);
