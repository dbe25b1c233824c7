//! What a connection is for, whom it reaches, and its numbers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::ids::BrokerId;
use crate::wire::sasl::Mechanism;

/// Purpose of a connection (wire.md 5.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Metadata, look-ups, administration, probes and hedges.
    Control,
    /// The Fetch session of the rack lane.
    FetchRack,
    /// The Fetch session of the no-rack lane.
    FetchNoRack,
    /// Produce.
    Produce,
    /// Everything a group or transaction coordinator serves.
    Coordinator,
}

impl Class {
    /// Most requests in flight at once.
    pub const fn in_flight_max(self) -> usize {
        match self {
            Self::Control => 16,
            Self::FetchRack | Self::FetchNoRack => 1,
            Self::Produce => 5,
            Self::Coordinator => 8,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::FetchRack => "fetch(rack)",
            Self::FetchNoRack => "fetch(no-rack)",
            Self::Produce => "produce",
            Self::Coordinator => "coordinator",
        })
    }
}

/// Whom a connection reaches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The broker; `None` for a bootstrap address.
    pub broker: Option<BrokerId>,
    /// Its advertised host.
    pub host: Arc<str>,
    /// Its advertised port.
    pub port: u16,
}

/// How a connection is secured (`security.protocol`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Security {
    /// Whether to speak TLS.
    pub tls: bool,
    /// The SASL mechanism to authenticate with, if any.
    pub sasl: Option<Mechanism>,
    /// Whether PLAIN may do without TLS (`wire.sasl.plain.allow.cleartext`): false.
    pub plain_in_clear: bool,
}

/// Numbers of a connection (wire.md 5.3, 15).
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Name told to brokers (`client.id`).
    pub client_id: Arc<str>,
    /// TLS and SASL.
    pub security: Security,
    /// Wait after a failure (`reconnect.backoff.ms`, `.max.ms`): 50 ms to 5 s.
    pub reconnect: Backoff,
    /// Budget from name to ready, doubling per failure (`socket.connection.setup.timeout.ms`): 10 s
    /// to 30 s.
    pub setup: Backoff,
    /// How long a request may take (`request.timeout.ms`): 30 s.
    pub request_timeout: Duration,
    /// What a Fetch may take beyond its own wait: 10 s.
    pub fetch_grace: Duration,
    /// What a JoinGroup may take beyond its rebalance timeout: 5 s.
    pub join_grace: Duration,
    /// Silence after which a connection closes (`connections.max.idle.ms`): 4 min.
    pub idle: Duration,
    /// How long one address may take when there are others (`wire.address.timeout.ms`): 2 s.
    pub address_timeout: Duration,
    /// How long the resolver may take (`wire.dns.timeout.ms`): 5 s.
    pub dns_timeout: Duration,
    /// Age up to which addresses outlive a failing resolver (`wire.dns.stale.ms`): 5 min.
    pub dns_stale: Duration,
    /// Wait after refused credentials (`wire.auth.backoff.ms`, `.max.ms`): 1 s to 60 s.
    pub auth: Backoff,
    /// Wait after another protocol answered (`wire.mixup.backoff.ms`): 30 s.
    pub mixup: Duration,
    /// How long a leaving connection waits for its answers (`wire.drain.ms`): 2 s.
    pub drain: Duration,
    /// Longest throttle believed (`wire.throttle.max.ms`): 60 s.
    pub throttle_max: Duration,
    /// Whether an oddity of an answer, or a throttle beyond belief, breaks it (`wire.strict`):
    /// false.
    pub strict: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            client_id: "nearside".into(),
            security: Security::default(),
            reconnect: Backoff::from_ms(50, 5_000),
            setup: Backoff::from_ms(10_000, 30_000),
            request_timeout: Duration::from_secs(30),
            fetch_grace: Duration::from_secs(10),
            join_grace: Duration::from_secs(5),
            idle: Duration::from_secs(240),
            address_timeout: Duration::from_secs(2),
            dns_timeout: Duration::from_secs(5),
            dns_stale: Duration::from_secs(300),
            auth: Backoff::from_ms(1_000, 60_000),
            mixup: Duration::from_secs(30),
            drain: Duration::from_secs(2),
            throttle_max: Duration::from_secs(60),
            strict: false,
        }
    }
}
