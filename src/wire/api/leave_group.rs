//! LeaveGroup (13), versions 3-5: gives a classic membership up. 5 carries a reason (KIP-800).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{GroupId as WireGroup, LeaveGroupRequest};

use super::{Body, decode, put, read_error, read_throttle, text};
use crate::ids::{GroupId, MemberId};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Leaves a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The group.
    pub group: GroupId,
    /// Our member id.
    pub member: MemberId,
    /// Our static id, if we have one.
    pub instance: Option<String>,
    /// Why we leave, told from version 5 on.
    pub reason: Option<String>,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut member = MemberIdentity::default()
            .with_member_id(text(self.member.as_str()))
            .with_group_instance_id(self.instance.as_ref().map(text));
        if version >= 5 {
            member = member.with_reason(self.reason.as_ref().map(text));
        }
        let message = LeaveGroupRequest::default()
            .with_group_id(WireGroup(text(self.group.as_str())))
            .with_members(vec![member]);
        put(ApiKey::LeaveGroup, version, &message, out)
    }
}

/// The coordinator's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Error of the request, or of our membership in it.
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
    const API: ApiKey = ApiKey::LeaveGroup;

    fn read(cursor: &mut Cursor<'_>, _version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let whole = read_error(cursor)?;
        let members = cursor.array("members", MEMBER_MIN, read_member)?;
        cursor.no_tags()?;
        // One member leaves per request, so its error is the request's.
        let failed = members.into_iter().find(|error| error.is_err());
        let error = if whole.is_err() {
            whole
        } else {
            failed.unwrap_or(whole)
        };
        Ok(Self { throttle, error })
    }
}

/// Smallest member: empty id, no instance, error, no tags.
const MEMBER_MIN: usize = 5;

fn read_member(cursor: &mut Cursor<'_>) -> Read<ErrorCode> {
    cursor.text("member_id", IDENTIFIER_MAX)?;
    cursor.nullable_text("group_instance_id", IDENTIFIER_MAX)?;
    let error = read_error(cursor)?;
    cursor.no_tags()?;
    Ok(error)
}
