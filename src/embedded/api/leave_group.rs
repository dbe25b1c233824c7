//! LeaveGroup (13), versions 0-5. 3 several members, static ones by instance (KIP-345); 5 reason.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use crate::ids::GroupId;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &LeaveGroupRequest) -> Reply {
    let id = GroupId::from(request.group_id.as_str());
    let response = LeaveGroupResponse::default().with_throttle_time_ms(call.throttle_ms());
    if let Err(code) = cluster.check_group(call, &id) {
        return call.answer(&response.with_error_code(code));
    }
    if call.version < 3 {
        let alone = MemberIdentity::default().with_member_id(request.member_id.clone());
        let code = leave(cluster, &id, &alone);
        return call.answer(&response.with_error_code(code));
    }
    let row = |identity: &MemberIdentity| {
        MemberResponse::default()
            .with_error_code(leave(cluster, &id, identity))
            .with_member_id(identity.member_id.clone())
            .with_group_instance_id(identity.group_instance_id.clone())
    };
    let rows = request.members.iter().map(row).collect();
    call.answer(&response.with_members(rows))
}

fn leave(cluster: &mut Cluster, id: &GroupId, identity: &MemberIdentity) -> i16 {
    let unknown = ResponseError::UnknownMemberId.code();
    let Some(group) = cluster.groups.get_mut(id) else {
        return unknown;
    };
    if group.pending.remove(&identity.member_id).is_some() {
        cluster.maybe_complete_join(id);
        return 0;
    }
    let member_id = match &identity.group_instance_id {
        Some(instance) => match group.by_instance(instance) {
            Some(owner) if identity.member_id.is_empty() || identity.member_id == owner => owner,
            Some(_) => return ResponseError::FencedInstanceId.code(),
            None => return unknown,
        },
        None => identity.member_id.clone(),
    };
    if !group.members.contains_key(&member_id) {
        return unknown;
    }
    cluster.remove_member(id, &member_id);
    0
}
