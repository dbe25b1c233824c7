//! What a connection asks for and reports.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::input::{DrainReason, SocketId, Token};
use super::link::Carried;
use super::state::StateName;
use crate::ids::Moment;
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::Oddities;
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;
use crate::wire::frame::{FrameError, PortMixup, Tier};
use crate::wire::message::Response;
use crate::wire::versions::UnsupportedVersion;

/// One output of [`Connection::poll_output`](super::Connection::poll_output), in the order to act
/// on.
#[derive(Clone, PartialEq)]
pub enum Output {
    /// Resolve a name; answer with [`Input::Resolved`](super::Input::Resolved).
    Resolve {
        /// The host.
        host: Arc<str>,
        /// The port.
        port: u16,
    },
    /// Open a socket with a deframer of its own; answer with
    /// [`Input::Dialed`](super::Input::Dialed).
    Dial {
        /// Its name from now on.
        socket: SocketId,
        /// Where.
        address: SocketAddr,
    },
    /// Shake hands in TLS; answer with [`Input::Tls`](super::Input::Tls).
    StartTls {
        /// The socket.
        socket: SocketId,
        /// The name to verify.
        host: Arc<str>,
    },
    /// Take the next step of the SASL mechanism; answer with [`Input::Sasl`](super::Input::Sasl).
    Sasl {
        /// The socket.
        socket: SocketId,
        /// The broker's token; `None` starts the mechanism anew.
        challenge: Option<Challenge>,
    },
    /// Write one frame. Its tier goes to the deframer first
    /// ([`Deframer::expect`](crate::wire::Deframer::expect)).
    Write {
        /// The socket.
        socket: SocketId,
        /// The frame, length included.
        bytes: Bytes,
        /// The tier of its answer.
        tier: Tier,
    },
    /// Close a socket, or give a dial up. No further input of it is needed.
    Close {
        /// The socket.
        socket: SocketId,
    },
    /// A request ended.
    Completed(Completion),
    /// This broker's other data and control connections are muted too: hand them
    /// [`Input::Mute`](super::Input::Mute). Never sent by a coordinator connection.
    Throttled {
        /// Until when.
        until: Moment,
    },
    /// The session ends before its requests do: open a second connection of this class, and drain
    /// this one for [`CredentialsReplaced`](DrainReason::CredentialsReplaced) once that is ready.
    TwinWanted,
    /// A request that this connection will not write any more and another one may: hand it
    /// [`Input::Adopt`](super::Input::Adopt).
    Returned(Carried),
    /// For logs, counters and health.
    Event(Event),
}

/// Frames are told by their length: some carry secrets.
impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve { host, port } => write!(f, "Resolve({host}:{port})"),
            Self::Dial { socket, address } => write!(f, "Dial({socket:?}, {address})"),
            Self::StartTls { socket, host } => write!(f, "StartTls({socket:?}, {host})"),
            Self::Sasl { socket, challenge } => write!(f, "Sasl({socket:?}, {challenge:?})"),
            Self::Write {
                socket,
                bytes,
                tier,
            } => write!(f, "Write({socket:?}, {} bytes, {tier:?})", bytes.len()),
            Self::Close { socket } => write!(f, "Close({socket:?})"),
            Self::Completed(completion) => f.debug_tuple("Completed").field(completion).finish(),
            Self::Throttled { until } => write!(f, "Throttled({until:?})"),
            Self::TwinWanted => f.write_str("TwinWanted"),
            Self::Returned(carried) => write!(f, "Returned({carried:?})"),
            Self::Event(event) => f.debug_tuple("Event").field(event).finish(),
        }
    }
}

/// A SASL token of the broker, kept out of logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Challenge(pub Bytes);

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Challenge([redacted])")
    }
}

/// The end of one request.
#[derive(Clone, PartialEq, Debug)]
pub struct Completion {
    /// The caller's name for it.
    pub token: Token,
    /// The API asked.
    pub api: ApiKey,
    /// The version it was sent at; `None` if it was never encoded.
    pub version: Option<i16>,
    /// The answer, or why there is none.
    pub result: Result<Response, RequestError>,
    /// From the completed write to the answer, if one came.
    pub round_trip: Option<Duration>,
}

/// Whether an unanswered request can have had an effect (wire.md 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// No byte of it left us.
    NotWritten,
    /// It may have been carried out.
    Unknown,
}

/// Why a request has no answer.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestError {
    /// Whether it can have had an effect.
    pub outcome: Outcome,
    /// Why.
    pub reason: RequestFailure,
}

/// Why a request has no answer.
#[derive(Clone, PartialEq, Debug)]
pub enum RequestFailure {
    /// Its deadline passed.
    TimedOut,
    /// The connection ended under it.
    Disconnected,
    /// The queue is full.
    Busy,
    /// The connection is leaving; ask the new one.
    Moved(DrainReason),
    /// The connection has ended.
    Closed(Reason),
    /// The credentials were refused.
    Authentication(String),
    /// The broker serves no version that can carry it.
    Unsupported(UnsupportedVersion),
    /// It cannot be encoded.
    Encode(EncodeError),
    /// Its answer breaks the protocol.
    Malformed(DecodeError),
    /// Answers came out of order.
    Desynchronised,
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("request timed out"),
            Self::Disconnected => f.write_str("connection lost"),
            Self::Busy => f.write_str("request queue is full"),
            Self::Moved(reason) => write!(f, "connection is leaving: {reason}"),
            Self::Closed(reason) => write!(f, "connection is closed: {reason}"),
            Self::Authentication(reason) => write!(f, "authentication failed: {reason}"),
            Self::Unsupported(error) => error.fmt(f),
            Self::Encode(error) => error.fmt(f),
            Self::Malformed(error) => error.fmt(f),
            Self::Desynchronised => f.write_str("answers came out of order"),
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match self.outcome {
            Outcome::NotWritten => f.write_str(" (not written)"),
            Outcome::Unknown => f.write_str(" (outcome unknown)"),
        }
    }
}

