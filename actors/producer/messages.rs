//! What the producer actor is sent.

use actix::prelude::Message;

use crate::producer::letters::{Letter, Ticket};

/// One message to the producer actor. Its mailbox holds 1 024; senders keep what does not fit.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) enum Mail {
    /// Write this dead letter; the partition hears of its end by
    /// [`Lot::Letters`](crate::actors::partition::Lot::Letters).
    Letter(Ticket, Letter),
    /// The fleet is done: end.
    Stop,
    /// Panic.
    Crash,
}
