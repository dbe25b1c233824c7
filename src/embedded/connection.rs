//! A client's connection: one request at a time, in order (routing.md F18).

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;

use super::api::{fetch, produce};
use super::sasl::Standing;
use crate::ids::{BrokerId, Moment};

/// Names a connection to one broker. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(super) u64);

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({})", self.0)
    }
}

pub(super) struct Connection {
    pub(super) broker: BrokerId,
    pub(super) inbox: VecDeque<Bytes>,
    pub(super) state: State,
    pub(super) standing: Standing,
}

/// What keeps a connection from taking its next request.
#[derive(Debug)]
pub(super) enum State {
    /// Nothing does.
    Idle,
    /// An answer is finished but leaves later: a slow broker.
    Answering {
        due: Moment,
        frame: Bytes,
        mute: Option<Moment>,
    },
    /// A Fetch waits for records.
    Fetching(Box<fetch::Waiting>),
    /// A Produce with `acks=all` waits for the in-sync replicas.
    Producing(Box<produce::Waiting>),
    /// A JoinGroup or SyncGroup waits for the other members.
    Grouping,
    /// The broker mutes it after a throttled answer (KIP-219).
    Muted(Moment),
    /// The fault plan decided that nothing comes any more.
    Stuck,
}

/// Requests and answers are told by their number: some carry secrets.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("broker", &self.broker)
            .field("inbox", &self.inbox.len())
            .field("standing", &self.standing)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(broker: BrokerId, standing: Standing) -> Self {
        Self {
            broker,
            inbox: VecDeque::new(),
            state: State::Idle,
            standing,
        }
    }
}
