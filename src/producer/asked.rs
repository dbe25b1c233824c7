//! The end of a request on the wire, as the producer hears of it.

use crate::wire::{self, RequestError, Response};

use super::message::{Input, Outcome, SendToken};

/// A request that a host carries for the producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Of [`Output::Send`](super::Output::Send).
    Records(SendToken),
    /// Of [`Output::Identify`](super::Output::Identify).
    Identity(SendToken),
}

impl Asked {
    /// What a completion on the wire means to the producer.
    pub fn ended(self, result: Result<Response, RequestError>) -> Input {
        match (self, result) {
            (Self::Records(token), Ok(Response::Produce(response))) => {
                Input::Answered { token, response }
            }
            (Self::Identity(token), Ok(Response::InitProducerId(response))) => Input::Identified {
                token,
                response: Some(response),
            },
            (_, Err(error)) => self.unanswered(error.outcome),
            // A response of another API would have failed to decode.
            (_, Ok(_)) => self.unanswered(wire::Outcome::Unknown),
        }
    }

    /// The same for a request that ended without an answer.
    pub fn unanswered(self, outcome: wire::Outcome) -> Input {
        match self {
            Self::Records(token) => Input::Lost {
                token,
                outcome: match outcome {
                    wire::Outcome::NotWritten => Outcome::NotWritten,
                    wire::Outcome::Unknown => Outcome::Unknown,
                },
            },
            Self::Identity(token) => Input::Identified {
                token,
                response: None,
            },
        }
    }
}
