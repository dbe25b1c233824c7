//! One classic consumer group as its coordinator keeps it: members, generation, offsets.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use super::call::Call;
use crate::ids::{GroupId, LeaderEpoch, MemberId, Moment, Offset, TopicPartition};

/// A group as its coordinator knows it, for inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Where the group stands between two rebalances.
    pub phase: GroupPhase,
    /// The generation.
    pub generation: i32,
    /// The protocol chosen, once there is one.
    pub protocol: Option<String>,
    /// The member that assigns.
    pub leader: Option<MemberId>,
    /// The members, by id.
    pub members: Vec<MemberId>,
}

/// Where a group stands between two rebalances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPhase {
    /// It has no members.
    Empty,
    /// Members are joining.
    PreparingRebalance,
    /// Everybody has joined, the leader has yet to send the assignment.
    CompletingRebalance,
    /// Everybody has an assignment.
    Stable,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The offset to go on from.
    pub offset: Offset,
    /// Leader epoch of the record before it, if given.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The member's own words.
    pub metadata: String,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) phase: GroupPhase,
    /// When the phase ends by itself: stragglers are left behind.
    pub(super) phase_due: Option<Moment>,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<StrBytes>,
    pub(super) protocol: Option<StrBytes>,
    pub(super) leader: Option<StrBytes>,
    pub(super) members: BTreeMap<StrBytes, Member>,
    /// Ids handed out by MEMBER_ID_REQUIRED, and until when they are good.
    pub(super) pending: BTreeMap<StrBytes, Moment>,
    pub(super) offsets: BTreeMap<TopicPartition, Committed>,
    /// The deadline its timer is armed for.
    pub(super) armed: Option<Moment>,
    next_member: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance: Option<StrBytes>,
    pub(super) session: Duration,
    pub(super) rebalance: Duration,
    pub(super) protocols: Vec<(StrBytes, Bytes)>,
    pub(super) assignment: Bytes,
    pub(super) joining: Option<Call>,
    pub(super) syncing: Option<Call>,
    pub(super) expires: Moment,
}

impl Group {
    pub(super) fn new() -> Self {
        Self {
            phase: GroupPhase::Empty,
            phase_due: None,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            pending: BTreeMap::new(),
            offsets: BTreeMap::new(),
            armed: None,
            next_member: 1,
        }
    }

    /// A fresh member id.
    pub(super) fn member_id(&mut self, prefix: &str) -> StrBytes {
        let number = self.next_member;
        self.next_member += 1;
        StrBytes::from_string(format!("{prefix}-{number:08}"))
    }

    pub(super) fn by_instance(&self, instance: &StrBytes) -> Option<StrBytes> {
        let owns = |member: &Member| member.instance.as_ref() == Some(instance);
        self.members
            .iter()
            .find(|(_, member)| owns(member))
            .map(|(id, _)| id.clone())
    }

    /// Whether the protocols leave the group at least one that everybody supports.
    pub(super) fn supports(&self, id: &StrBytes, protocols: &[(StrBytes, Bytes)]) -> bool {
        let others = || self.members.iter().filter(|(other, _)| *other != id);
        protocols
            .iter()
            .any(|(name, _)| others().all(|(_, member)| member.metadata(name).is_some()))
    }

    pub(super) fn all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// The protocol most members like best, among those all support.
    pub(super) fn elect_protocol(&self) -> Option<StrBytes> {
        let common = |name: &StrBytes| self.members.values().all(|m| m.metadata(name).is_some());
        let vote = |member: &Member| {
            member
                .protocols
                .iter()
                .map(|(name, _)| name)
                .find(|name| common(name))
                .cloned()
        };
        let mut votes: BTreeMap<StrBytes, usize> = BTreeMap::new();
        for choice in self.members.values().filter_map(vote) {
            *votes.entry(choice).or_default() += 1;
        }
        votes
            .into_iter()
            .rev()
            .max_by_key(|(_, count)| *count)
            .map(|(name, _)| name)
    }

