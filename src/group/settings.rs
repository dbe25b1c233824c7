//! What configures a classic membership.

use std::time::Duration;

use crate::assign::Assignor;
use crate::backoff::Backoff;
use crate::ids::{GroupId, Rack};

/// Settings of a [`ClassicMember`](super::ClassicMember). Kafka's property names stand beside the
/// fields.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// `group.id`.
    pub group: GroupId,
    /// `group.instance.id` of a static member (KIP-345); none by default.
    pub instance: Option<String>,
    /// `client.rack` (KIP-881); none by default.
    pub rack: Option<Rack>,
    /// `partition.assignment.strategy`, best first; `cooperative-sticky` by default.
    pub assignors: Vec<Assignor>,
    /// `session.timeout.ms`, 45 s by default.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`, 3 s by default.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`, 300 s by default: told to the group as its rebalance timeout.
    pub rebalance_timeout: Duration,
    /// `request.timeout.ms`, 30 s by default. A JoinGroup or SyncGroup may take the rebalance
    /// timeout longer.
    pub request_timeout: Duration,
    /// Budget of one revoke, by default 75 s: drain, cancel grace, final commit and listener
    /// together (D1).
    pub revoke_budget: Duration,
    /// `nearside.join.jitter.ms`, 500 ms by default: the first join waits a random part of it (G5).
    pub join_jitter: Duration,
    /// `nearside.leave.on.stop`, false by default: whether a static member leaves when it stops.
    pub leave_on_stop: bool,
    /// How long a LeaveGroup is waited for, 5 s.
    pub leave_timeout: Duration,
    /// How long a leader waits for the metadata of topics that only other members want, 5 s.
    pub topics_timeout: Duration,
    /// Between failed attempts: 100 ms, doubling to 1 s.
    pub retry: Backoff,
}

impl Settings {
    /// The defaults for `group`.
    pub fn new(group: impl Into<GroupId>) -> Self {
        Self {
            group: group.into(),
            instance: None,
            rack: None,
            assignors: vec![Assignor::CooperativeSticky],
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            rebalance_timeout: Duration::from_secs(300),
            request_timeout: Duration::from_secs(30),
            revoke_budget: Duration::from_secs(75),
            join_jitter: Duration::from_millis(500),
            leave_on_stop: false,
            leave_timeout: Duration::from_secs(5),
            topics_timeout: Duration::from_secs(5),
            retry: Backoff::from_ms(100, 1_000),
        }
    }
}
