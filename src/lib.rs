//! Nearside is an actor-based Kafka consumer-group runtime: give it a message handler, and it joins
//! the group, reads every partition from the nearest in-sync replica, keeps order, retries, and
//! commits only what finished.
//!
//! The crate has three rings. The **core** (everything reachable without the `runtime` feature)
//! decides: pure machines that take an input, a moment and a random sample, and answer with
//! outputs. The **actors** act. The **surface** ([`fleet`], the `nearside` command) assembles and
//! presents.

pub mod assign;
pub mod backoff;
pub mod cluster;
pub mod config;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod error;
pub mod group;
pub mod handler;
pub mod ids;
pub mod invariants;
pub mod offsets;
pub mod producer;
pub mod records;
pub mod routing;
pub mod supervision;
pub mod timers;
pub mod wire;

#[cfg(feature = "runtime")]
#[path = "../actors/mod.rs"]
mod actors;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "runtime")]
pub mod fleet;

pub use error::{Error, ErrorKind};

/// Everything a handler needs, for `use nearside::prelude::*`.
#[cfg(feature = "runtime")]
pub mod prelude {
    pub use crate::config::Config;
    pub use crate::error::{Error, ErrorKind};
    pub use crate::fleet::{Event, Fleet, FleetHandle, FleetReport, StopReason};
    pub use crate::handler::{
        Batch, BatchHandler, BatchOutcome, BlockingHandler, Codec, Context, Exhausted,
        HandlerError, Json, Message, MessageHandler, Ordering, Outcome, Raw, Retry, Subscription,
        batch_fn, blocking_fn, handler_fn,
    };
}
