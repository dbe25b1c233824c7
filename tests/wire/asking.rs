//! What we encode, the library's broker side decodes as we meant it.

use std::fmt::Debug;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages as wire;
use kafka_protocol::protocol::Decodable;
use nearside::ids::{Generation, LeaderEpoch, Offset, PartitionIndex, TopicId};
use nearside::wire::api::{self, Isolation, TopicRef};
use nearside::wire::{ApiKey, Request, ours};

use crate::samples::TOPIC_ID;

/// A rich request of `api`.
pub(crate) fn request(api: ApiKey) -> Request {
    let topic_id = Some(TopicId(TOPIC_ID));
    match api {
        ApiKey::Produce => produce(topic_id).into(),
        ApiKey::Fetch => fetch(topic_id).into(),
        ApiKey::ListOffsets => list_offsets().into(),
        ApiKey::Metadata => api::metadata::Request {
            topics: Some(vec![TopicRef::Name("orders".into())]),
            allow_auto_creation: false,
        }
        .into(),
        ApiKey::OffsetCommit => offset_commit().into(),
        ApiKey::OffsetFetch => api::offset_fetch::Request {
            group: "g".into(),
            member: Some("m-1".into()),
            member_epoch: Some(Generation(4)),
            partitions: Some(vec![nearside::ids::TopicPartition::new("orders", 3)]),
            require_stable: true,
        }
        .into(),
        ApiKey::FindCoordinator => api::find_coordinator::Request {
            key: "g".to_owned(),
            kind: api::find_coordinator::KeyKind::Group,
        }
        .into(),
        ApiKey::JoinGroup => join_group().into(),
        ApiKey::SyncGroup => sync_group().into(),
        ApiKey::Heartbeat => heartbeat().into(),
        ApiKey::LeaveGroup => api::leave_group::Request {
            group: "g".into(),
            member: "m-1".into(),
            instance: None,
            reason: Some("done".to_owned()),
        }
        .into(),
        ApiKey::SaslHandshake => api::sasl_handshake::Request {
            mechanism: "PLAIN".to_owned(),
        }
        .into(),
        ApiKey::ApiVersions => api::api_versions::Request {
            software_name: "nearside".to_owned(),
            software_version: "0.1.0".to_owned(),
        }
        .into(),
        ApiKey::CreateTopics => create_topics().into(),
        ApiKey::InitProducerId => api::init_producer_id::Request {
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
            resume: Some(api::init_producer_id::Producer { id: 40, epoch: 2 }),
        }
        .into(),
        ApiKey::OffsetForLeaderEpoch => offset_for_leader_epoch().into(),
        ApiKey::DescribeConfigs => describe_configs().into(),
        ApiKey::SaslAuthenticate => api::sasl_authenticate::Request {
            token: Bytes::from_static(b"token"),
        }
        .into(),
        ApiKey::ConsumerGroupHeartbeat => crate::member::request().into(),
    }
}

pub(crate) fn fetch(topic_id: Option<TopicId>) -> api::fetch::Request {
    let row = |partition| api::fetch::Partition {
        topic: "orders".into(),
        topic_id,
        partition: PartitionIndex(partition),
        current_leader_epoch: Some(LeaderEpoch(6)),
        fetch_offset: Offset(41),
        last_fetched_epoch: Some(LeaderEpoch(5)),
        max_bytes: 1_048_576,
    };
    api::fetch::Request {
        session_id: 77,
        session_epoch: 2,
        partitions: vec![row(3), row(5)],
        forgotten: vec![api::fetch::Forgotten {
            topic: "orders".into(),
            topic_id,
            partition: PartitionIndex(4),
        }],
        rack: Some("zone-a".into()),
        isolation: Isolation::ReadCommitted,
        max_wait: Duration::from_millis(500),
        min_bytes: 1,
        max_bytes: 2_000_000,
        version_limit: None,
    }
}

fn list_offsets() -> api::list_offsets::Request {
    api::list_offsets::Request {
        isolation: Isolation::ReadCommitted,
        partitions: vec![api::list_offsets::Partition {
            topic: "orders".into(),
            partition: PartitionIndex(3),
            current_leader_epoch: Some(LeaderEpoch(6)),
            at: api::list_offsets::At::Earliest,
        }],
        timeout: Duration::from_secs(3),
    }
}

