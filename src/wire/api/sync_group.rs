//! SyncGroup (14), versions 3-5: hands out the assignment. 5 checks protocol type and name
//! (KIP-559).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{GroupId as WireGroup, SyncGroupRequest};

use super::{Body, decode, put, read_error, read_throttle, text};
use crate::ids::{Generation, GroupId, MemberId};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Asks for our assignment; the leader brings everyone's.
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
    /// The protocol type joined with, checked from version 5 on.
    pub protocol_type: String,
    /// The assignor chosen, checked from version 5 on.
    pub protocol: String,
    /// Everyone's assignment, from the leader only.
    pub assignments: Vec<Assignment>,
}

/// One member's assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The member.
    pub member: MemberId,
    /// What it gets.
    pub assignment: Bytes,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let assignments = self.assignments.iter().map(|row| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(row.member.as_str()))
                .with_assignment(row.assignment.clone())
        });
        let mut message = SyncGroupRequest::default()
            .with_group_id(WireGroup(text(self.group.as_str())))
            .with_generation_id(self.generation.0)
            .with_member_id(text(self.member.as_str()))
            .with_group_instance_id(self.instance.as_ref().map(text))
            .with_assignments(assignments.collect());
        if version >= 5 {
            message = message
                .with_protocol_type(Some(text(&self.protocol_type)))
                .with_protocol_name(Some(text(&self.protocol)));
        }
        put(ApiKey::SyncGroup, version, &message, out)
    }
}

/// Our assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Error of the sync.
    pub error: ErrorCode,
    /// What we get, a slice of the frame.
    pub assignment: Bytes,
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
    const API: ApiKey = ApiKey::SyncGroup;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let error = read_error(cursor)?;
        if version >= 5 {
            cursor.nullable_text("protocol_type", IDENTIFIER_MAX)?;
            cursor.nullable_text("protocol_name", IDENTIFIER_MAX)?;
        }
        let assignment = cursor.bytes("assignment")?;
        cursor.no_tags()?;
        Ok(Self {
            throttle,
            error,
            assignment,
        })
    }
}
