//! The coordinator's side of groups: who coordinates, and the steps of a rebalance.

use kafka_protocol::ResponseError;
use kafka_protocol::protocol::StrBytes;

use super::api::{join_group, sync_group};
use super::broker::Health;
use super::call::Call;
use super::cluster::{Cluster, Timer};
use super::connection::State;
use super::group::{Committed, Group, GroupPhase, GroupView};
use crate::ids::{BrokerId, GroupId, TopicPartition};

impl Cluster {
    /// The broker that coordinates a group: a fixed choice by name, the next living one if it is
    /// known to be dead.
    pub fn coordinator(&self, group: &GroupId) -> Option<BrokerId> {
        if let Some(pinned) = self.pinned_coordinators.get(group) {
            return Some(*pinned);
        }
        let hash = group.as_str().bytes().fold(0_usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        let start = hash.checked_rem(self.brokers.len())?;
        let turn = self
            .brokers
            .values()
            .cycle()
            .skip(start)
            .take(self.brokers.len());
        turn.into_iter()
            .find(|broker| !broker.fenced)
            .map(|broker| broker.settings.id)
    }

    /// Moves the coordination of a group to `broker`. Members and offsets move along.
    pub fn move_coordinator(&mut self, group: impl Into<GroupId>, broker: BrokerId) {
        self.pinned_coordinators.insert(group.into(), broker);
    }

    /// A group as its coordinator knows it.
    pub fn group(&self, group: &GroupId) -> Option<GroupView> {
        self.groups.get(group).map(Group::view)
    }

    /// The offset a group committed for a partition.
    pub fn committed(&self, group: &GroupId, at: &TopicPartition) -> Option<&Committed> {
        self.groups.get(group)?.offsets.get(at)
    }

    /// Lets every member join again, as if one of them had asked for it.
    pub fn rebalance(&mut self, group: &GroupId) {
        let phase = self.groups.get(group).map(|group| group.phase);
        if matches!(
            phase,
            Some(GroupPhase::Stable | GroupPhase::CompletingRebalance)
        ) {
            self.prepare_rebalance(group);
        }
    }

    /// Whether this broker may answer for the group at all.
    pub(super) fn check_group(&mut self, call: &Call, group: &GroupId) -> Result<(), i16> {
        if self.faults.denies_group(group) {
            return Err(ResponseError::GroupAuthorizationFailed.code());
        }
        if let Some(code) = self.faults.error(call, false) {
            return Err(code);
        }
        if self.coordinator(group) != Some(call.broker) {
            return Err(ResponseError::NotCoordinator.code());
        }
        Ok(())
    }

    /// Starts a rebalance: members hear of it with their next heartbeat.
    pub(super) fn prepare_rebalance(&mut self, id: &GroupId) {
        let (now, initial) = (self.now, self.settings.group_initial_delay);
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let was = std::mem::replace(&mut group.phase, GroupPhase::PreparingRebalance);
        let wait = if was == GroupPhase::Empty {
            initial
        } else {
            group.rebalance_timeout()
        };
        group.phase_due = Some(now + wait);
        let released: Vec<Call> = group
            .members
            .values_mut()
            .filter_map(|member| member.syncing.take())
            .collect();
        for call in released {
            let reply = sync_group::failed(&call, ResponseError::RebalanceInProgress.code());
            self.complete(&call, reply);
        }
        self.arm_group(id);
    }

    /// Completes the join phase if everybody is there and no initial delay is running.
    pub(super) fn maybe_complete_join(&mut self, id: &GroupId) {
        let now = self.now;
        let Some(group) = self.groups.get(id) else {
            return;
        };
        let delayed = group.generation == 0
            && !self.settings.group_initial_delay.is_zero()
            && group.phase_due.is_some_and(|due| due > now);
        if group.phase == GroupPhase::PreparingRebalance && group.all_joined() && !delayed {
            self.complete_join(id);
        }
    }

    /// Ends the join phase: whoever has not joined is out, but for static members (KIP-345).
    fn complete_join(&mut self, id: &GroupId) {
        let now = self.now;
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        group
            .members
            .retain(|_, member| member.joining.is_some() || member.instance.is_some());
        group.generation += 1;
        group.phase_due = None;
        if group.members.is_empty() {
            (group.phase, group.leader, group.protocol) = (GroupPhase::Empty, None, None);
            return;
        }
        group.protocol = group.elect_protocol();
        let leads = group.leader.clone().filter(|leader| {
            group
                .members
                .get(leader)
                .is_some_and(|member| member.joining.is_some())
        });
        let first = || {
            let joined = group
                .members
                .iter()
                .find(|(_, member)| member.joining.is_some());
            joined
                .or_else(|| group.members.iter().next())
                .map(|(id, _)| id.clone())
        };
        group.leader = leads.or_else(first);
        group.phase = GroupPhase::CompletingRebalance;
        group.phase_due = Some(now + group.rebalance_timeout());
        let ids: Vec<StrBytes> = group.members.keys().cloned().collect();
        for member_id in ids {
            let Some(group) = self.groups.get_mut(id) else {
                return;
            };
            let Some(member) = group.members.get_mut(&member_id) else {
                continue;
            };
            member.expires = now + member.session;
            if let Some(call) = member.joining.take() {
                let reply = join_group::joined(&call, group, &member_id, false);
                self.complete(&call, reply);
            }
        }
        self.arm_group(id);
    }

    /// The leader's assignment has arrived: everybody who waits gets its part.
    pub(super) fn complete_sync(&mut self, id: &GroupId) {
        let (now, bytes_max) = (self.now, self.settings.message_bytes_max);
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        if group.record_bytes() > bytes_max {
            self.fail_sync(id);
            return;
        }
        (group.phase, group.phase_due) = (GroupPhase::Stable, None);
        let ids: Vec<StrBytes> = group.members.keys().cloned().collect();
        for member_id in ids {
            let Some(group) = self.groups.get_mut(id) else {
                return;
            };
            let Some(member) = group.members.get_mut(&member_id) else {
                continue;
            };
            member.expires = now + member.session;
            if let Some(call) = member.syncing.take() {
                let reply = sync_group::assigned(&call, group, &member_id);
                self.complete(&call, reply);
            }
        }
        self.arm_group(id);
    }

    /// The group's record would not fit the coordinator's log: a rebalance starts over.
    fn fail_sync(&mut self, id: &GroupId) {
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let mut released = Vec::new();
        for member in group.members.values_mut() {
            member.assignment.clear();
            released.extend(member.syncing.take());
        }
        for call in released {
            let reply = sync_group::failed(&call, ResponseError::UnknownServerError.code());
            self.complete(&call, reply);
        }
        self.prepare_rebalance(id);
    }

    /// Takes a member out; the others rebalance.
    pub(super) fn remove_member(&mut self, id: &GroupId, member_id: &StrBytes) {
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        if group.members.remove(member_id).is_none() {
            return;
        }
        if group.leader.as_ref() == Some(member_id) {
            group.leader = None;
        }
        match group.phase {
            GroupPhase::Stable | GroupPhase::CompletingRebalance => {
                self.prepare_rebalance(id);
                self.maybe_complete_join(id);
            }
            GroupPhase::PreparingRebalance => self.maybe_complete_join(id),
            GroupPhase::Empty => {}
        }
    }

    /// A phase or a session of the group may be over.
    pub(super) fn group_due(&mut self, id: &GroupId) {
        let now = self.now;
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        group.armed = None;
        if !self.coordinator_runs(id) {
            self.extend_sessions(id);
            self.arm_group(id);
            return;
        }
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let pending_before = group.pending.len();
        group.pending.retain(|_, until| *until > now);
        let pending_ended = group.pending.len() < pending_before;
        let phase_over = group.phase_due.is_some_and(|due| due <= now);
        for member in group.expired(now) {
            self.remove_member(id, &member);
        }
        if phase_over {
            self.end_phase(id);
        } else if pending_ended {
            self.maybe_complete_join(id);
        }
        self.arm_group(id);
    }

    fn end_phase(&mut self, id: &GroupId) {
        let now = self.now;
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        if group.phase_due.is_none_or(|due| due > now) {
            return;
        }
        match group.phase {
            GroupPhase::PreparingRebalance => self.complete_join(id),
            GroupPhase::CompletingRebalance => {
                let silent = |member: &super::group::Member| member.syncing.is_none();
                let late = group.members.iter().filter(|(_, member)| silent(member));
                let late: Vec<StrBytes> = late.map(|(id, _)| id.clone()).collect();
                for member in late {
                    self.remove_member(id, &member);
                }
            }
            GroupPhase::Empty | GroupPhase::Stable => group.phase_due = None,
        }
    }

    fn coordinator_runs(&self, id: &GroupId) -> bool {
        let broker = self
            .coordinator(id)
            .and_then(|broker| self.brokers.get(&broker));
        broker.is_some_and(|broker| broker.health == Health::Up)
    }

    /// Nobody can heartbeat while the coordinator is down; its successor starts the clocks anew.
    fn extend_sessions(&mut self, id: &GroupId) {
        let now = self.now;
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        for member in group.members.values_mut() {
            member.expires = now + member.session;
        }
        let pause = group.rebalance_timeout().max(self.settings.broker_session);
        group.pending.clear();
        group.phase_due = group.phase_due.map(|_| now + pause);
    }

    /// A coordinator died: its parked calls are lost, sessions start anew at the next one.
    pub(super) fn lose_coordinator(&mut self, broker: BrokerId) {
        let groups: Vec<GroupId> = self.groups.keys().cloned().collect();
        for id in groups {
            if self.coordinator(&id) != Some(broker) {
                continue;
            }
            if let Some(group) = self.groups.get_mut(&id) {
                for member in group.members.values_mut() {
                    (member.joining, member.syncing) = (None, None);
                }
            }
            self.extend_sessions(&id);
            self.arm_group(&id);
        }
    }

    pub(super) fn arm_group(&mut self, id: &GroupId) {
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let Some(due) = group.next_deadline() else {
            return;
        };
        if group.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        let before = group.armed.replace(due);
        if let Some(before) = before {
            self.disarm(Timer::Group(id.clone()), before);
        }
        self.arm(Timer::Group(id.clone()), due);
    }

    /// Parks a call that waits for the other members.
    pub(super) fn park_in_group(&mut self, call: &Call) {
        self.set_state(call.connection, State::Grouping);
    }
}
