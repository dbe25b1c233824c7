//! SyncGroup (14), versions 0-5.
//!
//! - 3 static members; 5 checks protocol type and name, and names them in the answer.
//! - The leader's call carries everybody's assignment; the others wait for it.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::group::{Group, GroupPhase};
use super::heartbeat::check_member;
use crate::ids::GroupId;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &SyncGroupRequest) -> Reply {
    let id = GroupId::from(request.group_id.as_str());
    match sync(cluster, call, &id, request) {
        Ok(reply) => reply,
        Err(code) => failed(call, code),
    }
}

fn sync(
    cluster: &mut Cluster,
    call: &Call,
    id: &GroupId,
    request: &SyncGroupRequest,
) -> Result<Reply, i16> {
    cluster.check_group(call, id)?;
    let member_id = request.member_id.clone();
    let group = cluster
        .groups
        .get_mut(id)
        .ok_or(ResponseError::UnknownMemberId.code())?;
    check_member(
        group,
        &member_id,
        request.group_instance_id.as_ref(),
        request.generation_id,
    )?;
    let named = |given: &Option<StrBytes>, known: &Option<StrBytes>| {
        given
            .as_ref()
            .is_none_or(|given| known.as_ref().is_none_or(|known| known == given))
    };
    let consistent = named(&request.protocol_type, &group.protocol_type)
        && named(&request.protocol_name, &group.protocol);
    if !consistent {
        return Err(ResponseError::InconsistentGroupProtocol.code());
    }
    match group.phase {
        GroupPhase::Empty => Err(ResponseError::UnknownMemberId.code()),
        GroupPhase::PreparingRebalance => Err(ResponseError::RebalanceInProgress.code()),
        GroupPhase::Stable => Ok(assigned(call, group, &member_id)),
        GroupPhase::CompletingRebalance => {
            let leads = group.leader.as_ref() == Some(&member_id);
            if let Some(member) = group.members.get_mut(&member_id) {
                member.syncing = Some(call.clone());
            }
            if leads {
                distribute(group, request);
            }
            cluster.park_in_group(call);
            if leads {
                cluster.complete_sync(id);
            }
            Ok(Reply::Parked)
        }
    }
}

fn distribute(group: &mut Group, request: &SyncGroupRequest) {
    for member in group.members.values_mut() {
        member.assignment.clear();
    }
    for row in &request.assignments {
        if let Some(member) = group.members.get_mut(&row.member_id) {
            member.assignment = row.assignment.clone();
        }
    }
}

/// The answer with a member's part of the assignment.
pub(in super::super) fn assigned(call: &Call, group: &Group, member_id: &StrBytes) -> Reply {
    let member = group.members.get(member_id);
    let response = SyncGroupResponse::default()
        .with_throttle_time_ms(call.throttle_ms())
        .with_assignment(
            member
                .map(|member| member.assignment.clone())
                .unwrap_or_default(),
        );
    if call.version < 5 {
        return call.answer(&response);
    }
    let response = response.with_protocol_type(group.protocol_type.clone());
    call.answer(&response.with_protocol_name(group.protocol.clone()))
}

pub(in super::super) fn failed(call: &Call, code: i16) -> Reply {
    let response = SyncGroupResponse::default().with_error_code(code);
    call.answer(&response.with_throttle_time_ms(call.throttle_ms()))
}
