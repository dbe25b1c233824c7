//! Requests of a group's member.

use bytes::Bytes;
use kafka_protocol::messages as wire;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::protocol::StrBytes;
use nearside::ids::{Generation, MemberId, Offset, TopicPartition};
use nearside::wire::api;

use super::{
    Case, epoch, epoch_number, grouped, id_of, maybe, millis, partition, several, time, topic,
};
use crate::script::Script;

fn member(script: &mut Script<'_>) -> MemberId {
    script.text().into()
}

fn generation(script: &mut Script<'_>) -> Generation {
    Generation(script.i32())
}

/// No member is an empty name.
fn told(member: Option<&MemberId>) -> &str {
    member.map_or("", MemberId::as_str)
}

fn text(text: Option<&StrBytes>) -> Option<&str> {
    text.map(StrBytes::as_str)
}

pub(super) fn offset_commit(script: &mut Script<'_>) -> Case {
    let request = api::offset_commit::Request {
        group: script.text().into(),
        generation: maybe(script, generation),
        member: maybe(script, member),
        instance: maybe(script, Script::text),
        partitions: several(script, |script| api::offset_commit::Partition {
            topic: topic(script),
            partition: partition(script),
            offset: Offset(script.i64()),
            leader_epoch: epoch(script),
            metadata: script.text(),
        }),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::OffsetCommitRequest| {
        assert_eq!(read.group_id.as_str(), meant.group.as_str());
        let generation = meant.generation.map_or(-1, |generation| generation.0);
        assert_eq!(read.generation_id_or_member_epoch, generation);
        assert_eq!(read.member_id.as_str(), told(meant.member.as_ref()));
        assert_eq!(
            text(read.group_instance_id.as_ref()),
            meant.instance.as_deref()
        );
        let rows = read.topics.iter().flat_map(|topic| {
            let name = topic.name.to_string();
            topic.partitions.iter().map(move |row| {
                let note = row.committed_metadata.as_ref().map(StrBytes::to_string);
                let offset = (row.committed_offset, row.committed_leader_epoch);
                (name.clone(), row.partition_index, offset, note)
            })
        });
        let expected = grouped(&meant.partitions, |row| &row.topic);
        let expected = expected.into_iter().map(|row| {
            let offset = (row.offset.0, epoch_number(row.leader_epoch));
            let name = row.topic.as_str().to_owned();
            (name, row.partition.0, offset, Some(row.metadata))
        });
        assert!(rows.eq(expected), "v{version}: {read:?}");
    })
}

pub(super) fn offset_fetch(script: &mut Script<'_>) -> Case {
    let request = api::offset_fetch::Request {
        group: script.text().into(),
        member: maybe(script, member),
        member_epoch: maybe(script, generation),
        partitions: maybe(script, |script| {
            several(script, |script| TopicPartition {
                topic: topic(script),
                partition: partition(script),
            })
        }),
        require_stable: script.flag(),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::OffsetFetchRequest| {
        assert_eq!(read.require_stable, version >= 7 && meant.require_stable);
        let expected = meant.partitions.as_ref().map(|rows| {
            let rows = grouped(rows, |row| &row.topic).into_iter();
            rows.map(|row| (row.topic.as_str().to_owned(), row.partition.0))
                .collect::<Vec<_>>()
        });
        let flat = |name: &str, indexes: &[i32]| {
            let name = name.to_owned();
            indexes
                .iter()
                .map(move |index| (name.clone(), *index))
                .collect::<Vec<_>>()
        };
        if version < 8 {
            let rows = read.topics.as_ref().map(|topics| {
                let rows = |it: &OffsetFetchRequestTopic| flat(&it.name, &it.partition_indexes);
                topics.iter().flat_map(rows).collect::<Vec<_>>()
            });
            assert_eq!(read.group_id.as_str(), meant.group.as_str());
            return assert_eq!(rows, expected, "v{version}");
        }
        assert_eq!(read.groups.len(), 1);
        let group = &read.groups[0];
        assert_eq!(group.group_id.as_str(), meant.group.as_str());
        let epoch = meant.member_epoch.filter(|_| version >= 9);
        assert_eq!(group.member_epoch, epoch.map_or(-1, |epoch| epoch.0));
        let member = meant.member.as_ref().filter(|_| version >= 9);
        let member = member.map(MemberId::as_str);
        assert_eq!(text(group.member_id.as_ref()), member);
        let rows = group.topics.as_ref().map(|topics| {
            let rows = |it: &OffsetFetchRequestTopics| flat(&it.name, &it.partition_indexes);
            topics.iter().flat_map(rows).collect::<Vec<_>>()
        });
        assert_eq!(rows, expected, "v{version}");
    })
}

