//! Handlers, the messages they get and the outcomes they give (runtime.md 2, 9 and 10).
//!
//! User code implements [`MessageHandler`], [`BatchHandler`] or [`BlockingHandler`] (or wraps a
//! closure with [`handler_fn`], [`batch_fn`], [`blocking_fn`]) and hands it to a [`Subscription`],
//! which erases its types. The runtime's side is the host machine: it queues what was fetched,
//! decides what starts when, and judges what comes back.

mod batch;
mod batched;
mod clock;
mod codec;
mod context;
mod erased;
mod error;
mod fencing;
mod host;
mod message;
mod outcome;
mod policy;
mod single;
mod stint;
mod subscription;
mod tether;
mod traits;
mod work;

pub use batch::{Batch, Messages};
pub use clock::Clock;
pub use codec::{Codec, DecodeError, Json, Raw};
pub use context::Context;
pub use erased::{BoxFuture, ErasedHandler, IntoHandler, Pool, kind};
pub use error::{Classify, HandlerError, Hint};
pub use fencing::{Assignment, FencingToken};
pub use host::{Event, Facts, Gate, Host, Input, Output, Settings, StintId, StopReason};
pub use message::Message;
pub use outcome::{BatchOutcome, Outcome};
pub use policy::{Exhausted, Handling, Ordering, Retry};
pub use stint::{Cause, Stint, StintEnd};
#[cfg(feature = "cli")]
pub(crate) use subscription::not_a_topic;
pub use subscription::{Policy, Subscription, SubscriptionBuilder, TopicMatcher, Topics};
pub use traits::{
    BatchHandler, BlockingFn, BlockingHandler, HandlerFn, MessageHandler, batch_fn, blocking_fn,
    handler_fn,
};
