//! What the actors of one data thread share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::Recipient;

use super::messages::{Lot, Note, Question};
use crate::actors::broker::LinkLot;
use crate::actors::clock::Clock;
use crate::actors::directory::Directory;
use crate::actors::entropy::Entropy;
use crate::actors::handler::HostRequest;
use crate::actors::mailbox::{Outbox, Posted};
use crate::actors::metadata::Need;
use crate::actors::producer::Mail;
use crate::actors::telemetry::Telemetry;
use crate::actors::trace::{RouteTrace, ThreadTrace};
use crate::budget::Inflation;
use crate::cluster::Target;
use crate::ids::{BrokerId, Moment, TopicPartition};
use crate::producer::letters::{Letter, Ticket};
use crate::records::{BatchPolicy, ReadSettings};
use crate::routing::{self, Brokers, Lane};
use crate::timers::Wheel;

/// The services of one data thread. All its actors run on that thread, so nothing here is locked;
/// each part has one owner, named with it.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) routing: Arc<routing::Settings>,
    pub(crate) reading: ReadSettings,
    pub(crate) policy: BatchPolicy,
    pub(crate) read_committed: bool,
    /// Shared by all threads.
    pub(crate) inflation: Inflation,
    /// What is known of the brokers. Written by the partition supervisor.
    pub(crate) brokers: RefCell<Brokers>,
    /// Deadlines of the routes. Turned by the partition supervisor.
    pub(crate) wheel: RefCell<Wheel<TopicPartition>>,
    /// Whether a partition's mailbox was full; its message is offered again by the supervisor.
    pub(crate) someone_waits: Cell<bool>,
    /// Where the routes of this thread write down what they see, if that was asked for.
    pub(crate) trace: Option<ThreadTrace>,
    turn: Turn,
}

/// What the partitions of a thread asked for since the last flush: sent on as one lot per receiver.
#[derive(Debug)]
struct Turn {
    scheduled: Cell<bool>,
    flush: Recipient<Lot>,
    directory: Arc<Directory>,
    asks: RefCell<BTreeMap<BrokerId, Vec<routing::broker::Input>>>,
    links: RefCell<BTreeMap<BrokerId, Outbox<LinkLot>>>,
    questions: RefCell<Vec<Question>>,
    /// Partitions whose hinted leader has served.
    served: RefCell<Vec<TopicPartition>>,
    coordinator: RefCell<Outbox<Note>>,
    metadata: RefCell<Outbox<Need>>,
    host: RefCell<Outbox<HostRequest>>,
    producer: RefCell<Outbox<Mail>>,
    last_letter: Cell<u64>,
}

/// How a [`Thread`] is made.
pub(crate) struct ThreadParts {
    pub(crate) clock: Clock,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) routing: Arc<routing::Settings>,
    pub(crate) reading: ReadSettings,
    pub(crate) policy: BatchPolicy,
    pub(crate) read_committed: bool,
    pub(crate) inflation: Inflation,
    pub(crate) directory: Arc<Directory>,
    pub(crate) trace: Option<Arc<RouteTrace>>,
}