pub(super) fn join_group(script: &mut Script<'_>) -> Case {
    let request = api::join_group::Request {
        group: script.text().into(),
        session_timeout: time(script),
        rebalance_timeout: time(script),
        member: maybe(script, member),
        instance: maybe(script, Script::text),
        protocol_type: script.text(),
        protocols: several(script, |script| api::join_group::Protocol {
            name: script.text(),
            metadata: Bytes::copy_from_slice(script.field()),
        }),
        reason: maybe(script, Script::text),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::JoinGroupRequest| {
        assert_eq!(read.group_id.as_str(), meant.group.as_str());
        assert_eq!(read.session_timeout_ms, millis(meant.session_timeout));
        assert_eq!(read.rebalance_timeout_ms, millis(meant.rebalance_timeout));
        assert_eq!(read.member_id.as_str(), told(meant.member.as_ref()));
        assert_eq!(
            text(read.group_instance_id.as_ref()),
            meant.instance.as_deref()
        );
        assert_eq!(read.protocol_type.as_str(), meant.protocol_type);
        let reason = meant.reason.as_deref().filter(|_| version >= 8);
        assert_eq!(text(read.reason.as_ref()), reason);
        let protocols = read.protocols.iter();
        let protocols = protocols.map(|it| (it.name.as_str(), &it.metadata));
        let expected = meant.protocols.iter();
        assert!(protocols.eq(expected.map(|it| (it.name.as_str(), &it.metadata))));
    })
}

pub(super) fn sync_group(script: &mut Script<'_>) -> Case {
    let request = api::sync_group::Request {
        group: script.text().into(),
        generation: generation(script),
        member: member(script),
        instance: maybe(script, Script::text),
        protocol_type: script.text(),
        protocol: script.text(),
        assignments: several(script, |script| api::sync_group::Assignment {
            member: member(script),
            assignment: Bytes::copy_from_slice(script.field()),
        }),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::SyncGroupRequest| {
        assert_eq!(read.group_id.as_str(), meant.group.as_str());
        assert_eq!(read.generation_id, meant.generation.0);
        assert_eq!(read.member_id.as_str(), meant.member.as_str());
        assert_eq!(
            text(read.group_instance_id.as_ref()),
            meant.instance.as_deref()
        );
        let names = (version >= 5).then_some((&*meant.protocol_type, &*meant.protocol));
        let (kind, name) = (read.protocol_type.as_ref(), read.protocol_name.as_ref());
        assert_eq!(text(kind).zip(text(name)), names);
        let rows = read.assignments.iter();
        let rows = rows.map(|it| (it.member_id.as_str(), &it.assignment));
        let expected = meant.assignments.iter();
        assert!(rows.eq(expected.map(|it| (it.member.as_str(), &it.assignment))));
    })
}

pub(super) fn heartbeat(script: &mut Script<'_>) -> Case {
    let request = api::heartbeat::Request {
        group: script.text().into(),
        generation: generation(script),
        member: member(script),
        instance: maybe(script, Script::text),
    };
    let meant = request.clone();
    Case::new(request, move |_, read: wire::HeartbeatRequest| {
        assert_eq!(read.group_id.as_str(), meant.group.as_str());
        assert_eq!(read.generation_id, meant.generation.0);
        assert_eq!(read.member_id.as_str(), meant.member.as_str());
        let instance = text(read.group_instance_id.as_ref());
        assert_eq!(instance, meant.instance.as_deref());
    })
}

