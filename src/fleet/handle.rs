//! The handle to a running fleet.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{broadcast, mpsc, watch};

use super::event::NumberedEvent;
use super::report::FleetReport;
use super::stop::{StopReason, Stopped};
use super::victim::Victim;
use crate::actors::{Command, Telemetry};
use crate::error::{Error, ErrorKind};
#[cfg(feature = "cli")]
use crate::ids::TopicName;

/// A running fleet. Clones are cheap and share it; dropping the last one stops it with the default
/// deadline, without waiting.
#[derive(Clone, Debug)]
pub struct FleetHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    commands: mpsc::UnboundedSender<Command>,
    telemetry: Arc<Telemetry>,
    stopped: watch::Receiver<Option<Arc<Stopped>>>,
}

impl FleetHandle {
    pub(crate) fn new(
        commands: mpsc::UnboundedSender<Command>,
        telemetry: Arc<Telemetry>,
        stopped: watch::Receiver<Option<Arc<Stopped>>>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                commands,
                telemetry,
                stopped,
            }),
        }
    }

    /// Drains, commits, leaves the group and ends, within `deadline`. Later calls share the result;
    /// the earliest deadline wins. Cancelling the future does not cancel the stop.
    pub async fn stop(&self, deadline: Duration) -> Arc<Stopped> {
        self.stop_because(StopReason::Requested, Some(deadline));
        self.stopped().await
    }

    /// Waits for the fleet to end by itself, that is by a handler's `Stop` or a fatal error.
    /// Cancellation safe.
    pub async fn stopped(&self) -> Arc<Stopped> {
        let mut stopped = self.shared.stopped.clone();
        // The sender lives until the fleet has published its end.
        match stopped.wait_for(Option::is_some).await {
            Ok(value) => value.clone().unwrap_or_else(|| Arc::new(self.vanished())),
            Err(_) => Arc::new(self.vanished()),
        }
    }

    /// Runs until SIGINT, SIGTERM or the fleet's own end, then stops it within `stop.deadline.ms`
    /// and says how it went. A second signal during the stop makes it immediate.
    pub async fn run_until_signal(&self) -> Stopped {
        let ended = self.stopped().map(|_| None);
        let signal = next_signal().map(Some);
        if let Some(name) = futures::future::select(Box::pin(ended), Box::pin(signal))
            .await
            .factor_first()
            .0
        {
            self.stop_because(StopReason::Signal(name), None);
        }
        let again = next_signal();
        let finished = self.stopped();
        match futures::future::select(Box::pin(finished), Box::pin(again)).await {
            futures::future::Either::Left((stopped, _)) => Stopped::clone(&stopped),
            futures::future::Either::Right((name, finished)) => {
                self.stop_because(StopReason::Signal(name), Some(Duration::ZERO));
                Stopped::clone(&*finished.await)
            }
        }
    }

    /// The fleet at this moment, from counters and snapshots; asks no actor and never blocks.
    pub fn report(&self) -> FleetReport {
        self.shared.telemetry.report()
    }

    /// Events from now on. A reader that falls more than 4 096 behind loses the oldest; numbers
    /// show the gap.
    pub fn events(&self) -> broadcast::Receiver<Arc<NumberedEvent>> {
        self.shared.telemetry.subscribe()
    }

    /// The newest events so far, oldest first, at most 4 096.
    pub fn recent_events(&self) -> Vec<Arc<NumberedEvent>> {
        self.shared.telemetry.recent_events()
    }

    /// Whether any broker has ever answered.
    pub fn has_connected(&self) -> bool {
        self.shared.telemetry.has_connected()
    }

    /// Whether any broker has ever shown us this topic, whoever reads its partitions.
    #[cfg(feature = "cli")]
    pub(crate) fn has_seen(&self, topic: &TopicName) -> bool {
        self.shared.telemetry.has_seen(topic)
    }

    /// The latest failure to reach a broker, while none has answered: wrong port, refused, refused
    /// credentials.
    pub fn connection_error(&self) -> Option<Error> {
        self.shared.telemetry.connection_error()
    }

    /// Makes an actor panic while it handles a message, as a bug in it would: the panic is real,
    /// and what follows is what supervision does. For tests; an actor that does not exist is not
    /// harmed.
    #[doc(hidden)]
    pub fn crash(&self, victim: Victim) {
        // A fleet that has ended has nobody left to crash.
        drop(self.shared.commands.send(Command::Crash(victim)));
    }

    fn stop_because(&self, reason: StopReason, deadline: Option<Duration>) {
        // A fleet that has ended needs no command.
        drop(
            self.shared
                .commands
                .send(Command::Stop { reason, deadline }),
        );
    }

    fn vanished(&self) -> Stopped {
        let error = Error::new(ErrorKind::Internal, "the control thread ended");
        Stopped {
            reason: StopReason::Fatal(error),
            unfinished: Vec::new(),
            report: self.report(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let reason = StopReason::Requested;
        drop(self.commands.send(Command::Stop {
            reason,
            deadline: None,
        }));
    }
}

/// Waits for SIGINT or SIGTERM and names it. Without signal handling (no permission, not Unix) it
/// never returns.
async fn next_signal() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let (interrupt, terminate) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    );
    match (interrupt, terminate) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            }
        }
        _ => std::future::pending().await,
    }
}
