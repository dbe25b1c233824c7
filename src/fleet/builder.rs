//! From configuration and subscriptions to a running fleet.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::handle::FleetHandle;
use crate::actors::{
    Blueprint, Placement, Telemetry, TokenProvider, Transport, canonical_bootstrap, launch,
};
use crate::config::{Config, ConfigError, Severity};
use crate::error::{Error, ErrorKind};
use crate::handler::Subscription;
use crate::ids::{GroupId, Offset};

/// Everything a process runs under one configuration: starts with [`Fleet::builder`].
///
/// ```no_run
/// use nearside::prelude::*;
///
/// # async fn run() -> Result<(), nearside::Error> {
/// let orders = Subscription::topics(["orders"])
///     .handler(handler_fn(|order: Message<Raw>, _: Context| async move {
///         println!("{:?}", order.payload());
///         Ok(Outcome::Done)
///     }));
/// let fleet = Fleet::builder("billing").bootstrap("kafka-1:9092").subscribe(orders);
/// let fleet = fleet.start().await?;
/// fleet.run_until_signal().await.into_result()
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fleet;

/// Where a fleet begins to read, whatever the group has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartAt {
    /// At this offset of every partition. Outside a partition's log `auto.offset.reset` decides.
    Offset(Offset),
    /// At the first record not older than this, in milliseconds since 1970; at the end if there is
    /// none.
    Timestamp(i64),
}

/// Marks a required part as given.
#[derive(Clone, Copy, Debug)]
pub enum Present {}

/// Marks a required part as missing: `start` does not exist yet.
#[derive(Clone, Copy, Debug)]
pub enum Absent {}

impl Fleet {
    /// Begins a fleet that is one member of `group`. Bootstrap addresses and a subscription are
    /// still required.
    pub fn builder(group: impl Into<GroupId>) -> FleetBuilder<Absent, Absent> {
        FleetBuilder {
            group: group.into(),
            config: Config::default(),
            problem: None,
            subscriptions: Vec::new(),
            transport: None,
            tokens: None,
            start: None,
            route_trace: None,
            parts: PhantomData,
        }
    }
}

/// A fleet being put together. `B` and `S` tell whether bootstrap addresses and a subscription are
/// given.
#[must_use = "a fleet runs once it is started"]
pub struct FleetBuilder<B, S> {
    group: GroupId,
    config: Config,
    problem: Option<ConfigError>,
    subscriptions: Vec<Subscription>,
    transport: Option<Arc<dyn Transport>>,
    tokens: Option<Arc<dyn TokenProvider>>,
    start: Option<StartAt>,
    route_trace: Option<PathBuf>,
    parts: PhantomData<fn() -> (B, S)>,
}

impl<B, S> FleetBuilder<B, S> {
    /// Sets the addresses to start from, `host:port` separated by commas (`bootstrap.servers`).
    pub fn bootstrap(self, servers: &str) -> FleetBuilder<Present, S> {
        self.property("bootstrap.servers", servers).retyped()
    }

    /// Takes a whole configuration, which must name `bootstrap.servers`; replaces what was set
    /// before. The group stays the builder's.
    pub fn config(mut self, config: Config) -> FleetBuilder<Present, S> {
        self.config = config;
        self.retyped()
    }

    /// Sets one property under its Kafka name. An error in it is reported by `start`.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        if let Err(error) = self.config.set(key, value) {
            self.problem.get_or_insert(error);
        }
        self
    }

    /// Adds a subscription. A topic that several match belongs to the first.
    pub fn subscribe(mut self, subscription: Subscription) -> FleetBuilder<B, Present> {
        self.subscriptions.push(subscription);
        self.retyped()
    }

    /// Opens connections another way than by TCP, such as to an embedded cluster in the same
    /// process.
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Where access tokens come from, for `sasl.mechanism=OAUTHBEARER`.
    pub fn tokens(mut self, provider: Arc<dyn TokenProvider>) -> Self {
        self.tokens = Some(provider);
        self
    }

    /// Begins every partition at `start` when this fleet gets it for the first time, instead of at
    /// the group's commit. A partition that comes back after a rebalance goes on at its commit.
    pub fn start_at(mut self, start: StartAt) -> Self {
        self.start = Some(start);
        self
    }

    /// Writes every input and decision of the routes to this file, which is replaced if it exists,
    /// for `nearside replay` to explain. Neither record bytes nor keys nor secrets go into it. The
    /// writer never holds up reading: steps it has no room for are left out, and the file says how
    /// many.
    pub fn route_trace(mut self, file: impl Into<PathBuf>) -> Self {
        self.route_trace = Some(file.into());
        self
    }

    fn retyped<B2, S2>(self) -> FleetBuilder<B2, S2> {
        FleetBuilder {
            group: self.group,
            config: self.config,
            problem: self.problem,
            subscriptions: self.subscriptions,
            transport: self.transport,
            tokens: self.tokens,
            start: self.start,
            route_trace: self.route_trace,
            parts: PhantomData,
        }
    }
}

