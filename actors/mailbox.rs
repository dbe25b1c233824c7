//! What happens when a mailbox is full: nothing is dropped and nobody waits.
//!
//! Every actor's mailbox is bounded. A sender keeps what did not fit, in order, and offers it again
//! on its next tick. [`Outbox`] is that sender's side.

use std::collections::VecDeque;

use actix::prelude::{Message, Recipient, SendError};

/// The way to one actor: sends at once while its mailbox has room, else keeps the messages in
/// order.
pub(crate) struct Outbox<M>
where
    M: Message + Send,
    M::Result: Send,
{
    to: Option<Recipient<M>>,
    waiting: VecDeque<M>,
}

/// What became of a message handed to an [`Outbox`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Posted {
    /// In the mailbox.
    Sent,
    /// Kept here until the next [`Outbox::flush`]; counted as `mailbox_full_total`.
    Kept,
    /// The actor has ended; the message is gone, as it would be after any delivery to it.
    Closed,
}

impl<M> Outbox<M>
where
    M: Message + Send,
    M::Result: Send,
{
    /// An empty outbox towards `to`.
    pub(crate) fn new(to: Recipient<M>) -> Self {
        Self::maybe(Some(to))
    }

    /// The same towards an actor that may not exist: then everything posted is gone.
    pub(crate) fn maybe(to: Option<Recipient<M>>) -> Self {
        Self {
            to,
            waiting: VecDeque::new(),
        }
    }

    /// Whether the actor has ended, or never was.
    pub(crate) fn is_closed(&self) -> bool {
        self.to.as_ref().is_none_or(|to| !to.connected())
    }

    /// Sends `message` behind everything that still waits.
    pub(crate) fn post(&mut self, message: M) -> Posted {
        if self.flush() == Posted::Kept {
            self.waiting.push_back(message);
            return Posted::Kept;
        }
        match self.offer(message) {
            Ok(()) => Posted::Sent,
            Err(Refused::Full(message)) => {
                metrics::counter!("nearside_mailbox_full_total").increment(1);
                self.waiting.push_back(message);
                Posted::Kept
            }
            Err(Refused::Closed) => Posted::Closed,
        }
    }

    /// Offers what waits once more.
    pub(crate) fn flush(&mut self) -> Posted {
        while let Some(message) = self.waiting.pop_front() {
            match self.offer(message) {
                Ok(()) => {}
                Err(Refused::Full(message)) => {
                    self.waiting.push_front(message);
                    return Posted::Kept;
                }
                Err(Refused::Closed) => {
                    self.waiting.clear();
                    return Posted::Closed;
                }
            }
        }
        Posted::Sent
    }

    fn offer(&self, message: M) -> Result<(), Refused<M>> {
        let Some(to) = &self.to else {
            return Err(Refused::Closed);
        };
        to.try_send(message).map_err(|error| match error {
            SendError::Full(message) => Refused::Full(message),
            SendError::Closed(_) => Refused::Closed,
        })
    }
}

/// Why a message was not taken.
enum Refused<M> {
    /// It comes back.
    Full(M),
    /// Nobody is there.
    Closed,
}

impl<M> std::fmt::Debug for Outbox<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
