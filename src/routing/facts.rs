//! What a thread knows of the brokers: the read-only argument of every route decision.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stamp::Lane;
use crate::ids::{BrokerId, Moment, Rack};
use crate::wire::StateName;

/// Lowest Fetch version that computes hints and serves from followers (KIP-392).
pub const FOLLOWER_FETCH: i16 = 11;

/// A connection class of one broker, as routing sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Data connection of the rack lane.
    Rack,
    /// Data connection of the no-rack lane (and of v10, which takes its place).
    NoRack,
    /// Control connection: probes, ListOffsets, OffsetForLeaderEpoch, Metadata.
    Control,
}

impl Class {
    /// The connection that carries `lane`.
    pub const fn of(lane: Lane) -> Self {
        match lane {
            Lane::Rack => Self::Rack,
            Lane::NoRack | Lane::V10 => Self::NoRack,
        }
    }
}

/// State of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Not open and not being opened.
    #[default]
    Down,
    /// Being opened.
    Dialling,
    /// Ready for requests.
    Ready,
}

impl Link {
    /// How a connection in this state looks to a route.
    pub const fn of(state: StateName) -> Self {
        match state {
            StateName::Ready | StateName::Reauth => Self::Ready,
            StateName::Resolving
            | StateName::Connecting
            | StateName::Tls
            | StateName::VersionsPre
            | StateName::Handshake
            | StateName::Authenticate
            | StateName::VersionsPost => Self::Dialling,
            StateName::Idle | StateName::Draining | StateName::Backoff | StateName::Closed => {
                Self::Down
            }
        }
    }
}

/// What the breaker of a broker lets through (routing.md 9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breaker {
    /// Normal.
    #[default]
    Closed,
    /// Nobody is routed there; the next dial is due at this moment.
    Open(Moment),
    /// Only partitions that hold a permit.
    Readmitting,
}

/// Facts about one broker.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerFacts {
    /// Its rack, if it reports one.
    pub rack: Option<Rack>,
    /// Whether its address is known and no row lists it offline.
    pub addressable: bool,
    /// Data connection of the rack lane.
    pub rack_link: Link,
    /// Data connection of the no-rack lane.
    pub no_rack_link: Link,
    /// Control connection.
    pub control_link: Link,
    /// Highest Fetch version both sides speak, as last negotiated; `None` before the first
    /// connection.
    pub fetch_version: Option<i16>,
    /// Lowest Fetch version it serves, as last negotiated; `None` before the first connection.
    pub fetch_min: Option<i16>,
    /// Whether its no-rack lane has dropped to Fetch v10.
    pub v10: bool,
    /// Its breaker.
    pub breaker: Breaker,
    /// Smoothed round trip of the control connection.
    pub round_trip: Option<Duration>,
    /// Whether its rack lane is silent (routing.md 2).
    pub rack_silent: bool,
    /// Whether its no-rack lane is silent.
    pub no_rack_silent: bool,
    /// When its rack lane last gave a good answer that says something about every partition in its
    /// session: neither throttled nor full.
    pub rack_answered: Option<Moment>,
    /// The same of its no-rack lane.
    pub no_rack_answered: Option<Moment>,
}

impl BrokerFacts {
    /// State of the connection of `class`.
    pub fn link(&self, class: Class) -> Link {
        match class {
            Class::Rack => self.rack_link,
            Class::NoRack => self.no_rack_link,
            Class::Control => self.control_link,
        }
    }

    /// Sets the state of the connection of `class`.
    pub fn set_link(&mut self, class: Class, link: Link) {
        match class {
            Class::Rack => self.rack_link = link,
            Class::NoRack => self.no_rack_link = link,
            Class::Control => self.control_link = link,
        }
    }

    /// Whether the lane on the connection of `class` is silent: it was not Ready, or owed an
    /// answer, for too long, and nothing came since. The control connection carries no lane.
    pub fn is_silent(&self, class: Class) -> bool {
        match class {
            Class::Rack => self.rack_silent,
            Class::NoRack => self.no_rack_silent,
            Class::Control => false,
        }
    }

    /// Notes that the lane of `class` went silent or spoke again.
    pub fn set_silent(&mut self, class: Class, silent: bool) {
        match class {
            Class::Rack => self.rack_silent = silent,
            Class::NoRack => self.no_rack_silent = silent,
            Class::Control => {}
        }
    }

