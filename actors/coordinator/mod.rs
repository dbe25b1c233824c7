//! One actor per group: membership, the rebalance queue, leader-side offset resolution and commits.
//!
//! It owns the connection to the group coordinator, so that no fetch and no throttle can hold a
//! heartbeat back.

mod asking;
mod commits;
mod member;
mod port;
mod resolving;
mod sampling;
mod steps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::mpsc::UnboundedSender;

use self::asking::Asked;
use self::port::CoordinatorPort;
use self::resolving::Asking;
use self::steps::Running;
pub(crate) use self::steps::StepPlan;
use super::broker::{Answer, Links};
use super::directory::Threads;
use super::entropy::Entropy;
use super::mailbox::{Outbox, Posted};
use super::metadata::{ClusterNews, Need};
use super::net::{Alarm, IoInput};
use super::partition::{Note, Progress};
use super::supervise::{Command, DeathWatch, Watched, guarded};
use super::telemetry::Telemetry;
use crate::cluster::Snapshot;
use crate::fleet::StartAt;
use crate::group::{self, ClassicMember};
use crate::handler::{Handling, TopicMatcher};
use crate::ids::{AssignmentEpoch, Generation, Moment, TopicName, TopicPartition};
use crate::offsets::{Committer, Resolver, Sampler, resolve};

/// Hosts the machines of one group membership.
pub(crate) struct CoordinatorActor {
    member: ClassicMember,
    committer: Committer,
    resolver: Resolver,
    sampler: Sampler,
    plan: StepPlan,
    subscriptions: Vec<GroupSubscription>,
    owned: BTreeMap<TopicPartition, Owned>,
    /// What the resolver is looking into.
    asking: BTreeMap<TopicPartition, Asking>,
    /// Where partitions begin that were never ours before.
    start: Option<StartAt>,
    /// Partitions that have begun there.
    begun: BTreeSet<TopicPartition>,
    running: Option<Running>,
    solved: Addr<Self>,
    snapshot: Arc<Snapshot>,
    started: bool,
    generation: Generation,
    port: CoordinatorPort,
    asked: BTreeMap<u64, Asked>,
    last_token: u64,
    links: Arc<Links>,
    threads: Threads,
    to_metadata: Outbox<Need>,
    commands: UnboundedSender<Command>,
    telemetry: Arc<Telemetry>,
    entropy: Entropy,
    /// Member inputs that an output of another machine called for.
    owed: VecDeque<group::Input>,
    next_scan: Moment,
    alarm: Alarm,
    watch: DeathWatch<&'static str>,
}

/// A partition that the group gave us.
struct Owned {
    epoch: AssignmentEpoch,
    progress: Arc<Progress>,
    /// Version of the progress last shown to the commit plan.
    shown: u64,
}

/// What the coordinator needs to know of a subscription.
pub(crate) struct GroupSubscription {
    pub(crate) matcher: TopicMatcher,
    /// Topics by name; empty for a pattern.
    pub(crate) names: Vec<TopicName>,
    pub(crate) handling: Handling,
}

/// What the coordinator is made of.
pub(crate) struct CoordinatorParts {
    pub(crate) start: Option<StartAt>,
    pub(crate) member: ClassicMember,
    pub(crate) committer: Committer,
    pub(crate) resolver: Resolver,
    pub(crate) sampler: Sampler,
    pub(crate) plan: StepPlan,
    pub(crate) subscriptions: Vec<GroupSubscription>,
    pub(crate) links: Arc<Links>,
    pub(crate) commands: UnboundedSender<Command>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) watch: DeathWatch<&'static str>,
}

/// Tells the coordinator to drain everything, leave and end.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) struct Leave {
    /// When the drain ends at the latest.
    pub(crate) until: Moment,
    /// Told to the group.
    pub(crate) reason: String,
}

/// An assignment solved on the compute pool.
#[derive(Message, Debug)]
#[rtype(result = "()")]
struct Solved(group::Led);

