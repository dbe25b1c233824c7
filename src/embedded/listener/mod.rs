//! Puts a [`Cluster`] behind sockets or in-memory pipes, its virtual clock tied to tokio's.
//!
//! A [`Serving`] owns every task and stops them when it is dropped. A [`Handle`] is its remote
//! control: cheap to clone, and free of `async`, so that tests, the demo and benches can bend the
//! cluster from anywhere. Under tokio's paused clock the in-memory transport runs in virtual time.

mod driver;
mod io;
mod tcp;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Error as IoError, ErrorKind as IoErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::DuplexStream;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Cluster, ConnectError, ConnectionId, Output, Settings};
use crate::ids::{BrokerId, Moment};

use driver::Incoming;

/// A cluster at work. Dropping it closes every socket and ends every task.
#[derive(Debug)]
pub struct Serving {
    handle: Handle,
    _tasks: JoinSet<()>,
}

/// Remote control of a [`Serving`] cluster.
#[derive(Clone)]
pub struct Handle(Arc<Inner>);

struct Inner {
    shared: Mutex<Shared>,
    started: Instant,
    /// Woken when the cluster has an earlier deadline than the driver sleeps for.
    earlier: Notify,
    /// Raised by every control call: a broker may accept again, or no more.
    controlled: watch::Sender<u64>,
    incoming: mpsc::UnboundedSender<Incoming>,
}

struct Shared {
    cluster: Cluster,
    /// Where answers go. A queue holds what its client has in flight, no more.
    writers: BTreeMap<ConnectionId, mpsc::UnboundedSender<Bytes>>,
    sleeps_until: Option<Moment>,
}

impl Serving {
    /// Serves `cluster` over in-memory pipes, which [`Handle::dial`] opens. Must be called inside a
    /// tokio runtime with time enabled.
    pub fn in_memory(cluster: Cluster) -> Self {
        Self::start(cluster, Vec::new())
    }

    /// Serves a cluster on TCP: each broker listens at its own host and port, and advertises them.
    /// Port 0 takes a free one; see [`Settings::on_loopback`].
    ///
    /// # Errors
    ///
    /// An address cannot be bound.
    pub async fn listen(mut settings: Settings) -> Result<Self, IoError> {
        let listeners = tcp::bind(&mut settings).await?;
        Ok(Self::start(Cluster::new(settings), listeners))
    }

    /// The remote control.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    fn start(cluster: Cluster, listeners: Vec<tcp::Bound>) -> Self {
        let (incoming, arrivals) = mpsc::unbounded_channel();
        let shared = Shared {
            cluster,
            writers: BTreeMap::new(),
            sleeps_until: None,
        };
        let inner = Inner {
            shared: Mutex::new(shared),
            started: clock(),
            earlier: Notify::new(),
            controlled: watch::Sender::new(0),
            incoming,
        };
        let handle = Handle(Arc::new(inner));
        let mut tasks = JoinSet::new();
        tasks.spawn(driver::drive(handle.clone(), arrivals));
        for bound in listeners {
            tasks.spawn(tcp::accept(handle.clone(), bound));
        }
        Self {
            handle,
            _tasks: tasks,
        }
    }
}

