//! Builds the actors of a fleet and wires them together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix::prelude::*;
use arc_swap::ArcSwap;
use dashmap::DashMap;
use regex::Regex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::death::DeathWatch;
use super::fleet::{self, Command, FleetSupervisor};
use super::producer::ProducerCrew;
use crate::actors::broker::Links;
use crate::actors::clock::{Clock, unix_ms};
use crate::actors::coordinator::{CoordinatorActor, CoordinatorParts, GroupSubscription, StepPlan};
use crate::actors::diagnostics::DiagnosticsActor;
use crate::actors::directory::Directory;
use crate::actors::handler::{HostParts, Pools};
use crate::actors::metadata::{MetadataActor, MetadataParts};
use crate::actors::net::{Net, Reload, TokenProvider, Transport};
use crate::actors::partition::{Crew, Lot, PartitionSupervisor, ThreadParts};
use crate::actors::placement::Placement;
use crate::actors::producer::ProducerParts;
use crate::actors::telemetry::Telemetry;
use crate::actors::trace::RouteTrace;
use crate::budget::Inflation;
use crate::cluster::{self, Interest, Metadata, Snapshot};
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::fleet::{Event, StartAt, Stopped};
use crate::group::ClassicMember;
use crate::handler::{Subscription, Topics};
use crate::ids::{GroupId, Incarnation};
use crate::offsets::{Committer, Resolver, Sampler};
use crate::producer::letters;
use crate::routing;
use crate::routing::trace::{FORMAT, Header};

/// Everything a fleet is built from; configuration and subscriptions have been checked.
pub(crate) struct Blueprint {
    pub(crate) config: Config,
    pub(crate) group: GroupId,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) transport: Option<Arc<dyn Transport>>,
    pub(crate) tokens: Option<Arc<dyn TokenProvider>>,
    pub(crate) start: Option<StartAt>,
    pub(crate) route_trace: Option<PathBuf>,
    pub(crate) pool: tokio::runtime::Handle,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) commands: (UnboundedSender<Command>, UnboundedReceiver<Command>),
    pub(crate) ended: watch::Sender<Option<Arc<Stopped>>>,
}

/// Starts all actors. Runs on the control thread, inside its actix system.
///
/// # Errors
///
/// A bootstrap list or topic pattern that cannot be used.
pub(crate) fn launch(blueprint: Blueprint, placement: Placement) -> Result<(), Error> {
    let wiring = Wiring::new(blueprint, placement)?;
    wiring.telemetry.emit(Event::FleetStarting);
    let metadata = Context::<MetadataActor>::new();
    let coordinator = Context::<CoordinatorActor>::new();
    let directory = &wiring.links.directory;
    // Addresses first: every actor below may write to these two from its first turn on.
    drop(directory.metadata.set(metadata.address().recipient()));
    drop(directory.coordinator.set(coordinator.address().recipient()));
    drop(directory.threads.set(wiring.start_threads()));
    wiring.run(metadata, coordinator)
}

/// What the parts of a fleet share while it is being built.
struct Wiring {
    config: Config,
    group: GroupId,
    start: Option<StartAt>,
    subscriptions: Vec<Subscription>,
    links: Arc<Links>,
    pools: Pools,
    inflation: Inflation,
    telemetry: Arc<Telemetry>,
    trace: Option<Arc<RouteTrace>>,
    commands: (UnboundedSender<Command>, UnboundedReceiver<Command>),
    link_deaths: UnboundedReceiver<super::Death<cluster::Target>>,
    deaths: UnboundedSender<super::Death<&'static str>>,
    ended: watch::Sender<Option<Arc<Stopped>>>,
}

impl Wiring {
    fn new(blueprint: Blueprint, placement: Placement) -> Result<Self, Error> {
        let config = blueprint.config;
        let (link_deaths_tx, link_deaths) = unbounded_channel();
        let (deaths, mut reports) = unbounded_channel::<super::Death<&'static str>>();
        let telemetry = Arc::clone(&blueprint.telemetry);
        let watcher = blueprint.commands.0.clone();
        crate::actors::spawn::local("deaths", async move {
            while let Some(death) = reports.recv().await {
                fleet::core_actor_died(death, &watcher);
            }
        });
        let settings = Arc::new(routing::broker::Settings {
            // Until the link is told its share of the budget.
            probe_per_second: 0.0,
            ..config.broker_settings()
        });
        let inflation = Inflation::new(config.inflation_bytes(), settings.budget.clone());
        telemetry.set_budgets(&settings.budget, &inflation);
        let links = Arc::new(Links {
            directory: Arc::new(Directory::new(placement)),
            net: Net::new(&config, blueprint.transport, blueprint.tokens)?,
            settings,
            client_rack: config.connection.rack.clone(),
            telemetry: Arc::clone(&telemetry),
            deaths: link_deaths_tx,
            peers: DashMap::new(),
            crowded: AtomicBool::new(false),
        });
        if let Some(tls) = &links.net.tls {
            let telemetry = Arc::clone(&telemetry);
            tls.watch(move |reload| match reload {
                Reload::Taken => telemetry.note_tls_files(None),
                Reload::Refused(error) => telemetry.note_tls_files(Some(error.to_string())),
            });
        }
        let trace = match &blueprint.route_trace {
            Some(path) => Some(open_trace(path, &config, links.net.clock)?),
            None => None,
        };
        Ok(Self {
            trace,
            group: blueprint.group,
            start: blueprint.start,
            subscriptions: blueprint.subscriptions,
            links,
            pools: Pools::new(blueprint.pool),
            inflation,
            telemetry,
            commands: blueprint.commands,
            link_deaths,
            deaths,
            ended: blueprint.ended,
            config,
        })
    }