impl Thread {
    /// The services of a thread whose supervisor takes `flush`.
    pub(crate) fn new(parts: ThreadParts, flush: Recipient<Lot>) -> Self {
        let now = parts.clock.now();
        Self {
            clock: parts.clock,
            entropy: Entropy::from_system(),
            telemetry: parts.telemetry,
            routing: parts.routing,
            reading: parts.reading,
            policy: parts.policy,
            read_committed: parts.read_committed,
            inflation: parts.inflation,
            brokers: RefCell::new(Brokers::new()),
            wheel: RefCell::new(Wheel::new(now)),
            someone_waits: Cell::new(false),
            trace: parts.trace.as_ref().map(RouteTrace::thread),
            turn: Turn {
                scheduled: Cell::new(false),
                flush,
                asks: RefCell::new(BTreeMap::new()),
                links: RefCell::new(BTreeMap::new()),
                questions: RefCell::new(Vec::new()),
                served: RefCell::new(Vec::new()),
                coordinator: RefCell::new(Outbox::maybe(
                    parts.directory.coordinator.get().cloned(),
                )),
                metadata: RefCell::new(Outbox::maybe(parts.directory.metadata.get().cloned())),
                host: RefCell::new(Outbox::maybe(None)),
                producer: RefCell::new(Outbox::maybe(None)),
                last_letter: Cell::new(0),
                directory: parts.directory,
            },
        }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Names the handler host of this thread; called once, before the first partition.
    pub(crate) fn set_host(&self, host: Recipient<HostRequest>) {
        *self.turn.host.borrow_mut() = Outbox::new(host);
    }

    /// Hands something to the handler host, in order. What does not fit stays here, so that it
    /// outlives the partition actor that posted it.
    pub(crate) fn to_host(&self, request: HostRequest) {
        if self.turn.host.borrow_mut().post(request) == Posted::Kept {
            self.schedule();
        }
    }

    /// Asks the link of `broker` for something, with the other asks of this turn.
    pub(crate) fn ask_link(&self, broker: BrokerId, input: routing::broker::Input) {
        self.turn
            .asks
            .borrow_mut()
            .entry(broker)
            .or_default()
            .push(input);
        self.schedule();
    }

    /// Takes back whatever a partition that died may have asked of any link: its next life does not
    /// know of it.
    pub(crate) fn withdraw(&self, partition: &TopicPartition) {
        use routing::broker::Input;
        let brokers: Vec<BrokerId> = self.brokers.borrow().iter().map(|(id, _)| id).collect();
        for broker in brokers {
            for lane in [Lane::Rack, Lane::NoRack] {
                let partition = partition.clone();
                self.ask_link(broker, Input::Withdraw { partition, lane });
            }
            let partition = partition.clone();
            let probe = partition.clone();
            self.ask_link(broker, Input::CancelProbe { partition: probe });
            self.ask_link(broker, Input::CancelHedge { partition });
        }
    }

    /// Asks the coordinator about an offset, with the other questions of this turn.
    pub(crate) fn ask_coordinator(&self, question: Question) {
        self.turn.questions.borrow_mut().push(question);
        self.schedule();
    }

    /// Tells the coordinator something.
    pub(crate) fn tell_coordinator(&self, note: Note) {
        self.turn.coordinator.borrow_mut().post(note);
        self.schedule();
    }

    /// Says that a leader known by a hint has served, with the others of this turn.
    pub(crate) fn leader_served(&self, partition: TopicPartition) {
        self.turn.served.borrow_mut().push(partition);
        self.schedule();
    }

    /// Asks for fresh metadata.
    pub(crate) fn ask_metadata(&self, need: Need) {
        if self.turn.metadata.borrow_mut().post(need) == Posted::Kept {
            self.schedule();
        }
    }

    /// A number for the next letter of this thread.
    pub(crate) fn next_letter(&self) -> u64 {
        let next = self.turn.last_letter.get() + 1;
        self.turn.last_letter.set(next);
        next
    }

    /// Hands a letter to the producer. One that is gone for the moment tells every partition to
    /// send its letter again when it is back.
    pub(crate) fn post_letter(&self, ticket: Ticket, letter: Letter) {
        let mut outbox = self.turn.producer.borrow_mut();
        if outbox.is_closed() {
            let latest = self.turn.directory.producer.load();
            *outbox = Outbox::maybe(latest.as_deref().cloned());
        }
        if outbox.post(Mail::Letter(ticket, letter)) == Posted::Kept {
            self.schedule();
        }
    }

    /// Sends on what this turn brought together, and offers again what did not fit before.
    pub(crate) fn flush(&self) {
        self.turn.scheduled.set(false);
        self.turn.host.borrow_mut().flush();
        self.turn.producer.borrow_mut().flush();
        let mut metadata = self.turn.metadata.borrow_mut();
        metadata.flush();
        let served = std::mem::take(&mut *self.turn.served.borrow_mut());
        if !served.is_empty() {
            metadata.post(Need::Served(served));
        }
        drop(metadata);
        let mut coordinator = self.turn.coordinator.borrow_mut();
        coordinator.flush();
        let questions = std::mem::take(&mut *self.turn.questions.borrow_mut());
        if !questions.is_empty() {
            coordinator.post(Note::Questions(questions));
        }
        self.flush_links();
    }

    /// A link that was started again has another address; one that is gone for the moment hears
    /// nothing, and the news of its next life makes the routes ask again.
    fn flush_links(&self) {
        let mut links = self.turn.links.borrow_mut();
        for outbox in links.values_mut() {
            outbox.flush();
        }
        for (broker, asks) in std::mem::take(&mut *self.turn.asks.borrow_mut()) {
            let address = || Outbox::maybe(self.turn.directory.link(Target::Broker(broker)));
            let outbox = links.entry(broker).or_insert_with(address);
            if outbox.is_closed() {
                *outbox = address();
            }
            outbox.post(LinkLot::Asks(asks));
        }
    }

    /// The supervisor flushes behind the partitions that are ready to run now. If its mailbox is
    /// full it is about to run anyway, and flushes after every lot.
    fn schedule(&self) {
        if !self.turn.scheduled.replace(true) {
            drop(self.turn.flush.try_send(Lot::Flush));
        }
    }
}
