//! The fleet supervisor: it starts everything, restarts links, and stops everything in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use futures::Stream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;

use super::crash;
use super::death::{Death, DeathReason};
use super::producer::ProducerCrew;
use crate::actors::broker::{LinkLot, Links};
use crate::actors::clock::Clock;
use crate::actors::coordinator::{CoordinatorActor, Leave};
use crate::actors::directory::Threads;
use crate::actors::entropy::Entropy;
use crate::actors::mailbox::{Outbox, Posted};
use crate::actors::metadata::Need;
use crate::actors::partition::{BrokerNews, Lot};
use crate::actors::telemetry::{Telemetry, bump};
use crate::actors::trace::RouteTrace;
use crate::cluster::{LinkState, Target};
use crate::error::{Error, ErrorKind};
use crate::fleet::{Event, StopReason, Stopped, Victim};
use crate::ids::Incarnation;
use crate::routing::Class;
use crate::supervision::{Budget, Level, Verdict};

/// What the outside, and the actors below, ask of the fleet supervisor.
#[derive(Debug)]
pub(crate) enum Command {
    /// Stop in order, within `deadline`; `None` is the configured one. The first reason stands, the
    /// earliest deadline wins.
    Stop {
        reason: StopReason,
        deadline: Option<Duration>,
    },
    /// The member has left the group, or cannot.
    Left,
    /// Crash an actor, for a test.
    Crash(Victim),
}

/// Runs on the control thread for as long as the fleet lives.
pub(crate) struct FleetSupervisor {
    pub(super) links: Arc<Links>,
    pub(super) coordinator: Addr<CoordinatorActor>,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) stop_deadline: Duration,
    pub(super) ended: watch::Sender<Option<Arc<Stopped>>>,
    pub(super) trace: Option<Arc<RouteTrace>>,
    pub(super) clock: Clock,
    pub(super) producer: Option<ProducerCrew>,
    pub(super) threads: Threads,
    to_metadata: Outbox<Need>,
    pub(super) entropy: Entropy,
    budgets: BTreeMap<Target, Budget>,
    stopping: Option<StopReason>,
    pub(super) finished: bool,
}

impl FleetSupervisor {
    pub(super) fn new(
        links: Arc<Links>,
        coordinator: Addr<CoordinatorActor>,
        (ended, trace): (watch::Sender<Option<Arc<Stopped>>>, Option<Arc<RouteTrace>>),
        stop_deadline: Duration,
    ) -> Self {
        Self {
            telemetry: Arc::clone(&links.telemetry),
            clock: links.net.clock,
            threads: Threads::new(&links.directory),
            to_metadata: Outbox::maybe(links.directory.metadata.get().cloned()),
            links,
            coordinator,
            stop_deadline,
            ended,
            trace,
            entropy: Entropy::from_system(),
            budgets: BTreeMap::new(),
            producer: None,
            stopping: None,
            finished: false,
        }
    }

    /// Has it supervise a producer of dead letters.
    pub(super) fn with_producer(mut self, crew: Option<ProducerCrew>) -> Self {
        self.producer = crew;
        self
    }

    fn command(&mut self, command: Command, ctx: &mut Context<Self>) {
        match command {
            Command::Stop { reason, deadline } => {
                self.stop(reason, deadline.unwrap_or(self.stop_deadline), ctx);
            }
            Command::Left => self.finish(ctx),
            Command::Crash(victim) => {
                let reached = crash::send(victim.clone(), &self.links.directory);
                tracing::warn!(?victim, reached, "crash on purpose");
            }
        }
    }

    /// Begins the stop, or brings its deadline forward (runtime.md D3, D4).
    fn stop(&mut self, reason: StopReason, deadline: Duration, ctx: &mut Context<Self>) {
        let deadline = deadline.min(STOP_MAX);
        let leave = Leave {
            until: self.clock.now() + deadline,
            reason: reason.to_string(),
        };
        if self.stopping.is_none() {
            self.telemetry.emit(Event::FleetStopping {
                reason: reason.to_string(),
            });
            self.telemetry.keep_last_report();
            self.stopping = Some(reason);
        }
        self.send_leave(leave, ctx);
        // The leave itself and a margin come on top of the drain.
        ctx.run_later(deadline + LEAVE_MARGIN, |actor, ctx| actor.finish(ctx));
    }

    /// A full mailbox empties within a turn; only a coordinator that is gone makes leaving
    /// pointless.
    fn send_leave(&mut self, leave: Leave, ctx: &mut Context<Self>) {
        match self.coordinator.try_send(leave) {
            Ok(()) => {}
            Err(SendError::Full(leave)) => {
                ctx.run_later(RETRY_KEPT, |actor, ctx| actor.send_leave(leave, ctx));
            }
            Err(SendError::Closed(_)) => self.finish(ctx),
        }
    }

