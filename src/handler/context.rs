//! What an attempt can ask about itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::handler::FencingToken;
use crate::handler::tether::Tether;
use crate::ids::{Moment, Offset};

/// One attempt of one record or batch. Clones are cheap and speak of the same attempt.
#[derive(Clone)]
pub struct Context {
    pub(crate) tether: Arc<Tether>,
    pub(crate) unit: u32,
    pub(crate) attempt: u32,
    pub(crate) offset: Offset,
    pub(crate) time_allowed: Option<Duration>,
}

impl Context {
    /// Number of this attempt, from 1. It starts anew in a process that takes the partition over.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When the attempt is cancelled, on the runtime's monotonic clock; `None` without a deadline,
    /// and once the attempt has ended.
    pub fn deadline(&self) -> Option<Moment> {
        let allowed = self.time_allowed?;
        let began = self.tether.time();
        (self.tether.observe().finished == self.unit).then(|| began + allowed)
    }

    /// Time left until the deadline, zero when it passed; `None` like [`deadline`](Self::deadline).
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.deadline()?.since(self.tether.now()))
    }

    /// Resolves when the attempt should end: its deadline passed, or the partition is being given
    /// up and its drain time is over. An attempt that does not end within `handler.cancel.grace.ms`
    /// is aborted.
    ///
    /// Cancellation safe.
    pub async fn cancelled(&self) {
        self.tether.cancelled(self.unit).await;
    }

    /// Whether the attempt should end; the same condition as [`cancelled`](Self::cancelled),
    /// without waiting.
    pub fn is_cancelled(&self) -> bool {
        self.tether.is_cancelled(self.unit)
    }

    /// The token by which a sink can tell this owner of the partition from a former one.
    pub fn fencing(&self) -> FencingToken {
        FencingToken::new(self.tether.assignment(), self.offset)
    }

    /// Whether the result of this attempt still counts: the partition is still ours and the attempt
    /// was not given up.
    pub fn is_current(&self) -> bool {
        self.tether.is_intact()
    }

    /// Reports that a long attempt moves on. Resets the stall clock, not the deadline (runtime.md
    /// V2).
    pub fn progress(&self) {
        self.tether.stir();
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("partition", &self.tether.assignment().partition)
            .field("offset", &self.offset)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