fn offset_for_leader_epoch() -> api::offset_for_leader_epoch::Request {
    api::offset_for_leader_epoch::Request {
        partitions: vec![api::offset_for_leader_epoch::Partition {
            topic: "orders".into(),
            partition: PartitionIndex(3),
            current_leader_epoch: Some(LeaderEpoch(6)),
            leader_epoch: LeaderEpoch(5),
        }],
    }
}

fn produce(topic_id: Option<TopicId>) -> api::produce::Request {
    api::produce::Request {
        transactional_id: None,
        transactions_v2: false,
        acks: api::produce::Acks::All,
        timeout: Duration::from_secs(30),
        partitions: vec![api::produce::Partition {
            topic: "orders".into(),
            topic_id,
            partition: PartitionIndex(3),
            records: Bytes::from_static(b"batch"),
        }],
    }
}

fn offset_commit() -> api::offset_commit::Request {
    let row = |topic: &str, partition| api::offset_commit::Partition {
        topic: topic.into(),
        partition: PartitionIndex(partition),
        offset: Offset(41),
        leader_epoch: None,
        metadata: "map".to_owned(),
    };
    api::offset_commit::Request {
        group: "g".into(),
        generation: Some(Generation(4)),
        member: Some("m-1".into()),
        instance: None,
        partitions: vec![row("orders", 3), row("bills", 0), row("orders", 4)],
    }
}

fn join_group() -> api::join_group::Request {
    api::join_group::Request {
        group: "g".into(),
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(300),
        member: None,
        instance: Some("static-1".to_owned()),
        protocol_type: "consumer".to_owned(),
        protocols: vec![api::join_group::Protocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(b"subscription"),
        }],
        reason: Some("new topics".to_owned()),
    }
}

fn sync_group() -> api::sync_group::Request {
    api::sync_group::Request {
        group: "g".into(),
        generation: Generation(4),
        member: "m-1".into(),
        instance: None,
        protocol_type: "consumer".to_owned(),
        protocol: "range".to_owned(),
        assignments: vec![api::sync_group::Assignment {
            member: "m-1".into(),
            assignment: Bytes::from_static(b"assignment"),
        }],
    }
}

pub(crate) fn heartbeat() -> api::heartbeat::Request {
    api::heartbeat::Request {
        group: "g".into(),
        generation: Generation(4),
        member: "m-1".into(),
        instance: None,
    }
}

fn create_topics() -> api::create_topics::Request {
    api::create_topics::Request {
        topics: vec![api::create_topics::NewTopic {
            name: "orders".into(),
            partitions: Some(6),
            replication: None,
            configs: vec![("retention.ms".to_owned(), "1".to_owned())],
        }],
        timeout: Duration::from_secs(30),
        validate_only: true,
    }
}

fn describe_configs() -> api::describe_configs::Request {
    api::describe_configs::Request {
        resources: vec![api::describe_configs::Resource {
            kind: api::describe_configs::ResourceKind::Topic,
            name: "orders".to_owned(),
            keys: None,
        }],
    }
}

/// Encodes `request` at each version of the table and hands the library's reading to `check`.
fn heard<T: Decodable + Debug>(request: &Request, versions: &[i16], check: impl Fn(i16, T)) {
    for &version in versions {
        let mut out = BytesMut::new();
        request.encode(version, &mut out).unwrap();
        let mut body = out.freeze();
        check(version, T::decode(&mut body, version).unwrap());
        assert!(
            !body.has_remaining(),
            "{} v{version} leaves bytes",
            request.api()
        );
    }
}

fn versions(api: ApiKey) -> Vec<i16> {
    (ours(api).min..=ours(api).max).collect()
}

#[test]
fn every_api_is_encoded_at_every_version_of_our_table() {
    for api in ApiKey::ALL {
        for version in versions(api) {
            let mut out = BytesMut::new();
            let encoded = request(api).encode(version, &mut out);
            assert!(encoded.is_ok(), "{api} v{version}: {encoded:?}");
            let left = left_by_the_broker_side(api, version, out.freeze());
            assert_eq!(left, Ok(0), "{api} v{version}");
        }
    }
}

