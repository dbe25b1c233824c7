//! Requests that name their token, so that a frame tells whose it is.

use std::time::Duration;

use bytes::Bytes;
use nearside::ids::{Generation, Offset, PartitionIndex};
use nearside::wire::Request;
use nearside::wire::api::{self, Isolation, TopicRef};

/// One of nine kinds of request, with its token inside.
pub(super) fn request(kind: u8, token: u64) -> Request {
    let name = format!("#{token}#");
    let group = || name.as_str().into();
    match kind % 9 {
        0 => api::metadata::Request {
            topics: Some(vec![TopicRef::Name(name.as_str().into())]),
            allow_auto_creation: false,
        }
        .into(),
        1 => fetch(&name).into(),
        2 => produce(&name).into(),
        3 => api::heartbeat::Request {
            group: group(),
            generation: Generation(1),
            member: "m".into(),
            instance: None,
        }
        .into(),
        4 => join(&name).into(),
        5 => api::sync_group::Request {
            group: group(),
            generation: Generation(1),
            member: "m".into(),
            instance: None,
            protocol_type: "consumer".to_owned(),
            protocol: "range".to_owned(),
            assignments: Vec::new(),
        }
        .into(),
        6 => api::offset_commit::Request {
            group: group(),
            generation: None,
            member: None,
            instance: None,
            partitions: Vec::new(),
        }
        .into(),
        7 => api::find_coordinator::Request {
            key: name,
            kind: api::find_coordinator::KeyKind::Group,
        }
        .into(),
        _ => api::list_offsets::Request {
            isolation: Isolation::ReadUncommitted,
            partitions: vec![api::list_offsets::Partition {
                topic: name.as_str().into(),
                partition: PartitionIndex(0),
                current_leader_epoch: None,
                at: api::list_offsets::At::Latest,
            }],
            timeout: Duration::from_secs(1),
        }
        .into(),
    }
}

fn fetch(name: &str) -> api::fetch::Request {
    api::fetch::Request {
        session_id: 0,
        session_epoch: -1,
        partitions: vec![api::fetch::Partition {
            topic: name.into(),
            topic_id: None,
            partition: PartitionIndex(0),
            current_leader_epoch: None,
            fetch_offset: Offset(0),
            last_fetched_epoch: None,
            max_bytes: 1_024,
        }],
        forgotten: Vec::new(),
        rack: None,
        isolation: Isolation::ReadUncommitted,
        max_wait: Duration::from_millis(500),
        min_bytes: 1,
        max_bytes: 1_024,
        version_limit: None,
    }
}

fn produce(name: &str) -> api::produce::Request {
    api::produce::Request {
        transactional_id: None,
        transactions_v2: false,
        acks: api::produce::Acks::All,
        timeout: Duration::from_secs(30),
        partitions: vec![api::produce::Partition {
            topic: name.into(),
            topic_id: None,
            partition: PartitionIndex(0),
            records: Bytes::from_static(b"batch"),
        }],
    }
}

fn join(name: &str) -> api::join_group::Request {
    api::join_group::Request {
        group: name.into(),
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(60),
        member: None,
        instance: None,
        protocol_type: "consumer".to_owned(),
        protocols: Vec::new(),
        reason: None,
    }
}

/// How long a request may take from being handed in (wire.md 4.1 F5).
pub(super) fn time_for(request: &Request) -> Duration {
    match request {
        Request::Fetch(fetch) => fetch.max_wait + Duration::from_secs(10),
        Request::JoinGroup(join) => join.rebalance_timeout + Duration::from_secs(5),
        _ => Duration::from_secs(30),
    }
}

/// The token inside a frame; `None` for those of the setup.
pub(super) fn token_in(frame: &[u8]) -> Option<u64> {
    let mut parts = frame.split(|byte| *byte == b'#').skip(1);
    parts.find_map(|part| std::str::from_utf8(part).ok()?.parse().ok())
}
