//! JoinGroup (11), versions 0-9.
//!
//! - 1 rebalance timeout; 4 a dynamic member joins twice, with the id that code 79 gives it
//!   (KIP-394); 5 static members (KIP-345); 7 protocol type in the answer; 8 reason; 9
//!   skip_assignment for a static leader that comes back.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::group::{Group, GroupPhase, Member};
use crate::ids::{GroupId, Moment};

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &JoinGroupRequest) -> Reply {
    let id = GroupId::from(request.group_id.as_str());
    match join(cluster, call, &id, request) {
        Ok(Joined::Parked) => Reply::Parked,
        Ok(Joined::AtOnce(reply)) => reply,
        Err(code) => failed(call, code, &request.member_id),
    }
}

enum Joined {
    Parked,
    AtOnce(Reply),
}

fn join(
    cluster: &mut Cluster,
    call: &Call,
    id: &GroupId,
    request: &JoinGroupRequest,
) -> Result<Joined, i16> {
    cluster.check_group(call, id)?;
    if id.as_str().is_empty() {
        return Err(ResponseError::InvalidGroupId.code());
    }
    let session = millis(request.session_timeout_ms);
    let bounds = cluster.settings.group_session_min..=cluster.settings.group_session_max;
    if !bounds.contains(&session) {
        return Err(ResponseError::InvalidSessionTimeout.code());
    }
    let now = cluster.now;
    let group = cluster.groups.entry(id.clone()).or_insert_with(Group::new);
    let member_id = match identify(group, call, request, now + session) {
        Ok(member_id) => member_id,
        Err(Refusal::IdRequired(fresh)) => {
            cluster.arm_group(id);
            let code = ResponseError::MemberIdRequired.code();
            return Ok(Joined::AtOnce(failed(call, code, &fresh)));
        }
        Err(Refusal::Code(error)) => return Err(error.code()),
    };
    let offer = Offer::of(request, call.version, session);
    let same_type = group
        .protocol_type
        .as_ref()
        .is_none_or(|known| *known == offer.protocol_type);
    let fits = !offer.protocols.is_empty() && group.supports(&member_id, &offer.protocols);
    let welcome = group.members.is_empty() || (same_type && fits);
    if !welcome {
        return Err(ResponseError::InconsistentGroupProtocol.code());
    }
    Ok(admit(cluster, call, id, &member_id, offer))
}

/// What a member brings along.
#[derive(Debug)]
struct Offer {
    instance: Option<StrBytes>,
    session: Duration,
    rebalance: Duration,
    protocol_type: StrBytes,
    protocols: Vec<(StrBytes, Bytes)>,
    /// A static member without an id: a new process, which may take over the place of a former one.
    fresh_instance: bool,
}

impl Offer {
    fn of(request: &JoinGroupRequest, version: i16, session: Duration) -> Self {
        let protocols = request.protocols.iter();
        let protocols = protocols.map(|p| (p.name.clone(), p.metadata.clone()));
        Self {
            fresh_instance: request.member_id.is_empty() && request.group_instance_id.is_some(),
            instance: request.group_instance_id.clone(),
            session,
            rebalance: if version >= 1 {
                millis(request.rebalance_timeout_ms)
            } else {
                session
            },
            protocol_type: request.protocol_type.clone(),
            protocols: protocols.collect(),
        }
    }
}

enum Refusal {
    /// Join again with this id.
    IdRequired(StrBytes),
    Code(ResponseError),
}

/// Finds out who is joining.
fn identify(
    group: &mut Group,
    call: &Call,
    request: &JoinGroupRequest,
    good_until: Moment,
) -> Result<StrBytes, Refusal> {
    let known = request
        .group_instance_id
        .as_ref()
        .and_then(|i| group.by_instance(i));
    let prefix = call.client_id.clone().unwrap_or_default();
    if request.member_id.is_empty() {
        let fresh = group.member_id(request.group_instance_id.as_deref().unwrap_or(&prefix));
        if let Some(old) = known {
            // The instance came back: it takes over the place, and its former id is fenced.
            if let Some(member) = group.members.remove(&old) {
                group.members.insert(fresh.clone(), member);
            }
            if group.leader.as_ref() == Some(&old) {
                group.leader = Some(fresh.clone());
            }
        } else if request.group_instance_id.is_none() && call.version >= 4 {
            group.pending.insert(fresh.clone(), good_until);
            return Err(Refusal::IdRequired(fresh));
        }
        return Ok(fresh);
    }
    if let Some(owner) = known.filter(|owner| *owner != request.member_id) {
        debug_assert!(
            group.members.contains_key(&owner),
            "instances belong to members"
        );
        return Err(Refusal::Code(ResponseError::FencedInstanceId));
    }
    let expected = group.pending.remove(&request.member_id).is_some();
    if expected || group.members.contains_key(&request.member_id) {
        return Ok(request.member_id.clone());
    }
    Err(Refusal::Code(ResponseError::UnknownMemberId))
}

