//! Answers to a member's life, from join to leave.

use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::Failed;
use nearside::cli::kafka::Cluster;
use nearside::ids::{Generation, GroupId, LeaderEpoch, MemberId, Offset, PartitionIndex};
use nearside::wire::api::consumer_group_heartbeat::Standing;
use nearside::wire::api::{
    consumer_group_heartbeat, heartbeat, join_group, leave_group, offset_commit, offset_fetch,
    sync_group,
};
use nearside::wire::{Response, ours};

use super::{Recorder, Socket};
use crate::groups::coordinator;
use crate::lab::Outcome;

/// One life per version of JoinGroup; the other APIs have no more versions than that.
pub(super) fn capture(cluster: &mut Cluster, recorder: &mut Recorder) -> Outcome {
    for round in 0..5 {
        let group = format!("golden-{round}");
        // Waits until it serves.
        coordinator(cluster, &group)?;
        let mut socket = Socket::to(cluster, cluster.coordinator(&group)?)?;
        let mut life = Life {
            group: group.as_str().into(),
            round,
            recorder: &mut *recorder,
            socket: &mut socket,
        };
        life.live()?;
    }
    heartbeats(cluster, recorder)
}

/// A member whose coordinator assigns (KIP-848), from join to leave.
fn heartbeats(cluster: &mut Cluster, recorder: &mut Recorder) -> Outcome {
    let group = "golden-assigned";
    coordinator(cluster, group)?;
    let mut socket = Socket::to(cluster, cluster.coordinator(group)?)?;
    let mut beat = consumer_group_heartbeat::Request {
        group: group.into(),
        member: "golden-member".into(),
        standing: Standing::Join,
        instance: None,
        rack: Some("a".into()),
        rebalance_timeout: Some(Duration::from_secs(10)),
        topics: Some(vec!["golden".into()]),
        pattern: None,
        assignor: None,
        owned: Some(Vec::new()),
    };
    let mut keep = |case: &str, beat: &consumer_group_heartbeat::Request| {
        recorder.keep_all(&mut socket, case, &beat.clone().into())
    };
    keep("joined", &beat)?;
    beat.standing = Standing::Stay(Generation(7));
    (beat.rack, beat.rebalance_timeout) = (None, None);
    (beat.topics, beat.owned) = (None, None);
    keep("another-epoch", &beat)?;
    beat.standing = Standing::Leave;
    keep("left", &beat)?;
    keep("unknown-member", &beat)
}

struct Life<'a> {
    group: GroupId,
    round: i16,
    recorder: &'a mut Recorder,
    socket: &'a mut Socket,
}

impl Life<'_> {
    /// Asks at the version whose turn it is.
    fn ask(
        &mut self,
        case: &str,
        request: impl Into<nearside::wire::Request>,
    ) -> Result<Response, Failed> {
        let request = request.into();
        let range = ours(request.api());
        let version = (range.min + self.round).min(range.max);
        self.recorder.keep(self.socket, version, case, &request)
    }

    fn live(&mut self) -> Outcome {
        let mut join = join_group::Request {
            group: self.group.clone(),
            session_timeout: Duration::from_secs(10),
            rebalance_timeout: Duration::from_secs(10),
            member: None,
            instance: None,
            protocol_type: "consumer".to_owned(),
            protocols: vec![join_group::Protocol {
                name: "range".to_owned(),
                metadata: Bytes::from_static(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            }],
            reason: Some("golden".to_owned()),
        };
        let Response::JoinGroup(named) = self.ask("member-id-required", join.clone())? else {
            return Err("not a join".into());
        };
        join.member = named.member;
        let Response::JoinGroup(joined) = self.ask("leader", join)? else {
            return Err("not a join".into());
        };
        let member = joined.member.ok_or("no member id")?;
        let generation = joined.generation.ok_or("no generation")?;
        self.work(&member, generation)?;
        let leave = leave_group::Request {
            group: self.group.clone(),
            member: member.clone(),
            instance: None,
            reason: Some("golden".to_owned()),
        };
        self.ask("left", leave)?;
        self.heartbeat("unknown-member", &member, generation)
    }

    fn heartbeat(&mut self, case: &str, member: &MemberId, generation: Generation) -> Outcome {
        let heartbeat = heartbeat::Request {
            group: self.group.clone(),
            generation,
            member: member.clone(),
            instance: None,
        };
        self.ask(case, heartbeat)?;
        Ok(())
    }

    fn work(&mut self, member: &MemberId, generation: Generation) -> Outcome {
        let sync = sync_group::Request {
            group: self.group.clone(),
            generation,
            member: member.clone(),
            instance: None,
            protocol_type: "consumer".to_owned(),
            protocol: "range".to_owned(),
            assignments: vec![sync_group::Assignment {
                member: member.clone(),
                assignment: Bytes::from_static(b"what the leader says"),
            }],
        };
        self.ask("assigned", sync)?;
        self.heartbeat("well", member, generation)?;
        let row = |topic: &str| offset_commit::Partition {
            topic: topic.into(),
            partition: PartitionIndex(0),
            offset: Offset(7),
            leader_epoch: Some(LeaderEpoch(0)),
            metadata: "seven".to_owned(),
        };
        let commit = offset_commit::Request {
            group: self.group.clone(),
            generation: Some(generation),
            member: Some(member.clone()),
            instance: None,
            partitions: vec![row("golden"), row("nowhere")],
        };
        self.ask("one-there-one-not", commit)?;
        let fetch = offset_fetch::Request {
            group: self.group.clone(),
            member: None,
            member_epoch: None,
            partitions: None,
            require_stable: self.round >= 2,
        };
        self.ask("all", fetch)?;
        Ok(())
    }
}