impl CoordinatorActor {
    /// An actor that joins once the cluster is known.
    pub(crate) fn build(parts: CoordinatorParts, ctx: &mut Context<Self>) -> Self {
        let (io, inputs) = tokio::sync::mpsc::unbounded_channel();
        ctx.add_stream(futures::stream::unfold(inputs, |mut inputs| async move {
            inputs.recv().await.map(|input| (input, inputs))
        }));
        let directory = Arc::clone(&parts.links.directory);
        let now = parts.links.net.clock.now();
        Self {
            member: parts.member,
            committer: parts.committer,
            resolver: parts.resolver,
            sampler: parts.sampler,
            plan: parts.plan,
            subscriptions: parts.subscriptions,
            owned: BTreeMap::new(),
            asking: BTreeMap::new(),
            start: parts.start,
            begun: BTreeSet::new(),
            running: None,
            solved: ctx.address(),
            snapshot: Arc::default(),
            started: false,
            generation: Generation::default(),
            port: CoordinatorPort::new(parts.links.net.clone(), io, ctx.address().recipient()),
            asked: BTreeMap::new(),
            last_token: 0,
            threads: Threads::new(&directory),
            to_metadata: Outbox::maybe(directory.metadata.get().cloned()),
            links: parts.links,
            commands: parts.commands,
            telemetry: parts.telemetry,
            entropy: Entropy::from_system(),
            owed: VecDeque::new(),
            next_scan: now,
            alarm: Alarm::default(),
            watch: parts.watch,
        }
    }

    fn now(&self) -> Moment {
        self.links.net.clock.now()
    }

    fn news(&mut self, news: &ClusterNews) {
        self.snapshot = Arc::clone(&news.snapshot);
        if news.rebootstrap {
            self.move_port(None);
            self.owed.push_back(group::Input::CoordinatorLost);
        }
        self.feed_resolver(resolve::Input::MetadataChanged);
        let topics = self.subscribed_topics();
        if self.started {
            self.feed_member(group::Input::Subscribe(topics));
            self.feed_member(group::Input::MetadataChanged);
        } else if self.snapshot.version().0 > 0 {
            self.started = true;
            self.feed_member(group::Input::Start(topics));
        }
    }

    fn wake(&mut self, ctx: &mut Context<Self>) {
        self.alarm.fired();
        self.feed_member(group::Input::Tick);
        self.tick_committer();
        self.tick_resolver();
        self.tick_sampler();
        self.tick_port();
        self.expire_questions();
        self.settle(ctx);
    }

    /// Sends on what this turn brought and arms the alarm. Every handler ends here.
    fn settle(&mut self, ctx: &mut Context<Self>) {
        self.scan_progress();
        while let Some(input) = self.owed.pop_front() {
            self.feed_member(input);
        }
        let mut sent = self.threads.flush();
        sent &= self.to_metadata.flush() != Posted::Kept;
        let retry = (!sent).then(|| self.now() + RETRY_KEPT);
        let due = [
            self.member.next_deadline(),
            self.committer.next_deadline(),
            self.resolver.next_deadline(),
            self.sampler.next_deadline(),
            self.port.next_deadline(),
            self.asked.values().map(|asked| asked.until).min(),
            (!self.owned.is_empty()).then_some(self.next_scan),
            retry,
        ];
        let due = due.into_iter().flatten().min();
        let clock = self.links.net.clock;
        self.alarm.arm(due, clock, ctx, |actor, ctx| {
            guarded(actor, ctx, Self::wake)
        });
    }
}

impl Actor for CoordinatorActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        let listener = ctx.address().recipient();
        self.to_metadata.post(Need::Listen(listener));
    }
}

/// Handles a message inside the guard and settles.
macro_rules! handles {
    ($message:ty, |$actor:ident, $value:ident| $work:expr) => {
        impl Handler<$message> for CoordinatorActor {
            type Result = ();

            fn handle(&mut self, $value: $message, ctx: &mut Self::Context) {
                guarded(self, ctx, |$actor, ctx| {
                    $work;
                    $actor.settle(ctx);
                });
            }
        }
    };
}

handles!(ClusterNews, |actor, news| actor.news(&news));
handles!(Answer, |actor, answer| actor.answered(answer));
handles!(Note, |actor, note| actor.note(note));
handles!(Solved, |actor, solved| actor
    .feed_member(group::Input::Led(solved.0)));
handles!(Leave, |actor, leave| actor.leave(leave));

impl StreamHandler<IoInput> for CoordinatorActor {
    fn handle(&mut self, (port, news): IoInput, ctx: &mut Self::Context) {
        guarded(self, ctx, |actor, ctx| {
            actor.port_news(port, news);
            actor.settle(ctx);
        });
    }

    // The port holds a sender itself; the stream ends with it.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl Watched for CoordinatorActor {
    type Id = &'static str;

    fn watch(&mut self) -> &mut DeathWatch<&'static str> {
        &mut self.watch
    }
}

/// Messages the mailbox holds (runtime.md T2).
const MAILBOX: usize = 1_024;
/// When to offer again what found a full mailbox.
const RETRY_KEPT: std::time::Duration = std::time::Duration::from_millis(10);