    /// The longest rebalance timeout of any member.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        self.members
            .values()
            .map(|member| member.rebalance)
            .max()
            .unwrap_or_default()
    }

    /// When something happens by itself: a phase or a session ends.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let sessions = self
            .members
            .values()
            .filter(|m| !m.waits())
            .map(|member| member.expires);
        sessions
            .chain(self.pending.values().copied())
            .chain(self.phase_due)
            .min()
    }

    /// Members whose session is over at `now`. Those that wait for an answer are alive.
    pub(super) fn expired(&self, now: Moment) -> Vec<StrBytes> {
        let over = |member: &Member| !member.waits() && member.expires <= now;
        self.members
            .iter()
            .filter(|(_, m)| over(m))
            .map(|(id, _)| id.clone())
            .collect()
    }

    pub(super) fn view(&self) -> GroupView {
        let member = |id: &StrBytes| MemberId::from(id.as_str());
        GroupView {
            phase: self.phase,
            generation: self.generation,
            protocol: self.protocol.as_ref().map(ToString::to_string),
            leader: self.leader.as_ref().map(member),
            members: self.members.keys().map(member).collect(),
        }
    }

    /// What the coordinator would write to its log for this generation, roughly.
    pub(super) fn record_bytes(&self) -> usize {
        let of_member = |(id, member): (&StrBytes, &Member)| {
            let metadata = self
                .protocol
                .as_ref()
                .and_then(|name| member.metadata(name));
            id.len() + metadata.map_or(0, Bytes::len) + member.assignment.len()
        };
        self.members.iter().map(of_member).sum()
    }
}

impl Member {
    pub(super) fn metadata(&self, protocol: &StrBytes) -> Option<&Bytes> {
        self.protocols
            .iter()
            .find(|(name, _)| name == protocol)
            .map(|(_, metadata)| metadata)
    }

    fn waits(&self) -> bool {
        self.joining.is_some() || self.syncing.is_some()
    }
}

/// The groups of a cluster.
pub(super) type Groups = BTreeMap<GroupId, Group>;

#[cfg(test)]
mod tests {
    use super::*;

    fn member(protocols: &[&'static str]) -> Member {
        Member {
            instance: None,
            session: Duration::from_secs(10),
            rebalance: Duration::from_secs(60),
            protocols: protocols
                .iter()
                .map(|name| (StrBytes::from_static_str(name), Bytes::new()))
                .collect(),
            assignment: Bytes::new(),
            joining: None,
            syncing: None,
            expires: Moment::from_ms(10_000),
        }
    }

    #[test]
    fn the_protocol_is_the_favourite_among_those_all_support() {
        let mut group = Group::new();
        for (id, protocols) in [
            ("m1", vec!["sticky", "range"]),
            ("m2", vec!["range", "sticky"]),
            ("m3", vec!["range"]),
        ] {
            group
                .members
                .insert(StrBytes::from_static_str(id), member(&protocols));
        }
        assert_eq!(group.elect_protocol().as_deref(), Some("range"));
        let newcomer = StrBytes::from_static_str("m4");
        assert!(!group.supports(&newcomer, &member(&["sticky"]).protocols));
        assert!(group.supports(&newcomer, &member(&["range"]).protocols));
    }

    #[test]
    fn the_earliest_session_is_the_deadline() {
        let mut group = Group::new();
        group
            .members
            .insert(StrBytes::from_static_str("m1"), member(&["range"]));
        group
            .pending
            .insert(StrBytes::from_static_str("m2"), Moment::from_ms(4_000));
        assert_eq!(group.next_deadline(), Some(Moment::from_ms(4_000)));
        assert_eq!(
            group.expired(Moment::from_ms(9_999)),
            Vec::<StrBytes>::new()
        );
        assert_eq!(group.expired(Moment::from_ms(10_000)).len(), 1);
    }
}
