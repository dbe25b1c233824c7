//! Being asked to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves at SIGINT or SIGTERM. Where signals cannot be handled it never does, and they end the
/// process as usual.
pub(super) async fn asked_to_stop() {
    StopSignals::listen().next().await;
}

/// SIGINT and SIGTERM, one after the other. Two of the same kind at once may come as one.
#[derive(Debug)]
pub(super) struct StopSignals(Option<(Signal, Signal)>);

impl StopSignals {
    /// Takes the signals from now on. Where they cannot be handled they end the process as usual.
    pub(super) fn listen() -> Self {
        let interrupt = signal(SignalKind::interrupt());
        let terminate = signal(SignalKind::terminate());
        Self(interrupt.ok().zip(terminate.ok()))
    }

    /// Resolves at the next one. Cancellation safe: none is lost between two calls.
    pub(super) async fn next(&mut self) {
        let Some((interrupt, terminate)) = &mut self.0 else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
