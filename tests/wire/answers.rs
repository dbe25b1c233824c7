//! What the library's broker side encodes, our decoders read back with the same content.

use std::time::Duration;

use bytes::Bytes;
use nearside::ids::{
    BrokerId, Generation, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicName,
};
use nearside::wire::api::{self, CurrentLeader, Endpoint, TopicRef};
use nearside::wire::{ApiKey, ErrorCode, Oddities, Response, ours};

use crate::samples::{self, RECORDS, THROTTLE_MS, TOPIC_ID};

const THROTTLE: Duration = Duration::from_millis(15);

/// Decodes the sample of `api` at each version and hands it to `check`, whole and without oddities.
fn at_each_version(api: ApiKey, check: impl Fn(i16, Response)) {
    for version in ours(api).min..=ours(api).max {
        let body = samples::body(api, version, THROTTLE_MS);
        let (response, oddities) = Response::decode(api, version, &body)
            .unwrap_or_else(|error| panic!("{error} in {body:?}"));
        assert_eq!(oddities, Oddities::default(), "{api} v{version}");
        let untold = matches!(
            api,
            ApiKey::SaslHandshake | ApiKey::SaslAuthenticate | ApiKey::ApiVersions
        );
        assert_eq!(
            response.throttle(),
            if untold { Duration::ZERO } else { THROTTLE }
        );
        check(version, response);
    }
}

fn orders() -> TopicName {
    "orders".into()
}

fn endpoint(id: i32, host: &str, port: u16, rack: Option<&str>) -> Endpoint {
    let rack = rack.map(Into::into);
    Endpoint {
        broker: BrokerId(id),
        host: host.into(),
        port,
        rack,
    }
}

#[test]
fn every_sample_is_decoded_whole_at_every_version() {
    let mut count = 0;
    for (api, version, body) in samples::all() {
        let (response, oddities) = Response::decode(api, version, &body).unwrap();
        assert_eq!(response.api(), api);
        assert_eq!(oddities, Oddities::default(), "{api} v{version}");
        count += 1;
    }
    assert_eq!(count, 74);
}

/// Found by `decode_vs_crate`: the library writes the padded count of tags in its shortest form.
#[test]
fn aborted_transactions_are_the_same_however_their_counts_are_padded() {
    let plain = samples::body(ApiKey::Fetch, 12, THROTTLE_MS);
    let entry = |tags: &[u8]| [&100_i64.to_be_bytes()[..], tags].concat();
    let mut windows = plain.windows(9);
    let at = windows.position(|window| window == entry(&[0])).unwrap();
    let (before, after) = (&plain[..at], &plain[at + 9..]);
    let padded = [before, &entry(&[0x80, 0])[..], after].concat();
    let read = |body: Vec<u8>| {
        let (response, oddities) = Response::decode(ApiKey::Fetch, 12, &body.into()).unwrap();
        assert_eq!(oddities, Oddities::default());
        let Response::Fetch(response) = response else {
            panic!("another API")
        };
        response.rows().next().unwrap()
    };
    assert_eq!(read(padded), read(plain.to_vec()));
}

#[test]
fn fetch_rows_are_slices_of_the_frame() {
    at_each_version(ApiKey::Fetch, |version, response| {
        let Response::Fetch(response) = response else {
            panic!("another API")
        };
        assert_eq!((response.throttle, response.session_id), (THROTTLE, 77));
        assert_eq!(response.row_count(), 2);
        let rows: Vec<_> = response.rows().collect();
        let by_id = TopicRef::Id(TopicId(TOPIC_ID));
        let topic = if version >= 13 {
            by_id
        } else {
            TopicRef::Name(orders())
        };
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.topic == topic), "v{version}");

        let first = &rows[0];
        assert_eq!(first.partition, PartitionIndex(3));
        assert_eq!(first.error, ErrorCode::NONE);
        assert_eq!(first.high_watermark, Some(Offset(120)));
        assert_eq!(first.last_stable_offset, Some(Offset(118)));
        assert_eq!(first.log_start, Some(Offset(7)));
        assert_eq!(
            first.preferred_read_replica,
            (version >= 11).then_some(BrokerId(2))
        );
        assert_eq!(first.records, Bytes::from_static(RECORDS));
        let aborted: Vec<_> = first
            .aborted
            .iter()
            .map(|entry| (entry.producer_id, entry.first_offset.0))
            .collect();
        assert_eq!(aborted, [(41, 100), (9, 90)]);
        assert_eq!((first.diverging_epoch, first.current_leader), (None, None));

        let second = &rows[1];
        assert_eq!(second.error, ErrorCode::FENCED_LEADER_EPOCH);
        assert_eq!(second.high_watermark, None);
        assert!(second.aborted.is_empty() && second.records.is_empty());
        let leader = CurrentLeader {
            leader: Some(BrokerId(3)),
            epoch: Some(LeaderEpoch(9)),
        };
        assert_eq!(second.current_leader, (version >= 12).then_some(leader));
        let diverging = second
            .diverging_epoch
            .map(|end| (end.epoch.0, end.end_offset.0));
        assert_eq!(diverging, (version >= 12).then_some((5, 77)));
        let endpoints = endpoint(3, "c.kafka", 9094, Some("zone-c"));
        assert_eq!(
            response.endpoints,
            if version >= 16 {
                vec![endpoints]
            } else {
                vec![]
            }
        );
    });
}

