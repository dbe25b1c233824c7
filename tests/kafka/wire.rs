//! The wire and record code against the real broker: every request is understood, every answer
//! decoded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::{Failed, Trial};
use nearside::cli::kafka::{Cluster, ProduceLoad, until};
use nearside::ids::{Generation, GroupId, LeaderEpoch, MemberId, Offset, PartitionIndex, Rack};
use nearside::records::{BatchSet, ReadSettings};
use nearside::wire::api::{
    Isolation, TopicRef, fetch, heartbeat, join_group, leave_group, list_offsets, metadata,
    offset_commit, offset_fetch, offset_for_leader_epoch, sync_group,
};
use nearside::wire::{ErrorCode, Response};

use crate::client::{Client, ask};
use crate::groups::coordinator;
use crate::lab::{Lab, Outcome, trials};

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    trials![lab;
        every_version_of_fetch_reads_the_same_records,
        a_leader_hints_at_our_rack_and_a_follower_serves_it,
        offsets_are_found_by_place_and_by_epoch,
        a_member_goes_from_join_to_leave,
    ]
}

fn every_version_of_fetch_reads_the_same_records(cluster: &mut Cluster) -> Outcome {
    const RECORDS: u64 = 5_000;
    let mut topic = Topic::loaded(cluster, "versions", RECORDS)?;
    for version in 10..=18 {
        let mut numbers = Vec::new();
        let mut position = Offset(0);
        while numbers.len() < 5_000 {
            let mut request = topic.fetch(position, None);
            request.version_limit = Some(version);
            let completion = topic.leader.complete(request.into())?;
            assert_eq!(completion.version, Some(version));
            let Response::Fetch(answer) = completion.result? else {
                return Err("not a fetch answer".into());
            };
            let row = only_row(&answer)?;
            assert_eq!(row.error, ErrorCode::NONE, "version {version}");
            position = read(&row, position, &mut numbers)?;
        }
        assert!(numbers.iter().copied().eq(0..RECORDS), "version {version}");
        assert_eq!(position, Offset(5_000));
    }
    Ok(())
}

/// kafka.md 6: the hint comes from the leader alone, at once and without records.
fn a_leader_hints_at_our_rack_and_a_follower_serves_it(cluster: &mut Cluster) -> Outcome {
    let mut topic = Topic::loaded(cluster, "hinted", 100)?;
    let rack = Some(Rack::from("c"));
    let answer = ask!(topic.leader, Fetch, topic.fetch(Offset(0), rack.clone()));
    let hinted = only_row(&answer)?;
    assert_eq!(hinted.preferred_read_replica.map(|id| id.0), Some(3));
    assert_eq!(hinted.error, ErrorCode::NONE);
    assert_eq!(hinted.high_watermark, Some(Offset(100)));
    assert!(hinted.records.is_empty());

    // A follower hears of the high watermark with its next fetch: until then it serves less.
    let mut follower = client(cluster, 3)?;
    let mut numbers = Vec::new();
    let mut position = Offset(0);
    let mut on = || {
        let answer = ask!(follower, Fetch, topic.fetch(position, rack.clone()));
        let served = only_row(&answer)?;
        assert_eq!(served.error, ErrorCode::NONE);
        assert_eq!(served.preferred_read_replica, None);
        position = read(&served, position, &mut numbers)?;
        Ok(position)
    };
    until("everything served", Duration::from_secs(30), || {
        let at = on().map_err(|failed: Failed| format!("{failed:?}"))?;
        (at == Offset(100)).then_some(()).ok_or(format!("{at:?}"))
    })?;
    assert!(numbers.into_iter().eq(0..100));
    Ok(())
}