    /// Everything is drained and left: links close, threads end, the outcome is published.
    fn finish(&mut self, ctx: &mut Context<Self>) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let unexpected = || {
            StopReason::Fatal(Error::new(
                ErrorKind::Internal,
                "the member ended by itself",
            ))
        };
        let stopped = Stopped {
            reason: self.stopping.take().unwrap_or_else(unexpected),
            unfinished: self.telemetry.take_unfinished(),
            report: self.telemetry.last_report(),
        };
        self.links.tell_all(|| LinkLot::Close);
        ctx.run_later(GOOD_BYE, move |actor, ctx| {
            actor.stop_workers();
            if let Some(trace) = &actor.trace {
                trace.close();
            }
            actor.telemetry.emit(Event::FleetStopped);
            actor.ended.send_replace(Some(Arc::new(stopped)));
            ctx.stop();
        });
    }

    fn stop_workers(&self) {
        if let Some(producer) = &self.producer {
            producer.stop();
        }
        self.links.tell_all(|| LinkLot::Stop);
        self.links.directory.placement.stop();
    }

    /// A link died. Its partitions hear that its connections are lost, and it comes back after a
    /// backoff.
    fn link_died(&mut self, death: Death<Target>, ctx: &mut Context<Self>) {
        let target = death.id;
        if self.finished || self.links.incarnation(target) != Some(death.incarnation) {
            return;
        }
        let DeathReason::Panicked(reason) = death.reason else {
            return;
        };
        bump(&self.telemetry.counts.restarts, 1);
        self.links.directory.ready.remove(&target);
        self.to_metadata.post(Need::Link(target, LinkState::Lost));
        self.tell_threads(target, BrokerNews::Gone, ctx);
        let budget = self
            .budgets
            .entry(target)
            .or_insert_with(|| Budget::new(Level::BrokerLink));
        let (draw, now) = (self.entropy.draw(), self.clock.now());
        // An exhausted budget of a link is an event, not an end: other replicas serve, and it is
        // tried again.
        let after = match budget.died(draw, now) {
            Verdict::Restart { after } => after,
            Verdict::Escalate => LINK_PAUSE,
        };
        self.tell_silence((target, death.incarnation), after, ctx);
        let actor = format!("link to {target:?}");
        self.telemetry.emit(Event::ActorRestarted { actor, reason });
        ctx.run_later(after, move |actor, ctx| {
            actor.links.start(target);
            actor.tell_threads(target, BrokerNews::Restarted, ctx);
        });
    }

    /// A link that rests cannot say that it is not Ready: its partitions hear it from here, as soon
    /// as they would have from the link (routing.md R43).
    fn tell_silence(
        &self,
        (target, incarnation): (Target, Incarnation),
        rest: Duration,
        ctx: &mut Context<Self>,
    ) {
        let due = self.links.settings.refuge;
        if rest <= due {
            return;
        }
        ctx.run_later(due, move |actor, ctx| {
            if actor.links.incarnation(target) == Some(incarnation) {
                for class in [Class::Rack, Class::NoRack] {
                    let silent = true;
                    actor.tell_threads(target, BrokerNews::Silence { class, silent }, ctx);
                }
            }
        });
    }

    /// Tells every data thread something about the broker behind a link.
    fn tell_threads(&mut self, target: Target, news: BrokerNews, ctx: &mut Context<Self>) {
        if let Target::Broker(broker) = target {
            self.threads.post_all(|| Lot::Broker(broker, news));
            self.flush(ctx);
        }
    }

    /// Offers again, until it is sent, what found a full mailbox.
    pub(super) fn flush(&mut self, ctx: &mut Context<Self>) {
        let mut sent = self.threads.flush();
        sent &= self.to_metadata.flush() != Posted::Kept;
        if !sent {
            ctx.run_later(RETRY_KEPT, Self::flush);
        }
    }
}

impl Actor for FleetSupervisor {
    type Context = Context<Self>;
}

/// Nothing it supervised goes on unseen, should it end other than in order.
impl Drop for FleetSupervisor {
    fn drop(&mut self) {
        if self.ended.borrow().is_none() {
            self.stop_workers();
        }
    }
}

/// A channel's messages as a stream.
pub(super) fn stream<T: 'static>(receiver: UnboundedReceiver<T>) -> impl Stream<Item = T> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|message| (message, receiver))
    })
}

/// An actor that nothing restarts yet has died: the fleet stops and says so, rather than stand
/// still.
pub(super) fn core_actor_died(death: Death<&'static str>, commands: &UnboundedSender<Command>) {
    if let DeathReason::Panicked(text) = death.reason {
        let error = Error::new(
            ErrorKind::Internal,
            format!("the {} died: {text}", death.id),
        );
        drop(commands.send(Command::Stop {
            reason: StopReason::Fatal(error),
            deadline: None,
        }));
    }
}

impl StreamHandler<Command> for FleetSupervisor {
    fn handle(&mut self, command: Command, ctx: &mut Self::Context) {
        self.command(command, ctx);
    }

    // Actors hold senders; the stream ends with them.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl StreamHandler<Death<Target>> for FleetSupervisor {
    fn handle(&mut self, death: Death<Target>, ctx: &mut Self::Context) {
        self.link_died(death, ctx);
    }

    // The links' factory holds a sender; the stream ends with it.
    fn finished(&mut self, _: &mut Self::Context) {}
}

/// Who asks for more wants no deadline; sums of it must not overflow.
const STOP_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// What a stop may take beyond its drain: leaving the group.
const LEAVE_MARGIN: Duration = Duration::from_secs(6);
/// How long fetch sessions get to say good-bye (metadata.md 12).
const GOOD_BYE: Duration = Duration::from_millis(50);
/// Pause of a link that used up its restarts.
const LINK_PAUSE: Duration = Duration::from_secs(60);
/// When to offer again what found a full mailbox.
const RETRY_KEPT: Duration = Duration::from_millis(10);