pub(super) fn consumer_group_heartbeat(script: &mut Script<'_>) -> Case {
    use api::consumer_group_heartbeat::{Request, Standing, TopicIdPartition};
    let (standing, epoch) = match script.below(4) {
        0 => (Standing::Join, 0),
        1 => (Standing::Leave, -1),
        2 => (Standing::LeaveForNow, -2),
        _ => {
            let epoch = script.i32();
            (Standing::Stay(Generation(epoch)), epoch)
        }
    };
    let request = Request {
        group: script.text().into(),
        member: member(script),
        standing,
        instance: maybe(script, Script::text),
        rack: maybe(script, |script| script.text().into()),
        rebalance_timeout: maybe(script, time),
        topics: maybe(script, |script| several(script, topic)),
        pattern: maybe(script, Script::text),
        assignor: maybe(script, Script::text),
        owned: maybe(script, |script| {
            several(script, |script| TopicIdPartition {
                topic: id_of(&topic(script)),
                partition: partition(script),
            })
        }),
    };
    let meant = request.clone();
    Case::new(
        request,
        move |_, read: wire::ConsumerGroupHeartbeatRequest| {
            assert_eq!(read.group_id.as_str(), meant.group.as_str());
            assert_eq!(read.member_id.as_str(), meant.member.as_str());
            assert_eq!(read.member_epoch, epoch);
            assert_eq!(text(read.instance_id.as_ref()), meant.instance.as_deref());
            let rack = meant.rack.as_ref().map(|rack| rack.as_str());
            assert_eq!(text(read.rack_id.as_ref()), rack);
            let timeout = meant.rebalance_timeout.map_or(-1, millis);
            assert_eq!(read.rebalance_timeout_ms, timeout);
            let names = read.subscribed_topic_names.as_ref();
            let names = names.map(|it| it.iter().map(|it| it.to_string()).collect::<Vec<_>>());
            let topics = meant.topics.as_ref();
            let topics = topics.map(|it| it.iter().map(|it| it.to_string()).collect());
            assert_eq!(names, topics);
            let pattern = text(read.subscribed_topic_regex.as_ref());
            assert_eq!(pattern, meant.pattern.as_deref());
            assert_eq!(
                text(read.server_assignor.as_ref()),
                meant.assignor.as_deref()
            );
            let owned = read.topic_partitions.as_ref().map(|topics| {
                let rows = topics.iter().flat_map(|it| {
                    let rows = it.partitions.iter();
                    rows.map(|partition| (it.topic_id, *partition))
                });
                rows.collect::<Vec<_>>()
            });
            let expected = meant.owned.as_ref().map(|rows| {
                let rows = grouped(rows, |row| &row.topic).into_iter();
                rows.map(|row| (row.topic.0, row.partition.0)).collect()
            });
            assert_eq!(owned, expected);
        },
    )
}

pub(super) fn leave_group(script: &mut Script<'_>) -> Case {
    let request = api::leave_group::Request {
        group: script.text().into(),
        member: member(script),
        instance: maybe(script, Script::text),
        reason: maybe(script, Script::text),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::LeaveGroupRequest| {
        assert_eq!(read.group_id.as_str(), meant.group.as_str());
        assert_eq!(read.members.len(), 1);
        let leaver = &read.members[0];
        assert_eq!(leaver.member_id.as_str(), meant.member.as_str());
        let instance = text(leaver.group_instance_id.as_ref());
        assert_eq!(instance, meant.instance.as_deref());
        let reason = meant.reason.as_deref().filter(|_| version >= 5);
        assert_eq!(text(leaver.reason.as_ref()), reason);
    })
}

pub(super) fn find_coordinator(script: &mut Script<'_>) -> Case {
    let (kind, number) = if script.flag() {
        (api::find_coordinator::KeyKind::Transaction, 1)
    } else {
        (api::find_coordinator::KeyKind::Group, 0)
    };
    let key = script.text();
    let request = api::find_coordinator::Request {
        key: key.clone(),
        kind,
    };
    Case::new(
        request,
        move |version, read: wire::FindCoordinatorRequest| {
            assert_eq!(read.key_type, number);
            let (one, several) = if version >= 4 {
                ("", vec![key.as_str()])
            } else {
                (key.as_str(), Vec::new())
            };
            assert_eq!(read.key.as_str(), one);
            assert!(
                read.coordinator_keys
                    .iter()
                    .map(StrBytes::as_str)
                    .eq(several)
            );
        },
    )
}