fn offsets_are_found_by_place_and_by_epoch(cluster: &mut Cluster) -> Outcome {
    let mut topic = Topic::loaded(cluster, "placed", 100)?;
    for (at, expected) in [
        (list_offsets::At::Earliest, Some(Offset(0))),
        (list_offsets::At::Latest, Some(Offset(100))),
        (list_offsets::At::Timestamp(1), Some(Offset(0))),
        (list_offsets::At::Timestamp(i64::MAX), None),
    ] {
        let row = list_offsets::Partition {
            topic: topic.name.into(),
            partition: PartitionIndex(0),
            current_leader_epoch: Some(LeaderEpoch(0)),
            at,
        };
        let request = list_offsets::Request {
            isolation: Isolation::ReadUncommitted,
            partitions: vec![row],
            timeout: Duration::from_secs(5),
        };
        let answer = ask!(topic.leader, ListOffsets, request);
        assert_eq!(answer.partitions[0].error, ErrorCode::NONE);
        assert_eq!(answer.partitions[0].offset, expected, "{at:?}");
    }
    cluster.move_leader(topic.name, 0, 2)?;
    let row = offset_for_leader_epoch::Partition {
        topic: topic.name.into(),
        partition: PartitionIndex(0),
        current_leader_epoch: None,
        leader_epoch: LeaderEpoch(0),
    };
    let request = offset_for_leader_epoch::Request {
        partitions: vec![row],
    };
    let answer = ask!(client(cluster, 2)?, OffsetForLeaderEpoch, request);
    assert_eq!(answer.partitions[0].error, ErrorCode::NONE);
    assert_eq!(answer.partitions[0].leader_epoch, Some(LeaderEpoch(0)));
    assert_eq!(answer.partitions[0].end_offset, Some(Offset(100)));
    Ok(())
}

fn a_member_goes_from_join_to_leave(cluster: &mut Cluster) -> Outcome {
    let topic = Topic::loaded(cluster, "joined", 10)?;
    let mut coordinator = coordinator(cluster, "one-member")?;
    let group = GroupId::from("one-member");
    let mut join = join_group::Request {
        group: group.clone(),
        session_timeout: Duration::from_secs(10),
        rebalance_timeout: Duration::from_secs(10),
        member: None,
        instance: None,
        protocol_type: "consumer".to_owned(),
        protocols: vec![join_group::Protocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        }],
        reason: None,
    };
    let named = ask!(coordinator, JoinGroup, join.clone());
    assert_eq!(named.error, ErrorCode::MEMBER_ID_REQUIRED);
    join.member = named.member;
    let joined = ask!(coordinator, JoinGroup, join);
    assert_eq!(joined.error, ErrorCode::NONE);
    let member = joined.member.ok_or("no member id")?;
    let generation = joined.generation.ok_or("no generation")?;
    assert_eq!(joined.leader.as_ref(), Some(&member));
    let assignment = Bytes::from_static(b"whatever the leader says");
    let synced = ask!(
        coordinator,
        SyncGroup,
        sync_group::Request {
            group: group.clone(),
            generation,
            member: member.clone(),
            instance: None,
            protocol_type: "consumer".to_owned(),
            protocol: "range".to_owned(),
            assignments: vec![sync_group::Assignment {
                member: member.clone(),
                assignment: assignment.clone(),
            }],
        }
    );
    assert_eq!(
        (synced.error, synced.assignment),
        (ErrorCode::NONE, assignment)
    );
    let heartbeat = heartbeat::Request {
        group: group.clone(),
        generation,
        member: member.clone(),
        instance: None,
    };
    assert_eq!(
        ask!(coordinator, Heartbeat, heartbeat.clone()).error,
        ErrorCode::NONE
    );
    commit_and_fetch_back(&mut coordinator, topic.name, &group, &member, generation)?;
    let leave = leave_group::Request {
        group,
        member,
        instance: None,
        reason: None,
    };
    assert_eq!(ask!(coordinator, LeaveGroup, leave).error, ErrorCode::NONE);
    let gone = ask!(coordinator, Heartbeat, heartbeat);
    assert_eq!(gone.error, ErrorCode::UNKNOWN_MEMBER_ID);
    Ok(())
}

