//! Classic groups: joining, syncing, rebalances, sessions, static members, commits.

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    GroupId as WireGroup, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest, SyncGroupResponse,
    TopicName as WireTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::client::{Rig, t0};
use crate::embedded::{ConnectionId, GroupPhase};
use crate::ids::{GroupId, Offset};

const GROUP: &str = "g";

fn wire_group() -> WireGroup {
    WireGroup(StrBytes::from_static_str(GROUP))
}

fn coordinator(rig: &mut Rig) -> ConnectionId {
    let broker = rig.cluster.coordinator(&GroupId::from(GROUP)).unwrap();
    rig.connect(broker.0)
}

fn join_request(member: &StrBytes, instance: Option<&'static str>) -> JoinGroupRequest {
    let range = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata(Bytes::from_static(b"subscription"));
    JoinGroupRequest::default()
        .with_group_id(wire_group())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(member.clone())
        .with_group_instance_id(instance.map(StrBytes::from_static_str))
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![range])
}

/// Gets a member id (KIP-394) and sends the real join.
fn enter(rig: &mut Rig, connection: ConnectionId) -> StrBytes {
    let first = rig.call(connection, 9, &join_request(&StrBytes::default(), None));
    assert_eq!(first.error_code, 79);
    rig.send(connection, 9, &join_request(&first.member_id, None));
    first.member_id
}

fn joined(rig: &mut Rig, connection: ConnectionId) -> JoinGroupResponse {
    let response: JoinGroupResponse = rig.answer(connection, 9).expect("the join completes");
    assert_eq!(response.error_code, 0);
    response
}

fn sync_request(member: &StrBytes, generation: i32, parts: &[(&StrBytes, u8)]) -> SyncGroupRequest {
    let part = |&(member, part): &(&StrBytes, u8)| {
        SyncGroupRequestAssignment::default()
            .with_member_id(member.clone())
            .with_assignment(Bytes::copy_from_slice(&[part]))
    };
    SyncGroupRequest::default()
        .with_group_id(wire_group())
        .with_generation_id(generation)
        .with_member_id(member.clone())
        .with_assignments(parts.iter().map(part).collect())
}

fn heartbeat(rig: &mut Rig, connection: ConnectionId, member: &StrBytes, generation: i32) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(wire_group())
        .with_generation_id(generation)
        .with_member_id(member.clone());
    rig.call(connection, 4, &request).error_code
}

/// Two members in a stable group of generation 2; the first leads.
fn pair(rig: &mut Rig) -> [(ConnectionId, StrBytes); 2] {
    let (first, second) = (coordinator(rig), coordinator(rig));
    let one = enter(rig, first);
    assert_eq!(joined(rig, first).generation_id, 1);
    let alone = rig.call(first, 5, &sync_request(&one, 1, &[(&one, 1)]));
    assert_eq!(alone.assignment, &[1][..]);
    let two = enter(rig, second);
    assert_eq!(heartbeat(rig, first, &one, 1), 27);
    rig.send(first, 9, &join_request(&one, None));
    let lead = joined(rig, first);
    assert_eq!(
        (&lead.leader, lead.members.len(), lead.generation_id),
        (&one, 2, 2)
    );
    assert!(joined(rig, second).members.is_empty());
    rig.send(second, 5, &sync_request(&two, 2, &[]));
    assert!(
        rig.answer::<SyncGroupResponse>(second, 5).is_none(),
        "waits for the leader"
    );
    rig.send(first, 5, &sync_request(&one, 2, &[(&one, 1), (&two, 2)]));
    for (connection, part) in [(first, 1), (second, 2)] {
        let response: SyncGroupResponse = rig.answer(connection, 5).unwrap();
        assert_eq!(
            (response.error_code, response.assignment),
            (0, Bytes::from(vec![part]))
        );
    }
    [(first, one), (second, two)]
}

#[test]
fn two_members_share_a_generation() {
    let mut rig = Rig::new();
    let [(first, one), (second, two)] = pair(&mut rig);
    assert_eq!(heartbeat(&mut rig, first, &one, 2), 0);
    assert_eq!(heartbeat(&mut rig, second, &two, 2), 0);
    assert_eq!(heartbeat(&mut rig, second, &two, 1), 22);
    let view = rig.cluster.group(&GroupId::from(GROUP)).unwrap();
    assert_eq!((view.phase, view.members.len()), (GroupPhase::Stable, 2));
}

#[test]
fn a_silent_member_is_out_after_its_session_and_the_rest_goes_on() {
    let mut rig = Rig::new();
    let [(first, one), (second, two)] = pair(&mut rig);
    rig.run_for(9_000);
    assert_eq!(heartbeat(&mut rig, first, &one, 2), 0);
    rig.run_for(1_000);
    assert_eq!(heartbeat(&mut rig, first, &one, 2), 27);
    rig.send(first, 9, &join_request(&one, None));
    assert_eq!(joined(&mut rig, first).members.len(), 1);
    assert_eq!(heartbeat(&mut rig, second, &two, 2), 25);
}

#[test]
fn who_does_not_join_in_time_is_left_behind() {
    let mut rig = Rig::new();
    let [(first, one), (second, two)] = pair(&mut rig);
    rig.cluster.rebalance(&GroupId::from(GROUP));
    rig.send(first, 9, &join_request(&one, None));
    for _ in 0..6 {
        rig.run_for(4_900);
        assert_eq!(
            heartbeat(&mut rig, second, &two, 2),
            27,
            "alive, but not joining"
        );
    }
    assert!(rig.answer::<JoinGroupResponse>(first, 9).is_none());
    rig.run_for(600);
    let response = joined(&mut rig, first);
    assert_eq!((response.generation_id, response.members.len()), (3, 1));
    assert_eq!(heartbeat(&mut rig, second, &two, 2), 25);
}

