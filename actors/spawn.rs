//! The one way to start a task on an actor thread.

use std::future::Future;

use tokio::task::JoinHandle;

/// Starts `future` on the current thread. The name shows in traces; the handle may be dropped.
pub(crate) fn local<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tracing::trace!(task = name, "task started");
    tokio::task::spawn_local(future)
}
