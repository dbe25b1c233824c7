//! The three kinds of handlers, and closures as each of them.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

use crate::handler::{Batch, BatchOutcome, Context, HandlerError, Message, Outcome};

/// Handles records one at a time. With [`Ordering::Partition`](crate::handler::Ordering::Partition)
/// the next record of a partition begins after the one before it was finished.
///
/// Runs on the handler pool. An error becomes an outcome by [`Classify`](crate::handler::Classify),
/// a panic a retry; neither touches other partitions. When the fleet gives up an attempt (deadline
/// and grace passed, partition lost) its future is dropped at the next await.
pub trait MessageHandler<T>: Send + Sync + 'static {
    /// Handles one record.
    ///
    /// # Errors
    /// Whatever went wrong; [`HandlerError`] carries the hint whether retrying can help.
    fn handle(
        &self,
        message: Message<T>,
        context: Context,
    ) -> impl Future<Output = Result<Outcome, HandlerError>> + Send;

    /// Asked before the group is joined for the first time; an error delays joining.
    ///
    /// # Errors
    /// Why work cannot begin yet.
    fn ready(&self) -> impl Future<Output = Result<(), HandlerError>> + Send {
        async { Ok(()) }
    }
}

/// Handles slices of one partition, in offset order.
///
/// Runs like a [`MessageHandler`]. A batch holds up to `max.poll.records` records.
pub trait BatchHandler<T>: Send + Sync + 'static {
    /// Handles one batch.
    ///
    /// # Errors
    /// Whatever went wrong; it applies to the whole batch.
    fn handle(
        &self,
        batch: Batch<T>,
        context: Context,
    ) -> impl Future<Output = Result<BatchOutcome, HandlerError>> + Send;

    /// Asked before the group is joined for the first time; an error delays joining.
    ///
    /// # Errors
    /// Why work cannot begin yet.
    fn ready(&self) -> impl Future<Output = Result<(), HandlerError>> + Send {
        async { Ok(()) }
    }
}

/// Handles records one at a time in code that blocks its thread. Runs on the blocking pool.
///
/// A blocking call cannot be aborted: honour [`Context::is_cancelled`] in long work.
pub trait BlockingHandler<T>: Send + Sync + 'static {
    /// Handles one record.
    ///
    /// # Errors
    /// Whatever went wrong; [`HandlerError`] carries the hint whether retrying can help.
    fn handle(&self, message: Message<T>, context: Context) -> Result<Outcome, HandlerError>;

    /// Asked before the group is joined for the first time; an error delays joining.
    ///
    /// # Errors
    /// Why work cannot begin yet.
    fn ready(&self) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A closure as [`MessageHandler`].
pub fn handler_fn<T, F, R>(function: F) -> HandlerFn<F, Message<T>>
where
    F: Fn(Message<T>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome, HandlerError>> + Send,
{
    HandlerFn::new(function)
}

/// A closure as [`BatchHandler`].
pub fn batch_fn<T, F, R>(function: F) -> HandlerFn<F, Batch<T>>
where
    F: Fn(Batch<T>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<BatchOutcome, HandlerError>> + Send,
{
    HandlerFn::new(function)
}

/// A closure as [`BlockingHandler`].
pub fn blocking_fn<T, F>(function: F) -> BlockingFn<F>
where
    F: Fn(Message<T>, Context) -> Result<Outcome, HandlerError> + Send + Sync + 'static,
{
    BlockingFn(function)
}

/// The handler made by [`handler_fn`] and [`batch_fn`]; `I` is what the closure takes.
pub struct HandlerFn<F, I> {
    function: F,
    input: PhantomData<fn(I)>,
}

impl<F, I> HandlerFn<F, I> {
    fn new(function: F) -> Self {
        Self {
            function,
            input: PhantomData,
        }
    }
}

impl<F, I> fmt::Debug for HandlerFn<F, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerFn<{}>", std::any::type_name::<I>())
    }
}

impl<T, F, R> MessageHandler<T> for HandlerFn<F, Message<T>>
where
    T: 'static,
    F: Fn(Message<T>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome, HandlerError>> + Send,
{
    #[inline]
    fn handle(
        &self,
        message: Message<T>,
        context: Context,
    ) -> impl Future<Output = Result<Outcome, HandlerError>> + Send {
        (self.function)(message, context)
    }
}

impl<T, F, R> BatchHandler<T> for HandlerFn<F, Batch<T>>
where
    T: 'static,
    F: Fn(Batch<T>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<BatchOutcome, HandlerError>> + Send,
{
    #[inline]
    fn handle(
        &self,
        batch: Batch<T>,
        context: Context,
    ) -> impl Future<Output = Result<BatchOutcome, HandlerError>> + Send {
        (self.function)(batch, context)
    }
}

/// The handler made by [`blocking_fn`].
pub struct BlockingFn<F>(F);

impl<F> fmt::Debug for BlockingFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockingFn")
    }
}

impl<T, F> BlockingHandler<T> for BlockingFn<F>
where
    F: Fn(Message<T>, Context) -> Result<Outcome, HandlerError> + Send + Sync + 'static,
{
    fn handle(&self, message: Message<T>, context: Context) -> Result<Outcome, HandlerError> {
        (self.0)(message, context)
    }
}
