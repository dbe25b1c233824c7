//! Answers about topics, records and offsets.

use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::Failed;
use nearside::cli::kafka::{Cluster, ProduceLoad};
use nearside::ids::{LeaderEpoch, Offset, PartitionIndex, TopicId};
use nearside::records::{BatchWriter, Compression, NewRecord};
use nearside::wire::api::{
    Isolation, TopicRef, api_versions, create_topics, describe_configs, fetch, find_coordinator,
    init_producer_id, list_offsets, metadata, offset_for_leader_epoch, produce,
};
use nearside::wire::{Request, Response};

use super::{Recorder, Socket};
use crate::lab::Outcome;

const TOPIC: &str = "golden";
const PARTITION: PartitionIndex = PartitionIndex(0);

pub(super) fn capture(cluster: &mut Cluster, recorder: &mut Recorder) -> Outcome {
    let mut socket = Socket::to(cluster, 1)?;
    cluster.create_topic(TOPIC, 1)?;
    let id = described(recorder, &mut socket)?;
    written(recorder, &mut socket, id)?;
    read(cluster, recorder, &mut socket, id)?;
    written_by_java(cluster, recorder, &mut socket)?;
    placed(recorder, &mut socket)?;
    moved(cluster, recorder, &mut socket, id)
}

/// The cluster and its topics; returns the id of ours.
fn described(recorder: &mut Recorder, socket: &mut Socket) -> Result<TopicId, Failed> {
    let versions = api_versions::Request {
        software_name: "golden".to_owned(),
        software_version: "1".to_owned(),
    };
    recorder.keep_all(socket, "served", &versions.into())?;
    for version in 5..=7 {
        let topic = |name: String| create_topics::NewTopic {
            name: name.as_str().into(),
            partitions: Some(2),
            replication: None,
            configs: vec![("retention.ms".to_owned(), "60000".to_owned())],
        };
        let request: Request = create_topics::Request {
            topics: vec![topic(format!("golden-{version}")), topic(TOPIC.to_owned())],
            timeout: Duration::from_secs(10),
            validate_only: false,
        }
        .into();
        recorder.keep(socket, version, "one-new-one-there", &request)?;
    }
    let configs: Request = describe_configs::Request {
        resources: vec![describe_configs::Resource {
            kind: describe_configs::ResourceKind::Topic,
            name: TOPIC.to_owned(),
            keys: Some(vec!["retention.ms".to_owned(), "cleanup.policy".to_owned()]),
        }],
    }
    .into();
    recorder.keep_all(socket, "topic", &configs)?;
    let named = |topics: Vec<&str>| -> Request {
        let topics = topics.into_iter().map(|name| TopicRef::Name(name.into()));
        metadata::Request {
            topics: Some(topics.collect()),
            allow_auto_creation: false,
        }
        .into()
    };
    recorder.keep_all(socket, "no-topics", &named(vec![]))?;
    recorder.keep_all(socket, "one-there-one-not", &named(vec![TOPIC, "nowhere"]))?;
    let answer = recorder.keep(socket, 13, "topic", &named(vec![TOPIC]))?;
    let Response::Metadata(answer) = answer else {
        return Err("not metadata".into());
    };
    let topic = answer.topics.first().ok_or("no topic")?;
    Ok(topic.id.ok_or("no id")?)
}

/// Batches of every codec, one refused.
fn written(recorder: &mut Recorder, socket: &mut Socket, id: TopicId) -> Outcome {
    let producer = init_producer_id::Request {
        transactional_id: None,
        transaction_timeout: Duration::from_secs(60),
        resume: None,
    };
    recorder.keep_all(socket, "new", &producer.into())?;
    for version in 7..=13 {
        let codec = ["none", "gzip", "snappy", "lz4", "zstd"][usize::try_from(version)? % 5];
        let records = batch(Compression::from_name(codec).ok_or("unknown codec")?)?;
        let row = |topic: &str, topic_id| produce::Partition {
            topic: topic.into(),
            topic_id,
            partition: PARTITION,
            records: records.clone(),
        };
        let request = |row| produce::Request {
            transactional_id: None,
            transactions_v2: false,
            acks: produce::Acks::All,
            timeout: Duration::from_secs(10),
            partitions: vec![row],
        };
        let well = request(row(TOPIC, Some(id)));
        recorder.keep(socket, version, "written", &well.into())?;
        let unknown = request(row("nowhere", Some(TopicId(uuid::Uuid::from_u128(1)))));
        recorder.keep(socket, version, "unknown-topic", &unknown.into())?;
    }
    Ok(())
}

fn batch(codec: Compression) -> Result<Bytes, Failed> {
    let mut writer = BatchWriter::new(codec);
    for n in 0..4 {
        let value = format!("value {n}, value {n}, value {n}, value {n}, value {n}");
        writer.push(&NewRecord {
            timestamp: 1_700_000_000_000 + n,
            key: Some(b"key"),
            value: Some(value.as_bytes()),
            headers: &[("name", Some(b"text")), ("null", None)],
        })?;
    }
    Ok(writer.seal()?)
}

