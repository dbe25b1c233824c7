//! Answers of every API at every version of our table, built and encoded by the protocol library's
//! broker side.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as wire;
use kafka_protocol::messages::{
    api_versions_response, create_topics_response, describe_configs_response, fetch_response,
    find_coordinator_response, join_group_response, leave_group_response, list_offsets_response,
    metadata_response, offset_commit_response, offset_fetch_response,
    offset_for_leader_epoch_response, produce_response,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use nearside::wire::{ApiKey, ours};
use uuid::Uuid;

use crate::member;

/// The id of the sample topic.
pub(crate) const TOPIC_ID: Uuid = Uuid::from_u128(0x6f72_6465_7273);
/// The throttle of the samples, in milliseconds.
pub(crate) const THROTTLE_MS: i32 = 15;
/// A record set; only its bytes matter here.
pub(crate) const RECORDS: &[u8] = b"a batch and half of ano";

/// Every (API, version, body) of our table.
pub(crate) fn all() -> Vec<(ApiKey, i16, Bytes)> {
    let versions = |api| (ours(api).min..=ours(api).max).map(move |version| (api, version));
    ApiKey::ALL
        .into_iter()
        .flat_map(versions)
        .map(|(api, version)| (api, version, body(api, version, THROTTLE_MS)))
        .collect()
}

/// A rich answer of `api` at `version`, asking to be quiet for `throttle_ms`.
pub(crate) fn body(api: ApiKey, version: i16, throttle_ms: i32) -> Bytes {
    match api {
        ApiKey::Produce => encode(&produce(version, throttle_ms), version),
        ApiKey::Fetch => encode(&fetch(version, throttle_ms), version),
        ApiKey::ListOffsets => encode(&list_offsets(throttle_ms), version),
        ApiKey::Metadata => encode(&metadata(version, throttle_ms), version),
        ApiKey::OffsetCommit => encode(&offset_commit(throttle_ms), version),
        ApiKey::OffsetFetch => encode(&offset_fetch(version, throttle_ms), version),
        ApiKey::FindCoordinator => encode(&find_coordinator(version, throttle_ms), version),
        ApiKey::JoinGroup => encode(&join_group(version, throttle_ms), version),
        ApiKey::Heartbeat => encode(&heartbeat(throttle_ms), version),
        ApiKey::LeaveGroup => encode(&leave_group(throttle_ms), version),
        ApiKey::SyncGroup => encode(&sync_group(version, throttle_ms), version),
        ApiKey::SaslHandshake => encode(&sasl_handshake(), version),
        ApiKey::ApiVersions => encode(&api_versions(version), version),
        ApiKey::CreateTopics => encode(&create_topics(version, throttle_ms), version),
        ApiKey::InitProducerId => encode(&init_producer_id(throttle_ms), version),
        ApiKey::OffsetForLeaderEpoch => encode(&offset_for_leader_epoch(throttle_ms), version),
        ApiKey::DescribeConfigs => encode(&describe_configs(version, throttle_ms), version),
        ApiKey::SaslAuthenticate => encode(&sasl_authenticate(), version),
        ApiKey::ConsumerGroupHeartbeat => encode(&member::response(throttle_ms), version),
    }
}

/// Encodes any message of the library.
pub(crate) fn encode(message: &impl Encodable, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(&mut out, version).unwrap();
    out.freeze()
}

pub(crate) fn text(value: &'static str) -> StrBytes {
    StrBytes::from_static_str(value)
}

fn topic() -> wire::TopicName {
    wire::TopicName(text("orders"))
}

pub(crate) fn fetch(version: i16, throttle_ms: i32) -> wire::FetchResponse {
    let mut first = fetch_response::PartitionData::default()
        .with_partition_index(3)
        .with_high_watermark(120)
        .with_last_stable_offset(118)
        .with_log_start_offset(7)
        .with_aborted_transactions(Some(vec![
            fetch_response::AbortedTransaction::default()
                .with_producer_id(wire::ProducerId(41))
                .with_first_offset(100),
            fetch_response::AbortedTransaction::default()
                .with_producer_id(wire::ProducerId(9))
                .with_first_offset(90),
        ]))
        .with_records(Some(Bytes::from_static(RECORDS)));
    if version >= 11 {
        first = first.with_preferred_read_replica(wire::BrokerId(2));
    }
    let mut second = fetch_response::PartitionData::default()
        .with_partition_index(4)
        .with_error_code(74)
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_aborted_transactions(None)
        .with_records(None);
    if version >= 12 {
        let diverging = fetch_response::EpochEndOffset::default()
            .with_epoch(5)
            .with_end_offset(77);
        let leader = fetch_response::LeaderIdAndEpoch::default()
            .with_leader_id(wire::BrokerId(3))
            .with_leader_epoch(9);
        second = second
            .with_diverging_epoch(diverging)
            .with_current_leader(leader);
    }
    let mut row =
        fetch_response::FetchableTopicResponse::default().with_partitions(vec![first, second]);
    row = if version >= 13 {
        row.with_topic_id(TOPIC_ID)
    } else {
        row.with_topic(topic())
    };
    let mut response = wire::FetchResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_session_id(77)
        .with_responses(vec![row]);
    if version >= 16 {
        let endpoint = fetch_response::NodeEndpoint::default()
            .with_node_id(wire::BrokerId(3))
            .with_host(text("c.kafka"))
            .with_port(9094)
            .with_rack(Some(text("zone-c")));
        response = response.with_node_endpoints(vec![endpoint]);
    }
    response
}

fn produce(version: i16, throttle_ms: i32) -> wire::ProduceResponse {
    let mut row = produce_response::PartitionProduceResponse::default()
        .with_index(3)
        .with_error_code(6)
        .with_base_offset(55)
        .with_log_append_time_ms(1_700)
        .with_log_start_offset(2);
    if version >= 8 {
        let record = produce_response::BatchIndexAndErrorMessage::default()
            .with_batch_index(4)
            .with_batch_index_error_message(Some(text("no key")));
        row = row
            .with_record_errors(vec![record])
            .with_error_message(Some(text("refused\n")));
    }
    if version >= 10 {
        let leader = produce_response::LeaderIdAndEpoch::default()
            .with_leader_id(wire::BrokerId(3))
            .with_leader_epoch(9);
        row = row.with_current_leader(leader);
    }
    let mut group =
        produce_response::TopicProduceResponse::default().with_partition_responses(vec![row]);
    group = if version >= 13 {
        group.with_topic_id(TOPIC_ID)
    } else {
        group.with_name(topic())
    };
    let mut response = wire::ProduceResponse::default()
        .with_responses(vec![group])
        .with_throttle_time_ms(throttle_ms);
    if version >= 10 {
        let endpoint = produce_response::NodeEndpoint::default()
            .with_node_id(wire::BrokerId(3))
            .with_host(text("c.kafka"))
            .with_port(9094)
            .with_rack(None);
        response = response.with_node_endpoints(vec![endpoint]);
    }
    response
}

fn list_offsets(throttle_ms: i32) -> wire::ListOffsetsResponse {
    let found = list_offsets_response::ListOffsetsPartitionResponse::default()
        .with_partition_index(3)
        .with_timestamp(1_700)
        .with_offset(41)
        .with_leader_epoch(6);
    let none = list_offsets_response::ListOffsetsPartitionResponse::default()
        .with_partition_index(4)
        .with_error_code(78)
        .with_timestamp(-1)
        .with_offset(-1)
        .with_leader_epoch(-1);
    let group = list_offsets_response::ListOffsetsTopicResponse::default()
        .with_name(topic())
        .with_partitions(vec![found, none]);
    wire::ListOffsetsResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_topics(vec![group])
}

pub(crate) fn metadata(version: i16, throttle_ms: i32) -> wire::MetadataResponse {
    let broker = |id: i32, host, rack| {
        metadata_response::MetadataResponseBroker::default()
            .with_node_id(wire::BrokerId(id))
            .with_host(text(host))
            .with_port(9092)
            .with_rack(rack)
    };
    let brokers = |ids: &[i32]| ids.iter().copied().map(wire::BrokerId).collect::<Vec<_>>();
    let partition = metadata_response::MetadataResponsePartition::default()
        .with_partition_index(3)
        .with_leader_id(wire::BrokerId(1))
        .with_leader_epoch(6)
        .with_replica_nodes(brokers(&[1, 2]))
        .with_isr_nodes(brokers(&[1]))
        .with_offline_replicas(brokers(&[2]));
    let leaderless = metadata_response::MetadataResponsePartition::default()
        .with_error_code(5)
        .with_partition_index(4)
        .with_leader_id(wire::BrokerId(-1))
        .with_leader_epoch(-1);
    let mut row = metadata_response::MetadataResponseTopic::default()
        .with_name(Some(topic()))
        .with_is_internal(true)
        .with_partitions(vec![partition, leaderless]);
    if version >= 10 {
        row = row.with_topic_id(TOPIC_ID);
    }
    wire::MetadataResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_brokers(vec![
            broker(1, "a.kafka", Some(text("zone-a"))),
            broker(2, "b.kafka", None),
        ])
        .with_cluster_id(Some(text("cluster")))
        .with_controller_id(wire::BrokerId(2))
        .with_topics(vec![row])
        .with_error_code(if version >= 13 { 129 } else { 0 })
}

fn offset_commit(throttle_ms: i32) -> wire::OffsetCommitResponse {
    let row = |index, code| {
        offset_commit_response::OffsetCommitResponsePartition::default()
            .with_partition_index(index)
            .with_error_code(code)
    };
    let group = offset_commit_response::OffsetCommitResponseTopic::default()
        .with_name(topic())
        .with_partitions(vec![row(3, 0), row(4, 27)]);
    wire::OffsetCommitResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_topics(vec![group])
}

fn offset_fetch(version: i16, throttle_ms: i32) -> wire::OffsetFetchResponse {
    let response = wire::OffsetFetchResponse::default().with_throttle_time_ms(throttle_ms);
    if version < 8 {
        let row = offset_fetch_response::OffsetFetchResponsePartition::default()
            .with_partition_index(3)
            .with_committed_offset(41)
            .with_committed_leader_epoch(6)
            .with_metadata(Some(text("map")));
        let group = offset_fetch_response::OffsetFetchResponseTopic::default()
            .with_name(topic())
            .with_partitions(vec![row]);
        return response.with_topics(vec![group]).with_error_code(14);
    }
    let row = offset_fetch_response::OffsetFetchResponsePartitions::default()
        .with_partition_index(3)
        .with_committed_offset(41)
        .with_committed_leader_epoch(6)
        .with_metadata(Some(text("map")));
    let topics = offset_fetch_response::OffsetFetchResponseTopics::default()
        .with_name(topic())
        .with_partitions(vec![row]);
    let group = offset_fetch_response::OffsetFetchResponseGroup::default()
        .with_group_id(wire::GroupId(text("g")))
        .with_topics(vec![topics])
        .with_error_code(14);
    response.with_groups(vec![group])
}

fn find_coordinator(version: i16, throttle_ms: i32) -> wire::FindCoordinatorResponse {
    let response = wire::FindCoordinatorResponse::default().with_throttle_time_ms(throttle_ms);
    if version < 4 {
        return response
            .with_error_message(Some(text("fine")))
            .with_node_id(wire::BrokerId(2))
            .with_host(text("b.kafka"))
            .with_port(9093);
    }
    let row = find_coordinator_response::Coordinator::default()
        .with_key(text("g"))
        .with_node_id(wire::BrokerId(2))
        .with_host(text("b.kafka"))
        .with_port(9093)
        .with_error_message(Some(text("fine")));
    response.with_coordinators(vec![row])
}

fn join_group(version: i16, throttle_ms: i32) -> wire::JoinGroupResponse {
    let member = join_group_response::JoinGroupResponseMember::default()
        .with_member_id(text("m-1"))
        .with_group_instance_id(Some(text("static-1")))
        .with_metadata(Bytes::from_static(b"subscription"));
    let mut response = wire::JoinGroupResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_generation_id(12)
        .with_protocol_name(Some(text("range")))
        .with_leader(text("m-1"))
        .with_member_id(text("m-1"))
        .with_members(vec![member]);
    if version >= 7 {
        response = response.with_protocol_type(Some(text("consumer")));
    }
    if version >= 9 {
        response = response.with_skip_assignment(true);
    }
    response
}

fn heartbeat(throttle_ms: i32) -> wire::HeartbeatResponse {
    wire::HeartbeatResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_error_code(27)
}

fn leave_group(throttle_ms: i32) -> wire::LeaveGroupResponse {
    let member = leave_group_response::MemberResponse::default()
        .with_member_id(text("m-1"))
        .with_group_instance_id(None)
        .with_error_code(25);
    wire::LeaveGroupResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_members(vec![member])
}

fn sync_group(version: i16, throttle_ms: i32) -> wire::SyncGroupResponse {
    let response = wire::SyncGroupResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_error_code(22)
        .with_assignment(Bytes::from_static(b"assignment"));
    if version < 5 {
        return response;
    }
    response
        .with_protocol_type(Some(text("consumer")))
        .with_protocol_name(Some(text("range")))
}

fn sasl_handshake() -> wire::SaslHandshakeResponse {
    wire::SaslHandshakeResponse::default()
        .with_error_code(33)
        .with_mechanisms(vec![text("PLAIN"), text("SCRAM-SHA-512")])
}

fn sasl_authenticate() -> wire::SaslAuthenticateResponse {
    wire::SaslAuthenticateResponse::default()
        .with_error_code(58)
        .with_error_message(Some(text("no")))
        .with_auth_bytes(Bytes::from_static(b"token"))
        .with_session_lifetime_ms(60_000)
}

/// What a broker serves that speaks all of our table.
pub(crate) fn api_versions(version: i16) -> wire::ApiVersionsResponse {
    let rows = ApiKey::ALL
        .into_iter()
        .map(|api| range(api, ours(api).min, ours(api).max));
    let response = wire::ApiVersionsResponse::default().with_api_keys(rows.collect());
    let response = if version >= 1 {
        response.with_throttle_time_ms(0)
    } else {
        response
    };
    if version < 3 {
        return response;
    }
    let feature = api_versions_response::FinalizedFeatureKey::default()
        .with_name(text("transaction.version"))
        .with_max_version_level(2)
        .with_min_version_level(1);
    response
        .with_finalized_features_epoch(8)
        .with_finalized_features(vec![feature])
}

pub(crate) fn range(api: ApiKey, min: i16, max: i16) -> api_versions_response::ApiVersion {
    api_versions_response::ApiVersion::default()
        .with_api_key(api.code())
        .with_min_version(min)
        .with_max_version(max)
}

fn create_topics(version: i16, throttle_ms: i32) -> wire::CreateTopicsResponse {
    let config = create_topics_response::CreatableTopicConfigs::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("1")))
        .with_config_source(1);
    let mut row = create_topics_response::CreatableTopicResult::default()
        .with_name(topic())
        .with_error_code(36)
        .with_error_message(Some(text("exists")))
        .with_num_partitions(6)
        .with_replication_factor(3)
        .with_configs(Some(vec![config]));
    if version >= 7 {
        row = row.with_topic_id(TOPIC_ID);
    }
    wire::CreateTopicsResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_topics(vec![row])
}

