//! FindCoordinator (10), versions 3-6: who coordinates a group. From 4 on keys come in batches
//! (KIP-699).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::FindCoordinatorRequest;

use super::{Body, Endpoint, decode, known_broker, put, read_error, read_throttle, text};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, HOST_MAX, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// What a key names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// A consumer group.
    Group,
    /// A transactional id.
    Transaction,
}

/// Asks for the coordinator of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The group id or transactional id.
    pub key: String,
    /// What it is.
    pub kind: KeyKind,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let kind = match self.kind {
            KeyKind::Group => 0,
            KeyKind::Transaction => 1,
        };
        let message = FindCoordinatorRequest::default().with_key_type(kind);
        let message = if version >= 4 {
            message.with_coordinator_keys(vec![text(&self.key)])
        } else {
            message.with_key(text(&self.key))
        };
        put(ApiKey::FindCoordinator, version, &message, out)
    }
}

/// The coordinator, or why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Error of the look-up.
    pub error: ErrorCode,
    /// The broker's words about it.
    pub message: Option<String>,
    /// The coordinator, if there is one.
    pub coordinator: Option<Endpoint>,
}

impl Response {
    /// Decodes the body of an answer at `version`.
    ///
    /// # Errors
    /// If the bytes break the protocol.
    pub fn decode(version: i16, body: &Bytes) -> Result<Self, DecodeError> {
        decode(version, body).map(|(response, _)| response)
    }
}

impl Body for Response {
    const API: ApiKey = ApiKey::FindCoordinator;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let response = if version >= 4 {
            // One key is asked, so the first row is the answer.
            let rows = cursor.array("coordinators", COORDINATOR_MIN, |cursor| {
                read_keyed(cursor, throttle)
            })?;
            rows.into_iter().next().unwrap_or(Self {
                throttle,
                error: ErrorCode::COORDINATOR_NOT_AVAILABLE,
                message: None,
                coordinator: None,
            })
        } else {
            let error = read_error(cursor)?;
            let message = cursor.message("error_message")?;
            let coordinator = read_coordinator(cursor)?;
            Self {
                throttle,
                error,
                message,
                coordinator,
            }
        };
        cursor.no_tags()?;
        Ok(response)
    }
}

/// Smallest row: empty key and host, id, port, error, no message, no tags.
const COORDINATOR_MIN: usize = 14;

fn read_keyed(cursor: &mut Cursor<'_>, throttle: Duration) -> Read<Response> {
    cursor.text("key", IDENTIFIER_MAX)?;
    let coordinator = read_coordinator(cursor)?;
    let error = read_error(cursor)?;
    let message = cursor.message("error_message")?;
    cursor.no_tags()?;
    Ok(Response {
        throttle,
        error,
        message,
        coordinator,
    })
}

/// Node, host and port; without a coordinator brokers send -1, nothing and -1.
fn read_coordinator(cursor: &mut Cursor<'_>) -> Read<Option<Endpoint>> {
    let broker = known_broker(cursor.i32("node_id")?);
    let host = cursor.text("host", HOST_MAX)?;
    let port = u16::try_from(cursor.i32("port")?).ok();
    Ok(broker.zip(port).map(|(broker, port)| Endpoint {
        broker,
        host: host.into(),
        port,
        rack: None,
    }))
}