/// Takes the member in, and answers at once if nothing changes for the group.
fn admit(
    cluster: &mut Cluster,
    call: &Call,
    id: &GroupId,
    member_id: &StrBytes,
    offer: Offer,
) -> Joined {
    let now = cluster.now;
    let Some(group) = cluster.groups.get_mut(id) else {
        return Joined::AtOnce(Reply::Close);
    };
    let before = group.members.get(member_id);
    let unchanged = before.is_some_and(|member| member.protocols == offer.protocols);
    // An instance that came back is compared by the names of its protocols alone: its bytes tell
    // of a process that owns nothing yet.
    let came_back = before.is_some_and(|member| {
        let names = |rows: &[(StrBytes, Bytes)]| -> Vec<StrBytes> {
            rows.iter().map(|(name, _)| name.clone()).collect()
        };
        offer.fresh_instance && names(&member.protocols) == names(&offer.protocols)
    });
    let returns = came_back && group.phase == GroupPhase::Stable;
    let leads = group.leader.as_ref() == Some(member_id);
    let assignment = before
        .map(|member| member.assignment.clone())
        .unwrap_or_default();
    group.protocol_type = Some(offer.protocol_type);
    let member = Member {
        instance: offer.instance,
        session: offer.session,
        rebalance: offer.rebalance,
        protocols: offer.protocols,
        assignment,
        joining: None,
        syncing: None,
        expires: now + offer.session,
    };
    let stays = match group.phase {
        GroupPhase::Stable => returns || unchanged && !leads,
        GroupPhase::CompletingRebalance => unchanged,
        GroupPhase::Empty | GroupPhase::PreparingRebalance => false,
    };
    group.members.insert(member_id.clone(), member);
    if stays {
        let reply = joined(call, group, member_id, returns);
        cluster.arm_group(id);
        return Joined::AtOnce(reply);
    }
    if let Some(member) = group.members.get_mut(member_id) {
        member.joining = Some(call.clone());
    }
    let rebalances = group.phase == GroupPhase::PreparingRebalance;
    cluster.park_in_group(call);
    if !rebalances {
        cluster.prepare_rebalance(id);
    }
    cluster.maybe_complete_join(id);
    cluster.arm_group(id);
    Joined::Parked
}

/// The answer to a member of the current generation; the leader learns who the others are.
pub(in super::super) fn joined(
    call: &Call,
    group: &Group,
    member_id: &StrBytes,
    returns: bool,
) -> Reply {
    let leads = group.leader.as_ref() == Some(member_id);
    let row = |(id, member): (&StrBytes, &Member)| {
        let metadata = group
            .protocol
            .as_ref()
            .and_then(|name| member.metadata(name));
        let row = JoinGroupResponseMember::default()
            .with_member_id(id.clone())
            .with_metadata(metadata.cloned().unwrap_or_default());
        if call.version >= 5 {
            row.with_group_instance_id(member.instance.clone())
        } else {
            row
        }
    };
    let members = if leads {
        group.members.iter().map(row).collect()
    } else {
        Vec::new()
    };
    let response = JoinGroupResponse::default()
        .with_throttle_time_ms(call.throttle_ms())
        .with_generation_id(group.generation)
        .with_protocol_name(group.protocol.clone())
        .with_leader(group.leader.clone().unwrap_or_default())
        .with_member_id(member_id.clone())
        .with_members(members);
    let response = if call.version >= 7 {
        response.with_protocol_type(group.protocol_type.clone())
    } else {
        response
    };
    let skips = returns && leads && call.version >= 9;
    call.answer(&if skips {
        response.with_skip_assignment(true)
    } else {
        response
    })
}

fn failed(call: &Call, code: i16, member_id: &StrBytes) -> Reply {
    // Null protocol names exist from version 7 on.
    let name = (call.version < 7).then(StrBytes::default);
    call.answer(
        &JoinGroupResponse::default()
            .with_throttle_time_ms(call.throttle_ms())
            .with_error_code(code)
            .with_generation_id(-1)
            .with_protocol_name(name)
            .with_member_id(member_id.clone()),
    )
}

fn millis(wire: i32) -> Duration {
    Duration::from_millis(u64::try_from(wire).unwrap_or(0))
}
