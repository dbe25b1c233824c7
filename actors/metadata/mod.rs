//! The one writer of the cluster snapshot: it asks, merges, publishes and tells those concerned.

mod need;
mod outputs;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actix::prelude::*;
use arc_swap::ArcSwap;
use tokio::sync::mpsc::UnboundedSender;

pub(crate) use need::Need;

use super::broker::{Answer, Links};
use super::directory::Threads;
use super::entropy::Entropy;
use super::mailbox::Outbox;
use super::net::Alarm;
use super::supervise::{Command, DeathWatch, Watched, guarded};
use super::telemetry::Telemetry;
use crate::cluster::{
    Diff, Endpoint, Input, Interest, LinkState, Metadata, RequestToken, Snapshot, Target,
};
use crate::ids::{Moment, Rack};
use crate::routing::broker::ProbeBudget;

/// Hosts the metadata machine of a fleet.
pub(crate) struct MetadataActor {
    machine: Metadata,
    links: Arc<Links>,
    published: Arc<ArcSwap<Snapshot>>,
    threads: Option<Threads>,
    listeners: Vec<Outbox<ClusterNews>>,
    diffs: Vec<Diff>,
    asked: BTreeMap<u64, RequestToken>,
    probes: ProbeBudget,
    last_token: u64,
    /// Inputs that an output called for; handled after all outputs of the turn.
    owed: VecDeque<Input>,
    me: Recipient<Answer>,
    entropy: Entropy,
    telemetry: Arc<Telemetry>,
    commands: UnboundedSender<Command>,
    alarm: Alarm,
    watch: DeathWatch<&'static str>,
}

/// A newly published snapshot, for actors of the control thread.
#[derive(Message, Clone, Debug)]
#[rtype(result = "()")]
pub(crate) struct ClusterNews {
    /// The cluster as it is now.
    pub(crate) snapshot: Arc<Snapshot>,
    /// Whether every connection ends because the bootstrap names are asked anew (KIP-899).
    pub(crate) rebootstrap: bool,
}

/// What the metadata actor is made of.
pub(crate) struct MetadataParts {
    pub(crate) machine: Metadata,
    pub(crate) links: Arc<Links>,
    pub(crate) probes: ProbeBudget,
    pub(crate) published: Arc<ArcSwap<Snapshot>>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) interest: Interest,
    pub(crate) commands: UnboundedSender<Command>,
    pub(crate) watch: DeathWatch<&'static str>,
}

impl MetadataActor {
    /// An actor that starts asking at once.
    pub(crate) fn new(parts: MetadataParts, me: Recipient<Answer>) -> Self {
        let mut actor = Self {
            machine: parts.machine,
            links: parts.links,
            published: parts.published,
            threads: None,
            listeners: Vec::new(),
            diffs: Vec::new(),
            asked: BTreeMap::new(),
            probes: parts.probes,
            last_token: 0,
            owed: VecDeque::new(),
            me,
            entropy: Entropy::from_system(),
            telemetry: parts.telemetry,
            commands: parts.commands,
            alarm: Alarm::default(),
            watch: parts.watch,
        };
        let (draw, now) = (actor.entropy.draw(), actor.now());
        actor
            .machine
            .handle(Input::Subscribe(parts.interest), draw, now);
        actor
    }

    fn now(&self) -> Moment {
        self.links.net.clock.now()
    }

    fn need(&mut self, need: Need, ctx: &mut Context<Self>) {
        if let Need::Listen(listener) = need {
            let snapshot = Arc::clone(self.machine.snapshot());
            let mut outbox = Outbox::new(listener);
            outbox.post(ClusterNews {
                snapshot,
                rebootstrap: false,
            });
            // Each life of a listener comes with an address of its own.
            self.listeners.retain(|listener| !listener.is_closed());
            self.listeners.push(outbox);
        } else if let Need::Probing(broker, need) = need {
            self.share_probes(broker, need);
        } else if let Need::Served(partitions) = need {
            for partition in partitions {
                self.feed(Input::LeaderServed(partition));
            }
        } else if let Some(input) = need.into_input(self.machine.snapshot()) {
            self.feed(input);
        }
        self.settle(ctx);
    }

    fn feed(&mut self, input: Input) {
        self.owed.push_back(input);
        while let Some(input) = self.owed.pop_front() {
            let (draw, now) = (self.entropy.draw(), self.now());
            self.machine.handle(input, draw, now);
            self.drain_outputs();
        }
    }

    fn wake(&mut self, ctx: &mut Context<Self>) {
        self.alarm.fired();
        self.feed(Input::Tick);
        self.settle(ctx);
    }

    /// Publishes what this turn changed and arms the alarm. Every handler ends here.
    fn settle(&mut self, ctx: &mut Context<Self>) {
        self.publish_diffs();
        let mut sent = self.threads().flush();
        for listener in &mut self.listeners {
            sent &= listener.flush() != super::mailbox::Posted::Kept;
        }
        let retry = (!sent).then(|| self.now() + RETRY_KEPT);
        let due = self.machine.next_deadline().into_iter().chain(retry).min();
        let clock = self.links.net.clock;
        self.alarm.arm(due, clock, ctx, |actor, ctx| {
            guarded(actor, ctx, Self::wake)
        });
    }

    fn threads(&mut self) -> &mut Threads {
        self.threads
            .get_or_insert_with(|| Threads::new(&self.links.directory))
    }

    /// Makes sure that a link to the peer runs; its address comes from the snapshot or the
    /// bootstrap list.
    fn ensure_link(&self, target: Target) {
        let known: Option<(Endpoint, Option<Rack>)> = match target {
            Target::Broker(id) => self
                .machine
                .snapshot()
                .broker(id)
                .map(|broker| (broker.endpoint.clone(), broker.rack.clone())),
            Target::Bootstrap(index) => self
                .machine
                .bootstrap()
                .get(index)
                .map(|endpoint| (endpoint.clone(), None)),
        };
        if let Some((endpoint, rack)) = known {
            self.links.ensure(target, endpoint, rack);
        }
    }
}

impl Actor for MetadataActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        guarded(self, ctx, |actor, ctx| {
            for index in 0..actor.machine.bootstrap().len() {
                let state = LinkState::Idle;
                actor.feed(Input::LinkChanged {
                    target: Target::Bootstrap(index),
                    state,
                });
            }
            actor.settle(ctx);
        });
    }
}

impl Handler<Need> for MetadataActor {
    type Result = ();

    fn handle(&mut self, need: Need, ctx: &mut Self::Context) {
        guarded(self, ctx, |actor, ctx| actor.need(need, ctx));
    }
}

impl Handler<Answer> for MetadataActor {
    type Result = ();

    fn handle(&mut self, answer: Answer, ctx: &mut Self::Context) {
        guarded(self, ctx, |actor, ctx| {
            actor.answered(answer);
            actor.settle(ctx);
        });
    }
}

impl Watched for MetadataActor {
    type Id = &'static str;

    fn watch(&mut self) -> &mut DeathWatch<&'static str> {
        &mut self.watch
    }
}

/// Needs the mailbox holds (runtime.md T2).
const MAILBOX: usize = 64;
/// When to offer again what found a full mailbox.
const RETRY_KEPT: std::time::Duration = std::time::Duration::from_millis(10);
