//! The actor that writes: it hosts the producer machine, over the connections of the broker links,
//! and in front of it the machine of dead letters.
//!
//! It runs only in a fleet that may have to write dead letters, opens a connection with the first
//! of them, and keeps nothing that its partitions could not send again.

mod messages;
mod outputs;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::mpsc::UnboundedSender;

pub(crate) use messages::Mail;

use super::broker::{Answer, Links};
use super::clock::unix_ms;
use super::directory::Threads;
use super::entropy::Entropy;
use super::mailbox::{Outbox, Posted};
use super::metadata::{ClusterNews, Need};
use super::net::Alarm;
use super::supervise::{Command, DeathWatch, Watched, guarded, on_purpose};
use super::telemetry::Telemetry;
use crate::cluster::{Reason, Snapshot};
use crate::ids::Moment;
use crate::producer::letters::{self, Letters};
use crate::producer::{self, Asked, Outstanding, Producer, Silence};
use crate::wire::Outcome;

/// Hosts the producer of a fleet.
pub(crate) struct ProducerActor {
    producer: Producer,
    letters: Letters,
    snapshot: Arc<Snapshot>,
    links: Arc<Links>,
    telemetry: Arc<Telemetry>,
    threads: Threads,
    to_metadata: Outbox<Need>,
    asked: Outstanding,
    last_token: u64,
    silence: Silence,
    /// Requests that could not be handed to a link.
    unsent: Vec<Asked>,
    ends: Vec<(letters::Ticket, letters::End)>,
    me: Recipient<Answer>,
    commands: UnboundedSender<Command>,
    entropy: Entropy,
    alarm: Alarm,
    watch: DeathWatch<&'static str>,
}

/// How producer actors are made, one life after the other.
#[derive(Clone)]
pub(crate) struct ProducerParts {
    pub(crate) producer: producer::Settings,
    pub(crate) letters: letters::Settings,
    pub(crate) links: Arc<Links>,
    pub(crate) commands: UnboundedSender<Command>,
}

impl ProducerActor {
    /// An actor that has nothing to do yet.
    pub(crate) fn build(
        parts: ProducerParts,
        watch: DeathWatch<&'static str>,
        ctx: &mut Context<Self>,
    ) -> Self {
        let directory = &parts.links.directory;
        Self {
            asked: Outstanding::new(parts.producer.request_timeout),
            producer: Producer::new(parts.producer),
            letters: Letters::new(parts.letters),
            snapshot: Arc::default(),
            threads: Threads::new(directory),
            to_metadata: Outbox::maybe(directory.metadata.get().cloned()),
            telemetry: Arc::clone(&parts.links.telemetry),
            links: parts.links,
            last_token: 0,
            silence: Silence::default(),
            unsent: Vec::new(),
            ends: Vec::new(),
            me: ctx.address().recipient(),
            commands: parts.commands,
            entropy: Entropy::from_system(),
            alarm: Alarm::default(),
            watch,
        }
    }

    fn now(&self) -> Moment {
        self.links.net.clock.now()
    }

    fn mail(&mut self, mail: Mail, ctx: &mut Context<Self>) {
        match mail {
            Mail::Letter(ticket, letter) => {
                let unix_ms = unix_ms();
                self.letters(letters::Input::Post {
                    ticket,
                    letter,
                    unix_ms,
                });
            }
            Mail::Stop => ctx.stop(),
            Mail::Crash => on_purpose(),
        }
    }

    fn news(&mut self, news: ClusterNews, _: &mut Context<Self>) {
        self.snapshot = news.snapshot;
        self.produce(producer::Input::ClusterChanged);
        self.letters(letters::Input::ClusterChanged);
    }

    fn answered(&mut self, answer: Answer, _: &mut Context<Self>) {
        self.silence.ended(answer.token);
        if let Some(asked) = self.asked.ended(answer.token) {
            self.produce(asked.ended(answer.completion.result));
        }
    }

    fn wake(&mut self, ctx: &mut Context<Self>) {
        self.alarm.fired();
        let now = self.now();
        if is_due(self.producer.next_deadline(), now) {
            self.produce(producer::Input::Tick);
        }
        if is_due(self.letters.next_deadline(), now) {
            self.letters(letters::Input::Tick);
        }
        while let Some((token, asked)) = self.asked.take_overdue(now) {
            self.silence.ended(token);
            self.produce(asked.unanswered(Outcome::Unknown));
        }
        if self.silence.take_due(now) {
            self.to_metadata.post(Need::Refresh {
                partitions: Vec::new(),
                reason: Reason::LinkLost,
            });
        }
        self.settle(ctx);
    }

    /// Tells what this turn ended and arms the alarm. Every handler ends here.
    fn settle(&mut self, ctx: &mut Context<Self>) {
        self.tell_ends();
        let mut sent = self.threads.flush();
        sent &= self.to_metadata.flush() != Posted::Kept;
        let due = [
            self.producer.next_deadline(),
            self.letters.next_deadline(),
            self.silence.next_deadline(),
            self.asked.next_deadline(),
            (!sent).then(|| self.now() + RETRY_KEPT),
        ];
        let due = due.into_iter().flatten().min();
        let clock = self.links.net.clock;
        self.alarm.arm(due, clock, ctx, |actor, ctx| {
            guarded(actor, ctx, Self::wake)
        });
    }
}

impl Actor for ProducerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        guarded(self, ctx, |actor, ctx| {
            let listener = ctx.address().recipient();
            actor.to_metadata.post(Need::Listen(listener));
            actor.settle(ctx);
        });
    }
}

/// Handles a message inside the guard and settles.
macro_rules! handles {
    ($message:ty, $work:path) => {
        impl Handler<$message> for ProducerActor {
            type Result = ();

            fn handle(&mut self, message: $message, ctx: &mut Self::Context) {
                guarded(self, ctx, |actor, ctx| {
                    $work(actor, message, ctx);
                    actor.settle(ctx);
                });
            }
        }
    };
}

handles!(Mail, ProducerActor::mail);
handles!(ClusterNews, ProducerActor::news);
handles!(Answer, ProducerActor::answered);

impl Watched for ProducerActor {
    type Id = &'static str;

    fn watch(&mut self) -> &mut DeathWatch<&'static str> {
        &mut self.watch
    }
}

fn is_due(deadline: Option<Moment>, now: Moment) -> bool {
    deadline.is_some_and(|due| due <= now)
}

/// Messages the mailbox holds.
const MAILBOX: usize = 1_024;
/// When to offer again what found a full mailbox.
const RETRY_KEPT: std::time::Duration = std::time::Duration::from_millis(10);
