//! Elections, in-sync sets, dead and silent brokers, and the APIs that only leaders answer.

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest, TopicName as WireTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::client::{Fetch, Rig, t0};
use crate::embedded::{ConnectError, Link, Record, encode_batch};
use crate::ids::{BrokerId, LeaderEpoch};

fn wire_t() -> WireTopic {
    WireTopic(StrBytes::from_static_str("t"))
}

fn list(rig: &mut Rig, broker: i32, timestamp: i64, epoch: i32) -> (i16, i64, i32) {
    let row = ListOffsetsPartition::default()
        .with_partition_index(0)
        .with_timestamp(timestamp)
        .with_current_leader_epoch(epoch);
    let topic = ListOffsetsTopic::default()
        .with_name(wire_t())
        .with_partitions(vec![row]);
    let request = ListOffsetsRequest::default()
        .with_replica_id(kafka_protocol::messages::BrokerId(-1))
        .with_topics(vec![topic]);
    let connection = rig.connect(broker);
    let response = rig.call(connection, 8, &request);
    let row = &response.topics[0].partitions[0];
    (row.error_code, row.offset, row.leader_epoch)
}

fn end_of_epoch(rig: &mut Rig, broker: i32, current: i32, epoch: i32) -> (i16, i32, i64) {
    let row = OffsetForLeaderPartition::default()
        .with_partition(0)
        .with_current_leader_epoch(current)
        .with_leader_epoch(epoch);
    let topic = OffsetForLeaderTopic::default()
        .with_topic(wire_t())
        .with_partitions(vec![row]);
    let request = OffsetForLeaderEpochRequest::default()
        .with_replica_id(kafka_protocol::messages::BrokerId(-1))
        .with_topics(vec![topic]);
    let connection = rig.connect(broker);
    let response = rig.call(connection, 4, &request);
    let row = &response.topics[0].partitions[0];
    (row.error_code, row.leader_epoch, row.end_offset)
}

/// routing.md F12.
#[test]
fn positions_are_resolved_by_leaders_only() {
    let mut rig = Rig::new();
    assert_eq!(list(&mut rig, 1, -1, 5), (0, 10, 5));
    assert_eq!(list(&mut rig, 1, -2, 5), (0, 0, 5));
    assert_eq!(list(&mut rig, 2, -1, 5), (6, -1, -1));
    assert_eq!(list(&mut rig, 1, -1, 4), (74, -1, -1));
    assert_eq!(list(&mut rig, 1, -1, 6), (75, -1, -1));
    assert_eq!(end_of_epoch(&mut rig, 2, 5, 5), (6, -1, -1));
}

#[test]
fn a_timestamp_leads_to_the_first_record_that_is_not_older() {
    let mut rig = Rig::new();
    let stamped = |ms: i64| Record {
        timestamp_ms: ms,
        ..Record::of("x")
    };
    let batch = encode_batch(&[stamped(100), stamped(300), stamped(200)]);
    rig.cluster.preload(&t0(), batch).unwrap();
    assert_eq!(list(&mut rig, 1, 100, 5), (0, 10, 5));
    assert_eq!(list(&mut rig, 1, 101, 5), (0, 11, 5));
    assert_eq!(list(&mut rig, 1, 301, 5), (0, -1, -1));
    assert_eq!(
        list(&mut rig, 1, -3, 5),
        (0, 11, 5),
        "the highest timestamp"
    );
}

#[test]
fn epochs_end_where_the_next_one_begins() {
    let mut rig = Rig::new();
    rig.cluster.move_leader(&t0(), BrokerId(2)).unwrap();
    rig.preload("in epoch 6");
    assert_eq!(end_of_epoch(&mut rig, 2, 6, 5), (0, 5, 10));
    assert_eq!(end_of_epoch(&mut rig, 2, 6, 6), (0, 6, 11));
    assert_eq!(end_of_epoch(&mut rig, 2, 6, 9), (0, -1, -1));
}

#[test]
fn a_moved_leader_fences_and_redirects_parked_fetches() {
    let mut rig = Rig::new();
    let connection = rig.connect(1);
    rig.send_fetch(
        connection,
        &Fetch {
            offset: 10,
            ..Fetch::default()
        },
    );
    assert_eq!(
        rig.cluster.move_leader(&t0(), BrokerId(3)).unwrap(),
        LeaderEpoch(6)
    );
    rig.drain();
    let row = rig.row(connection, 17).expect("answered at once");
    assert_eq!(row.error_code, 74);
    assert_eq!(
        (
            row.current_leader.leader_id.0,
            row.current_leader.leader_epoch
        ),
        (3, 6)
    );
}

#[test]
fn a_killed_leader_is_replaced_once_the_controller_notices() {
    let mut rig = Rig::new();
    let open = rig.connect(1);
    rig.cluster.kill(BrokerId(1));
    rig.drain();
    assert_eq!(rig.closed, [open]);
    let refused = rig.cluster.connect(BrokerId(1), rig.now);
    assert_eq!(refused, Err(ConnectError::Refused));
    rig.run_for(2_999);
    assert_eq!(
        rig.cluster.partition(&t0()).unwrap().leader,
        Some(BrokerId(1))
    );
    rig.run_for(1);
    let view = rig.cluster.partition(&t0()).unwrap();
    assert_eq!(
        (view.leader, view.epoch),
        (Some(BrokerId(2)), LeaderEpoch(6))
    );
    assert_eq!(view.isr, [2, 3].map(BrokerId));
    rig.cluster.revive(BrokerId(1));
    rig.run_for(100);
    assert_eq!(
        rig.cluster.partition(&t0()).unwrap().isr,
        [2, 3, 1].map(BrokerId)
    );
}