    /// When the lane of `class` last gave an answer that says something about every partition in
    /// its session. An omitted row is no input of a route, so a watchdog reads this instead
    /// (routing.md 5); it may be told up to a quarter of a second late.
    pub fn answered(&self, class: Class) -> Option<Moment> {
        match class {
            Class::Rack => self.rack_answered,
            Class::NoRack => self.no_rack_answered,
            Class::Control => None,
        }
    }

    /// Notes such an answer.
    pub fn set_answered(&mut self, class: Class, at: Moment) {
        match class {
            Class::Rack => self.rack_answered = Some(at),
            Class::NoRack => self.no_rack_answered = Some(at),
            Class::Control => {}
        }
    }

    /// Whether its Fetch is known to stop below v11: no hints, no follower reads.
    pub fn is_legacy(&self) -> bool {
        self.fetch_version
            .is_some_and(|version| version < FOLLOWER_FETCH)
    }
}

/// The facts of all brokers; one table per thread, kept by its host, who applies every change
/// **before** it hands the route machines the input that tells of it.
#[derive(Clone, Debug, Default)]
pub struct Brokers {
    known: BTreeMap<BrokerId, BrokerFacts>,
}

impl Brokers {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The facts of broker `id`; `None` if nothing was ever said of it.
    pub fn get(&self, id: BrokerId) -> Option<&BrokerFacts> {
        self.known.get(&id)
    }

    /// The facts of broker `id`, entered with defaults if it is new.
    pub fn entry(&mut self, id: BrokerId) -> &mut BrokerFacts {
        self.known.entry(id).or_default()
    }

    /// Forgets broker `id`.
    pub fn remove(&mut self, id: BrokerId) {
        self.known.remove(&id);
    }

    /// All brokers in order of their id.
    pub fn iter(&self) -> impl Iterator<Item = (BrokerId, &BrokerFacts)> {
        self.known.iter().map(|(id, facts)| (*id, facts))
    }

    /// Whether broker `id` has an address and is not listed offline.
    pub fn is_addressable(&self, id: BrokerId) -> bool {
        self.get(id).is_some_and(|facts| facts.addressable)
    }

    /// Whether the connection of `class` to broker `id` is Ready.
    pub fn is_ready(&self, id: BrokerId, class: Class) -> bool {
        self.get(id)
            .is_some_and(|facts| facts.link(class) == Link::Ready)
    }

    /// Whether the lane of `class` towards broker `id` is silent.
    pub fn is_silent(&self, id: BrokerId, class: Class) -> bool {
        self.get(id).is_some_and(|facts| facts.is_silent(class))
    }

    /// When the lane of `class` towards broker `id` last gave an answer that says something about
    /// every partition in its session.
    pub fn answered(&self, id: BrokerId, class: Class) -> Option<Moment> {
        self.get(id).and_then(|facts| facts.answered(class))
    }

    /// Whether any connection that a read or a question could use is Ready.
    pub fn is_reachable(&self, id: BrokerId) -> bool {
        [Class::Rack, Class::NoRack, Class::Control]
            .iter()
            .any(|class| self.is_ready(id, *class))
    }

    /// Whether broker `id` is known to stop below Fetch v11.
    pub fn is_legacy(&self, id: BrokerId) -> bool {
        self.get(id).is_some_and(BrokerFacts::is_legacy)
    }

    /// Whether the no-rack lane of broker `id` has dropped to v10.
    pub fn is_v10(&self, id: BrokerId) -> bool {
        self.get(id).is_some_and(|facts| facts.v10)
    }

    /// Whether the no-rack lane of broker `id` cannot drop to v10: its Fetch starts above.
    pub fn lacks_v10(&self, id: BrokerId) -> bool {
        let least = self.get(id).and_then(|facts| facts.fetch_min);
        least.is_some_and(|least| least >= FOLLOWER_FETCH)
    }

    /// The rack of broker `id`.
    pub fn rack(&self, id: BrokerId) -> Option<&Rack> {
        self.get(id).and_then(|facts| facts.rack.as_ref())
    }

    /// The breaker of broker `id`; closed if nothing is known.
    pub fn breaker(&self, id: BrokerId) -> Breaker {
        self.get(id).map_or(Breaker::Closed, |facts| facts.breaker)
    }
}
