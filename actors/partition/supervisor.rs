//! One partition supervisor per data thread: it takes lots in, hands them to the partitions, and
//! restarts those that die from their cells.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::mpsc::UnboundedSender;

use super::letters::HeldDrain;
use super::messages::{Assignment, Lot, Told};
use super::{Cell, PartitionActor, Thread, ThreadParts};
use crate::actors::handler::{HandlerHost, HostParts, HostRequest};
use crate::actors::mailbox::{Outbox, Posted};
use crate::actors::status::PartitionStatus;
use crate::actors::supervise::{Death, DeathWatch, Watched, guarded, on_purpose};
use crate::cluster::Snapshot;
use crate::fleet::Victim;
use crate::ids::{Incarnation, LeaderEpoch, Moment, TopicPartition};
use crate::supervision::Budget;

/// Supervises the partitions of one data thread and owns the thread's wheel and broker facts.
pub(crate) struct PartitionSupervisor {
    pub(super) thread: Rc<Thread>,
    pub(super) slots: BTreeMap<TopicPartition, Slot>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) deaths: UnboundedSender<Death<TopicPartition>>,
    /// Drains that are over but for a letter.
    pub(super) held_drains: Vec<HeldDrain>,
    watch: DeathWatch<&'static str>,
}

/// One assigned partition.
pub(super) struct Slot {
    pub(super) assignment: Assignment,
    pub(super) cell: Cell,
    pub(super) status: Arc<PartitionStatus>,
    pub(super) budget: Budget,
    pub(super) life: Life,
    /// An end was asked for; the supervisor's part of it is owed once the actor is gone.
    pub(super) ending: bool,
    /// A drain has begun, and may last until then; told to the next life.
    pub(super) draining: Option<Moment>,
    /// The handler host has reported that nothing of the assignment runs.
    pub(super) host_ended: bool,
    /// Whether the handler's queue has room; told to the next life.
    pub(super) room: bool,
    /// The epoch of a leader known by a hint alone, until it has served (KIP-951).
    pub(super) hinted: Option<LeaderEpoch>,
    /// The partition was given back to us before its former assignment had ended here: taken on as
    /// soon as it has (runtime.md G4).
    pub(super) successor: Option<Assignment>,
}

/// Whether the actor of a slot lives.
pub(super) enum Life {
    /// It lives, and this is the way to it.
    Up(Outbox<Told>, Rc<Thread>),
    /// It died and comes back after its backoff; what it would have been told waits here, in order.
    Down(Vec<Told>),
    /// It is gone for good: its budget is used up, or the assignment is over.
    Gone,
}

/// What one data thread is made of.
pub(crate) struct Crew {
    pub(crate) parts: ThreadParts,
    pub(crate) host: HostParts,
    pub(crate) watch: DeathWatch<&'static str>,
}

impl PartitionSupervisor {
    /// Builds the services of the thread, its handler host and its supervisor. Runs on that thread.
    pub(crate) fn build(crew: Crew, ctx: &mut Context<Self>) -> Self {
        let me = ctx.address();
        let thread = Rc::new(Thread::new(crew.parts, me.clone().recipient()));
        let host = HandlerHost::create(|ctx| {
            HandlerHost::build(crew.host, Rc::clone(&thread), me.recipient(), ctx)
        });
        let (deaths, reports) = tokio::sync::mpsc::unbounded_channel();
        ctx.add_stream(futures::stream::unfold(reports, |mut reports| async move {
            reports.recv().await.map(|death| (death, reports))
        }));
        thread.set_host(host.recipient());
        Self {
            thread,
            slots: BTreeMap::new(),
            snapshot: Arc::default(),
            deaths,
            held_drains: Vec::new(),
            watch: crew.watch,
        }
    }

    fn take(&mut self, lot: Lot) {
        match lot {
            Lot::Assign(assignments) => {
                for assignment in assignments {
                    self.assign(assignment);
                }
            }
            Lot::Revoke { partitions, until } => self.revoke(partitions, until),
            Lot::End(partitions) => self.end(partitions),
            Lot::Routes(inputs) => {
                for (partition, input) in inputs {
                    self.note_served(&partition, &input);
                    self.tell(&partition, Told::Route(Box::new(input)));
                }
            }
            Lot::Diffs(snapshot, diffs) => self.diffs(snapshot, &diffs),
            Lot::Broker(broker, news) => self.broker_news(broker, news),
            Lot::Generation(generation) => {
                self.thread.to_host(HostRequest::Generation(generation));
            }
            Lot::SessionSafe(safe) => {
                for partition in self.slots.keys().cloned() {
                    self.thread.to_host(HostRequest::SessionGate {
                        partition,
                        shut: !safe,
                    });
                }
            }
            Lot::Letters(ends) => {
                for (ticket, end) in ends {
                    self.letter_ended(ticket, end);
                }
            }
            Lot::LettersLost => self.letters_lost(),
            Lot::Host(news) => {
                for news in news {
                    self.host_says(news);
                }
            }
            Lot::Crash(victim) => self.crash(&victim),
            Lot::Flush => {}
        }
        self.offer_kept();
        self.thread.flush();
    }