fn fetch(topic: &str, id: Option<TopicId>, offset: i64, epoch: i32) -> fetch::Request {
    fetch::Request {
        session_id: 0,
        session_epoch: -1,
        partitions: vec![fetch::Partition {
            topic: topic.into(),
            topic_id: id,
            partition: PARTITION,
            current_leader_epoch: Some(LeaderEpoch(epoch)),
            fetch_offset: Offset(offset),
            last_fetched_epoch: None,
            max_bytes: 1 << 16,
        }],
        forgotten: Vec::new(),
        rack: None,
        isolation: Isolation::ReadCommitted,
        max_wait: Duration::from_millis(200),
        min_bytes: 1,
        max_bytes: 1 << 16,
        version_limit: None,
    }
}

fn read(cluster: &Cluster, recorder: &mut Recorder, socket: &mut Socket, id: TopicId) -> Outcome {
    let (id, nowhere) = (Some(id), Some(TopicId(uuid::Uuid::from_u128(1))));
    let hinted = fetch::Request {
        rack: Some("c".into()),
        ..fetch(TOPIC, id, 0, 0)
    };
    let session = fetch::Request {
        session_epoch: 0,
        ..fetch(TOPIC, id, 28, 0)
    };
    for (case, request) in [
        ("records", fetch(TOPIC, id, 0, 0)),
        ("hint", hinted),
        ("empty-session", session),
        ("out-of-range", fetch(TOPIC, id, 1_000, 0)),
        ("unknown-epoch", fetch(TOPIC, id, 0, 9)),
        ("unknown-topic", fetch("nowhere", nowhere, 0, 0)),
    ] {
        recorder.keep_all(socket, case, &request.into())?;
    }
    let mut follower = Socket::to(cluster, 3)?;
    let request = fetch(TOPIC, id, 0, 0);
    recorder.keep_all(&mut follower, "follower", &request.into())
}

/// Sets as the Java client writes them.
fn written_by_java(cluster: &Cluster, recorder: &mut Recorder, socket: &mut Socket) -> Outcome {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("golden-java-{codec}");
        cluster.create_topic(&topic, 1)?;
        let load = ProduceLoad::numbered(&topic, 200);
        cluster.produce(&load.with(&format!("compression.type={codec}")))?;
        let request = fetch(&topic, None, 0, 0);
        recorder.keep(socket, 12, &format!("java-{codec}"), &request.into())?;
    }
    Ok(())
}

fn placed(recorder: &mut Recorder, socket: &mut Socket) -> Outcome {
    for (case, at) in [
        ("earliest", list_offsets::At::Earliest),
        ("latest", list_offsets::At::Latest),
        ("at-time", list_offsets::At::Timestamp(1_700_000_000_002)),
        ("after-the-end", list_offsets::At::Timestamp(i64::MAX)),
    ] {
        let request = list_offsets::Request {
            isolation: Isolation::ReadUncommitted,
            partitions: vec![list_offsets::Partition {
                topic: TOPIC.into(),
                partition: PARTITION,
                current_leader_epoch: Some(LeaderEpoch(0)),
                at,
            }],
            timeout: Duration::from_secs(5),
        };
        recorder.keep_all(socket, case, &request.into())?;
    }
    for key in [TOPIC, "golden-other"] {
        let request = find_coordinator::Request {
            key: key.to_owned(),
            kind: find_coordinator::KeyKind::Group,
        };
        recorder.keep_all(socket, key, &request.into())?;
    }
    Ok(())
}

/// What the former leader says, and the new one.
fn moved(
    cluster: &mut Cluster,
    recorder: &mut Recorder,
    former: &mut Socket,
    id: TopicId,
) -> Outcome {
    cluster.move_leader(TOPIC, 0, 2)?;
    let mut leader = Socket::to(cluster, 2)?;
    let request = fetch(TOPIC, Some(id), 0, 0);
    recorder.keep_all(former, "former-leader", &request.clone().into())?;
    recorder.keep_all(&mut leader, "fenced", &request.into())?;
    for version in 7..=13 {
        let request = produce::Request {
            transactional_id: None,
            transactions_v2: false,
            acks: produce::Acks::All,
            timeout: Duration::from_secs(10),
            partitions: vec![produce::Partition {
                topic: TOPIC.into(),
                topic_id: Some(id),
                partition: PARTITION,
                records: batch(Compression::None)?,
            }],
        };
        recorder.keep(former, version, "former-leader", &request.into())?;
    }
    for (case, epoch) in [("ended", 0), ("unknown", 99)] {
        let request = offset_for_leader_epoch::Request {
            partitions: vec![offset_for_leader_epoch::Partition {
                topic: TOPIC.into(),
                partition: PARTITION,
                current_leader_epoch: None,
                leader_epoch: LeaderEpoch(epoch),
            }],
        };
        recorder.keep_all(&mut leader, case, &request.into())?;
    }
    Ok(())
}
