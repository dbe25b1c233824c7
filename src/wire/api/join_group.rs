//! JoinGroup (11), versions 5-9: static members from 5 (KIP-345), a reason from 8 (KIP-800), 9 lets
//! a leader skip the assignment (KIP-814).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{GroupId as WireGroup, JoinGroupRequest};

use super::{Body, decode, put, read_error, read_throttle, text, wire_millis};
use crate::ids::{Generation, GroupId, MemberId};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Joins a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The group.
    pub group: GroupId,
    /// Silence after which the coordinator expels the member.
    pub session_timeout: Duration,
    /// How long the coordinator waits for members to rejoin.
    pub rebalance_timeout: Duration,
    /// Our member id; `None` on the first attempt (KIP-394).
    pub member: Option<MemberId>,
    /// Our static id, if we have one.
    pub instance: Option<String>,
    /// `consumer`, or what else the group speaks.
    pub protocol_type: String,
    /// Assignors we can use, best first, each with our subscription.
    pub protocols: Vec<Protocol>,
    /// Why we join, told from version 8 on.
    pub reason: Option<String>,
}

/// One assignor with our subscription in its form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Protocol {
    /// The assignor's name.
    pub name: String,
    /// The subscription.
    pub metadata: Bytes,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let protocols = self.protocols.iter().map(|protocol| {
            JoinGroupRequestProtocol::default()
                .with_name(text(&protocol.name))
                .with_metadata(protocol.metadata.clone())
        });
        let mut message = JoinGroupRequest::default()
            .with_group_id(WireGroup(text(self.group.as_str())))
            .with_session_timeout_ms(wire_millis(self.session_timeout))
            .with_rebalance_timeout_ms(wire_millis(self.rebalance_timeout))
            .with_member_id(text(self.member.as_ref().map_or("", MemberId::as_str)))
            .with_group_instance_id(self.instance.as_ref().map(text))
            .with_protocol_type(text(&self.protocol_type))
            .with_protocols(protocols.collect());
        if version >= 8 {
            message = message.with_reason(self.reason.as_ref().map(text));
        }
        put(ApiKey::JoinGroup, version, &message, out)
    }
}

/// The generation joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Error of the join; 79 comes with the member id to use.
    pub error: ErrorCode,
    /// The generation; `None` on errors.
    pub generation: Option<Generation>,
    /// The assignor chosen; `None` on errors.
    pub protocol: Option<String>,
    /// The leading member; `None` on errors.
    pub leader: Option<MemberId>,
    /// Whether a leader must leave the assignment as it is, from version 9 on.
    pub skip_assignment: bool,
    /// Our member id; `None` if the coordinator gave none.
    pub member: Option<MemberId>,
    /// All members, told to the leader only.
    pub members: Vec<Member>,
}

/// One member of the generation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// Its static id, if it has one.
    pub instance: Option<String>,
    /// Its subscription, a slice of the frame.
    pub metadata: Bytes,
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
    const API: ApiKey = ApiKey::JoinGroup;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let error = read_error(cursor)?;
        let generation = cursor.i32("generation_id")?;
        if version >= 7 {
            cursor.nullable_text("protocol_type", IDENTIFIER_MAX)?;
        }
        let protocol = cursor.nullable_text("protocol_name", IDENTIFIER_MAX)?;
        let leader = cursor.text("leader", IDENTIFIER_MAX)?;
        let skip_assignment = version >= 9 && cursor.bool("skip_assignment")?;
        let member = cursor.text("member_id", IDENTIFIER_MAX)?;
        let mut members = cursor.array("members", MEMBER_MIN, read_member)?;
        cursor.keep_first(&mut members, |member| member.id.clone());
        cursor.no_tags()?;
        Ok(Self {
            throttle,
            error,
            generation: (generation >= 0).then_some(Generation(generation)),
            protocol: protocol.filter(|name| !name.is_empty()).map(str::to_owned),
            leader: member_id(leader),
            skip_assignment,
            member: member_id(member),
            members,
        })
    }
}

/// Smallest member: empty id, no instance, empty subscription, no tags.
const MEMBER_MIN: usize = 4;

fn member_id(id: &str) -> Option<MemberId> {
    (!id.is_empty()).then(|| MemberId::from(id))
}

fn read_member(cursor: &mut Cursor<'_>) -> Read<Member> {
    let id = MemberId::from(cursor.text("member_id", IDENTIFIER_MAX)?);
    let instance = cursor
        .nullable_text("group_instance_id", IDENTIFIER_MAX)?
        .map(str::to_owned);
    let metadata = cursor.bytes("metadata")?;
    cursor.no_tags()?;
    Ok(Member {
        id,
        instance,
        metadata,
    })
}
