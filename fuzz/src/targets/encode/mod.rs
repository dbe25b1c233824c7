//! Requests of ours, encoded at every version of our table: the protocol library's broker side
//! decodes what was meant.

mod admin;
mod data;
mod group;

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::protocol::Decodable;
use nearside::ids::{LeaderEpoch, PartitionIndex, TopicId, TopicName};
use nearside::wire::{ApiKey, Request};

use crate::golden;
use crate::script::Script;

/// A request, and what a broker must understand of it at a version.
struct Case {
    request: Request,
    check: Box<dyn Fn(i16, Bytes)>,
}

impl Case {
    /// `check` gets the version and what the library's broker side read.
    fn new<T: Decodable>(request: impl Into<Request>, check: impl Fn(i16, T) + 'static) -> Self {
        let check = move |version, mut body: Bytes| {
            let read = T::decode(&mut body, version).expect("the broker side reads it");
            assert!(!body.has_remaining(), "bytes are left");
            check(version, read);
        };
        Self {
            request: request.into(),
            check: Box::new(check),
        }
    }
}

/// The first byte chooses the API, the rest what is asked.
pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let api = script.pick(&ApiKey::ALL);
    let case = case(api, &mut script);
    assert_eq!(case.request.api(), api);
    for version in golden::versions(api) {
        let carried = case.request.version_min()..=case.request.version_max();
        if carried.contains(&version) {
            let mut out = BytesMut::new();
            let encoded = case.request.encode(version, &mut out);
            encoded.expect("a version that can carry it");
            (case.check)(version, out.freeze());
        }
    }
}

fn case(api: ApiKey, script: &mut Script<'_>) -> Case {
    match api {
        ApiKey::Produce => data::produce(script),
        ApiKey::Fetch => data::fetch(script),
        ApiKey::ListOffsets => data::list_offsets(script),
        ApiKey::OffsetForLeaderEpoch => data::offset_for_leader_epoch(script),
        ApiKey::ConsumerGroupHeartbeat => group::consumer_group_heartbeat(script),
        ApiKey::OffsetCommit => group::offset_commit(script),
        ApiKey::OffsetFetch => group::offset_fetch(script),
        ApiKey::JoinGroup => group::join_group(script),
        ApiKey::SyncGroup => group::sync_group(script),
        ApiKey::Heartbeat => group::heartbeat(script),
        ApiKey::LeaveGroup => group::leave_group(script),
        ApiKey::FindCoordinator => group::find_coordinator(script),
        ApiKey::Metadata => admin::metadata(script),
        ApiKey::ApiVersions => admin::api_versions(script),
        ApiKey::CreateTopics => admin::create_topics(script),
        ApiKey::DescribeConfigs => admin::describe_configs(script),
        ApiKey::InitProducerId => admin::init_producer_id(script),
        ApiKey::SaslHandshake => admin::sasl_handshake(script),
        ApiKey::SaslAuthenticate => admin::sasl_authenticate(script),
    }
}

/// Up to seven things.
fn several<'a, T>(script: &mut Script<'a>, mut make: impl FnMut(&mut Script<'a>) -> T) -> Vec<T> {
    (0..script.below(8)).map(|_| make(script)).collect()
}

fn maybe<'a, T>(script: &mut Script<'a>, make: impl FnOnce(&mut Script<'a>) -> T) -> Option<T> {
    script.flag().then(|| make(script))
}

/// Mostly one of few names, so that rows meet.
fn topic(script: &mut Script<'_>) -> TopicName {
    match script.below(8) {
        0 => script.text().into(),
        choice => ["a", "orders", "bills"][choice % 3].into(),
    }
}

/// The id of a topic, the same for the same name.
fn id_of(topic: &TopicName) -> TopicId {
    let mix = |sum: u128, byte: u8| sum.wrapping_mul(257) ^ u128::from(byte);
    let sum = topic.as_str().bytes().fold(1_u128 << 100, mix);
    TopicId(uuid::Uuid::from_u128(sum))
}

fn partition(script: &mut Script<'_>) -> PartitionIndex {
    PartitionIndex(script.i32())
}

fn epoch(script: &mut Script<'_>) -> Option<LeaderEpoch> {
    maybe(script, |script| LeaderEpoch(script.i32() & i32::MAX))
}

/// A time that may be longer than the wire can say.
fn time(script: &mut Script<'_>) -> Duration {
    Duration::from_millis(u64::from(script.i32().cast_unsigned()) << script.below(3))
}

/// What the wire makes of it.
fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

fn epoch_number(epoch: Option<LeaderEpoch>) -> i32 {
    epoch.map_or(-1, |epoch| epoch.0)
}

/// The rows with those of one topic side by side, topics in order of first appearance.
fn grouped<T: Clone, K: PartialEq>(rows: &[T], topic: impl Fn(&T) -> &K) -> Vec<T> {
    let first = |row: &T| rows.iter().position(|it| topic(it) == topic(row));
    let mut rows_grouped = rows.to_vec();
    rows_grouped.sort_by_key(first);
    rows_grouped
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let rich: Vec<u8> = (0..160_u8).map(|byte| byte.wrapping_mul(37) | 1).collect();
    let few: Vec<u8> = (0..90_u8).map(|byte| byte % 5).collect();
    let apis = 0..ApiKey::ALL.len() as u8;
    apis.flat_map(|api| [&rich[..], &few, &[]].map(|script| [&[api][..], script].concat()))
        .collect()
}
