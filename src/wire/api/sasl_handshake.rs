//! SaslHandshake (17), version 1: names the mechanism. Version 0 would mean raw tokens and is not
//! spoken.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::SaslHandshakeRequest;

use super::{Body, decode, put, read_error, text};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Asks to authenticate with a mechanism.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its name, such as `SCRAM-SHA-512`.
    pub mechanism: String,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let message = SaslHandshakeRequest::default().with_mechanism(text(&self.mechanism));
        put(ApiKey::SaslHandshake, version, &message, out)
    }
}

/// Whether the mechanism is offered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// 33 if it is not.
    pub error: ErrorCode,
    /// The mechanisms offered.
    pub mechanisms: Vec<String>,
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
    const API: ApiKey = ApiKey::SaslHandshake;

    fn read(cursor: &mut Cursor<'_>, _version: i16) -> Read<Self> {
        let error = read_error(cursor)?;
        let mechanisms = cursor.array("mechanisms", MECHANISM_MIN, |cursor| {
            cursor.text("mechanism", IDENTIFIER_MAX).map(str::to_owned)
        })?;
        Ok(Self { error, mechanisms })
    }
}

/// Smallest mechanism: an empty classic string.
const MECHANISM_MIN: usize = 2;
