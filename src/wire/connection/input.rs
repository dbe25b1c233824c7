//! What happens to a connection.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;

use super::link::Carried;
use crate::ids::Moment;
use crate::wire::frame::FrameError;
use crate::wire::message::Request;

/// The caller's name for a request; completed exactly once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// One socket of a connection's life, from the dial on. Inputs of an earlier socket are ignored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u64);

/// Why a connection is to end in good order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainReason {
    /// The broker listens elsewhere now.
    AddressChanged,
    /// The cluster is looked up anew (KIP-899).
    Rebootstrap,
    /// Other credentials are to be used.
    CredentialsReplaced,
    /// The process ends, or nobody needs the connection.
    Shutdown,
}

/// How a TLS handshake failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsFailure {
    /// A certificate was refused, by us or by the broker.
    Trust(String),
    /// The peer answered in something else than TLS.
    NotTls,
    /// The peer closed without a word, as plaintext listeners do, and brokers that shut down.
    HungUp(String),
    /// The connection was lost.
    Lost(String),
}

/// One input of [`Connection::handle`](super::Connection::handle).
#[derive(Clone, PartialEq)]
pub enum Input {
    /// Somebody wants an answer.
    Request {
        /// The caller's name for it.
        token: Token,
        /// The request.
        request: Request,
    },
    /// The connection is wanted although no request waits: dial if nothing is under way. A failed
    /// attempt is not repeated without a request.
    Open,
    /// The resolver answered [`Output::Resolve`](super::Output::Resolve).
    Resolved(Result<Vec<SocketAddr>, String>),
    /// A dial ended.
    Dialed {
        /// The socket dialled.
        socket: SocketId,
        /// Whether it is open, or why not.
        result: Result<(), String>,
    },
    /// A TLS handshake ended.
    Tls {
        /// The socket.
        socket: SocketId,
        /// Whether the broker asked for a client certificate, or how the handshake failed.
        result: Result<bool, TlsFailure>,
    },
    /// The SASL mechanism answered [`Output::Sasl`](super::Output::Sasl).
    Sasl {
        /// The socket.
        socket: SocketId,
        /// Its step.
        step: SaslStep,
    },
    /// A frame without its length.
    Frame {
        /// The socket.
        socket: SocketId,
        /// The frame, from the response header on.
        frame: Bytes,
    },
    /// The deframer gave up on the stream.
    Broken {
        /// The socket.
        socket: SocketId,
        /// Why.
        error: FrameError,
    },
    /// Bytes were handed to the system. Optional: it makes round trips precise.
    Written {
        /// The socket.
        socket: SocketId,
        /// All bytes of this socket so far.
        bytes: u64,
    },
    /// The socket ended: end of stream or an error. Nothing of it is read or written any more.
    Lost {
        /// The socket.
        socket: SocketId,
        /// All bytes ever handed to the system; decides what certainly never left.
        written: u64,
        /// What the system said.
        reason: String,
    },
    /// A request that another connection gave back
    /// ([`Output::Returned`](super::Output::Returned)): it keeps its deadline.
    Adopt(Carried),
    /// Newer credentials are there: renew the session, if the broker lets it end at all.
    Renew,
    /// Another connection of the same broker was throttled (KIP-219).
    Mute {
        /// Until when.
        until: Moment,
    },
    /// Another connection of the same node had a malformed answer (wire.md 7 D9).
    Malformed {
        /// When.
        at: Moment,
    },
    /// The connection is to end in good order.
    Drain(DrainReason),
    /// A deadline passed.
    Tick,
}

impl Input {
    /// The socket this is about, if it is about one.
    pub(super) const fn socket(&self) -> Option<SocketId> {
        match self {
            Self::Dialed { socket, .. }
            | Self::Tls { socket, .. }
            | Self::Sasl { socket, .. }
            | Self::Frame { socket, .. }
            | Self::Broken { socket, .. }
            | Self::Written { socket, .. }
            | Self::Lost { socket, .. } => Some(*socket),
            Self::Request { .. }
            | Self::Open
            | Self::Adopt(_)
            | Self::Renew
            | Self::Resolved(_)
            | Self::Mute { .. }
            | Self::Malformed { .. }
            | Self::Drain(_)
            | Self::Tick => None,
        }
    }
}

/// Frames are told by their length: some carry secrets.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { token, request } => write!(f, "Request({token:?}, {request:?})"),
            Self::Open => f.write_str("Open"),
            Self::Adopt(carried) => write!(f, "Adopt({carried:?})"),
            Self::Renew => f.write_str("Renew"),
            Self::Resolved(result) => write!(f, "Resolved({result:?})"),
            Self::Dialed { socket, result } => write!(f, "Dialed({socket:?}, {result:?})"),
            Self::Tls { socket, result } => write!(f, "Tls({socket:?}, {result:?})"),
            Self::Sasl { socket, step } => write!(f, "Sasl({socket:?}, {step:?})"),
            Self::Frame { socket, frame } => write!(f, "Frame({socket:?}, {} bytes)", frame.len()),
            Self::Broken { socket, error } => write!(f, "Broken({socket:?}, {error:?})"),
            Self::Written { socket, bytes } => write!(f, "Written({socket:?}, {bytes})"),
            Self::Lost {
                socket,
                written,
                reason,
            } => write!(f, "Lost({socket:?}, {written}, {reason:?})"),
            Self::Mute { until } => write!(f, "Mute({until:?})"),
            Self::Malformed { at } => write!(f, "Malformed({at:?})"),
            Self::Drain(reason) => write!(f, "Drain({reason:?})"),
            Self::Tick => f.write_str("Tick"),
        }
    }
}

/// A step of the SASL mechanism, computed outside.
#[derive(Clone, PartialEq, Eq)]
pub enum SaslStep {
    /// Send this token.
    Token(Bytes),
    /// The broker refused: send this last token, and whatever is answered, it is a failure (RFC
    /// 7628).
    Refused {
        /// The token.
        token: Bytes,
        /// What the refusal says.
        why: String,
    },
    /// The broker's last token was right: done.
    Done,
    /// The broker's last token was wrong, or the credentials cannot be had.
    Failed(String),
}

impl fmt::Debug for SaslStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token([redacted])"),
            Self::Refused { why, .. } => f.debug_tuple("Refused").field(why).finish(),
            Self::Done => f.write_str("Done"),
            Self::Failed(reason) => f.debug_tuple("Failed").field(reason).finish(),
        }
    }
}