/// routing.md F15.
#[test]
fn a_dead_follower_leaves_the_isr_without_a_new_epoch() {
    let mut rig = Rig::new();
    rig.cluster.kill(BrokerId(3));
    rig.run_for(3_000);
    let view = rig.cluster.partition(&t0()).unwrap();
    assert_eq!(
        (view.epoch, view.isr),
        (LeaderEpoch(5), [1, 2].map(BrokerId).to_vec())
    );
    let connection = rig.connect(1);
    let response = rig.call(
        connection,
        12,
        &MetadataRequest::default().with_topics(None),
    );
    let row = &response.topics[0].partitions[0];
    assert_eq!(
        row.offline_replicas,
        [kafka_protocol::messages::BrokerId(3)]
    );
    assert_eq!(response.brokers.len(), 2);
}

/// What a new leader never had is gone; its watermark starts from what it knows.
/// Nobody judges followers without a leader: who is in sync may be elected later.
#[test]
fn a_partition_without_leader_keeps_its_in_sync_replicas() {
    let mut rig = Rig::new();
    for follower in [2, 3] {
        rig.cluster.shrink_isr(&t0(), BrokerId(follower)).unwrap();
    }
    rig.cluster.kill(BrokerId(1));
    rig.cluster.notice(BrokerId(1));
    let view = rig.cluster.partition(&t0()).unwrap();
    assert_eq!((view.leader, view.isr), (None, vec![BrokerId(1)]));
    rig.cluster.shrink_isr(&t0(), BrokerId(1)).unwrap();
    rig.cluster.revive(BrokerId(1));
    let view = rig.cluster.partition(&t0()).unwrap();
    assert_eq!(view.leader, Some(BrokerId(1)));
}

#[test]
fn a_lagging_in_sync_replica_truncates_the_log_when_elected() {
    let mut rig = Rig::new();
    rig.cluster.hold_replica(&t0(), BrokerId(2), true).unwrap();
    rig.cluster.produce(&t0(), &[Record::of("lost")]).unwrap();
    rig.run_for(10);
    assert_eq!(rig.cluster.partition(&t0()).unwrap().log_end.0, 11);
    rig.cluster.move_leader(&t0(), BrokerId(2)).unwrap();
    let view = rig.cluster.partition(&t0()).unwrap();
    assert_eq!((view.log_end.0, view.high_watermark.0), (10, 10));
    assert!(view.replicas.iter().all(|replica| replica.log_end.0 == 10));
}

#[test]
fn a_frozen_broker_accepts_everything_and_answers_when_it_thaws() {
    let mut rig = Rig::new();
    rig.cluster.freeze(BrokerId(2));
    let connection = rig.connect(2);
    rig.send_fetch(connection, &Fetch::default());
    rig.run_for(1_000);
    assert!(rig.row(connection, 17).is_none());
    rig.cluster.revive(BrokerId(2));
    rig.drain();
    assert!(rig.row(connection, 17).is_some());
}

#[test]
fn a_silent_link_delivers_late_and_hides_the_broker_from_new_connections() {
    let mut rig = Rig::new();
    let connection = rig.connect(1);
    rig.send_fetch(
        connection,
        &Fetch {
            offset: 10,
            ..Fetch::default()
        },
    );
    rig.cluster.set_link(BrokerId(1), Link::Silent);
    assert_eq!(
        rig.cluster.connect(BrokerId(1), rig.now),
        Err(ConnectError::Silent)
    );
    rig.run_for(60_000);
    assert!(rig.row(connection, 17).is_none());
    assert_eq!(
        rig.cluster.partition(&t0()).unwrap().leader,
        Some(BrokerId(1)),
        "cluster is well"
    );
    rig.cluster.set_link(BrokerId(1), Link::Open);
    rig.drain();
    assert!(rig.row(connection, 17).is_some());
}

#[test]
fn a_reassigned_replica_no_longer_serves() {
    let mut rig = Rig::new();
    rig.cluster
        .reassign(&t0(), &[BrokerId(1), BrokerId(3)])
        .unwrap();
    let row = rig.fetch(2, &Fetch::default());
    assert_eq!(row.error_code, 6);
    assert_eq!(
        (
            row.current_leader.leader_id.0,
            row.current_leader.leader_epoch
        ),
        (1, 6)
    );
}

#[test]
fn a_recreated_topic_is_unknown_under_its_old_id() {
    let mut rig = Rig::new();
    let old = Fetch::default().request(rig.topic_id());
    rig.cluster.delete_topic(&"t".into()).unwrap();
    rig.cluster.create_topic("t", 1, 3).unwrap();
    let connection = rig.connect(1);
    let response = rig.call(connection, 17, &old);
    assert_eq!(response.responses[0].partitions[0].error_code, 100);
}
