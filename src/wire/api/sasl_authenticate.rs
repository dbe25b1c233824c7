//! SaslAuthenticate (36), versions 1-2: carries one token each way. 1 tells the session's lifetime
//! (KIP-368).
//!
//! Tokens are secrets: neither side of this API prints them.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::SaslAuthenticateRequest;

use super::{Body, decode, put, read_error};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Sends one token.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The token.
    pub token: Bytes,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Request { token: [redacted] }")
    }
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let message = SaslAuthenticateRequest::default().with_auth_bytes(self.token.clone());
        put(ApiKey::SaslAuthenticate, version, &message, out)
    }
}

/// The broker's token.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    /// 58 if the credentials were refused.
    pub error: ErrorCode,
    /// The broker's words about it.
    pub message: Option<String>,
    /// The token.
    pub token: Bytes,
    /// How long the session lives; `None` without an end. At most one year.
    pub lifetime: Option<Duration>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("error", &self.error)
            .field("message", &self.message)
            .field("token", &format_args!("[redacted]"))
            .field("lifetime", &self.lifetime)
            .finish()
    }
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
    const API: ApiKey = ApiKey::SaslAuthenticate;

    fn read(cursor: &mut Cursor<'_>, _version: i16) -> Read<Self> {
        let error = read_error(cursor)?;
        let message = cursor.message("error_message")?;
        let token = cursor.bytes("auth_bytes")?;
        let lifetime_ms = cursor.i64("session_lifetime_ms")?;
        cursor.no_tags()?;
        let lifetime = match u64::try_from(lifetime_ms) {
            Ok(ms) if ms > 0 => Some(Duration::from_millis(ms).min(LIFETIME_MAX)),
            Ok(_) | Err(_) => None,
        };
        Ok(Self {
            error,
            message,
            token,
            lifetime,
        })
    }
}

/// Longest lifetime believed (wire.md 11.2).
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