    /// Tells one partition something; if its actor is down it hears it when it is back.
    pub(super) fn tell(&mut self, partition: &TopicPartition, told: Told) {
        if let Some(slot) = self.slots.get_mut(partition) {
            slot.life.tell(told);
        }
    }

    fn crash(&mut self, victim: &Victim) {
        match victim {
            Victim::Partition(partition) => self.tell(partition, Told::Crash),
            Victim::HandlerHost => self.thread.to_host(HostRequest::Crash),
            Victim::PartitionSupervisor => on_purpose(),
            Victim::Link(_)
            | Victim::Metadata
            | Victim::Coordinator
            | Victim::Producer
            | Victim::FleetSupervisor => {}
        }
    }

    /// Turns the wheel and offers once more what did not fit.
    fn tick(&mut self, _: &mut Context<Self>) {
        let due = self.thread.wheel.borrow_mut().advance(self.thread.now());
        for partition in due {
            self.tell(&partition, Told::Due);
        }
        self.end_held_drains();
        self.offer_kept();
        self.thread.flush();
    }

    /// Offers partitions once more what found their mailbox full.
    fn offer_kept(&mut self) {
        if !self.thread.someone_waits.replace(false) {
            return;
        }
        for slot in self.slots.values_mut() {
            if let Life::Up(outbox, thread) = &mut slot.life
                && outbox.flush() == Posted::Kept
            {
                thread.someone_waits.set(true);
            }
        }
    }
}

impl Life {
    pub(super) fn tell(&mut self, told: Told) {
        match self {
            Self::Up(outbox, thread) => {
                if outbox.post(told) == Posted::Kept {
                    thread.someone_waits.set(true);
                }
            }
            Self::Down(waiting) => waiting.push(told),
            Self::Gone => {}
        }
    }
}

impl Slot {
    /// Starts the next life of the partition's actor.
    pub(super) fn start(
        &mut self,
        partition: &TopicPartition,
        thread: &Rc<Thread>,
        deaths: &UnboundedSender<Death<TopicPartition>>,
        assigned: crate::routing::Assigned,
    ) {
        let ticket: Incarnation = self.cell.next_incarnation();
        let watch = DeathWatch::new(partition.clone(), ticket, deaths.clone());
        let parts = super::Parts {
            partition: partition.clone(),
            cell: self.cell.clone(),
            thread: Rc::clone(thread),
            status: Arc::clone(&self.status),
            watch,
            ticket,
            assigned,
        };
        let addr = PartitionActor::new(parts).start();
        let next = Life::Up(Outbox::new(addr.recipient()), Rc::clone(thread));
        if let Life::Down(waiting) = std::mem::replace(&mut self.life, next) {
            for told in waiting {
                self.life.tell(told);
            }
        }
    }
}

impl Actor for PartitionSupervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(TICK, |actor, ctx| guarded(actor, ctx, Self::tick));
    }
}

impl Handler<Lot> for PartitionSupervisor {
    type Result = ();

    fn handle(&mut self, lot: Lot, ctx: &mut Self::Context) {
        guarded(self, ctx, |actor, _| actor.take(lot));
    }
}

impl StreamHandler<Death<TopicPartition>> for PartitionSupervisor {
    fn handle(&mut self, death: Death<TopicPartition>, ctx: &mut Self::Context) {
        guarded(self, ctx, |actor, ctx| actor.died(death, ctx));
    }

    // The supervisor outlives the stream's idle times; only its own stop ends it.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl Watched for PartitionSupervisor {
    type Id = &'static str;

    fn watch(&mut self) -> &mut DeathWatch<&'static str> {
        &mut self.watch
    }
}

/// Lots the mailbox holds.
const MAILBOX: usize = 256;
/// How often the wheel turns while the thread is otherwise quiet.
const TICK: Duration = Duration::from_millis(10);
