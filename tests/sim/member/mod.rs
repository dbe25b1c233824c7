//! One process of the group: all its cores, wired as the actors wire them, in virtual time.
//!
//! Every output is carried out in order, nothing is decided here. The cluster is shared by all
//! members; what lies between a member and its brokers is its own [`Net`].

mod account;
mod asking;
mod driving;
mod group;
mod handling;
mod links;
mod metadata;
mod slot;
mod steps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use nearside::cluster::{self, Endpoint, Interest, Metadata, Snapshot};
use nearside::embedded::{self, Cluster};
use nearside::group::ClassicMember;
use nearside::handler::Host;
use nearside::ids::{AssignmentEpoch, BrokerId, Draw, Generation, Moment, Offset, TopicPartition};
use nearside::offsets::{Committer, Resolver, commit, resolve};
use nearside::routing::{self, Brokers, broker};

pub(crate) use handling::{Diary, Handled, host_settings};
pub(crate) use slot::Slot;

use self::asking::{Asked, Asking, Purpose};
use self::handling::Pool;
use self::steps::Running;
use crate::chance::Chance;
use crate::net::{Net, Wire};
use crate::plan::{GROUP, MemberPlan, ROUND_TRIP, TOPIC};
use crate::probing;
use crate::trail::Trail;

/// One process.
pub(crate) struct Member {
    /// Distinct for every life.
    pub(crate) name: String,
    pub(crate) net: Net,
    pub(crate) brokers: Brokers,
    pub(crate) slots: BTreeMap<TopicPartition, Slot>,
    /// What happened, for the world to judge.
    pub(crate) notes: Vec<Note>,
    pub(crate) left: bool,
    now: Moment,
    due: Option<Moment>,
    chance: Chance,
    trail: Trail,
    metadata: Metadata,
    snapshot: Arc<Snapshot>,
    links: BTreeMap<BrokerId, broker::Broker>,
    link_due: BTreeMap<BrokerId, Moment>,
    /// Links that may have outputs.
    stirred: BTreeSet<BrokerId>,
    probe_budget: broker::ProbeBudget,
    probing: probing::Watch,
    /// Brokers that asked for silence, and until when.
    mutes: BTreeMap<BrokerId, Moment>,
    purposes: BTreeMap<u64, Purpose>,
    asked: BTreeMap<u64, Asked>,
    last_token: u64,
    hang_ups: VecDeque<Wire>,
    retired: VecDeque<Wire>,
    group: ClassicMember,
    started: bool,
    generation: Generation,
    coordinator: Option<BrokerId>,
    committer: Committer,
    resolver: Resolver,
    asking: BTreeMap<TopicPartition, Asking>,
    owned: BTreeMap<TopicPartition, AssignmentEpoch>,
    running: Option<Running>,
    owed: VecDeque<nearside::group::Input>,
    owed_routes: VecDeque<(TopicPartition, routing::Input)>,
    stopping: bool,
    next_scan: Moment,
    host: Host,
    pool: Pool,
    routing: Arc<routing::Settings>,
    link_settings: Arc<broker::Settings>,
}

/// What the world has to know of a member.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// The position of an assignment became known.
    Started {
        partition: TopicPartition,
        at: Offset,
    },
    /// The assignment is over, or its end has begun.
    Ended { partition: TopicPartition },
    /// The reset policy moved the position.
    Reset {
        partition: TopicPartition,
        from: Offset,
        to: Offset,
    },
    /// The position moved back for another reason.
    WentBack {
        partition: TopicPartition,
        from: Offset,
        to: Offset,
    },
    /// The route changed.
    Rerouted {
        partition: TopicPartition,
        reason: String,
    },
    /// A partition stands still for good.
    Halted { partition: TopicPartition },
}

