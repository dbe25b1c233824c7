//! InitProducerId (22), versions 3-5: obtains a producer id. 3 resumes with id and epoch (KIP-360).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{InitProducerIdRequest, ProducerId, TransactionalId};

use super::{Body, decode, put, read_error, read_throttle, text, wire_millis};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// A producer id with its epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Producer {
    /// The id.
    pub id: i64,
    /// The epoch.
    pub epoch: i16,
}

/// Asks for a producer id.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The transactional id; `None` for an idempotent producer.
    pub transactional_id: Option<String>,
    /// After how long the coordinator aborts an open transaction.
    pub transaction_timeout: Duration,
    /// The id to resume with a higher epoch, if we have one.
    pub resume: Option<Producer>,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let resume = self.resume.unwrap_or(Producer { id: -1, epoch: -1 });
        let id = self
            .transactional_id
            .as_ref()
            .map(|id| TransactionalId(text(id)));
        let message = InitProducerIdRequest::default()
            .with_transactional_id(id)
            .with_transaction_timeout_ms(wire_millis(self.transaction_timeout))
            .with_producer_id(ProducerId(resume.id))
            .with_producer_epoch(resume.epoch);
        put(ApiKey::InitProducerId, version, &message, out)
    }
}

/// The producer id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Error of the request.
    pub error: ErrorCode,
    /// The id; `None` on errors.
    pub producer: Option<Producer>,
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
    const API: ApiKey = ApiKey::InitProducerId;

    fn read(cursor: &mut Cursor<'_>, _version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let error = read_error(cursor)?;
        let id = cursor.i64("producer_id")?;
        let epoch = cursor.i16("producer_epoch")?;
        cursor.no_tags()?;
        let producer = (id >= 0 && epoch >= 0).then_some(Producer { id, epoch });
        Ok(Self {
            throttle,
            error,
            producer,
        })
    }
}