impl FleetBuilder<Present, Present> {
    /// Checks everything, then starts the fleet on threads of its own. No socket opens before the
    /// checks passed. Returns once the actors run; whether brokers answer shows in events and in
    /// [`FleetHandle::connection_error`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] naming the property, its value and what would work; [`ErrorKind::Io`]
    /// if threads cannot be started. A handler whose `ready` fails is asked again with a growing
    /// pause, and holds the start.
    pub async fn start(mut self) -> Result<FleetHandle, Error> {
        self.check()?;
        let threads = self.config.handling.handler_threads;
        let mut pool = tokio::runtime::Builder::new_multi_thread();
        pool.enable_all().thread_name("nearside-handler");
        if let Some(threads) = threads {
            pool.worker_threads(threads.get());
        }
        let pool = pool
            .build()
            .map_err(|error| io_error("handler pool", &error))?;
        let pool = HandlerPool(Some(pool));
        self.ready(&pool.handle()?).await?;
        self.expand_bootstrap(&pool.handle()?).await?;
        let data_threads = self
            .config
            .handling
            .data_arbiters
            .map_or_else(cores, |n| n.get());
        let (blueprint, handle, mut ended) = self.blueprint(pool.handle()?);
        let (started, outcome) = tokio::sync::oneshot::channel();
        let control = move || {
            let system = crate::actors::system();
            system.block_on(async move {
                let result = launch(blueprint, Placement::threads(data_threads));
                let failed = result.is_err();
                drop(started.send(result));
                if !failed {
                    drop(ended.wait_for(Option::is_some).await);
                }
            });
            drop(pool);
        };
        std::thread::Builder::new()
            .name("nearside-control".into())
            .spawn(control)
            .map_err(|error| io_error("control thread", &error))?;
        let vanished = |_| Error::new(ErrorKind::Internal, "the control thread ended");
        outcome.await.map_err(vanished)??;
        Ok(handle)
    }

    /// The same with every actor and handler on the calling thread, inside its actix system, so
    /// that a test's paused clock covers all of them.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    #[doc(hidden)]
    pub async fn start_on_this_thread(self) -> Result<FleetHandle, Error> {
        self.check()?;
        let pool = tokio::runtime::Handle::current();
        self.ready(&pool).await?;
        let (blueprint, handle, _) = self.blueprint(pool);
        launch(blueprint, Placement::single())?;
        Ok(handle)
    }

    fn check(&self) -> Result<(), Error> {
        let config_error = |error: &ConfigError| Error::new(ErrorKind::Config, error.to_string());
        if let Some(problem) = &self.problem {
            return Err(config_error(problem));
        }
        self.config
            .require_bootstrap()
            .map_err(|error| config_error(&error))?;
        if self.group.as_str().is_empty() || self.group.as_str().len() > GROUP_BYTES_MAX {
            let bytes = self.group.as_str().len();
            let text = format!("`group.id` has {bytes} bytes; 1 to {GROUP_BYTES_MAX} name a group");
            return Err(Error::new(ErrorKind::Config, text));
        }
        for subscription in &self.subscriptions {
            subscription.check()?;
        }
        for finding in self.config.lint() {
            match finding.severity {
                Severity::Error => {
                    return Err(Error::new(ErrorKind::Config, finding.message));
                }
                Severity::Warning => tracing::warn!(%finding, "configuration"),
            }
        }
        Ok(())
    }

    /// Asks every handler whether work can begin (runtime.md G5).
    async fn ready(&self, pool: &tokio::runtime::Handle) -> Result<(), Error> {
        let backoff = crate::backoff::Backoff::from_ms(1_000, 60_000);
        for subscription in &self.subscriptions {
            let mut step = 0;
            loop {
                let asked = pool.spawn(Arc::clone(subscription.handler()).ready()).await;
                match asked {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => tracing::warn!(%error, "handler is not ready"),
                    Err(error) => {
                        let text = format!("the handler's ready() died: {error}");
                        return Err(Error::new(ErrorKind::Stopped, text));
                    }
                }
                tokio::time::sleep(backoff.plain(step)).await;
                step += 1;
            }
        }
        Ok(())
    }

    /// Lookups need a runtime; the caller's may be of another kind.
    async fn expand_bootstrap(&mut self, pool: &tokio::runtime::Handle) -> Result<(), Error> {
        let (mut config, transport) = (self.config.clone(), self.transport.clone());
        let expanded = pool.spawn(async move {
            canonical_bootstrap(&mut config, transport.as_deref()).await;
            config
        });
        let died = |error| Error::new(ErrorKind::Internal, format!("looking names up: {error}"));
        self.config = expanded.await.map_err(died)?;
        Ok(())
    }

    fn blueprint(
        self,
        pool: tokio::runtime::Handle,
    ) -> (
        Blueprint,
        FleetHandle,
        watch::Receiver<Option<Arc<super::Stopped>>>,
    ) {
        let telemetry = Telemetry::new();
        let (commands, received) = mpsc::unbounded_channel();
        let (ended, stopped) = watch::channel(None);
        let handle = FleetHandle::new(commands.clone(), Arc::clone(&telemetry), stopped.clone());
        let blueprint = Blueprint {
            config: self.config,
            group: self.group,
            subscriptions: self.subscriptions,
            transport: self.transport,
            tokens: self.tokens,
            start: self.start,
            route_trace: self.route_trace,
            pool,
            telemetry,
            commands: (commands, received),
            ended,
        };
        (blueprint, handle, stopped)
    }
}

impl<B, S> fmt::Debug for FleetBuilder<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetBuilder")
            .field("group", &self.group)
            .field("subscriptions", &self.subscriptions)
            .finish_non_exhaustive()
    }
}

/// The runtime that handlers run on. It ends in the background wherever it is dropped: the caller's
/// own runtime may be the place, and handlers that were abandoned must not hold anybody.
struct HandlerPool(Option<tokio::runtime::Runtime>);

impl HandlerPool {
    fn handle(&self) -> Result<tokio::runtime::Handle, Error> {
        let gone = || Error::new(ErrorKind::Internal, "the handler pool has ended");
        self.0
            .as_ref()
            .map(|pool| pool.handle().clone())
            .ok_or_else(gone)
    }
}

impl Drop for HandlerPool {
    fn drop(&mut self) {
        if let Some(pool) = self.0.take() {
            pool.shutdown_background();
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn io_error(what: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot start the {what}: {error}"))
}

/// What a request has room for.
const GROUP_BYTES_MAX: usize = 32_767;
