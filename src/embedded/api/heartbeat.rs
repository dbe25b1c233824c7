//! Heartbeat (12), versions 0-4. 3 static members (KIP-345).
//!
//! During a rebalance it answers 27 and still counts as a sign of life.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};
use kafka_protocol::protocol::StrBytes;

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::group::{Group, GroupPhase};
use crate::ids::GroupId;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &HeartbeatRequest) -> Reply {
    let code = beat(cluster, call, request).err().unwrap_or(0);
    let response = HeartbeatResponse::default().with_error_code(code);
    call.answer(&response.with_throttle_time_ms(call.throttle_ms()))
}

fn beat(cluster: &mut Cluster, call: &Call, request: &HeartbeatRequest) -> Result<(), i16> {
    let id = GroupId::from(request.group_id.as_str());
    cluster.check_group(call, &id)?;
    let now = cluster.now;
    let group = cluster
        .groups
        .get_mut(&id)
        .ok_or(ResponseError::UnknownMemberId.code())?;
    let instance = request.group_instance_id.as_ref();
    check_member(group, &request.member_id, instance, request.generation_id)?;
    if let Some(member) = group.members.get_mut(&request.member_id) {
        member.expires = now + member.session;
    }
    match group.phase {
        GroupPhase::Empty => Err(ResponseError::UnknownMemberId.code()),
        GroupPhase::PreparingRebalance => Err(ResponseError::RebalanceInProgress.code()),
        GroupPhase::CompletingRebalance | GroupPhase::Stable => Ok(()),
    }
}

/// Whether the caller is a member of the current generation.
pub(in super::super) fn check_member(
    group: &Group,
    member_id: &StrBytes,
    instance: Option<&StrBytes>,
    generation: i32,
) -> Result<(), i16> {
    let owner = instance.and_then(|instance| group.by_instance(instance));
    if owner.is_some_and(|owner| owner != *member_id) {
        return Err(ResponseError::FencedInstanceId.code());
    }
    if !group.members.contains_key(member_id) {
        return Err(ResponseError::UnknownMemberId.code());
    }
    if generation != group.generation {
        return Err(ResponseError::IllegalGeneration.code());
    }
    Ok(())
}
