//! What a broker link is told and asked.

use actix::prelude::{Message, Recipient};

use crate::cluster::{Endpoint, Target};
use crate::ids::Rack;
use crate::routing;
use crate::wire::{Class, Completion, DrainReason, Request};

/// One delivery to a broker link. Its mailbox holds 256; senders keep what does not fit.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) enum LinkLot {
    /// What routes of one thread want, in order.
    Asks(Vec<routing::broker::Input>),
    /// One request with an answer.
    Exchange(Exchange),
    /// The broker's address or rack, as it is now.
    Endpoint(Endpoint, Option<Rack>),
    /// The connection of a class is to end at once, with what is in flight on it.
    HangUp(Class),
    /// Reading is over: fetch sessions say good-bye.
    Close,
    /// Every connection is to end in good order and be opened anew when needed (KIP-899).
    Drain(DrainReason),
    /// The link is no longer needed.
    Stop,
    /// Panic.
    Crash,
}

/// A request to be carried to the broker. It is answered exactly once.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Over which connection.
    pub(crate) class: Class,
    /// What to send.
    pub(crate) request: Request,
    /// The asker's name for it.
    pub(crate) token: u64,
    /// Who asks.
    pub(crate) reply: Recipient<Answer>,
}

/// The end of an [`Exchange`].
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) struct Answer {
    /// The asker's name for it.
    pub(crate) token: u64,
    /// Who was asked.
    pub(crate) from: Target,
    /// The answer, or why there is none.
    pub(crate) completion: Completion,
}
