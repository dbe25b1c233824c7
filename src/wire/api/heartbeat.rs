//! Heartbeat (12), versions 3-4: keeps a classic membership alive.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{GroupId as WireGroup, HeartbeatRequest};

use super::{Body, decode, put, read_error, read_throttle, text};
use crate::ids::{Generation, GroupId, MemberId};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Says that a member lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The group.
    pub group: GroupId,
    /// The generation joined.
    pub generation: Generation,
    /// Our member id.
    pub member: MemberId,
    /// Our static id, if we have one.
    pub instance: Option<String>,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let message = HeartbeatRequest::default()
            .with_group_id(WireGroup(text(self.group.as_str())))
            .with_generation_id(self.generation.0)
            .with_member_id(text(self.member.as_str()))
            .with_group_instance_id(self.instance.as_ref().map(text));
        put(ApiKey::Heartbeat, version, &message, out)
    }
}

/// The coordinator's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// 27 orders a rejoin.
    pub error: ErrorCode,
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
    const API: ApiKey = ApiKey::Heartbeat;

    fn read(cursor: &mut Cursor<'_>, _version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let error = read_error(cursor)?;
        cursor.no_tags()?;
        Ok(Self { throttle, error })
    }
}