#[test]
fn a_fetch_row_copies_nothing_out_of_the_frame() {
    let body = samples::body(ApiKey::Fetch, 13, 0);
    let frame = body.as_ptr_range();
    let response = api::fetch::Response::decode(13, &body).unwrap();
    let records = response.rows().next().unwrap().records;
    assert!(frame.contains(&records.as_ptr()));
}

#[test]
fn produce_rows_carry_record_errors_and_hints() {
    at_each_version(ApiKey::Produce, |version, response| {
        let Response::Produce(response) = response else {
            panic!("another API")
        };
        assert_eq!(response.throttle, THROTTLE);
        let row = &response.partitions[0];
        let by_id = TopicRef::Id(TopicId(TOPIC_ID));
        assert_eq!(
            row.topic,
            if version >= 13 {
                by_id
            } else {
                TopicRef::Name(orders())
            }
        );
        assert_eq!(row.error, ErrorCode::NOT_LEADER_OR_FOLLOWER);
        assert_eq!(row.base_offset, Some(Offset(55)));
        assert_eq!(row.log_append_time_ms, Some(1_700));
        assert_eq!(row.log_start, Some(Offset(2)));
        assert_eq!(row.record_errors.len(), usize::from(version >= 8));
        // Control characters of a broker's words reach no terminal.
        assert_eq!(
            row.message.as_deref(),
            (version >= 8).then_some("refused\\n")
        );
        let leader = CurrentLeader {
            leader: Some(BrokerId(3)),
            epoch: Some(LeaderEpoch(9)),
        };
        assert_eq!(row.current_leader, (version >= 10).then_some(leader));
        assert_eq!(response.endpoints.len(), usize::from(version >= 10));
    });
}

#[test]
fn offsets_found_and_not_found_stay_distinct() {
    at_each_version(ApiKey::ListOffsets, |_, response| {
        let Response::ListOffsets(response) = response else {
            panic!("another API")
        };
        let rows: Vec<_> = response
            .partitions
            .iter()
            .map(|row| {
                (
                    row.partition.0,
                    row.error.0,
                    row.timestamp,
                    row.offset,
                    row.leader_epoch,
                )
            })
            .collect();
        let found = (3, 0, Some(1_700), Some(Offset(41)), Some(LeaderEpoch(6)));
        assert_eq!(rows, [found, (4, 78, None, None, None)]);
        assert!(response.partitions.iter().all(|row| row.topic == orders()));
    });
}

#[test]
fn metadata_tells_brokers_topics_and_leaders() {
    at_each_version(ApiKey::Metadata, |version, response| {
        let Response::Metadata(response) = response else {
            panic!("another API")
        };
        let brokers = [
            endpoint(1, "a.kafka", 9092, Some("zone-a")),
            endpoint(2, "b.kafka", 9092, None),
        ];
        assert_eq!(response.brokers, brokers);
        assert_eq!(response.cluster_id.as_deref(), Some("cluster"));
        assert_eq!(response.controller, Some(BrokerId(2)));
        assert_eq!(response.error.0, if version >= 13 { 129 } else { 0 });
        let topic = &response.topics[0];
        assert_eq!(topic.name, Some(orders()));
        assert_eq!(topic.id, (version >= 10).then_some(TopicId(TOPIC_ID)));
        assert!(topic.internal);
        let led = &topic.partitions[0];
        assert_eq!(
            (led.leader, led.leader_epoch),
            (Some(BrokerId(1)), Some(LeaderEpoch(6)))
        );
        assert_eq!(led.replicas, [BrokerId(1), BrokerId(2)]);
        assert_eq!(
            (led.isr.as_slice(), led.offline.as_slice()),
            (&[BrokerId(1)][..], &[BrokerId(2)][..])
        );
        let leaderless = &topic.partitions[1];
        assert_eq!((leaderless.leader, leaderless.leader_epoch), (None, None));
        assert_eq!(leaderless.error, ErrorCode::LEADER_NOT_AVAILABLE);
    });
}

