//! Requests about records.

use bytes::Bytes;
use kafka_protocol::messages as wire;
use nearside::ids::{LeaderEpoch, Offset, PartitionIndex, TopicName};
use nearside::wire::api::{self, Isolation};

use super::{
    Case, epoch, epoch_number, grouped, id_of, maybe, millis, partition, several, time, topic,
};
use crate::script::Script;

/// A topic as the wire names it: by name or by id.
type Named = (String, uuid::Uuid);

fn named(topic: &TopicName, by_id: bool) -> Named {
    if by_id {
        (String::new(), id_of(topic).0)
    } else {
        (topic.as_str().to_owned(), uuid::Uuid::nil())
    }
}

fn isolation(script: &mut Script<'_>) -> Isolation {
    if script.flag() {
        Isolation::ReadCommitted
    } else {
        Isolation::ReadUncommitted
    }
}

fn level(isolation: Isolation) -> i8 {
    match isolation {
        Isolation::ReadUncommitted => 0,
        Isolation::ReadCommitted => 1,
    }
}

pub(super) fn produce(script: &mut Script<'_>) -> Case {
    let with_ids = script.flag();
    let acks = script.flag();
    let request = api::produce::Request {
        transactional_id: maybe(script, Script::text),
        transactions_v2: script.flag(),
        acks: if acks {
            api::produce::Acks::All
        } else {
            api::produce::Acks::Leader
        },
        timeout: time(script),
        partitions: several(script, |script| {
            let topic = topic(script);
            api::produce::Partition {
                topic_id: with_ids.then(|| id_of(&topic)),
                topic,
                partition: partition(script),
                records: Bytes::copy_from_slice(script.field()),
            }
        }),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::ProduceRequest| {
        let id = read.transactional_id.as_ref().map(|id| id.as_str());
        assert_eq!(id, meant.transactional_id.as_deref());
        assert_eq!(read.acks, if acks { -1 } else { 1 });
        assert_eq!(read.timeout_ms, millis(meant.timeout));
        let rows = read.topic_data.iter().flat_map(|topic| {
            let name = (topic.name.to_string(), topic.topic_id);
            let rows = topic.partition_data.iter();
            rows.map(move |row| (name.clone(), row.index, row.records.clone()))
        });
        let expected = grouped(&meant.partitions, |row| &row.topic);
        let expected = expected.into_iter().map(|row| {
            let name = named(&row.topic, version >= 13);
            (name, row.partition.0, Some(row.records))
        });
        assert!(rows.eq(expected), "v{version}: {read:?}");
    })
}

pub(super) fn fetch(script: &mut Script<'_>) -> Case {
    let with_ids = script.flag();
    let request = api::fetch::Request {
        session_id: script.i32(),
        session_epoch: script.i32(),
        partitions: several(script, |script| {
            let topic = topic(script);
            api::fetch::Partition {
                topic_id: with_ids.then(|| id_of(&topic)),
                topic,
                partition: partition(script),
                current_leader_epoch: epoch(script),
                fetch_offset: Offset(script.i64()),
                last_fetched_epoch: epoch(script),
                max_bytes: script.i32(),
            }
        }),
        forgotten: several(script, |script| {
            let topic = topic(script);
            api::fetch::Forgotten {
                topic_id: with_ids.then(|| id_of(&topic)),
                topic,
                partition: partition(script),
            }
        }),
        rack: maybe(script, |script| script.text().into()),
        isolation: isolation(script),
        max_wait: time(script),
        min_bytes: script.i32(),
        max_bytes: script.i32(),
        version_limit: maybe(script, |script| 10 + script.below(9) as i16),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::FetchRequest| {
        fetch_head(&meant, version, &read);
        let rows = read.topics.iter().flat_map(|topic| {
            let name = (topic.topic.to_string(), topic.topic_id);
            topic.partitions.iter().map(move |row| {
                let epochs = (row.current_leader_epoch, row.last_fetched_epoch);
                assert_eq!(row.log_start_offset, -1);
                let numbers = (row.fetch_offset, row.partition_max_bytes);
                (name.clone(), row.partition, epochs, numbers)
            })
        });
        // The broker fills rows in this order.
        let expected = meant.partitions.iter().map(|row| {
            let last = row.last_fetched_epoch.filter(|_| version >= 12);
            let epochs = (epoch_number(row.current_leader_epoch), epoch_number(last));
            let name = named(&row.topic, version >= 13);
            let numbers = (row.fetch_offset.0, row.max_bytes);
            (name, row.partition.0, epochs, numbers)
        });
        assert!(rows.eq(expected), "v{version}: {read:?}");
    })
}

