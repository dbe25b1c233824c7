//! One actor per broker: its connections, one per class, and the machine that plans fetches over
//! them.
//!
//! It owns both fetch lanes with their sessions, probe batching, the throttle mute and the breaker
//! of its broker. A link to a bootstrap address has no such machine: it only carries requests.

mod exchange;
mod links;
mod messages;
mod outputs;
mod ports;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use actix::prelude::*;
use dashmap::DashSet;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) use links::Links;
pub(crate) use messages::{Answer, Exchange, LinkLot};

use self::exchange::Waiting;
use super::directory::{Directory, Threads};
use super::entropy::Entropy;
use super::mailbox::Outbox;
use super::metadata::Need;
use super::net::{Alarm, IoInput, Net, Port, PortId};
use super::supervise::{DeathWatch, Watched, guarded, on_purpose};
use super::telemetry::Telemetry;
use crate::budget::{self, Budget};
use crate::cluster::{Endpoint, LinkState, Target};
use crate::fleet::Zone;
use crate::ids::{BrokerId, Moment, Rack, TopicPartition};
use crate::routing::{self, broker};
use crate::wire::{Class, DrainReason};

/// The link to one broker, or to one bootstrap address.
pub(crate) struct BrokerLink {
    target: Target,
    endpoint: Endpoint,
    zone: Zone,
    client_rack: Option<Rack>,
    machine: Option<broker::Broker>,
    /// Inputs of the machine that came up while its outputs were carried out.
    to_machine: VecDeque<broker::Input>,
    feeding: bool,
    ports: BTreeMap<PortId, Port>,
    /// The port in use per class; others are draining.
    current: BTreeMap<Class, PortId>,
    /// Ports that take over, or have been taken over from: what becomes of them is no news.
    aside: BTreeSet<PortId>,
    last_port: u32,
    waiting: BTreeMap<u64, Waiting>,
    last_token: u64,
    net: Net,
    io: UnboundedSender<IoInput>,
    entropy: Entropy,
    budget: Budget,
    /// Reaches this link from whatever thread gives bytes back; one wake per waiting lane.
    budget_wakes: UnboundedSender<BudgetWake>,
    /// Of the lanes that wait for bytes.
    budget_places: BTreeMap<routing::Class, budget::Place>,
    threads: Threads,
    /// Peers whose control connection is Ready, shared by the fleet.
    ready: Arc<DashSet<Target>>,
    to_routes: Vec<(TopicPartition, routing::Input)>,
    to_metadata: Outbox<Need>,
    answers: VecDeque<(Recipient<Answer>, Answer)>,
    telemetry: Arc<Telemetry>,
    /// State of the control connection.
    control: LinkState,
    /// Lanes that are silent: whoever has a choice asks another broker.
    silent: BTreeSet<routing::Class>,
    /// End of the broker's mute, until the metadata actor knows that it is over.
    muted_until: Option<Moment>,
    alarm: Alarm,
    watch: DeathWatch<Target>,
}

/// What a link is made of.
pub(crate) struct LinkParts {
    pub(crate) target: Target,
    pub(crate) endpoint: Endpoint,
    pub(crate) rack: Option<Rack>,
    pub(crate) client_rack: Option<Rack>,
    pub(crate) settings: Arc<broker::Settings>,
    pub(crate) net: Net,
    pub(crate) directory: Arc<Directory>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) watch: DeathWatch<Target>,
}

impl BrokerLink {
    /// A link without a connection.
    pub(crate) fn build(parts: LinkParts, ctx: &mut Context<Self>) -> Self {
        let (io, inputs) = unbounded_channel();
        ctx.add_stream(received(inputs));
        let (budget_wakes, wakes) = unbounded_channel();
        ctx.add_stream(received(wakes));
        let budget = parts.settings.budget.clone();
        let machine = match parts.target {
            Target::Broker(id) => Some(broker::Broker::new(id, parts.settings)),
            Target::Bootstrap(_) => None,
        };
        let metadata = parts.directory.metadata.get().cloned();
        let mut link = Self {
            target: parts.target,
            endpoint: parts.endpoint,
            zone: Zone::Unknown,
            client_rack: parts.client_rack,
            machine,
            to_machine: VecDeque::new(),
            feeding: false,
            ports: BTreeMap::new(),
            current: BTreeMap::new(),
            aside: BTreeSet::new(),
            last_port: 0,
            waiting: BTreeMap::new(),
            last_token: 0,
            net: parts.net,
            io,
            entropy: Entropy::from_system(),
            budget,
            budget_wakes,
            budget_places: BTreeMap::new(),
            threads: Threads::new(&parts.directory),
            ready: Arc::clone(&parts.directory.ready),
            to_routes: Vec::new(),
            to_metadata: Outbox::maybe(metadata),
            answers: VecDeque::new(),
            telemetry: parts.telemetry,
            control: LinkState::Idle,
            silent: BTreeSet::new(),
            muted_until: None,
            alarm: Alarm::default(),
            watch: parts.watch,
        };
        link.set_zone(parts.rack);
        link
    }

