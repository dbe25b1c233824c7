//! One actor per assigned partition: it hosts the route machine and the completion ledger.
//!
//! It owns which replica the partition is read from, its cooldowns and its position. Records it
//! only passes through: a row's bytes are checked and indexed here and handed to the handler host
//! of the thread.

mod cell;
mod damage;
mod dispatch;
mod interest;
mod letters;
mod lifecycle;
mod messages;
mod open;
mod outputs;
mod supervisor;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;

pub(crate) use cell::{Account, Cell, Committable, Progress};
pub(crate) use messages::{
    Ask, Assignment, BrokerNews, HostNews, HostSaid, Lot, Note, Question, Told,
};
pub(crate) use supervisor::{Crew, PartitionSupervisor};
pub(crate) use thread::{Thread, ThreadParts};

use self::damage::Damage;
use self::open::{Opening, Reading};
use super::handler::HostRequest;
use super::status::PartitionStatus;
use super::supervise::{DeathWatch, Watched, guarded, on_purpose};
use super::trace::{ThreadTrace, Tracer, note};
use crate::ids::{AssignmentEpoch, Draw, Incarnation, LeaderEpoch, Moment, Offset, TopicPartition};
use crate::records::BatchError;
use crate::routing::trace::Taken;
use crate::routing::{self, Route};

/// Hosts the route of one partition.
pub(crate) struct PartitionActor {
    partition: TopicPartition,
    assignment: AssignmentEpoch,
    ticket: Incarnation,
    cell: Cell,
    route: Route,
    reading: Reading,
    opening: Opening,
    thread: Rc<Thread>,
    status: Arc<PartitionStatus>,
    watch: DeathWatch<TopicPartition>,
    /// Inputs that an output of the machine called for; handled before anything else.
    owed: VecDeque<routing::Input>,
    /// Set once a revoke began: nothing is fetched any more.
    draining: bool,
    /// Whether the handler's queue has room.
    room: bool,
    tracer: Option<Tracer>,
    /// The first batch of the last row, if it cannot be read.
    damage: Option<Damage>,
    /// A batch to be fetched again, that it may be kept as it lies in the log.
    sought: Option<Box<BatchError>>,
    /// The letter it stands still for.
    awaited: Option<u64>,
}

/// What a partition actor is made of.
pub(crate) struct Parts {
    pub(crate) partition: TopicPartition,
    pub(crate) cell: Cell,
    pub(crate) thread: Rc<Thread>,
    pub(crate) status: Arc<PartitionStatus>,
    pub(crate) watch: DeathWatch<TopicPartition>,
    pub(crate) ticket: Incarnation,
    pub(crate) assigned: routing::Assigned,
}

impl PartitionActor {
    /// An actor that takes the partition up where its cell stands.
    pub(crate) fn new(parts: Parts) -> Self {
        let route = Route::new(Arc::clone(&parts.thread.routing));
        let tracer = parts.thread.trace.as_ref().map(ThreadTrace::tracer);
        let reading = Reading {
            settings: parts.thread.reading,
            read_committed: parts.thread.read_committed,
            seat: parts.thread.inflation.seat(),
        };
        Self {
            assignment: parts.cell.assignment(),
            partition: parts.partition,
            ticket: parts.ticket,
            cell: parts.cell,
            route,
            reading,
            opening: Opening::default(),
            thread: parts.thread,
            status: parts.status,
            watch: parts.watch,
            owed: VecDeque::from([routing::Input::Assigned(parts.assigned)]),
            draining: false,
            room: true,
            tracer,
            damage: None,
            sought: None,
            awaited: None,
        }
    }

    /// Feeds the route and carries out what it answers, until nothing is owed.
    fn drive(&mut self, input: Option<routing::Input>, ctx: &mut Context<Self>) {
        self.owed.extend(input);
        while let Some(input) = self.owed.pop_front() {
            let indexing = matches!(input, routing::Input::Indexed(_));
            let (now, draw) = (self.thread.now(), self.thread.entropy.draw());
            let mut taken = self.begin_trace(&input, draw, now);
            self.route
                .handle(input, &self.thread.brokers.borrow(), draw, now);
            self.follow_position(indexing);
            while let Some(output) = self.route.poll_output() {
                note(&mut taken, &output);
                self.carry_out(output, ctx);
            }
            self.end_trace(taken);
        }
        self.set_deadline();
        self.publish_status();
        self.cell.interest().publish(&self.route);
    }

    fn begin_trace(&mut self, input: &routing::Input, draw: Draw, now: Moment) -> Option<Taken> {
        let (tracer, trace) = (self.tracer.as_mut()?, self.thread.trace.as_ref()?);
        let brokers = self.thread.brokers.borrow();
        Some(tracer.begin(input, (trace, &brokers), &self.partition, (draw, now)))
    }

    fn end_trace(&self, taken: Option<Taken>) {
        if let (Some(tracer), Some(trace), Some(taken)) = (&self.tracer, &self.thread.trace, taken)
        {
            let brokers = self.thread.brokers.borrow();
            tracer.end(taken, &self.route, (trace, &brokers));
        }
    }