impl Member {
    /// A process that starts at once.
    pub(crate) fn new(plan: &MemberPlan, name: String, diary: Diary, trail: Trail) -> Self {
        let routing = plan.routing();
        let link_settings = broker::Settings {
            rack: routing.rack_sent().cloned(),
            ..Default::default()
        };
        let bootstrap = (1..=plan.brokers)
            .map(|id| Endpoint::new(format!("broker-{id}.embedded"), 9092))
            .collect();
        let pool = Pool::new(plan.seed, diary);
        let mut member = Self {
            net: Net::new(ROUND_TRIP),
            brokers: Brokers::new(),
            slots: BTreeMap::new(),
            committer: Committer::new(plan.commits()),
            notes: Vec::new(),
            left: false,
            now: plan.at,
            due: Some(plan.at),
            chance: Chance::new(plan.seed, u64::from(plan.life)),
            trail,
            metadata: Metadata::new(cluster::Settings::default(), bootstrap),
            snapshot: Arc::default(),
            links: BTreeMap::new(),
            link_due: BTreeMap::new(),
            stirred: BTreeSet::new(),
            probe_budget: broker::ProbeBudget::new(50.0, routing.lease_cap()),
            probing: probing::Watch::default(),
            mutes: BTreeMap::new(),
            purposes: BTreeMap::new(),
            asked: BTreeMap::new(),
            last_token: 0,
            hang_ups: VecDeque::new(),
            retired: VecDeque::new(),
            group: ClassicMember::new(plan.group()),
            started: false,
            generation: Generation::default(),
            coordinator: None,
            resolver: Resolver::new(plan.positions()),
            asking: BTreeMap::new(),
            owned: BTreeMap::new(),
            running: None,
            owed: VecDeque::new(),
            owed_routes: VecDeque::new(),
            stopping: false,
            next_scan: plan.at,
            host: Host::new(plan.handling(), pool.clock()),
            pool,
            routing: Arc::new(routing),
            link_settings: Arc::new(link_settings),
            name,
        };
        member.net.settings.request_timeout = plan.request_timeout;
        let draw = member.draw();
        let interest = Interest::topics([TOPIC]);
        member
            .metadata
            .handle(cluster::Input::Subscribe(interest), draw, plan.at);
        member
    }

