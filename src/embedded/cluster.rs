//! The cluster as a machine: connections in, frames in, virtual time in; frames and closes out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::broker::{Broker, Health, Link};
use super::connection::{Connection, State};
use super::fault_plan::FaultPlan;
use super::group::Groups;
use super::history::History;
use super::sasl::Standing;
use super::topics::{PartitionKey, Topics};
use super::{ConnectionId, Settings};
use crate::ids::{BrokerId, GroupId, Moment};

/// What the cluster wants its clients to see, in order.
#[derive(Clone, PartialEq, Eq)]
pub enum Output {
    /// An answer frame, without its length bytes.
    Answer {
        /// The connection to send it over.
        connection: ConnectionId,
        /// The frame.
        frame: Bytes,
    },
    /// The broker closed the connection.
    Closed {
        /// The connection; it is gone.
        connection: ConnectionId,
    },
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { connection, frame } => {
                write!(f, "Answer({connection:?}, {} bytes)", frame.len())
            }
            Self::Closed { connection } => write!(f, "Closed({connection:?})"),
        }
    }
}

/// Why a connection attempt fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// No such broker, or nobody listens: the attempt fails at once.
    Refused,
    /// Packets vanish: the attempt hangs until the client gives up.
    Silent,
}

/// A cluster of brokers in one value. See the [module](super) for the contract and an example.
///
/// Time only moves when a call brings it: [`deliver`](Self::deliver), [`advance`](Self::advance),
/// [`connect`](Self::connect) and [`disconnect`](Self::disconnect) first run everything that was
/// due before their `now`. Control calls (`create_topic`, `kill`, ...) act at the last such moment.
/// After each call drain [`poll_output`](Self::poll_output) and see
/// [`next_deadline`](Self::next_deadline).
#[derive(Debug)]
pub struct Cluster {
    pub(super) settings: Settings,
    pub(super) now: Moment,
    pub(super) brokers: BTreeMap<BrokerId, Broker>,
    pub(super) topics: Topics,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) faults: FaultPlan,
    pub(super) history: History,
    pub(super) groups: Groups,
    pub(super) pinned_coordinators: BTreeMap<GroupId, BrokerId>,
    pub(super) next_producer: i64,
    /// Connections on which a Produce waits for the in-sync replicas.
    pub(super) producing: BTreeSet<ConnectionId>,
    timers: BTreeSet<(Moment, Timer)>,
    outputs: VecDeque<Output>,
    in_flight: Vec<Packet>,
    next_connection: u64,
}

/// What a deadline is for. Stale ones are harmless: the owner looks again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// The state of a connection ends.
    Connection(ConnectionId),
    /// A follower fetches.
    Replicate(PartitionKey, BrokerId),
    /// A follower may have lagged for too long.
    LagCheck(PartitionKey),
    /// The controller notices that a broker is gone.
    Fence(BrokerId),
    /// A phase or a session of a group ends.
    Group(GroupId),
}

/// A frame held up by a silent link, as TCP would retransmit it.
enum Packet {
    ToBroker(ConnectionId, Bytes),
    ToClient(ConnectionId, Bytes),
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToBroker(to, frame) => write!(f, "ToBroker({to:?}, {} bytes)", frame.len()),
            Self::ToClient(to, frame) => write!(f, "ToClient({to:?}, {} bytes)", frame.len()),
        }
    }
}

impl Cluster {
    /// A cluster with no topics at [`Moment::ZERO`].
    pub fn new(settings: Settings) -> Self {
        let slots = settings.fetch_session_slots;
        let broker =
            |broker: &super::BrokerSettings| (broker.id, Broker::new(broker.clone(), slots));
        Self {
            brokers: settings.brokers.iter().map(broker).collect(),
            history: History::new(settings.history_max),
            settings,
            now: Moment::ZERO,
            topics: Topics::default(),
            connections: BTreeMap::new(),
            faults: FaultPlan::default(),
            groups: Groups::new(),
            pinned_coordinators: BTreeMap::new(),
            next_producer: 1_000,
            producing: BTreeSet::new(),
            timers: BTreeSet::new(),
            outputs: VecDeque::new(),
            in_flight: Vec::new(),
            next_connection: 1,
        }
    }

    /// Opens a connection to `broker`.
    ///
    /// # Errors
    ///
    /// As [`ConnectError`] says; the latter is no answer but the absence of one.
    pub fn connect(&mut self, broker: BrokerId, now: Moment) -> Result<ConnectionId, ConnectError> {
        self.advance(now);
        let state = self.brokers.get(&broker).ok_or(ConnectError::Refused)?;
        match (state.link, state.health) {
            (Link::Silent, Health::Up | Health::Down | Health::Frozen) => {
                return Err(ConnectError::Silent);
            }
            (Link::Refused, Health::Up | Health::Down | Health::Frozen)
            | (Link::Open, Health::Down) => return Err(ConnectError::Refused),
            (Link::Open, Health::Up | Health::Frozen) => {}
        }
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let standing = Standing::new(self.settings.sasl.as_ref());
        self.connections
            .insert(id, Connection::new(broker, standing));
        Ok(id)
    }

