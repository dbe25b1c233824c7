//! Our decoders beside those of the protocol library.
//!
//! The library allocates by counts, so it sees only what ours accepted, without a tolerance used.
//! What both accept must be the same: the library writes down what it understood, and that reads
//! the same to us.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages as wire;
use kafka_protocol::protocol::{Decodable, Encodable};
use nearside::wire::{ApiKey, Oddities, Response};

use crate::golden;

pub(super) fn run(data: &[u8]) {
    let Some((choice, rest)) = super::choose(data, ApiKey::ALL.len()) else {
        return;
    };
    let api = ApiKey::ALL[choice];
    let versions: Vec<i16> = golden::versions(api).collect();
    let Some((choice, body)) = super::choose(rest, versions.len()) else {
        return;
    };
    let (version, body) = (versions[choice], Bytes::copy_from_slice(body));
    let Ok((ours, oddities)) = Response::decode(api, version, &body) else {
        return;
    };
    if oddities != Oddities::default() || is_told_apart(&ours, version, &body) {
        return;
    }
    let Some(theirs) = rewritten(api, version, body) else {
        return;
    };
    let again = Response::decode(api, version, &theirs);
    let (again, _) = again.expect("what the library wrote is sound");
    match (ours, again) {
        (Response::Fetch(ours), Response::Fetch(again)) => {
            let rows = ours.rows().zip(again.rows());
            rows.for_each(|(ours, again)| assert_eq!(ours, again, "{api} v{version}"));
            assert_eq!(ours.rows().count(), again.rows().count());
            assert_eq!(
                (ours.error, ours.session_id),
                (again.error, again.session_id)
            );
        }
        (ours, again) => assert_eq!(ours, again, "{api} v{version}"),
    }
}

/// What the library makes of a body, written down again; `None` if it refuses one of the two.
fn rewritten(api: ApiKey, version: i16, body: Bytes) -> Option<Bytes> {
    match api {
        ApiKey::Produce => both::<wire::ProduceResponse>(version, body),
        ApiKey::Fetch => both::<wire::FetchResponse>(version, body),
        ApiKey::ListOffsets => both::<wire::ListOffsetsResponse>(version, body),
        ApiKey::Metadata => both::<wire::MetadataResponse>(version, body),
        ApiKey::OffsetCommit => both::<wire::OffsetCommitResponse>(version, body),
        ApiKey::OffsetFetch => both::<wire::OffsetFetchResponse>(version, body),
        ApiKey::FindCoordinator => both::<wire::FindCoordinatorResponse>(version, body),
        ApiKey::JoinGroup => both::<wire::JoinGroupResponse>(version, body),
        ApiKey::Heartbeat => both::<wire::HeartbeatResponse>(version, body),
        ApiKey::LeaveGroup => both::<wire::LeaveGroupResponse>(version, body),
        ApiKey::SyncGroup => both::<wire::SyncGroupResponse>(version, body),
        ApiKey::SaslHandshake => both::<wire::SaslHandshakeResponse>(version, body),
        ApiKey::ApiVersions => both::<wire::ApiVersionsResponse>(version, body),
        ApiKey::CreateTopics => both::<wire::CreateTopicsResponse>(version, body),
        ApiKey::InitProducerId => both::<wire::InitProducerIdResponse>(version, body),
        ApiKey::OffsetForLeaderEpoch => both::<wire::OffsetForLeaderEpochResponse>(version, body),
        ApiKey::DescribeConfigs => both::<wire::DescribeConfigsResponse>(version, body),
        ApiKey::SaslAuthenticate => both::<wire::SaslAuthenticateResponse>(version, body),
        ApiKey::ConsumerGroupHeartbeat => {
            both::<wire::ConsumerGroupHeartbeatResponse>(version, body)
        }
    }
}

/// A structure that may be null is there for Kafka and for us if the byte before it is 0 or above,
/// for the library if it is 1.
fn is_told_apart(ours: &Response, version: i16, body: &Bytes) -> bool {
    let Response::ConsumerGroupHeartbeat(ours) = ours else {
        return false;
    };
    let theirs = wire::ConsumerGroupHeartbeatResponse::decode(&mut body.clone(), version);
    theirs.is_ok_and(|theirs| theirs.assignment.is_some() != ours.assignment.is_some())
}

fn both<T: Decodable + Encodable>(version: i16, mut body: Bytes) -> Option<Bytes> {
    let read = T::decode(&mut body, version).ok()?;
    assert!(
        !body.has_remaining(),
        "we read to the end, the library does not"
    );
    let mut out = BytesMut::new();
    read.encode(&mut out, version).ok()?;
    Some(out.freeze())
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let of = |(choice, api): (u8, ApiKey)| {
        let chosen = super::chosen(api);
        chosen
            .into_iter()
            .map(move |seed| [vec![choice], seed].concat())
    };
    let empty = [vec![0; 40]];
    (0..).zip(ApiKey::ALL).flat_map(of).chain(empty).collect()
}
