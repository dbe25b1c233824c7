//! Requests that others have this link carry.

use actix::prelude::{Recipient, SendError};

use super::messages::{Answer, Exchange};
use super::{BrokerLink, broker};
use crate::wire::{
    ApiKey, Class, Completion, Outcome, Request, RequestError, RequestFailure, Token,
};

/// Who waits for a token.
pub(super) enum Waiting {
    /// The fetch plan.
    Fetch(broker::Ticket),
    /// Another actor.
    Exchange {
        api: ApiKey,
        token: u64,
        reply: Recipient<Answer>,
    },
}

impl BrokerLink {
    /// Carries a request of another actor.
    pub(super) fn carry(&mut self, exchange: Exchange) {
        let Exchange {
            class,
            request,
            token,
            reply,
        } = exchange;
        let api = request.api();
        self.send(class, request, Waiting::Exchange { api, token, reply });
    }

    /// Sends a request over the connection of its class.
    pub(super) fn send(&mut self, class: Class, request: Request, waiting: Waiting) {
        self.last_token += 1;
        let token = self.last_token;
        self.waiting.insert(token, waiting);
        if let Some(port) = self.port(class) {
            let said = port.request(Token(token), request);
            if let Some(id) = self.current.get(&class).copied() {
                self.said(id, class, said);
            }
        }
    }

    /// Owes an answer to its asker.
    pub(super) fn answer(&mut self, reply: Recipient<Answer>, token: u64, completion: Completion) {
        self.answers.push_back((
            reply,
            Answer {
                token,
                from: self.target,
                completion,
            },
        ));
    }

    /// Delivers the answers owed; whether all found room.
    pub(super) fn send_answers(&mut self) -> bool {
        for _ in 0..self.answers.len() {
            let Some((reply, answer)) = self.answers.pop_front() else {
                break;
            };
            match reply.try_send(answer) {
                // An asker that has ended needs no answer.
                Ok(()) | Err(SendError::Closed(_)) => {}
                Err(SendError::Full(answer)) => self.answers.push_back((reply, answer)),
            }
        }
        self.answers.is_empty()
    }
}

/// A link that ends, however it does, leaves nobody waiting.
impl Drop for BrokerLink {
    fn drop(&mut self) {
        for (own, waiting) in std::mem::take(&mut self.waiting) {
            let Waiting::Exchange { api, token, reply } = waiting else {
                continue;
            };
            let error = RequestError {
                outcome: Outcome::Unknown,
                reason: RequestFailure::Disconnected,
            };
            let completion = Completion {
                token: Token(own),
                api,
                version: None,
                result: Err(error),
                round_trip: None,
            };
            self.answer(reply, token, completion);
        }
        // Who has no room now learns of it by its own deadline.
        self.send_answers();
    }
}