impl std::error::Error for RequestError {}

/// Why a connection changed its state.
#[derive(Clone, PartialEq, Debug)]
pub enum Reason {
    /// A request wants it.
    Requested,
    /// A step of the setup succeeded.
    Progress,
    /// Everything is set up.
    SetUp,
    /// The wait is over.
    WaitOver,
    /// Nobody used it.
    Unused,
    /// It is to end.
    Drain(DrainReason),
    /// Its session must be renewed.
    Reauthentication,
    /// The name could not be resolved.
    Resolve(String),
    /// No address could be dialled.
    Dial(String),
    /// The socket ended.
    Lost(String),
    /// The setup took too long.
    SetupTimeout,
    /// A request took too long.
    RequestTimeout(ApiKey),
    /// Credentials or certificates were refused.
    Trust(String),
    /// The peer speaks another protocol.
    Mixup(PortMixup),
    /// A frame of impossible length, or unasked.
    Frame(FrameError),
    /// Answers came out of order.
    Desynchronised,
    /// An answer breaks the protocol.
    Malformed(DecodeError),
    /// The broker lacks something we need.
    Unsupported(UnsupportedVersion),
    /// The broker refused to tell its versions.
    VersionsRefused(ErrorCode),
    /// The broker no longer serves a version it offered; it was rolled back.
    RolledBack(ApiKey),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => f.write_str("a request waits"),
            Self::Progress => f.write_str("step done"),
            Self::SetUp => f.write_str("set up"),
            Self::WaitOver => f.write_str("wait is over"),
            Self::Unused => f.write_str("unused"),
            Self::Drain(reason) => reason.fmt(f),
            Self::Reauthentication => f.write_str("session must be renewed"),
            Self::Resolve(reason) => write!(f, "name not resolved: {reason}"),
            Self::Dial(reason) => write!(f, "no address answers: {reason}"),
            Self::Lost(reason) => write!(f, "connection lost: {reason}"),
            Self::SetupTimeout => f.write_str("setup timed out"),
            Self::RequestTimeout(api) => write!(f, "{api} timed out"),
            Self::Trust(reason) => write!(f, "authentication failed: {reason}"),
            Self::Mixup(mixup) => mixup.fmt(f),
            Self::Frame(error) => error.fmt(f),
            Self::Desynchronised => f.write_str("answers came out of order"),
            Self::Malformed(error) => error.fmt(f),
            Self::Unsupported(error) => error.fmt(f),
            Self::VersionsRefused(code) => write!(f, "versions refused: {code}"),
            Self::RolledBack(api) => write!(f, "broker no longer serves its {api} version"),
        }
    }
}

impl fmt::Display for DrainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddressChanged => "address changed",
            Self::Rebootstrap => "cluster is looked up anew",
            Self::CredentialsReplaced => "credentials replaced",
            Self::Shutdown => "shutting down",
        })
    }
}

/// Something worth a log line or a counter.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A change of state.
    Transition {
        /// The state left.
        from: StateName,
        /// The state entered.
        to: StateName,
        /// Why.
        reason: Reason,
    },
    /// Tolerated oddities of an answer.
    Odd {
        /// The API.
        api: ApiKey,
        /// What was tolerated.
        oddities: Oddities,
    },
    /// An answer breaks the protocol.
    Malformed(DecodeError),
    /// The broker asked for silence, and gets it for so long (KIP-219).
    Throttled {
        /// How long.
        time: Duration,
    },
    /// A throttle longer than we believe was cut.
    ThrottleCut {
        /// What the broker asked for.
        asked: Duration,
    },
    /// The broker dislikes our software name; asked again without it (KIP-511).
    NameDisliked,
    /// The resolver failed and older addresses serve instead.
    StaleAddresses {
        /// What the resolver said.
        reason: String,
    },
}

impl Event {
    /// Whether a working connection was lost: if the broker leads partitions of ours, metadata must
    /// be refreshed, since a dead leader sends no error codes (C7).
    pub const fn is_loss(&self) -> bool {
        match self {
            Self::Transition {
                from: StateName::Ready | StateName::Reauth,
                reason,
                ..
            } => {
                matches!(
                    reason,
                    Reason::Lost(_)
                        | Reason::RequestTimeout(_)
                        | Reason::Frame(_)
                        | Reason::Mixup(_)
                        | Reason::Desynchronised
                        | Reason::Malformed(_)
                )
            }
            Self::Transition { .. }
            | Self::Odd { .. }
            | Self::Malformed(_)
            | Self::Throttled { .. }
            | Self::ThrottleCut { .. }
            | Self::NameDisliked
            | Self::StaleAddresses { .. } => false,
        }
    }
}
