//! One actor per data thread that hosts the handler machine: it starts stints on the pools and
//! reports their ends.
//!
//! User code never runs here. A stint is a task of the handler pool, so a panic that escapes it is
//! a task's result.

mod messages;
mod outputs;
mod pool;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

pub(crate) use messages::HostRequest;
pub(crate) use pool::Pools;

use super::mailbox::Outbox;
use super::net::Alarm;
use super::oddities;
use super::partition::{HostNews, Lot, Thread};
use super::supervise::{Command, DeathWatch, Watched, guarded, on_purpose};
use crate::budget::Budget;
use crate::handler::{
    Assignment, ErasedHandler, Gate, Host, Input as HostInput, Settings as HostSettings, StintEnd,
    StintId,
};
use crate::ids::{GroupId, TopicPartition};

/// Hosts the handler machine of one data thread.
pub(crate) struct HandlerHost {
    machine: Host,
    group: GroupId,
    handlers: Vec<Arc<dyn ErasedHandler>>,
    thread: Rc<Thread>,
    pools: Pools,
    /// Rewinds seen per assigned partition; none is zero.
    rewinds: BTreeMap<TopicPartition, u64>,
    running: BTreeMap<StintId, AbortHandle>,
    // Unbounded, yet bounded: one report per stint in hand.
    settled: UnboundedSender<Settled>,
    news: Vec<HostNews>,
    to_supervisor: Outbox<Lot>,
    commands: UnboundedSender<Command>,
    alarm: Alarm,
    watch: DeathWatch<&'static str>,
}

/// The end of a stint, coming back from its pool.
type Settled = (StintId, Option<StintEnd>);

/// What a handler host is made of.
pub(crate) struct HostParts {
    pub(crate) settings: HostSettings,
    /// What copies are charged to.
    pub(crate) budget: Budget,
    pub(crate) group: GroupId,
    pub(crate) handlers: Vec<Arc<dyn ErasedHandler>>,
    pub(crate) pools: Pools,
    pub(crate) commands: UnboundedSender<Command>,
    pub(crate) watch: DeathWatch<&'static str>,
}

impl HandlerHost {
    /// A host without partitions.
    pub(crate) fn build(
        parts: HostParts,
        thread: Rc<Thread>,
        supervisor: Recipient<Lot>,
        ctx: &mut Context<Self>,
    ) -> Self {
        let (settled, ends) = tokio::sync::mpsc::unbounded_channel();
        ctx.add_stream(futures::stream::unfold(ends, |mut ends| async move {
            let mut lot = Vec::new();
            let count = ends.recv_many(&mut lot, SETTLED_PER_TURN).await;
            (count > 0).then_some((lot, ends))
        }));
        Self {
            machine: Host::new(parts.settings, Arc::new(thread.clock)).charging(parts.budget),
            group: parts.group,
            handlers: parts.handlers,
            thread,
            pools: parts.pools,
            rewinds: BTreeMap::new(),
            running: BTreeMap::new(),
            settled,
            news: Vec::new(),
            to_supervisor: Outbox::new(supervisor),
            commands: parts.commands,
            alarm: Alarm::default(),
            watch: parts.watch,
        }
    }

    fn requested(&mut self, request: HostRequest) {
        let input = match request {
            HostRequest::Assign {
                partition,
                epoch,
                generation,
                topic_id,
                subscription,
                handling,
            } => {
                let Some(handler) = self.handlers.get(subscription).cloned() else {
                    return;
                };
                self.rewinds.remove(&partition);
                let group = self.group.clone();
                let assignment = Assignment {
                    group,
                    partition,
                    topic_id,
                    generation,
                    epoch,
                };
                HostInput::Assign {
                    assignment,
                    handler,
                    handling,
                }
            }
            HostRequest::Deliver {
                partition,
                epoch,
                views,
            } => HostInput::Deliver {
                partition,
                epoch,
                views,
            },
            HostRequest::Drain {
                partition,
                epoch,
                until,
            } => HostInput::Drain {
                partition,
                epoch,
                until,
            },
            HostRequest::End { partition, epoch } => HostInput::End { partition, epoch },
            HostRequest::Rewind { partition, epoch } => {
                *self.rewinds.entry(partition.clone()).or_default() += 1;
                HostInput::Rewind { partition, epoch }
            }
            HostRequest::Generation(generation) => HostInput::Generation(generation),
            HostRequest::SessionGate { partition, shut } => HostInput::Gate {
                partition,
                gate: Gate::CoordinatorAway,
                shut,
            },
            HostRequest::Crash => return on_purpose(),
        };
        self.feed(input);
    }

    fn feed(&mut self, input: HostInput) {
        let (draw, now) = (self.thread.entropy.draw(), self.thread.now());
        self.machine.handle(input, draw, now);
        while let Some(output) = self.machine.poll_output() {
            self.carry_out(output);
        }
    }

    /// Reports what this turn brought and arms the alarm. Every handler ends here.
    fn settle(&mut self, ctx: &mut Context<Self>) {
        if !self.news.is_empty() {
            self.to_supervisor
                .post(Lot::Host(std::mem::take(&mut self.news)));
        }
        let kept = self.to_supervisor.flush() == super::mailbox::Posted::Kept;
        let retry = kept.then(|| self.thread.now() + RETRY_KEPT);
        let due = self.machine.next_deadline().into_iter().chain(retry).min();
        self.alarm.arm(due, self.thread.clock, ctx, |host, ctx| {
            guarded(host, ctx, Self::wake)
        });
    }

    fn wake(&mut self, ctx: &mut Context<Self>) {
        self.alarm.fired();
        self.feed(HostInput::Tick);
        self.settle(ctx);
    }
}

impl Actor for HandlerHost {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Handler<HostRequest> for HandlerHost {
    type Result = ();

    fn handle(&mut self, request: HostRequest, ctx: &mut Self::Context) {
        guarded(self, ctx, |host, ctx| {
            host.requested(request);
            host.settle(ctx);
        });
    }
}

impl StreamHandler<Vec<Settled>> for HandlerHost {
    fn handle(&mut self, ends: Vec<Settled>, ctx: &mut Self::Context) {
        guarded(self, ctx, |host, ctx| {
            for (stint, end) in ends {
                host.running.remove(&stint);
                oddities::of_nulls(end.as_ref().map_or(0, StintEnd::odd_nulls));
                host.feed(HostInput::Settled { stint, end });
            }
            host.settle(ctx);
        });
    }

    // The host holds a sender itself; the stream ends with it.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl Watched for HandlerHost {
    type Id = &'static str;

    fn watch(&mut self) -> &mut DeathWatch<&'static str> {
        &mut self.watch
    }
}

/// Requests the mailbox holds; the thread keeps what does not fit.
const MAILBOX: usize = 1_024;
/// Ends of stints taken per turn.
const SETTLED_PER_TURN: usize = 256;
/// When to offer again what found a full mailbox.
const RETRY_KEPT: std::time::Duration = std::time::Duration::from_millis(10);