fn commit_and_fetch_back(
    coordinator: &mut Client,
    topic: &str,
    group: &GroupId,
    member: &MemberId,
    generation: Generation,
) -> Outcome {
    let committed = ask!(
        coordinator,
        OffsetCommit,
        offset_commit::Request {
            group: group.clone(),
            generation: Some(generation),
            member: Some(member.clone()),
            instance: None,
            partitions: vec![offset_commit::Partition {
                topic: topic.into(),
                partition: PartitionIndex(0),
                offset: Offset(7),
                leader_epoch: Some(LeaderEpoch(0)),
                metadata: "seven".to_owned(),
            }],
        }
    );
    assert_eq!(committed.partitions[0].error, ErrorCode::NONE);
    let found = ask!(
        coordinator,
        OffsetFetch,
        offset_fetch::Request {
            group: group.clone(),
            member: None,
            member_epoch: None,
            partitions: None,
            require_stable: true,
        }
    );
    assert_eq!(found.error, ErrorCode::NONE);
    let [found] = found.partitions.as_slice() else {
        return Err(format!("{found:?}").into());
    };
    assert_eq!(found.offset, Some(Offset(7)));
    assert_eq!(found.leader_epoch, Some(LeaderEpoch(0)));
    assert_eq!(found.metadata, "seven");
    Ok(())
}

/// A topic of one partition led by broker 1, filled with the numbers from 0.
struct Topic {
    name: &'static str,
    id: nearside::ids::TopicId,
    leader: Client,
}

impl Topic {
    fn loaded(cluster: &Cluster, name: &'static str, records: u64) -> Result<Self, Failed> {
        cluster.create_topic(name, 1)?;
        cluster.produce(&ProduceLoad::numbered(name, records))?;
        let mut leader = client(cluster, 1)?;
        let request = metadata::Request {
            topics: Some(vec![TopicRef::Name(name.into())]),
            allow_auto_creation: false,
        };
        let answer = ask!(leader, Metadata, request);
        assert_eq!(answer.brokers.len(), 3);
        let topic = answer.topics.first().ok_or("no topic")?;
        assert_eq!(topic.partitions[0].leader.map(|id| id.0), Some(1));
        Ok(Self {
            name,
            id: topic.id.ok_or("no topic id")?,
            leader,
        })
    }

    fn fetch(&self, position: Offset, rack: Option<Rack>) -> fetch::Request {
        fetch::Request {
            session_id: 0,
            session_epoch: -1,
            partitions: vec![fetch::Partition {
                topic: self.name.into(),
                topic_id: Some(self.id),
                partition: PartitionIndex(0),
                current_leader_epoch: Some(LeaderEpoch(0)),
                fetch_offset: position,
                last_fetched_epoch: None,
                max_bytes: 1 << 20,
            }],
            forgotten: Vec::new(),
            rack,
            isolation: Isolation::ReadUncommitted,
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 1 << 20,
            version_limit: None,
        }
    }
}

fn client(cluster: &Cluster, broker: i32) -> Result<Client, Failed> {
    Ok(Client::new(cluster.address(broker)?))
}

fn only_row(answer: &fetch::Response) -> Result<fetch::Row, Failed> {
    assert_eq!((answer.error, answer.row_count()), (ErrorCode::NONE, 1));
    answer.rows().next().ok_or_else(|| "no row".into())
}

/// Appends the numbers in `row` and answers where the next fetch goes.
fn read(row: &fetch::Row, position: Offset, numbers: &mut Vec<u64>) -> Result<Offset, Failed> {
    let mut set = BatchSet::new(row.records.clone(), position, ReadSettings::default());
    for view in &mut set {
        for record in view?.records() {
            let value = record?.value.ok_or("a record without a value")?;
            numbers.push(std::str::from_utf8(value)?.parse()?);
        }
    }
    Ok(set.position())
}