fn fetch_head(meant: &api::fetch::Request, version: i16, read: &wire::FetchRequest) {
    assert_eq!(read.replica_id.0, -1);
    assert_eq!(read.session_id, meant.session_id);
    assert_eq!(read.session_epoch, meant.session_epoch);
    assert_eq!(read.isolation_level, level(meant.isolation));
    assert_eq!(read.max_wait_ms, millis(meant.max_wait));
    assert_eq!(
        (read.min_bytes, read.max_bytes),
        (meant.min_bytes, meant.max_bytes)
    );
    let rack = meant.rack.as_ref().filter(|_| version >= 11);
    assert_eq!(read.rack_id.as_str(), rack.map_or("", |rack| rack.as_str()));
    let forgotten = read.forgotten_topics_data.iter().flat_map(|topic| {
        let name = (topic.topic.to_string(), topic.topic_id);
        topic.partitions.iter().map(move |row| (name.clone(), *row))
    });
    let expected = meant
        .forgotten
        .iter()
        .map(|row| (named(&row.topic, version >= 13), row.partition.0));
    assert!(forgotten.eq(expected), "v{version}: {read:?}");
}

pub(super) fn list_offsets(script: &mut Script<'_>) -> Case {
    let request = api::list_offsets::Request {
        isolation: isolation(script),
        partitions: several(script, |script| api::list_offsets::Partition {
            topic: topic(script),
            partition: partition(script),
            current_leader_epoch: epoch(script),
            at: match script.below(8) {
                0 => api::list_offsets::At::MaxTimestamp,
                1..3 => api::list_offsets::At::Earliest,
                3..5 => api::list_offsets::At::Latest,
                _ => api::list_offsets::At::Timestamp(script.i64()),
            },
        }),
        timeout: time(script),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::ListOffsetsRequest| {
        assert_eq!(read.replica_id.0, -1);
        assert_eq!(read.isolation_level, level(meant.isolation));
        let timeout = if version >= 10 {
            millis(meant.timeout)
        } else {
            0
        };
        assert_eq!(read.timeout_ms, timeout);
        let rows = read.topics.iter().flat_map(|topic| {
            let name = topic.name.to_string();
            topic.partitions.iter().map(move |row| {
                let epoch = row.current_leader_epoch;
                (name.clone(), row.partition_index, epoch, row.timestamp)
            })
        });
        let expected = grouped(&meant.partitions, |row| &row.topic);
        let expected = expected.into_iter().map(|row| {
            let at = match row.at {
                api::list_offsets::At::Latest => -1,
                api::list_offsets::At::Earliest => -2,
                api::list_offsets::At::MaxTimestamp => -3,
                api::list_offsets::At::Timestamp(ms) => ms,
            };
            let epoch = epoch_number(row.current_leader_epoch);
            (row.topic.as_str().to_owned(), row.partition.0, epoch, at)
        });
        assert!(rows.eq(expected), "v{version}: {read:?}");
    })
}

pub(super) fn offset_for_leader_epoch(script: &mut Script<'_>) -> Case {
    let request = api::offset_for_leader_epoch::Request {
        partitions: several(script, |script| api::offset_for_leader_epoch::Partition {
            topic: topic(script),
            partition: PartitionIndex(script.i32()),
            current_leader_epoch: epoch(script),
            leader_epoch: LeaderEpoch(script.i32()),
        }),
    };
    let meant = request.clone();
    Case::new(
        request,
        move |version, read: wire::OffsetForLeaderEpochRequest| {
            assert_eq!(read.replica_id.0, -1);
            let rows = read.topics.iter().flat_map(|topic| {
                let name = topic.topic.to_string();
                topic.partitions.iter().map(move |row| {
                    let epochs = (row.current_leader_epoch, row.leader_epoch);
                    (name.clone(), row.partition, epochs)
                })
            });
            let expected = grouped(&meant.partitions, |row| &row.topic);
            let expected = expected.into_iter().map(|row| {
                let epochs = (epoch_number(row.current_leader_epoch), row.leader_epoch.0);
                (row.topic.as_str().to_owned(), row.partition.0, epochs)
            });
            assert!(rows.eq(expected), "v{version}: {read:?}");
        },
    )
}