    /// One partition supervisor with its handler host per data thread.
    fn start_threads(&self) -> Vec<Recipient<Lot>> {
        let start = |arbiter| {
            let crew = Crew {
                parts: ThreadParts {
                    clock: self.links.net.clock,
                    telemetry: Arc::clone(&self.telemetry),
                    routing: Arc::new(self.config.route_settings()),
                    reading: self.config.read_settings(),
                    policy: self.config.wire.batch_policy,
                    read_committed: self.config.reads_committed(),
                    inflation: self.inflation.clone(),
                    directory: Arc::clone(&self.links.directory),
                    trace: self.trace.clone(),
                },
                host: HostParts {
                    settings: self.config.host_settings(),
                    budget: self.links.settings.budget.clone(),
                    group: self.group.clone(),
                    handlers: self
                        .subscriptions
                        .iter()
                        .map(|one| Arc::clone(one.handler()))
                        .collect(),
                    pools: self.pools.clone(),
                    commands: self.commands.0.clone(),
                    watch: self.watch("handler host"),
                },
                watch: self.watch("partition supervisor"),
            };
            PartitionSupervisor::start_in_arbiter(arbiter, move |ctx| {
                PartitionSupervisor::build(crew, ctx)
            })
            .recipient()
        };
        self.links
            .directory
            .placement
            .data()
            .iter()
            .map(start)
            .collect()
    }

    fn run(
        self,
        metadata: Context<MetadataActor>,
        mut coordinator: Context<CoordinatorActor>,
    ) -> Result<(), Error> {
        let subscriptions = self.group_subscriptions()?;
        let letters = self.config.letter_settings(self.group.clone());
        let letters = letters.map(|letters| letter_topics(letters, &self.subscriptions));
        let letters = letters.transpose()?;
        let bootstrap = self.config.connection.bootstrap.clone();
        let published = Arc::new(ArcSwap::default());
        self.start_diagnostics(Arc::clone(&published));
        let parts = MetadataParts {
            machine: Metadata::new(self.config.metadata_settings(), bootstrap),
            links: Arc::clone(&self.links),
            probes: self.config.probe_budget(),
            published: Arc::clone(&published),
            telemetry: Arc::clone(&self.telemetry),
            interest: interest(&self.subscriptions, letters.as_ref())?,
            commands: self.commands.0.clone(),
            watch: self.watch("metadata actor"),
        };
        let answers = metadata.address().recipient();
        metadata.run(MetadataActor::new(parts, answers));
        let parts = CoordinatorParts {
            member: ClassicMember::new(self.config.group_settings(self.group.clone())),
            committer: Committer::new(self.config.commit_settings(self.group.clone())),
            resolver: Resolver::new(self.config.resolve_settings(self.group.clone())),
            sampler: Sampler::new(self.config.sample_settings()),
            plan: StepPlan {
                drain: self.config.lifecycle.drain,
                grace: self.config.handling.cancel_grace,
                commit: self.config.lifecycle.drain_commit,
            },
            start: self.start,
            subscriptions,
            links: Arc::clone(&self.links),
            commands: self.commands.0.clone(),
            telemetry: Arc::clone(&self.telemetry),
            watch: self.watch("coordinator"),
        };
        let actor = CoordinatorActor::build(parts, &mut coordinator);
        let coordinator = coordinator.run(actor);
        let (producer_deaths_tx, producer_deaths) = unbounded_channel();
        let producer = letters.map(|letters| self.start_producer(letters, producer_deaths_tx));
        let (links, ended, deadline) = (self.links, self.ended, self.config.lifecycle.stop);
        let (commands, link_deaths) = (self.commands.1, self.link_deaths);
        let trace = self.trace;
        FleetSupervisor::create(move |ctx| {
            ctx.add_stream(fleet::stream(producer_deaths));
            ctx.add_stream(fleet::stream(commands));
            ctx.add_stream(fleet::stream(link_deaths));
            FleetSupervisor::new(links, coordinator, (ended, trace), deadline)
                .with_producer(producer)
        });
        self.telemetry.emit(Event::FleetStarted);
        Ok(())
    }

