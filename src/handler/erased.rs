//! Handlers without their types, as the host and the pools see them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::handler::batched::Batched;
use crate::handler::single::{Asynchronous, Blocking, Single};
use crate::handler::{
    BatchHandler, BlockingHandler, Classify, Codec, HandlerError, MessageHandler, Stint, StintEnd,
};

/// A boxed future that can be sent to a pool.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a handler runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Pool {
    /// The handler pool: the future is spawned as a task.
    Handler,
    /// The blocking pool: the future is driven to its end on one of its threads, which it blocks.
    Blocking,
}

/// A codec, a handler of any kind and a classifier, their types erased.
pub trait ErasedHandler: fmt::Debug + Send + Sync + 'static {
    /// Where its stints run.
    fn pool(&self) -> Pool;

    /// Asks the handler whether work can begin.
    fn ready(self: Arc<Self>) -> BoxFuture<'static, Result<(), HandlerError>>;

    /// Works through a stint. Panics of user code are caught inside. Dropping the future ends the
    /// unit in hand at its next await.
    fn start(self: Arc<Self>, stint: Stint) -> BoxFuture<'static, StintEnd>;
}

/// What [`SubscriptionBuilder::handler`](crate::handler::SubscriptionBuilder::handler) accepts:
/// each kind of handler whose values codec `C` makes. `K` only tells the kinds apart.
pub trait IntoHandler<C: Codec, K>: Sized {
    /// Erases the types.
    fn into_handler(self, codec: C, classify: Option<Arc<dyn Classify>>) -> Arc<dyn ErasedHandler>;
}

/// The kinds of [`IntoHandler`].
pub mod kind {
    /// A [`MessageHandler`](crate::handler::MessageHandler).
    #[derive(Debug)]
    pub enum OfMessages {}
    /// A [`BatchHandler`](crate::handler::BatchHandler).
    #[derive(Debug)]
    pub enum OfBatches {}
    /// A [`BlockingHandler`](crate::handler::BlockingHandler).
    #[derive(Debug)]
    pub enum OfBlocking {}
}

impl<C: Codec, H: MessageHandler<C::Value>> IntoHandler<C, kind::OfMessages> for H {
    fn into_handler(self, codec: C, classify: Option<Arc<dyn Classify>>) -> Arc<dyn ErasedHandler> {
        Arc::new(Single {
            codec,
            handler: Asynchronous(self),
            classify,
        })
    }
}

impl<C: Codec, H: BatchHandler<C::Value>> IntoHandler<C, kind::OfBatches> for H {
    fn into_handler(self, codec: C, classify: Option<Arc<dyn Classify>>) -> Arc<dyn ErasedHandler> {
        Arc::new(Batched {
            codec,
            handler: self,
            classify,
        })
    }
}

impl<C: Codec, H: BlockingHandler<C::Value>> IntoHandler<C, kind::OfBlocking> for H {
    fn into_handler(self, codec: C, classify: Option<Arc<dyn Classify>>) -> Arc<dyn ErasedHandler> {
        Arc::new(Single {
            codec,
            handler: Blocking(self),
            classify,
        })
    }
}
