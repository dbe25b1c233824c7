//! Being asked to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at SIGINT or SIGTERM. Where signals cannot be handled it never does, and they end the
/// process as usual.
pub(super) async fn asked_to_stop() {
    let interrupt = signal(SignalKind::interrupt());
    let terminate = signal(SignalKind::terminate());
    match (interrupt, terminate) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        (Err(_), _) | (_, Err(_)) => std::future::pending().await,
    }
}