    /// Keeps the account in step with the route's fetch end.
    fn follow_position(&mut self, indexing: bool) {
        match self.route.position() {
            routing::Position::Ready | routing::Position::Validating => {}
            routing::Position::Unset | routing::Position::Resolving | routing::Position::Halted => {
                return;
            }
        }
        let to = self.route.fetch_end();
        let known = self
            .cell
            .account()
            .as_ref()
            .map(|account| account.fetch_end);
        if known != Some(to) {
            self.position_moved(to, indexing);
        }
    }

    /// The fetch end moved: by indexing, by a first resolution, or by a reset, seek or truncation.
    fn position_moved(&mut self, to: Offset, indexing: bool) {
        let epoch = self.route.fetched_epoch();
        // Elsewhere in the log the batch to be kept is met again by itself, or is another.
        self.sought.take_if(|error| error.position() != to);
        if self.stands_at_letter(to) {
            return;
        }
        self.give_up_letter();
        let all_delivered = self.opening.is_empty();
        let mut back = false;
        self.cell.write(self.ticket, |slot| match slot {
            None => *slot = Some(Account::new(to, epoch)),
            Some(account) if to < account.fetch_end => {
                back = true;
                let at = to.min(account.ledger.watermark());
                let known = epoch.filter(|_| at == to);
                account.ledger.restart(at, known);
                account.fetch_end = to;
                (account.delivered, account.delivered_epoch) = (at, known);
            }
            Some(account) => {
                if !indexing {
                    // The gap that a reset jumps is finished; what is queued below it still runs
                    // (runtime.md L2).
                    let ledger_epoch = account.ledger.leader_epoch();
                    account.ledger.finish(account.fetch_end, to, ledger_epoch);
                    if all_delivered {
                        (account.delivered, account.delivered_epoch) = (to, epoch);
                    }
                }
                account.fetch_end = to;
            }
        });
        if back {
            self.rewind(to);
        }
    }

    /// A position that moved back: the queue is dropped and what is in hand is fenced. Records
    /// between the watermark and the new position were in that queue, so reading goes on at the
    /// lower of the two.
    fn rewind(&mut self, to: Offset) {
        self.opening.clear();
        self.drop_queue();
        if let Some(commit) = self.cell.commit().filter(|commit| commit.offset < to) {
            let (offset, epoch) = (commit.offset, commit.leader_epoch);
            self.owed.push_back(routing::Input::Seek { offset, epoch });
        }
    }

    /// Has the handler host drop its queue of this partition and fence what is in hand.
    fn drop_queue(&self) {
        self.cell.rewind();
        self.thread.to_host(HostRequest::Rewind {
            partition: self.partition.clone(),
            epoch: self.assignment,
        });
    }

    /// Everything up to the fetch end that was open has gone to the handler host.
    fn mark_delivered(&mut self, to: Offset, epoch: Option<LeaderEpoch>) {
        self.cell.write(self.ticket, |slot| {
            if let Some(account) = slot {
                account.delivered = account.delivered.max(to);
                account.delivered_epoch = epoch.or(account.delivered_epoch);
            }
        });
    }

    fn told(&mut self, told: Told, ctx: &mut Context<Self>) {
        match told {
            Told::Route(input) => self.drive(Some(*input), ctx),
            Told::Due => self.drive(Some(routing::Input::Tick), ctx),
            Told::Room(room) => {
                self.room = room;
                self.open_next(ctx);
                self.drive(Some(routing::Input::Room(room)), ctx);
            }
            Told::Opened(opened) => {
                let ticket = opened.ticket();
                self.thread.telemetry.note_inflated(opened.inflated_bytes());
                if let Err(error) = self.opening.opened(opened) {
                    self.judge_elsewhere(ticket, &error);
                }
                self.open_next(ctx);
                self.drive(None, ctx);
            }
            Told::Letter(number, end) => {
                self.letter_ended(number, end);
                self.drive(None, ctx);
            }
            Told::Revoke => {
                self.draining = true;
                self.opening.halt();
                self.drive(Some(routing::Input::Pause), ctx);
            }
            Told::Unreadable { error, rewinds } => {
                self.judge_handed(&error, rewinds);
                self.drive(None, ctx);
            }
            Told::End => {
                self.drive(Some(routing::Input::Revoked), ctx);
                ctx.stop();
            }
            Told::Crash => on_purpose(),
        }
    }

    fn set_deadline(&self) {
        let mut wheel = self.thread.wheel.borrow_mut();
        match self.route.next_deadline() {
            Some(due) => wheel.set(self.partition.clone(), due),
            None => wheel.clear(&self.partition),
        }
    }

    fn publish_status(&self) {
        self.status.publish(&self.route);
    }
}

impl Actor for PartitionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        guarded(self, ctx, |actor, ctx| actor.drive(None, ctx));
    }
}

impl Handler<Told> for PartitionActor {
    type Result = ();

    fn handle(&mut self, told: Told, ctx: &mut Self::Context) {
        guarded(self, ctx, |actor, ctx| actor.told(told, ctx));
    }
}

impl Watched for PartitionActor {
    type Id = TopicPartition;

    fn watch(&mut self) -> &mut DeathWatch<TopicPartition> {
        &mut self.watch
    }
}

/// Messages a partition's mailbox holds; its supervisor keeps what does not fit.
const MAILBOX: usize = 32;
