//! The states of a connection (wire.md 5.2).

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use super::input::DrainReason;
use super::output::Reason;
use crate::ids::Moment;

/// Where a connection stands.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum State {
    /// Nobody needs it.
    Idle,
    /// The resolver works.
    Resolving,
    /// An address is dialled; these are left.
    Connecting { rest: VecDeque<SocketAddr> },
    /// TLS handshake; these addresses are left.
    Tls { rest: VecDeque<SocketAddr> },
    /// ApiVersions is out, at this version.
    Versions {
        phase: Phase,
        version: i16,
        retried: bool,
    },
    /// SaslHandshake is out.
    Handshake,
    /// The SASL exchange, from round 1.
    Authenticate { round: u8 },
    /// Requests flow. Stable once C2's condition held.
    Ready { stable: bool },
    /// The session is renewed on this socket.
    Reauth { step: ReauthStep },
    /// Answers are awaited, nothing is written any more.
    Draining { reason: DrainReason },
    /// The next attempt waits.
    Backoff { until: Moment },
    /// The end.
    Closed { reason: Reason },
}

/// Which of the two ApiVersions exchanges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Before SASL, or the only one. `client_auth`: the broker asked for a client certificate.
    Pre { client_auth: bool },
    /// After SASL.
    Post,
}

/// How far a re-authentication is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReauthStep {
    /// Requests in flight are awaited.
    Drain,
    /// SaslHandshake is out.
    Handshake,
    /// The SASL exchange, from round 1.
    Authenticate { round: u8 },
}

/// The name of a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateName {
    /// Nobody needs the connection.
    Idle,
    /// The resolver works.
    Resolving,
    /// An address is dialled.
    Connecting,
    /// TLS handshake.
    Tls,
    /// ApiVersions before SASL, or the only one.
    VersionsPre,
    /// SaslHandshake.
    Handshake,
    /// SASL exchange.
    Authenticate,
    /// ApiVersions after SASL.
    VersionsPost,
    /// Requests flow.
    Ready,
    /// The session is renewed.
    Reauth,
    /// Answers are awaited, nothing is written any more.
    Draining,
    /// The next attempt waits.
    Backoff,
    /// The end.
    Closed,
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl State {
    pub(super) const fn name(&self) -> StateName {
        match self {
            Self::Idle => StateName::Idle,
            Self::Resolving => StateName::Resolving,
            Self::Connecting { .. } => StateName::Connecting,
            Self::Tls { .. } => StateName::Tls,
            Self::Versions {
                phase: Phase::Pre { .. },
                ..
            } => StateName::VersionsPre,
            Self::Versions {
                phase: Phase::Post, ..
            } => StateName::VersionsPost,
            Self::Handshake => StateName::Handshake,
            Self::Authenticate { .. } => StateName::Authenticate,
            Self::Ready { .. } => StateName::Ready,
            Self::Reauth { .. } => StateName::Reauth,
            Self::Draining { .. } => StateName::Draining,
            Self::Backoff { .. } => StateName::Backoff,
            Self::Closed { .. } => StateName::Closed,
        }
    }
}