    /// The producer of dead letters. It opens nothing before the first of them.
    fn start_producer(
        &self,
        letters: letters::Settings,
        deaths: UnboundedSender<super::Death<&'static str>>,
    ) -> ProducerCrew {
        let parts = ProducerParts {
            producer: self.config.letter_producer_settings(),
            letters,
            links: Arc::clone(&self.links),
            commands: self.commands.0.clone(),
        };
        let mut crew = ProducerCrew::new(parts, deaths);
        crew.start();
        crew
    }

    /// Nobody depends on it, so its death is told and nothing else.
    fn start_diagnostics(&self, published: Arc<ArcSwap<Snapshot>>) {
        let (deaths, mut reports) = unbounded_channel::<super::Death<&'static str>>();
        crate::actors::spawn::local("diagnostics", async move {
            if let Some(death) = reports.recv().await
                && let super::DeathReason::Panicked(reason) = death.reason
            {
                tracing::error!(reason, "the diagnostics have ended");
            }
        });
        let rack = self.config.route_settings().rack_sent().cloned();
        let board = (Arc::clone(&self.telemetry), self.links.net.clock);
        let watch = DeathWatch::new("diagnostics", Incarnation(1), deaths);
        DiagnosticsActor::new(rack, published, board, watch).start();
    }

    fn group_subscriptions(&self) -> Result<Vec<GroupSubscription>, Error> {
        let of = |subscription: &Subscription| {
            Ok(GroupSubscription {
                matcher: subscription.selection().matcher()?,
                names: match subscription.selection() {
                    Topics::Names(names) => names.clone(),
                    Topics::Pattern(_) => Vec::new(),
                },
                handling: self.config.handling_for(subscription.policy()),
            })
        };
        self.subscriptions.iter().map(of).collect()
    }

    fn watch(&self, name: &'static str) -> DeathWatch<&'static str> {
        DeathWatch::new(name, Incarnation(1), self.deaths.clone())
    }
}

/// Begins the trace of what the routes see.
fn open_trace(path: &Path, config: &Config, clock: Clock) -> Result<Arc<RouteTrace>, Error> {
    let header = Header {
        format: FORMAT,
        nearside: env!("CARGO_PKG_VERSION").to_owned(),
        unix_ms: u64::try_from(unix_ms()).unwrap_or(0),
        at: clock.now(),
        settings: config.route_settings(),
    };
    RouteTrace::create(path, header).map_err(|error| {
        let text = format!("cannot write the route trace {}: {error}", path.display());
        Error::new(ErrorKind::Io, text)
    })
}

/// A topic pattern, which must match the whole name.
fn anchored(pattern: &str) -> Result<Regex, Error> {
    Regex::new(&format!("^(?:{pattern})$"))
        .map_err(|error| Error::new(ErrorKind::Config, format!("topic pattern: {error}")))
}

/// The dead letter topics that the subscriptions need.
///
/// # Errors
///
/// One that is subscribed as well: the fleet would read what it writes there.
fn letter_topics(
    mut letters: letters::Settings,
    subscriptions: &[Subscription],
) -> Result<letters::Settings, Error> {
    let matchers = subscriptions.iter().map(|one| one.selection().matcher());
    let matchers = matchers.collect::<Result<Vec<_>, _>>()?;
    for subscription in subscriptions {
        let needed = match subscription.selection() {
            Topics::Names(names) => names.clone(),
            // Most patterns match their own text; the topics themselves are not known yet.
            Topics::Pattern(pattern) => vec![pattern.as_str().into()],
        };
        for topic in needed {
            let dead = letters.topic.topic_for(&topic);
            if matchers.iter().any(|one| one.matches(&dead)) {
                let text = format!(
                    "dead letters of `{topic}` would go to `{dead}`, which is subscribed; name \
                     another topic by `dead.letter.topic`"
                );
                return Err(Error::new(ErrorKind::Config, text));
            }
            if matches!(subscription.selection(), Topics::Names(_)) {
                letters.required.push(dead);
            }
        }
    }
    Ok(letters)
}

/// The topics the metadata actor follows, those that dead letters go to included.
fn interest(
    subscriptions: &[Subscription],
    letters: Option<&letters::Settings>,
) -> Result<Interest, Error> {
    let mut interest = Interest::default();
    for subscription in subscriptions {
        match subscription.selection() {
            Topics::Names(names) => {
                interest.topics.extend(names.iter().cloned());
                let to = |name| letters.map(|letters| letters.topic.topic_for(name));
                interest.topics.extend(names.iter().filter_map(to));
            }
            Topics::Pattern(pattern) => {
                interest.patterns.push(anchored(pattern)?);
                let to = letters.map(|letters| letters.topic.pattern_for(pattern));
                let to = to.as_deref().map(anchored).transpose()?;
                interest.patterns.extend(to);
            }
        }
    }
    Ok(interest)
}
