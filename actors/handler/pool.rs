//! Where user code runs: never on an actor's thread.

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::handler::{BoxFuture, Pool, StintEnd};

/// The handler pool and the blocking pool: one tokio runtime of its own.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    runtime: Handle,
}

impl Pools {
    /// Pools on `runtime`.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime }
    }

    /// Runs one stint and calls `done` with its end; with `None` if it was aborted or destroyed by
    /// a panic.
    pub(crate) fn run<F>(
        &self,
        pool: Pool,
        stint: BoxFuture<'static, StintEnd>,
        done: F,
    ) -> AbortHandle
    where
        F: FnOnce(Option<StintEnd>) + Send + 'static,
    {
        let task = match pool {
            Pool::Handler => self.runtime.spawn(stint),
            Pool::Blocking => {
                let runtime = self.runtime.clone();
                self.runtime.spawn_blocking(move || runtime.block_on(stint))
            }
        };
        let abort = task.abort_handle();
        self.runtime.spawn(async move { done(task.await.ok()) });
        abort
    }
}
