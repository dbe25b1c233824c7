//! Nearside is an actor-based Kafka consumer-group runtime: give it a message handler, and it joins
//! the group, reads every partition from the nearest in-sync replica, keeps order, retries, and
//! commits only what finished.
//!
#![cfg_attr(feature = "runtime", doc = "```no_run")]
#![cfg_attr(not(feature = "runtime"), doc = "```ignore")]
//! use nearside::prelude::*;
//!
//! #[derive(serde::Deserialize)]
//! struct Order {
//!     id: u64,
//!     cents: u64,
//! }
//!
//! # async fn charge(_: u64, _: u64) -> std::io::Result<()> { Ok(()) }
//! #[tokio::main]
//! async fn main() -> Result<(), nearside::Error> {
//!     let orders = Subscription::topics(["orders"])
//!         .decode(Json::<Order>::new())
//!         .handler(handler_fn(|order: Message<Order>, _: Context| async move {
//!             // Any error means: again later, and nothing behind it in its partition before.
//!             charge(order.value().id, order.value().cents).await?;
//!             // From here on, and not earlier, the offset may be committed.
//!             Ok(Outcome::Done)
//!         }));
//!     let fleet = Fleet::builder("billing")
//!         .bootstrap("kafka-1:9092,kafka-2:9092")
//!         .property("client.rack", "eu-west-1a")
//!         .subscribe(orders)
//!         .start()
//!         .await?;
//!     // SIGINT and SIGTERM finish the work in hand, commit it and leave the group.
//!     fleet.run_until_signal().await.into_result()
//! }
//! ```
//!
//! A [`Subscription`](handler::Subscription) says which topics, how records are decoded and what
//! happens when a handler fails; [`config`] takes Kafka's property names and refuses those it does
//! not know; [`fleet`] holds builder, handle, events and report. The README has the guarantees, the
//! `nearside` command and the metrics.
//!
//! # Rings
//!
//! * The **core** decides. Its machines never wait, read a clock or draw a random number: each
//!   takes an input, a moment and a random sample, and answers with outputs, so a test waits for
//!   nothing and fails the same way twice. [`routing`] chooses the replica of each
//!   partition, [`cluster`] keeps the picture of the cluster, [`group`] and [`assign`] the
//!   membership, [`offsets`] knows what is finished, [`handler`] what may run, [`producer`] writes.
//!   [`wire`] and [`records`] read what brokers send, within bounds.
//! * The **actors** act, and are private: they carry inputs to machines and outputs to sockets,
//!   timers and each other.
//! * The **surface** assembles and presents: [`fleet`] and the `nearside` command.
//!
//! # Features
//!
//! | feature | adds | by default |
//! |---|---|---|
//! | `runtime` | actors, sockets, [`fleet`]; without it the crate is the core alone | yes |
//! | `embedded` | a Kafka-compatible cluster in the process: racks, follower lag, faults | yes |
//! | `cli` | the `nearside` command, and both of the above | yes |
//!
#![cfg_attr(feature = "runtime", doc = "[`fleet`]: crate::fleet")]
#![cfg_attr(not(feature = "runtime"), doc = "[`fleet`]: #features")]

pub mod assign;
pub mod backoff;
pub mod budget;
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
pub mod secret;
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

/// Compiles the README's code.
#[cfg(all(doctest, feature = "runtime"))]
#[doc = include_str!("../README.md")]
struct Readme;