    /// Whether somebody listens at the broker's address: it is not down, its link not refusing.
    pub fn accepts(&self, broker: BrokerId) -> bool {
        self.brokers
            .get(&broker)
            .is_some_and(|broker| broker.health != Health::Down && broker.link != Link::Refused)
    }

    /// Tells the cluster that the client closed `connection`; nothing comes out of it any more.
    pub fn disconnect(&mut self, connection: ConnectionId, now: Moment) {
        self.advance(now);
        self.forget(connection);
        self.outputs.retain(|output| match output {
            Output::Answer { connection: id, .. } | Output::Closed { connection: id } => {
                *id != connection
            }
        });
    }

    /// Hands over a request frame, without its length bytes. Frames for closed connections are
    /// dropped.
    pub fn deliver(&mut self, connection: ConnectionId, frame: Bytes, now: Moment) {
        self.advance(now);
        let Some(broker) = self.connections.get(&connection).map(|open| open.broker) else {
            return;
        };
        if self.link(broker) == Link::Silent {
            self.in_flight.push(Packet::ToBroker(connection, frame));
            return;
        }
        self.enqueue(connection, frame);
    }

    /// Runs everything that is due up to `now`, in order of time. Time never goes back.
    pub fn advance(&mut self, now: Moment) {
        while self.timers.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((due, timer)) = self.timers.pop_first() {
                self.now = self.now.max(due);
                self.fire(timer);
            }
        }
        self.now = self.now.max(now);
    }

    /// The next thing for a client to see.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`advance`](Self::advance) has something to do, if nothing else happens.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// The moment of the last call that brought one.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// What the cluster was made of.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether neither side has closed `connection`.
    pub fn is_open(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }

    /// Number of open connections to `broker`.
    pub fn connections(&self, broker: BrokerId) -> usize {
        self.connections
            .values()
            .filter(|open| open.broker == broker)
            .count()
    }

    pub(super) fn arm(&mut self, timer: Timer, due: Moment) {
        self.timers.insert((due, timer));
    }

    pub(super) fn disarm(&mut self, timer: Timer, due: Moment) {
        self.timers.remove(&(due, timer));
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Connection(connection) => self.connection_due(connection),
            Timer::Replicate(key, broker) => self.follower_fetch(key, broker),
            Timer::LagCheck(key) => self.check_lag(key),
            Timer::Fence(broker) => self.fence(broker),
            Timer::Group(group) => self.group_due(&group),
        }
    }

    fn enqueue(&mut self, connection: ConnectionId, frame: Bytes) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.inbox.push_back(frame);
            self.pump(connection);
        }
    }

    /// Sends an answer towards the client.
    pub(super) fn emit(&mut self, connection: ConnectionId, frame: Bytes) {
        let Some(open) = self.connections.get(&connection) else {
            return;
        };
        if self.link(open.broker) == Link::Silent {
            self.in_flight.push(Packet::ToClient(connection, frame));
        } else {
            self.outputs.push_back(Output::Answer { connection, frame });
        }
    }

    /// Closes a connection from the broker's side.
    pub(super) fn close(&mut self, connection: ConnectionId) {
        if self.forget(connection) {
            self.outputs.push_back(Output::Closed { connection });
        }
    }

    pub(super) fn close_all(&mut self, broker: BrokerId) {
        for connection in self.connections_of(broker) {
            self.close(connection);
        }
    }

    pub(super) fn connections_of(&self, broker: BrokerId) -> Vec<ConnectionId> {
        let of_broker =
            |(&id, open): (&ConnectionId, &Connection)| (open.broker == broker).then_some(id);
        self.connections.iter().filter_map(of_broker).collect()
    }

    /// Delivers what a silent link held up, in order.
    pub(super) fn release_packets(&mut self) {
        for packet in std::mem::take(&mut self.in_flight) {
            let (Packet::ToBroker(connection, _) | Packet::ToClient(connection, _)) = &packet;
            let broker = self.connections.get(connection).map(|open| open.broker);
            match packet {
                _ if broker.is_some_and(|broker| self.link(broker) == Link::Silent) => {
                    self.in_flight.push(packet);
                }
                Packet::ToBroker(connection, frame) => self.enqueue(connection, frame),
                Packet::ToClient(connection, frame) => self.emit(connection, frame),
            }
        }
    }

    pub(super) fn link(&self, broker: BrokerId) -> Link {
        self.brokers
            .get(&broker)
            .map_or(Link::Refused, |broker| broker.link)
    }

    pub(super) fn answer_delay(&self, broker: BrokerId) -> Duration {
        self.brokers
            .get(&broker)
            .map_or(Duration::ZERO, |broker| broker.answer_delay)
    }

    /// Removes a connection and everything that waits on its behalf.
    fn forget(&mut self, connection: ConnectionId) -> bool {
        let Some(open) = self.connections.remove(&connection) else {
            return false;
        };
        match open.state {
            State::Fetching(_) => {
                if let Some(broker) = self.brokers.get_mut(&open.broker) {
                    broker.fetching.remove(&connection);
                }
            }
            State::Producing(_) => {
                self.producing.remove(&connection);
            }
            State::Grouping
            | State::Idle
            | State::Answering { .. }
            | State::Muted(_)
            | State::Stuck => {}
        }
        true
    }
}
