//! One broker: its health, its link to clients, its fetch sessions and the fetches parked on it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::api::fetch::Sessions;
use super::{Api, BrokerSettings, ConnectionId};

#[derive(Debug)]
pub(super) struct Broker {
    pub(super) settings: BrokerSettings,
    pub(super) health: Health,
    pub(super) link: Link,
    /// Whether the controller counts it as alive.
    pub(super) fenced: bool,
    /// Whether its followers fetch from their leaders.
    pub(super) replicating: bool,
    /// Pause between two follower fetches; `None`: as the cluster's settings say.
    pub(super) replication_delay: Option<Duration>,
    /// Added to every answer.
    pub(super) answer_delay: Duration,
    pub(super) versions: BTreeMap<Api, (i16, i16)>,
    pub(super) sessions: Sessions,
    pub(super) fetching: BTreeSet<ConnectionId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Health {
    Up,
    /// Killed: connections closed, new ones refused.
    Down,
    /// Stopped as by SIGSTOP: everything is accepted, nothing is handled until it thaws.
    Frozen,
}

/// The network between the clients and one broker; the cluster itself does not use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Packets pass.
    Open,
    /// Connections are closed and new ones refused.
    Refused,
    /// Packets vanish in both directions, connections stay open.
    Silent,
}

impl Broker {
    pub(super) fn new(settings: BrokerSettings, session_slots: usize) -> Self {
        Self {
            settings,
            health: Health::Up,
            link: Link::Open,
            fenced: false,
            replicating: true,
            replication_delay: None,
            answer_delay: Duration::ZERO,
            versions: BTreeMap::new(),
            sessions: Sessions::new(session_slots),
            fetching: BTreeSet::new(),
        }
    }

    /// Lowest and highest version of `api` it serves; an empty range if it does not serve it.
    pub(super) fn versions(&self, api: Api) -> (i16, i16) {
        self.versions
            .get(&api)
            .copied()
            .unwrap_or((api.min_version(), api.max_version()))
    }

    /// Whether it fetches from leaders and serves followers.
    pub(super) fn runs(&self) -> bool {
        self.health == Health::Up
    }
}