    fn take(&mut self, lot: LinkLot, ctx: &mut Context<Self>) {
        match lot {
            LinkLot::Asks(inputs) => {
                for input in inputs {
                    self.feed(input);
                }
            }
            LinkLot::Exchange(exchange) => self.carry(exchange),
            LinkLot::Endpoint(endpoint, rack) => self.moved(endpoint, rack),
            LinkLot::HangUp(class) => self.hang_up(class),
            LinkLot::Close => self.feed(broker::Input::Close),
            LinkLot::Drain(reason) => {
                if reason == DrainReason::Rebootstrap {
                    self.feed(broker::Input::Renew);
                }
                self.drain_all(reason);
            }
            LinkLot::Stop => {
                self.drain_all(DrainReason::Shutdown);
                ctx.stop();
            }
            LinkLot::Crash => on_purpose(),
        }
        self.settle(ctx);
    }

    /// Host and port of the broker changed: new connections for every class, the old ones finish
    /// what is in flight.
    fn moved(&mut self, endpoint: Endpoint, rack: Option<Rack>) {
        self.set_zone(rack);
        if endpoint != self.endpoint {
            self.endpoint = endpoint;
            self.drain_all(DrainReason::AddressChanged);
        }
    }

    fn set_zone(&mut self, rack: Option<Rack>) {
        self.zone = match (&self.client_rack, rack) {
            (Some(ours), Some(theirs)) if *ours == theirs => Zone::SameZone,
            (Some(_), Some(_)) => Zone::CrossZone,
            (None, _) | (_, None) => Zone::Unknown,
        };
    }

    fn wake(&mut self, ctx: &mut Context<Self>) {
        self.alarm.fired();
        let now = self.net.clock.now();
        if self
            .machine
            .as_ref()
            .and_then(broker::Broker::next_deadline)
            .is_some_and(|due| due <= now)
        {
            self.feed(broker::Input::Tick);
        }
        self.tick_ports(now);
        self.end_mute(now);
        self.settle(ctx);
    }

    /// Sends on what this turn brought together and arms the alarm. Every handler ends here.
    fn settle(&mut self, ctx: &mut Context<Self>) {
        let rows = std::mem::take(&mut self.to_routes);
        self.threads
            .scatter(rows, |row| &row.0, super::partition::Lot::Routes);
        let mut sent = self.threads.flush();
        sent &= self.to_metadata.flush() != super::mailbox::Posted::Kept;
        sent &= self.send_answers();
        let machine = self
            .machine
            .as_ref()
            .and_then(broker::Broker::next_deadline);
        let ports = self.ports.values().filter_map(Port::next_deadline).min();
        let retry = (!sent).then(|| self.net.clock.now() + RETRY_KEPT);
        let due = machine
            .into_iter()
            .chain(ports)
            .chain(retry)
            .chain(self.muted_until)
            .min();
        self.alarm.arm(due, self.net.clock, ctx, |link, ctx| {
            guarded(link, ctx, Self::wake)
        });
    }

    fn broker_id(&self) -> Option<BrokerId> {
        match self.target {
            Target::Broker(id) => Some(id),
            Target::Bootstrap(_) => None,
        }
    }
}

impl Actor for BrokerLink {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Handler<LinkLot> for BrokerLink {
    type Result = ();

    fn handle(&mut self, lot: LinkLot, ctx: &mut Self::Context) {
        guarded(self, ctx, |link, ctx| link.take(lot, ctx));
    }
}

impl StreamHandler<IoInput> for BrokerLink {
    fn handle(&mut self, (port, input): IoInput, ctx: &mut Self::Context) {
        guarded(self, ctx, |link, ctx| {
            link.io_input(port, input);
            link.settle(ctx);
        });
    }

    // The link holds a sender itself; the stream ends with it.
    fn finished(&mut self, _: &mut Self::Context) {}
}

/// The byte budget has room again for a lane that waits.
struct BudgetWake(routing::Class);

impl StreamHandler<BudgetWake> for BrokerLink {
    fn handle(&mut self, BudgetWake(class): BudgetWake, ctx: &mut Self::Context) {
        guarded(self, ctx, |link, ctx| {
            link.budget_places.remove(&class);
            link.feed(broker::Input::Budget(class));
            link.settle(ctx);
        });
    }

    // The link holds a sender itself; the stream ends with it.
    fn finished(&mut self, _: &mut Self::Context) {}
}

fn received<T>(receiver: UnboundedReceiver<T>) -> impl Stream<Item = T> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}

impl Watched for BrokerLink {
    type Id = Target;

    fn watch(&mut self) -> &mut DeathWatch<Target> {
        &mut self.watch
    }
}

/// Lots the mailbox holds.
const MAILBOX: usize = 256;
/// When to offer again what found a full mailbox.
const RETRY_KEPT: std::time::Duration = std::time::Duration::from_millis(10);