#[test]
fn leaving_starts_a_rebalance_at_once() {
    let mut rig = Rig::new();
    let [(first, one), (second, two)] = pair(&mut rig);
    let gone = kafka_protocol::messages::leave_group_request::MemberIdentity::default()
        .with_member_id(two);
    let leave = LeaveGroupRequest::default()
        .with_group_id(wire_group())
        .with_members(vec![gone]);
    assert_eq!(rig.call(second, 5, &leave).members[0].error_code, 0);
    assert_eq!(heartbeat(&mut rig, first, &one, 2), 27);
}

/// KIP-345.
#[test]
fn a_static_member_comes_back_without_a_rebalance_and_fences_its_former_self() {
    let mut rig = Rig::new();
    let connection = coordinator(&mut rig);
    rig.send(
        connection,
        9,
        &join_request(&StrBytes::default(), Some("i1")),
    );
    let first = joined(&mut rig, connection);
    let old = first.member_id;
    rig.call(connection, 5, &sync_request(&old, 1, &[(&old, 7)]));
    rig.send(
        connection,
        9,
        &join_request(&StrBytes::default(), Some("i1")),
    );
    let back = joined(&mut rig, connection);
    assert_eq!((back.generation_id, back.skip_assignment), (1, true));
    assert_ne!(back.member_id, old);
    let again = rig.call(connection, 5, &sync_request(&back.member_id, 1, &[]));
    assert_eq!(again.assignment, &[7][..]);
    let ghost = HeartbeatRequest::default()
        .with_group_id(wire_group())
        .with_generation_id(1)
        .with_member_id(old)
        .with_group_instance_id(Some(StrBytes::from_static_str("i1")));
    assert_eq!(rig.call(connection, 4, &ghost).error_code, 82);
}

fn commit_request(member: &StrBytes, generation: i32, offset: i64) -> OffsetCommitRequest {
    let row = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(offset)
        .with_committed_leader_epoch(5)
        .with_committed_metadata(Some(StrBytes::from_static_str("note")));
    let topic = OffsetCommitRequestTopic::default()
        .with_name(WireTopic(StrBytes::from_static_str("t")))
        .with_partitions(vec![row]);
    OffsetCommitRequest::default()
        .with_group_id(wire_group())
        .with_member_id(member.clone())
        .with_generation_id_or_member_epoch(generation)
        .with_topics(vec![topic])
}

#[test]
fn commits_are_fenced_by_generation_and_read_back_with_epoch_and_metadata() {
    let mut rig = Rig::new();
    let [(first, one), _] = pair(&mut rig);
    let code = |rig: &mut Rig, request: &OffsetCommitRequest| {
        rig.call(first, 9, request).topics[0].partitions[0].error_code
    };
    assert_eq!(code(&mut rig, &commit_request(&one, 1, 3)), 22);
    assert_eq!(
        code(&mut rig, &commit_request(&StrBytes::default(), -1, 3)),
        25
    );
    assert_eq!(code(&mut rig, &commit_request(&one, 2, 4)), 0);
    let committed = rig.cluster.committed(&GroupId::from(GROUP), &t0()).unwrap();
    assert_eq!(
        (committed.offset, committed.metadata.as_str()),
        (Offset(4), "note")
    );
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(wire_group())
        .with_topics(None);
    let fetch = OffsetFetchRequest::default().with_groups(vec![group]);
    let response = rig.call(first, 8, &fetch);
    let row = &response.groups[0].topics[0].partitions[0];
    assert_eq!((row.committed_offset, row.committed_leader_epoch), (4, 5));
}

/// A coordinator writes one commit as one batch (metadata.md; bound by max.message.bytes).
#[test]
fn a_commit_that_outgrows_one_batch_is_refused_whole() {
    let mut rig = Rig::new();
    rig.cluster.create_topic("wide5", 16_000, 1).unwrap();
    let connection = coordinator(&mut rig);
    for (count, code) in [(15_000, 0), (16_000, -1)] {
        let row = |index| OffsetCommitRequestPartition::default().with_partition_index(index);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(WireTopic(StrBytes::from_static_str("wide5")))
            .with_partitions((0..count).map(row).collect());
        let request = OffsetCommitRequest::default()
            .with_group_id(wire_group())
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let response = rig.call(connection, 9, &request);
        assert!(
            response.topics[0]
                .partitions
                .iter()
                .all(|row| row.error_code == code)
        );
    }
}

#[test]
fn another_broker_is_not_the_coordinator() {
    let mut rig = Rig::new();
    let group = GroupId::from(GROUP);
    let [(first, one), _] = pair(&mut rig);
    let other = [1, 2, 3].map(crate::ids::BrokerId);
    let other = other
        .into_iter()
        .find(|&b| Some(b) != rig.cluster.coordinator(&group))
        .unwrap();
    rig.cluster.move_coordinator(GROUP, other);
    assert_eq!(heartbeat(&mut rig, first, &one, 2), 16);
    let moved = rig.connect(other.0);
    assert_eq!(heartbeat(&mut rig, moved, &one, 2), 0);
}

#[test]
fn a_member_outlives_the_death_of_its_coordinator() {
    let mut rig = Rig::new();
    let [(_, one), (_, two)] = pair(&mut rig);
    let group = GroupId::from(GROUP);
    let dead = rig.cluster.coordinator(&group).unwrap();
    rig.cluster.kill(dead);
    rig.run_for(3_000);
    assert_ne!(rig.cluster.coordinator(&group), Some(dead));
    rig.run_for(5_000);
    let connection = coordinator(&mut rig);
    assert_eq!(heartbeat(&mut rig, connection, &one, 2), 0);
    assert_eq!(heartbeat(&mut rig, connection, &two, 2), 0);
}