fn init_producer_id(throttle_ms: i32) -> wire::InitProducerIdResponse {
    wire::InitProducerIdResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_producer_id(wire::ProducerId(4_000))
        .with_producer_epoch(2)
}

fn offset_for_leader_epoch(throttle_ms: i32) -> wire::OffsetForLeaderEpochResponse {
    let row = |partition, code, epoch, end| {
        offset_for_leader_epoch_response::EpochEndOffset::default()
            .with_partition(partition)
            .with_error_code(code)
            .with_leader_epoch(epoch)
            .with_end_offset(end)
    };
    let group = offset_for_leader_epoch_response::OffsetForLeaderTopicResult::default()
        .with_topic(topic())
        .with_partitions(vec![row(3, 0, 5, 77), row(4, 74, -1, -1)]);
    wire::OffsetForLeaderEpochResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_topics(vec![group])
}

fn describe_configs(version: i16, throttle_ms: i32) -> wire::DescribeConfigsResponse {
    let synonym = describe_configs_response::DescribeConfigsSynonym::default()
        .with_name(text("min.insync.replicas"))
        .with_value(Some(text("1")))
        .with_source(5);
    let mut entry = describe_configs_response::DescribeConfigsResourceResult::default()
        .with_name(text("min.insync.replicas"))
        .with_value(Some(text("2")))
        .with_read_only(true)
        .with_config_source(1)
        .with_is_sensitive(false)
        .with_synonyms(vec![synonym]);
    if version >= 3 {
        entry = entry
            .with_config_type(3)
            .with_documentation(Some(text("how many")));
    }
    let row = describe_configs_response::DescribeConfigsResult::default()
        .with_error_code(0)
        .with_error_message(Some(text("")))
        .with_resource_type(2)
        .with_resource_name(text("orders"))
        .with_configs(vec![entry]);
    wire::DescribeConfigsResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_results(vec![row])
}