/// Bytes that the library's broker side leaves of a request, or why it does not read it.
fn left_by_the_broker_side(api: ApiKey, version: i16, mut body: Bytes) -> Result<usize, String> {
    macro_rules! read {
        ($($api:ident $request:ident,)+) => {
            match api {
                $(ApiKey::$api => wire::$request::decode(&mut body, version).err(),)+
            }
        };
    }
    let refused = read! {
        Produce ProduceRequest,
        Fetch FetchRequest,
        ListOffsets ListOffsetsRequest,
        Metadata MetadataRequest,
        OffsetCommit OffsetCommitRequest,
        OffsetFetch OffsetFetchRequest,
        FindCoordinator FindCoordinatorRequest,
        JoinGroup JoinGroupRequest,
        Heartbeat HeartbeatRequest,
        LeaveGroup LeaveGroupRequest,
        SyncGroup SyncGroupRequest,
        SaslHandshake SaslHandshakeRequest,
        ApiVersions ApiVersionsRequest,
        CreateTopics CreateTopicsRequest,
        InitProducerId InitProducerIdRequest,
        OffsetForLeaderEpoch OffsetForLeaderEpochRequest,
        DescribeConfigs DescribeConfigsRequest,
        SaslAuthenticate SaslAuthenticateRequest,
        ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest,
    };
    refused.map_or(Ok(body.remaining()), |error| Err(error.to_string()))
}

#[test]
fn the_broker_side_decodes_a_fetch_as_we_meant_it() {
    let request = request(ApiKey::Fetch);
    heard(
        &request,
        &versions(ApiKey::Fetch),
        |version, fetch: wire::FetchRequest| {
            assert_eq!((fetch.session_id, fetch.session_epoch), (77, 2));
            assert_eq!(
                (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes),
                (500, 1, 2_000_000)
            );
            assert_eq!((fetch.isolation_level, fetch.replica_id.0), (1, -1));
            assert_eq!(
                fetch.rack_id.as_str(),
                if version >= 11 { "zone-a" } else { "" }
            );
            let topic = &fetch.topics[0];
            assert_eq!(
                topic.topic.0.as_str(),
                if version >= 13 { "" } else { "orders" }
            );
            assert_eq!(topic.topic_id == TOPIC_ID, version >= 13);
            let indexes: Vec<_> = topic.partitions.iter().map(|row| row.partition).collect();
            assert_eq!(indexes, [3, 5]);
            let row = &topic.partitions[0];
            assert_eq!((row.current_leader_epoch, row.fetch_offset), (6, 41));
            assert_eq!(row.last_fetched_epoch, if version >= 12 { 5 } else { -1 });
            assert_eq!(
                (row.log_start_offset, row.partition_max_bytes),
                (-1, 1_048_576)
            );
            assert_eq!(fetch.forgotten_topics_data[0].partitions, [4]);
        },
    );
}

#[test]
fn one_row_without_an_id_takes_the_whole_fetch_to_names() {
    let mut mixed = fetch(Some(TopicId(TOPIC_ID)));
    mixed.forgotten[0].topic_id = None;
    let mut out = BytesMut::new();
    assert_eq!(Request::from(mixed.clone()).version_max(), 12);
    assert!(mixed.encode(12, &mut out).is_ok());
    assert!(mixed.encode(13, &mut out).is_err());
    mixed.version_limit = Some(10);
    assert_eq!(mixed.version_max(), 10);
}

#[test]
fn a_fetch_keeps_the_order_of_its_rows() {
    let mut order = fetch(None);
    order.partitions[1].topic = "bills".into();
    let mut third = order.partitions[0].clone();
    third.partition = PartitionIndex(9);
    order.partitions.push(third);
    heard(&order.into(), &[12], |_, fetch: wire::FetchRequest| {
        let topics: Vec<_> = fetch
            .topics
            .iter()
            .map(|topic| topic.topic.0.to_string())
            .collect();
        assert_eq!(topics, ["orders", "bills", "orders"]);
    });
}