#[test]
fn committed_offsets_come_back_from_every_shape_of_the_answer() {
    at_each_version(ApiKey::OffsetFetch, |_, response| {
        let Response::OffsetFetch(response) = response else {
            panic!("another API")
        };
        assert_eq!(response.error, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        let row = &response.partitions[0];
        assert_eq!((row.topic.clone(), row.partition.0), (orders(), 3));
        assert_eq!(
            (row.offset, row.leader_epoch),
            (Some(Offset(41)), Some(LeaderEpoch(6)))
        );
        assert_eq!(row.metadata, "map");
    });
    at_each_version(ApiKey::OffsetCommit, |_, response| {
        let Response::OffsetCommit(response) = response else {
            panic!("another API")
        };
        let rows: Vec<_> = response
            .partitions
            .iter()
            .map(|row| (row.partition.0, row.error.0))
            .collect();
        assert_eq!(rows, [(3, 0), (4, 27)]);
    });
}

#[test]
fn group_answers_keep_their_members_and_errors() {
    at_each_version(ApiKey::JoinGroup, |version, response| {
        let Response::JoinGroup(response) = response else {
            panic!("another API")
        };
        assert_eq!(response.generation, Some(Generation(12)));
        assert_eq!(response.protocol.as_deref(), Some("range"));
        assert_eq!(response.leader, Some("m-1".into()));
        assert_eq!(response.member, Some("m-1".into()));
        assert_eq!(response.skip_assignment, version >= 9);
        assert_eq!(response.members[0].instance.as_deref(), Some("static-1"));
        assert_eq!(
            response.members[0].metadata,
            Bytes::from_static(b"subscription")
        );
    });
    at_each_version(ApiKey::SyncGroup, |_, response| {
        let Response::SyncGroup(response) = response else {
            panic!("another API")
        };
        assert_eq!(response.error, ErrorCode::ILLEGAL_GENERATION);
        assert_eq!(response.assignment, Bytes::from_static(b"assignment"));
    });
    at_each_version(ApiKey::Heartbeat, |_, response| {
        let error = ErrorCode::REBALANCE_IN_PROGRESS;
        assert_eq!(
            response,
            api::heartbeat::Response {
                throttle: THROTTLE,
                error
            }
            .into()
        );
    });
    at_each_version(ApiKey::LeaveGroup, |_, response| {
        let error = ErrorCode::UNKNOWN_MEMBER_ID;
        assert_eq!(
            response,
            api::leave_group::Response {
                throttle: THROTTLE,
                error
            }
            .into()
        );
    });
    at_each_version(ApiKey::FindCoordinator, |_, response| {
        let Response::FindCoordinator(response) = response else {
            panic!("another API")
        };
        assert_eq!(
            response.coordinator,
            Some(endpoint(2, "b.kafka", 9093, None))
        );
        assert_eq!(response.message.as_deref(), Some("fine"));
    });
}

#[test]
fn the_remaining_answers_keep_their_content() {
    at_each_version(ApiKey::OffsetForLeaderEpoch, |_, response| {
        let Response::OffsetForLeaderEpoch(response) = response else {
            panic!("another API")
        };
        let rows: Vec<_> = response
            .partitions
            .iter()
            .map(|row| {
                (
                    row.partition.0,
                    row.error.0,
                    row.leader_epoch,
                    row.end_offset,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                (3, 0, Some(LeaderEpoch(5)), Some(Offset(77))),
                (4, 74, None, None)
            ]
        );
    });
    at_each_version(ApiKey::InitProducerId, |_, response| {
        let Response::InitProducerId(response) = response else {
            panic!("another API")
        };
        let producer = api::init_producer_id::Producer {
            id: 4_000,
            epoch: 2,
        };
        assert_eq!(response.producer, Some(producer));
    });
    at_each_version(ApiKey::CreateTopics, |version, response| {
        let Response::CreateTopics(response) = response else {
            panic!("another API")
        };
        let row = &response.topics[0];
        assert_eq!(row.id, (version >= 7).then_some(TopicId(TOPIC_ID)));
        assert_eq!((row.partitions, row.replication), (Some(6), Some(3)));
        assert_eq!(row.error, ErrorCode::TOPIC_ALREADY_EXISTS);
    });
    at_each_version(ApiKey::DescribeConfigs, |_, response| {
        let Response::DescribeConfigs(response) = response else {
            panic!("another API")
        };
        let entry = &response.resources[0].entries[0];
        assert_eq!(entry.name, "min.insync.replicas");
        assert_eq!(entry.value.as_deref(), Some("2"));
        assert!(entry.read_only && !entry.sensitive);
    });
}

#[test]
fn answers_of_the_setup_keep_their_content() {
    at_each_version(ApiKey::ApiVersions, |version, response| {
        let Response::ApiVersions(response) = response else {
            panic!("another API")
        };
        assert_eq!(response.apis.len(), ApiKey::ALL.len());
        assert_eq!(response.features_epoch, (version >= 3).then_some(8));
        assert_eq!(response.features.len(), usize::from(version >= 3));
    });
    at_each_version(ApiKey::SaslHandshake, |_, response| {
        let Response::SaslHandshake(response) = response else {
            panic!("another API")
        };
        assert_eq!(response.mechanisms, ["PLAIN", "SCRAM-SHA-512"]);
    });
    at_each_version(ApiKey::SaslAuthenticate, |_, response| {
        let Response::SaslAuthenticate(response) = response else {
            panic!("another API")
        };
        assert_eq!(response.lifetime, Some(Duration::from_secs(60)));
        assert_eq!(response.token, Bytes::from_static(b"token"));
        assert!(
            !format!("{response:?}").contains("token\\\""),
            "{response:?}"
        );
    });
}