impl Handle {
    /// Lends the cluster, at the present moment, to `act`; what it causes takes effect before this
    /// returns. `act` must not call back into the handle.
    pub fn with<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let result = self.run(act);
        self.0.controlled.send_modify(|version| *version += 1);
        result
    }

    /// Host and port of every broker, in order of their ids.
    pub fn addresses(&self) -> Vec<(String, u16)> {
        let shared = self.lock();
        let brokers = shared.cluster.settings().brokers.iter();
        brokers
            .map(|broker| (broker.host.clone(), broker.port))
            .collect()
    }

    /// The brokers as `bootstrap.servers` has them.
    pub fn bootstrap(&self) -> String {
        let text = |(host, port): (String, u16)| format!("{host}:{port}");
        self.addresses()
            .into_iter()
            .map(text)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Opens an in-memory connection to the broker that advertises this host and port. While the
    /// broker's link is silent it waits, as a lost SYN does. Safe to cancel.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` if the broker does not accept or nobody has that address.
    pub async fn dial(&self, host: &str, port: u16) -> Result<DuplexStream, IoError> {
        /// Bytes in flight in each direction.
        const PIPE_BYTES: usize = 256 * 1024;
        let broker = self.broker_at(host, port);
        let broker = broker.ok_or_else(|| IoError::from(IoErrorKind::ConnectionRefused))?;
        let connection = self.connect(broker).await?;
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        self.hand_over(Incoming::memory(connection, far));
        Ok(near)
    }

    /// Opens a connection inside the cluster, as soon as the link lets it.
    async fn connect(&self, broker: BrokerId) -> Result<ConnectionId, IoError> {
        let mut controlled = self.0.controlled.subscribe();
        loop {
            let now = self.now();
            match self.run(|cluster| cluster.connect(broker, now)) {
                Ok(connection) => return Ok(connection),
                Err(ConnectError::Refused) => return Err(IoErrorKind::ConnectionRefused.into()),
                Err(ConnectError::Silent) => {
                    let closed = controlled.changed().await.is_err();
                    if closed {
                        return Err(IoErrorKind::ConnectionAborted.into());
                    }
                }
            }
        }
    }

    fn broker_at(&self, host: &str, port: u16) -> Option<BrokerId> {
        let shared = self.lock();
        let mut brokers = shared.cluster.settings().brokers.iter();
        brokers
            .find(|broker| broker.host == host && broker.port == port)
            .map(|broker| broker.id)
    }

    /// Gives a connection's stream to the driver, which serves it.
    fn hand_over(&self, incoming: Incoming) {
        if let Err(rejected) = self.0.incoming.send(incoming) {
            // The driver is gone: the cluster is shutting down, the stream closes here.
            drop(rejected);
        }
    }

    /// Registers where the answers of a connection go; none comes if it was closed meanwhile.
    fn register(&self, connection: ConnectionId) -> mpsc::UnboundedReceiver<Bytes> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut shared = self.lock();
        if shared.cluster.is_open(connection) {
            shared.writers.insert(connection, sender);
        }
        receiver
    }

    fn deliver(&self, connection: ConnectionId, frame: Bytes) {
        let now = self.now();
        self.run(|cluster| cluster.deliver(connection, frame, now));
    }

    fn disconnect(&self, connection: ConnectionId) {
        let now = self.now();
        self.run(|cluster| cluster.disconnect(connection, now));
        self.lock().writers.remove(&connection);
    }

    /// Runs `act` at the present moment and passes on what comes out.
    fn run<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let now = self.now();
        let mut shared = self.lock();
        shared.cluster.advance(now);
        let result = act(&mut shared.cluster);
        shared.pass_on();
        let (next, sleeps) = (shared.cluster.next_deadline(), shared.sleeps_until);
        drop(shared);
        if next.is_some_and(|next| sleeps.is_none_or(|until| next < until)) {
            self.0.earlier.notify_one();
        }
        result
    }

    fn now(&self) -> Moment {
        Moment::ZERO + clock().duration_since(self.0.started)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic inside a control closure leaves the cluster consistent enough to report it.
        self.0.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.bootstrap()).finish()
    }
}

impl Shared {
    fn pass_on(&mut self) {
        while let Some(output) = self.cluster.poll_output() {
            match output {
                Output::Answer { connection, frame } => {
                    let writer = self.writers.get(&connection);
                    if writer.is_some_and(|writer| writer.send(frame).is_err()) {
                        self.writers.remove(&connection);
                    }
                }
                Output::Closed { connection } => {
                    self.writers.remove(&connection);
                }
            }
        }
    }
}

impl Settings {
    /// The same cluster on 127.0.0.1: consecutive ports from `first_port`, or free ones.
    #[must_use]
    pub fn on_loopback(mut self, first_port: Option<u16>) -> Self {
        for (at, broker) in (0_u16..).zip(&mut self.brokers) {
            "127.0.0.1".clone_into(&mut broker.host);
            broker.port = first_port.map_or(0, |first| first.saturating_add(at));
        }
        self
    }
}

/// The listener is the embedded cluster's clock.
fn clock() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the cluster's time comes from"
    )]
    Instant::now()
}

#[cfg(test)]
mod tests;