#[test]
fn the_broker_side_decodes_a_commit_grouped_by_topic() {
    let request = request(ApiKey::OffsetCommit);
    let versions = versions(ApiKey::OffsetCommit);
    heard(
        &request,
        &versions,
        |_, commit: wire::OffsetCommitRequest| {
            assert_eq!(commit.generation_id_or_member_epoch, 4);
            assert_eq!(commit.member_id.as_str(), "m-1");
            let rows: Vec<_> = commit
                .topics
                .iter()
                .map(|topic| (topic.name.0.to_string(), topic.partitions.len()))
                .collect();
            assert_eq!(rows, [("orders".to_owned(), 2), ("bills".to_owned(), 1)]);
            assert_eq!(commit.topics[0].partitions[0].committed_leader_epoch, -1);
        },
    );
}

#[test]
fn the_broker_side_decodes_group_requests_as_we_meant_them() {
    let join = request(ApiKey::JoinGroup);
    heard(
        &join,
        &versions(ApiKey::JoinGroup),
        |version, join: wire::JoinGroupRequest| {
            assert_eq!(
                (join.session_timeout_ms, join.rebalance_timeout_ms),
                (45_000, 300_000)
            );
            assert_eq!(join.member_id.as_str(), "");
            assert_eq!(join.group_instance_id.as_deref(), Some("static-1"));
            assert_eq!(join.reason.is_some(), version >= 8);
            assert_eq!(
                join.protocols[0].metadata,
                Bytes::from_static(b"subscription")
            );
        },
    );
    let sync = request(ApiKey::SyncGroup);
    heard(
        &sync,
        &versions(ApiKey::SyncGroup),
        |version, sync: wire::SyncGroupRequest| {
            assert_eq!(sync.generation_id, 4);
            assert_eq!(sync.protocol_name.is_some(), version >= 5);
            assert_eq!(
                sync.assignments[0].assignment,
                Bytes::from_static(b"assignment")
            );
        },
    );
    let fetch = request(ApiKey::OffsetFetch);
    heard(
        &fetch,
        &versions(ApiKey::OffsetFetch),
        |version, fetch: wire::OffsetFetchRequest| {
            assert_eq!(fetch.require_stable, version >= 7);
            if version >= 8 {
                assert_eq!(fetch.groups[0].group_id.0.as_str(), "g");
                assert_eq!(
                    fetch.groups[0].member_epoch,
                    if version >= 9 { 4 } else { -1 }
                );
            } else {
                assert_eq!(fetch.group_id.0.as_str(), "g");
                assert_eq!(fetch.topics.unwrap()[0].partition_indexes, [3]);
            }
        },
    );
    let find = request(ApiKey::FindCoordinator);
    let find_versions = versions(ApiKey::FindCoordinator);
    heard(
        &find,
        &find_versions,
        |version, find: wire::FindCoordinatorRequest| {
            let key = if version >= 4 {
                &find.coordinator_keys[0]
            } else {
                &find.key
            };
            assert_eq!((key.as_str(), find.key_type), ("g", 0));
        },
    );
}

#[test]
fn the_broker_side_decodes_a_produce_as_we_meant_it() {
    let request = request(ApiKey::Produce);
    heard(
        &request,
        &versions(ApiKey::Produce),
        |version, produce: wire::ProduceRequest| {
            assert_eq!((produce.acks, produce.timeout_ms), (-1, 30_000));
            let topic = &produce.topic_data[0];
            assert_eq!(topic.topic_id == TOPIC_ID, version >= 13);
            assert_eq!(
                topic.partition_data[0].records,
                Some(Bytes::from_static(b"batch"))
            );
        },
    );
    let mut transactional = produce(Some(TopicId(TOPIC_ID)));
    transactional.transactional_id = Some("t".to_owned());
    assert_eq!(transactional.version_max(), 11);
}

#[test]
fn metadata_by_id_needs_a_broker_that_serves_it() {
    let by_id = api::metadata::Request {
        topics: Some(vec![TopicRef::Id(TopicId(TOPIC_ID))]),
        allow_auto_creation: false,
    };
    assert_eq!(by_id.version_min(), 12);
    heard(
        &by_id.into(),
        &[12, 13],
        |_, metadata: wire::MetadataRequest| {
            assert_eq!(metadata.topics.unwrap()[0].topic_id, TOPIC_ID);
        },
    );
    let all = api::metadata::Request::default();
    heard(
        &all.into(),
        &versions(ApiKey::Metadata),
        |_, metadata: wire::MetadataRequest| {
            assert_eq!(metadata.topics, None);
        },
    );
}
