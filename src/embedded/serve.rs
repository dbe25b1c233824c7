//! Requests through a connection: take one, decode it, bend it by the fault plan, answer or park.

use std::time::Duration;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::{ApiKey, RequestHeader};
use kafka_protocol::protocol::Decodable;

use super::api;
use super::broker::Health;
use super::call::{Call, Reply};
use super::cluster::{Cluster, Timer};
use super::connection::State;
use super::history::Seen;
use super::{Api, ConnectionId};
use crate::ids::{BrokerId, Moment};

impl Cluster {
    /// Takes requests off `connection` until one of them keeps it busy.
    pub(super) fn pump(&mut self, connection: ConnectionId) {
        while let Some(frame) = self.next_frame(connection) {
            match self.take(connection, frame) {
                Some((call, reply)) => self.conclude(&call, reply),
                None => self.close(connection),
            }
        }
    }

    fn next_frame(&mut self, connection: ConnectionId) -> Option<Bytes> {
        let open = self.connections.get_mut(&connection)?;
        let runs = self
            .brokers
            .get(&open.broker)
            .is_some_and(|broker| broker.runs());
        if !runs || !matches!(open.state, State::Idle) {
            return None;
        }
        open.inbox.pop_front()
    }

    /// Handles one request; `None` if it cannot be understood.
    fn take(&mut self, connection: ConnectionId, mut frame: Bytes) -> Option<(Call, Reply)> {
        let broker = self.connections.get(&connection)?.broker;
        let mut call = read_header(connection, broker, &mut frame)?;
        self.history.count(broker, call.api);
        let verdict = self.faults.verdict(&call, &frame);
        (call.throttle, call.delay) = (verdict.throttle, verdict.delay);
        call.garble = verdict.garble;
        if self.history.keeps() && call.api != Api::Fetch {
            self.history.push(call.seen(self.now));
        }
        let reply = if verdict.close {
            Reply::Close
        } else if verdict.swallow {
            Reply::Parked
        } else {
            api::handle(self, &call, frame)
        };
        if verdict.swallow {
            self.set_state(connection, State::Stuck);
        }
        Some((call, reply))
    }

    fn conclude(&mut self, call: &Call, reply: Reply) {
        match reply {
            Reply::Answer(frame) => self.finish(call, frame),
            Reply::Nothing | Reply::Parked => {}
            Reply::Close => self.close(call.connection),
        }
    }

    /// Lets the answer of a parked request go, and takes the next request.
    pub(super) fn complete(&mut self, call: &Call, reply: Reply) {
        self.set_state(call.connection, State::Idle);
        self.conclude(call, reply);
        self.pump(call.connection);
    }

    fn finish(&mut self, call: &Call, mut frame: Bytes) {
        if call.garble {
            frame.truncate(CORRELATION_BYTES);
        }
        let delay = self.answer_delay(call.broker) + call.delay;
        let mute = (!call.throttle.is_zero()).then(|| self.now + delay + call.throttle);
        if delay.is_zero() {
            self.emit(call.connection, frame);
            self.set_state(call.connection, mute.map_or(State::Idle, State::Muted));
        } else {
            let due = self.now + delay;
            self.set_state(call.connection, State::Answering { due, frame, mute });
        }
    }

    /// Replaces the state of a connection and moves its deadline along.
    pub(super) fn set_state(&mut self, connection: ConnectionId, state: State) {
        let _before: Option<State> = self.replace_state(connection, state);
    }

    /// Replaces the state of a connection, moves its deadline along and returns the state before.
    pub(super) fn replace_state(
        &mut self,
        connection: ConnectionId,
        state: State,
    ) -> Option<State> {
        let open = self.connections.get_mut(&connection)?;
        let (before, after) = (open.state.due(), state.due());
        let replaced = std::mem::replace(&mut open.state, state);
        if let Some(due) = before {
            self.disarm(Timer::Connection(connection), due);
        }
        if let Some(due) = after {
            self.arm(Timer::Connection(connection), due);
        }
        Some(replaced)
    }

    /// The deadline of a connection's state has passed.
    pub(super) fn connection_due(&mut self, connection: ConnectionId) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        let broker = open.broker;
        let frozen = self
            .brokers
            .get(&broker)
            .is_none_or(|b| b.health == Health::Frozen);
        if frozen || open.state.due().is_none_or(|due| due > self.now) {
            return;
        }
        match std::mem::replace(&mut open.state, State::Idle) {
            State::Answering { frame, mute, .. } => {
                self.emit(connection, frame);
                self.set_state(connection, mute.map_or(State::Idle, State::Muted));
            }
            State::Fetching(waiting) => api::fetch::expire(self, connection, *waiting),
            State::Producing(waiting) => api::produce::expire(self, *waiting),
            State::Muted(_) => {}
            state @ (State::Idle | State::Grouping | State::Stuck) => open.state = state,
        }
        self.pump(connection);
    }

    /// Takes up again what stood still while a broker was frozen.
    pub(super) fn resume(&mut self, broker: BrokerId) {
        for connection in self.connections_of(broker) {
            self.connection_due(connection);
            self.pump(connection);
        }
    }
}

impl State {
    /// When the state ends by itself.
    fn due(&self) -> Option<Moment> {
        match self {
            Self::Answering { due, .. } | Self::Muted(due) => Some(*due),
            Self::Fetching(waiting) => Some(waiting.due),
            Self::Producing(waiting) => Some(waiting.due),
            Self::Idle | Self::Grouping | Self::Stuck => None,
        }
    }
}

impl Call {
    pub(super) fn seen(&self, at: Moment) -> Seen {
        Seen {
            at,
            broker: self.broker,
            connection: self.connection,
            api: self.api,
            version: self.version,
            client_id: self.client_id.as_ref().map(ToString::to_string),
            fetch: None,
        }
    }
}

/// Reads the request header. An ApiVersions request of an unknown version has a readable start
/// only.
fn read_header(connection: ConnectionId, broker: BrokerId, frame: &mut Bytes) -> Option<Call> {
    const START_BYTES: usize = 8;
    let mut start = frame.get(..START_BYTES)?;
    let (key, version, correlation) = (start.get_i16(), start.get_i16(), start.get_i32());
    let api = Api::from_key(key)?;
    let client_id = if version <= api.max_version() {
        let header_version = ApiKey::try_from(key).ok()?.request_header_version(version);
        RequestHeader::decode(frame, header_version).ok()?.client_id
    } else {
        None
    };
    Some(Call {
        connection,
        broker,
        api,
        version,
        correlation,
        client_id,
        throttle: Duration::ZERO,
        delay: Duration::ZERO,
        garble: false,
    })
}

/// Where the correlation id of an answer ends.
const CORRELATION_BYTES: usize = 4;
