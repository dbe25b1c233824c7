//! The heartbeat of groups whose coordinator assigns (KIP-848), both ways.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages as wire;
use kafka_protocol::messages::consumer_group_heartbeat_response as reply;
use kafka_protocol::protocol::Decodable;
use nearside::ids::{Generation, PartitionIndex, TopicId};
use nearside::wire::api::consumer_group_heartbeat::{
    Request, Response, Standing, TopicIdPartition,
};
use nearside::wire::{ApiKey, ErrorCode, Flaw};

use crate::samples::{self, TOPIC_ID, text};

fn row(topic: uuid::Uuid, partition: i32) -> TopicIdPartition {
    TopicIdPartition {
        topic: TopicId(topic),
        partition: PartitionIndex(partition),
    }
}

const OTHER_ID: uuid::Uuid = uuid::Uuid::from_u128(7);

/// Every field filled.
pub(crate) fn request() -> Request {
    Request {
        group: "g".into(),
        member: "m-1".into(),
        standing: Standing::Join,
        instance: Some("static-1".to_owned()),
        rack: Some("zone-a".into()),
        rebalance_timeout: Some(Duration::from_secs(300)),
        topics: Some(vec!["orders".into()]),
        pattern: Some("bills.*".to_owned()),
        assignor: Some("uniform".to_owned()),
        owned: Some(vec![row(TOPIC_ID, 3), row(OTHER_ID, 0), row(TOPIC_ID, 4)]),
    }
}

/// Nothing but what every heartbeat says.
fn unchanged(standing: Standing) -> Request {
    Request {
        standing,
        instance: None,
        rack: None,
        rebalance_timeout: None,
        topics: None,
        pattern: None,
        assignor: None,
        owned: None,
        ..request()
    }
}

/// A rich answer.
pub(crate) fn response(throttle_ms: i32) -> wire::ConsumerGroupHeartbeatResponse {
    let topic = reply::TopicPartitions::default()
        .with_topic_id(TOPIC_ID)
        .with_partitions(vec![3, 4]);
    wire::ConsumerGroupHeartbeatResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_error_code(110)
        .with_error_message(Some(text("fenced")))
        .with_member_id(Some(text("m-1")))
        .with_member_epoch(12)
        .with_heartbeat_interval_ms(5_000)
        .with_assignment(Some(
            reply::Assignment::default().with_topic_partitions(vec![topic]),
        ))
}

fn heard(request: &Request) -> wire::ConsumerGroupHeartbeatRequest {
    let mut out = BytesMut::new();
    request.encode(1, &mut out).unwrap();
    let mut body = out.freeze();
    let heard = wire::ConsumerGroupHeartbeatRequest::decode(&mut body, 1).unwrap();
    assert!(!body.has_remaining());
    heard
}

#[test]
fn the_broker_side_decodes_a_first_heartbeat_as_we_meant_it() {
    let heard = heard(&request());
    assert_eq!((heard.group_id.as_str(), &*heard.member_id), ("g", "m-1"));
    assert_eq!(
        (heard.member_epoch, heard.rebalance_timeout_ms),
        (0, 300_000)
    );
    assert_eq!(heard.instance_id.as_deref(), Some("static-1"));
    assert_eq!(heard.rack_id.as_deref(), Some("zone-a"));
    assert_eq!(heard.subscribed_topic_names.unwrap()[0].as_str(), "orders");
    assert_eq!(heard.subscribed_topic_regex.as_deref(), Some("bills.*"));
    assert_eq!(heard.server_assignor.as_deref(), Some("uniform"));
    let owned: Vec<_> = heard
        .topic_partitions
        .unwrap()
        .into_iter()
        .map(|topic| (topic.topic_id, topic.partitions))
        .collect();
    assert_eq!(owned, [(TOPIC_ID, vec![3, 4]), (OTHER_ID, vec![0])]);
}

#[test]
fn what_did_not_change_is_not_told_again_and_epochs_say_what_a_heartbeat_is_for() {
    let standings = [
        (Standing::Join, 0),
        (Standing::Stay(Generation(9)), 9),
        (Standing::Leave, -1),
        (Standing::LeaveForNow, -2),
    ];
    for (standing, epoch) in standings {
        let heard = heard(&unchanged(standing));
        let expected = wire::ConsumerGroupHeartbeatRequest::default()
            .with_group_id(wire::GroupId(text("g")))
            .with_member_id(text("m-1"))
            .with_member_epoch(epoch)
            .with_rebalance_timeout_ms(-1)
            .with_subscribed_topic_names(None)
            .with_topic_partitions(None);
        assert_eq!(heard, expected);
    }
}

#[test]
fn an_answer_keeps_its_assignment_and_tells_none_from_empty() {
    let read = |answer: &wire::ConsumerGroupHeartbeatResponse| {
        Response::decode(1, &samples::encode(answer, 1)).unwrap()
    };
    let full = read(&response(15));
    assert_eq!(full.throttle, Duration::from_millis(15));
    assert_eq!(full.error, ErrorCode::FENCED_MEMBER_EPOCH);
    assert_eq!(full.message.as_deref(), Some("fenced"));
    assert_eq!(full.member, Some("m-1".into()));
    assert_eq!(full.epoch, Some(Generation(12)));
    assert_eq!(full.interval, Duration::from_secs(5));
    let rows = vec![row(TOPIC_ID, 3), row(TOPIC_ID, 4)];
    assert_eq!(full.assignment, Some(rows));

    let left = response(0).with_member_epoch(-1).with_member_id(None);
    let unchanged = read(&left.clone().with_assignment(None));
    assert_eq!((unchanged.epoch, unchanged.member), (None, None));
    assert_eq!(unchanged.assignment, None);
    let nothing = read(&left.with_assignment(Some(reply::Assignment::default())));
    assert_eq!(nothing.assignment, Some(Vec::new()));
}

#[test]
fn an_assignment_that_claims_two_billion_topics_is_malformed() {
    let mut body = samples::encode(&response(0).with_assignment(None), 1).to_vec();
    // The null structure and the count of tags are the last two bytes.
    body.truncate(body.len() - 2);
    body.extend([1, 0xff, 0xff, 0xff, 0xff, 0x07]);
    let error = Response::decode(1, &Bytes::from(body)).unwrap_err();
    assert_eq!(
        (error.api, error.field, error.flaw),
        (
            ApiKey::ConsumerGroupHeartbeat,
            "topic_partitions",
            Flaw::CountTooLarge
        )
    );
}

/// Found by the target `decode_vs_crate`: the protocol library takes no byte but 1 for "there".
#[test]
fn whatever_byte_from_zero_on_says_that_an_assignment_is_there() {
    let absent = samples::encode(&response(0).with_assignment(None), 1);
    // The null structure and the count of tags are the last two bytes.
    let head = absent.slice(..absent.len() - 2);
    let read = |byte: u8| {
        // No topics, no tags inside, no tags behind.
        let body = [&head[..], &[byte, 1, 0, 0]].concat();
        let assignment = Response::decode(1, &body.into()).unwrap().assignment;
        assignment.map(|rows| rows.len())
    };
    for byte in [0, 1, 7, 127] {
        assert_eq!(read(byte), Some(0), "{byte}");
    }
    for byte in [128, 255] {
        assert_eq!(read(byte), None, "{byte}");
    }
}
