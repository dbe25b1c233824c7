//! One open socket: what was written, which answers are awaited.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::RequestHeader;
use kafka_protocol::protocol::{Encodable, StrBytes};
use zeroize::Zeroize as _;

use super::input::{SocketId, Token};
use crate::ids::Moment;
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::EncodeError;
use crate::wire::message::Request;
use crate::wire::sasl::wiped;

/// A request that moves from one connection to another of the same broker.
#[derive(Clone, PartialEq, Debug)]
pub struct Carried(pub(super) Pending);

impl Carried {
    /// The caller's name for the request.
    pub const fn token(&self) -> Token {
        self.0.token
    }
}

/// A caller's request on its way.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Pending {
    pub(super) token: Token,
    pub(super) request: Request,
    pub(super) deadline: Moment,
    /// Whether it already met a dying connection unwritten; that is forgiven once (C5).
    pub(super) retried: bool,
}

/// Who waits for an answer.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of the few in flight are a caller's"
)]
#[derive(Debug)]
pub(super) enum Reply {
    /// The setup of the connection itself.
    Setup,
    /// A caller.
    Caller(Pending),
}

/// One request in flight.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) correlation: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) reply: Reply,
    /// Position of its first byte in all bytes of the socket.
    start: u64,
    end: u64,
    sent_at: Moment,
    confirmed: bool,
}

impl Entry {
    /// When its caller gives up.
    pub(super) fn deadline(&self) -> Option<Moment> {
        match &self.reply {
            Reply::Setup => None,
            Reply::Caller(pending) => Some(pending.deadline),
        }
    }

    /// When it was written, as far as we know.
    pub(super) fn sent_at(&self) -> Moment {
        self.sent_at
    }

    /// Whether none of its bytes is among the first `written` of the socket.
    pub(super) fn is_untouched(&self, written: u64) -> bool {
        written <= self.start
    }
}

/// An open or opening socket and its requests in flight, oldest first.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: SocketId,
    pub(super) address: SocketAddr,
    pub(super) entries: VecDeque<Entry>,
    pub(super) heard: bool,
    sent: u64,
}

impl Link {
    pub(super) fn new(socket: SocketId, address: SocketAddr) -> Self {
        Self {
            socket,
            address,
            entries: VecDeque::new(),
            heard: false,
            sent: 0,
        }
    }

    /// Notes that a frame of `length` bytes goes out now.
    pub(super) fn sent(&mut self, head: Head, length: usize, reply: Reply, now: Moment) {
        let start = self.sent;
        self.sent = start.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        let Head {
            correlation,
            api,
            version,
        } = head;
        let (end, sent_at) = (self.sent, now);
        let entry = Entry {
            correlation,
            api,
            version,
            reply,
            start,
            end,
            sent_at,
            confirmed: false,
        };
        self.entries.push_back(entry);
    }

    /// Notes that the first `bytes` bytes were handed to the system by `now`.
    pub(super) fn written(&mut self, bytes: u64, now: Moment) {
        for entry in self.entries.iter_mut().filter(|entry| entry.end <= bytes) {
            if !entry.confirmed {
                entry.confirmed = true;
                entry.sent_at = now;
            }
        }
    }
}

/// What a request header says beside the client's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) correlation: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
}

/// Encodes a whole frame, length included.
pub(super) fn encode_frame(
    client_id: &StrBytes,
    head: Head,
    request: &Request,
) -> Result<Bytes, EncodeError> {
    let Head {
        correlation,
        api,
        version,
    } = head;
    let fail = |reason: String| EncodeError {
        api,
        version,
        reason,
    };
    let header = RequestHeader::default()
        .with_request_api_key(api.code())
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(client_id.clone()));
    let secret = if let Request::SaslAuthenticate(request) = request {
        request.token.len()
    } else {
        0
    };
    // Enough for a token at once: growing would leave a copy of it behind.
    let mut frame = BytesMut::with_capacity(FRAME_GUESS + secret);
    frame.put_i32(0);
    header
        .encode(&mut frame, api.request_header(version))
        .map_err(|error| fail(error.to_string()))?;
    request.encode(version, &mut frame)?;
    let length = i32::try_from(frame.len().saturating_sub(LENGTH))
        .map_err(|_| fail("frame above 2 GiB".to_owned()))?;
    if let Some(prefix) = frame.first_chunk_mut::<LENGTH>() {
        *prefix = length.to_be_bytes();
    }
    if secret > 0 {
        let written = wiped(frame.to_vec());
        frame.as_mut().zeroize();
        return Ok(written);
    }
    Ok(frame.freeze())
}

/// Splits a response frame into correlation id, unknown header tags and body.
pub(super) fn split_frame(frame: &Bytes, api: ApiKey, version: i16) -> Read<(i32, u32, Bytes)> {
    let mut cursor = Cursor::new(frame, api.response_header(version) >= 1);
    let correlation = cursor.i32("correlation_id")?;
    cursor.no_tags()?;
    let tags = cursor.oddities.unknown_tags;
    Ok((correlation, tags, frame.slice(cursor.position()..)))
}

/// The correlation id of a frame alone; `None` if it is too short for one.
pub(super) fn correlation_of(frame: &Bytes) -> Option<i32> {
    frame
        .first_chunk::<4>()
        .map(|bytes| i32::from_be_bytes(*bytes))
}

/// Room for most requests.
const FRAME_GUESS: usize = 512;
/// Bytes of the length in front of a frame.
const LENGTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::api::sasl_authenticate;
    use crate::wire::sasl::wiping::wiped_in;

    /// wire.md 11.3
    #[test]
    fn an_encoded_sasl_request_is_wiped_once_it_is_written() {
        let token = || wiped(b"\0bob\0hunter2".to_vec());
        let request = || Request::SaslAuthenticate(sasl_authenticate::Request { token: token() });
        let head = Head {
            correlation: 7,
            api: ApiKey::SaslAuthenticate,
            version: 2,
        };
        let client_id = StrBytes::from_static_str("client");
        let mut frame = Bytes::new();
        let at_once = wiped_in(|| frame = encode_frame(&client_id, head, &request()).unwrap());
        assert_eq!(at_once, [token().len()], "the token itself");
        assert!(frame.windows(7).any(|part| part == b"hunter2"));
        // The way of a socket's task: byte after byte until none is left.
        let mut writing = frame.clone();
        let length = frame.len();
        assert!(wiped_in(|| bytes::Buf::advance(&mut writing, length)).is_empty());
        assert_eq!(wiped_in(|| drop((frame, writing))), [length]);
    }
}