    /// When something is due of itself.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.due
    }

    /// The partitions the process holds, those being given up included.
    pub(crate) fn owned(&self) -> BTreeSet<TopicPartition> {
        self.slots.keys().cloned().collect()
    }

    /// Whether this broker asked for silence that still lasts.
    pub(crate) fn is_muted(&self, broker: BrokerId, now: Moment) -> bool {
        self.mutes.get(&broker).is_some_and(|until| *until > now)
    }

    /// Takes what the cluster sends; `false` if it is for somebody else.
    pub(crate) fn take(&mut self, output: &embedded::Output, now: Moment) -> bool {
        let mine = self.net.take(output, now);
        if mine {
            let due = now + ROUND_TRIP / 2;
            self.due = Some(self.due.map_or(due, |known| known.min(due)));
        }
        mine
    }

    /// Drains everything, commits, and leaves the group.
    pub(crate) fn stop(&mut self, until: Moment) {
        if self.started {
            self.stopping = true;
            let reason = "scripted".into();
            self.feed_group(nearside::group::Input::Stop { until, reason });
        } else {
            self.left = true;
        }
    }

    /// Everything that is due now, and all that follows.
    pub(crate) fn tick(&mut self, cluster: &mut Cluster, now: Moment) {
        self.now = now;
        self.pool.turn(now);
        let draw = self.draw();
        self.net.advance(cluster, draw, now);
        if is_due(self.metadata.next_deadline(), now) {
            self.metadata.handle(cluster::Input::Tick, draw, now);
        }
        self.tick_links();
        let late = self.slots.iter().filter(|(_, slot)| is_due(slot.due, now));
        let late: Vec<_> = late.map(|(partition, _)| partition.clone()).collect();
        for partition in late {
            self.drive(&partition, routing::Input::Tick);
        }
        if is_due(self.host.next_deadline(), now) {
            self.feed_host(nearside::handler::Input::Tick);
        }
        self.tick_group();
        self.settle(cluster, now);
    }

    /// Carries out outputs until no machine has any left.
    pub(crate) fn settle(&mut self, cluster: &mut Cluster, now: Moment) {
        self.now = now;
        self.pool.turn(now);
        for _ in 0..20_000 {
            if !self.settle_one(cluster) {
                self.scan_progress();
                self.due = self.find_deadline();
                return;
            }
        }
        panic!("the machines of {} talk without end", self.name);
    }

    fn settle_one(&mut self, cluster: &mut Cluster) -> bool {
        let (now, draw) = (self.now, self.draw());
        self.net.run(cluster, draw, now);
        if let Some(wire) = self.hang_ups.pop_front() {
            self.net.hang_up(wire, cluster, draw, now);
        } else if let Some(wire) = self.retired.pop_front() {
            self.net.retire(wire, cluster, draw, now);
        } else if let Some(news) = self.net.poll() {
            self.on_news(news);
        } else if let Some(output) = self.metadata.poll_output() {
            self.on_metadata(output);
        } else if let Some((broker, output)) = self.next_link_output() {
            self.on_link(broker, output);
        } else if let Some((partition, input)) = self.owed_routes.pop_front() {
            self.drive(&partition, input);
        } else if let Some(input) = self.owed.pop_front() {
            self.feed_group(input);
        } else if let Some((stint, end)) = self.pool.next_end() {
            self.feed_host(nearside::handler::Input::Settled { stint, end });
        } else {
            return false;
        }
        true
    }

    fn find_deadline(&self) -> Option<Moment> {
        let links = self.link_due.values().copied();
        let routes = self.slots.values().filter_map(|slot| slot.due);
        let machines = [
            self.net.next_deadline(),
            self.metadata.next_deadline(),
            self.group.next_deadline(),
            self.committer.next_deadline(),
            self.resolver.next_deadline(),
            self.host.next_deadline(),
            self.pool.next_alarm(),
            self.asked.values().map(|asked| asked.until).min(),
            (!self.owned.is_empty()).then_some(self.next_scan),
        ];
        let machines = machines.into_iter().flatten();
        links.chain(routes).chain(machines).min()
    }

    /// When each machine is due, in words.
    pub(crate) fn dues(&self) -> String {
        let routes = self.slots.iter().map(|(at, slot)| (at, slot.due));
        format!(
            "{}: links {:?}, net {:?}, routes {:?}, metadata {:?}, group {:?}, committer {:?}, \
             resolver {:?}, host {:?}, pool {:?}",
            self.name,
            self.link_due,
            self.net.due,
            routes.collect::<Vec<_>>(),
            self.metadata.next_deadline(),
            self.group.next_deadline(),
            self.committer.next_deadline(),
            self.resolver.next_deadline(),
            self.host.next_deadline(),
            self.pool.next_alarm(),
        )
    }

    fn draw(&mut self) -> Draw {
        self.chance.draw()
    }

    fn tell(&self, what: std::fmt::Arguments<'_>) {
        self.trail.tell(format_args!("{}: {what}", self.name));
    }
}

fn is_due(deadline: Option<Moment>, now: Moment) -> bool {
    deadline.is_some_and(|due| due <= now)
}

/// The settings of the machines that only a plan knows.
impl MemberPlan {
    fn commits(&self) -> commit::Settings {
        commit::Settings {
            interval: self.commit_interval,
            request_timeout: self.request_timeout,
            ..commit::Settings::new(GROUP)
        }
    }

    fn positions(&self) -> resolve::Settings {
        resolve::Settings {
            reset: resolve::Reset::Earliest,
            request_timeout: self.request_timeout,
            ..resolve::Settings::new(Some(GROUP.into()))
        }
    }
}
