//! Produce: acknowledgements, idempotence as seen on the wire, refusals.

use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    InitProducerIdRequest, ProduceRequest, ProduceResponse, TopicName as WireTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::client::{Rig, t0};
use crate::embedded::{Record, Settings, encode_batch};
use crate::ids::BrokerId;

fn request(rig: &Rig, acks: i16, records: Bytes, version: i16) -> ProduceRequest {
    let row = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(records));
    let topic = TopicProduceData::default().with_partition_data(vec![row]);
    let topic = if version >= 13 {
        topic.with_topic_id(rig.topic_id())
    } else {
        topic.with_name(WireTopic(StrBytes::from_static_str("t")))
    };
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(1_500)
        .with_topic_data(vec![topic])
}

fn row(response: Option<ProduceResponse>) -> PartitionProduceResponse {
    response.expect("an answer").responses[0].partition_responses[0].clone()
}

#[test]
fn all_waits_for_every_in_sync_replica_and_one_does_not() {
    let mut rig = Rig::new();
    rig.cluster.hold_replica(&t0(), BrokerId(3), true).unwrap();
    let connection = rig.connect(1);
    let batch = encode_batch(&[Record::of("x")]);
    let one = rig.call(connection, 12, &request(&rig, 1, batch.clone(), 12));
    assert_eq!(row(Some(one)).base_offset, 10);
    let all = request(&rig, -1, batch, 12);
    rig.send(connection, 12, &all);
    rig.run_for(100);
    assert!(rig.answer::<ProduceResponse>(connection, 12).is_none());
    rig.cluster.hold_replica(&t0(), BrokerId(3), false).unwrap();
    rig.run_for(5);
    let row = row(rig.answer(connection, 12));
    assert_eq!((row.error_code, row.base_offset), (0, 11));
}

#[test]
fn all_times_out_while_a_replica_lags() {
    let mut rig = Rig::new();
    rig.cluster.hold_replica(&t0(), BrokerId(3), true).unwrap();
    let connection = rig.connect(1);
    let all = request(&rig, -1, encode_batch(&[Record::of("x")]), 13);
    rig.send(connection, 13, &all);
    rig.run_for(1_500);
    assert_eq!(row(rig.answer(connection, 13)).error_code, 7);
}

#[test]
fn too_small_an_isr_refuses_all_but_not_one() {
    let mut rig = Rig::of(Settings {
        min_in_sync: 2,
        ..Settings::default()
    });
    rig.cluster
        .create_topic_on("t", &[vec![BrokerId(1)]])
        .unwrap();
    let connection = rig.connect(1);
    let batch = encode_batch(&[Record::of("x")]);
    let all = request(&rig, -1, batch.clone(), 13);
    assert_eq!(row(Some(rig.call(connection, 13, &all))).error_code, 19);
    let one = request(&rig, 1, batch, 13);
    assert_eq!(row(Some(rig.call(connection, 13, &one))).error_code, 0);
}

/// KIP-951.
#[test]
fn a_follower_names_the_leader() {
    let mut rig = Rig::new();
    let connection = rig.connect(2);
    let all = request(&rig, -1, encode_batch(&[Record::of("x")]), 13);
    let response = rig.call(connection, 13, &all);
    assert_eq!(response.node_endpoints[0].node_id.0, 1);
    let row = row(Some(response));
    assert_eq!(row.error_code, 6);
    assert_eq!(
        (
            row.current_leader.leader_id.0,
            row.current_leader.leader_epoch
        ),
        (1, 5)
    );
}

#[test]
fn damaged_batches_are_refused_and_leave_no_trace() {
    let mut rig = Rig::new();
    let connection = rig.connect(1);
    let mut damaged = encode_batch(&[Record::of("x")]).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let two = [
        encode_batch(&[Record::of("a")]),
        encode_batch(&[Record::of("b")]),
    ]
    .concat();
    for (records, code) in [(damaged, 2), (two, 87), (Vec::new(), 87)] {
        let request = request(&rig, 1, records.into(), 13);
        assert_eq!(
            row(Some(rig.call(connection, 13, &request))).error_code,
            code
        );
    }
    assert_eq!(rig.cluster.partition(&t0()).unwrap().log_end.0, 10);
}

#[test]
fn without_acknowledgement_there_is_no_answer_and_an_error_closes() {
    let mut rig = Rig::new();
    let connection = rig.connect(1);
    let none = request(&rig, 0, encode_batch(&[Record::of("x")]), 13);
    rig.send(connection, 13, &none);
    assert!(rig.answer::<ProduceResponse>(connection, 13).is_none());
    assert_eq!(rig.cluster.partition(&t0()).unwrap().log_end.0, 11);
    let follower = rig.connect(2);
    rig.send(follower, 13, &none);
    assert_eq!(rig.closed, [follower]);
}

#[test]
fn a_producer_id_is_fresh_and_resuming_raises_its_epoch() {
    let mut rig = Rig::new();
    let connection = rig.connect(3);
    let fresh = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id(kafka_protocol::messages::ProducerId(-1))
        .with_producer_epoch(-1);
    let first = rig.call(connection, 4, &fresh);
    let second = rig.call(connection, 4, &fresh);
    assert_ne!(first.producer_id, second.producer_id);
    let again = fresh
        .with_producer_id(first.producer_id)
        .with_producer_epoch(0);
    let resumed = rig.call(connection, 4, &again);
    assert_eq!(
        (resumed.producer_id, resumed.producer_epoch),
        (first.producer_id, 1)
    );
}
