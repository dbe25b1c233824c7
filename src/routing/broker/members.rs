//! Who is to be fetched on one lane. Work is per changed member, never per member.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{LeaderEpoch, Offset, TopicId, TopicIncarnation, TopicName, TopicPartition};
use crate::routing::output::Demand;
use crate::routing::stamp::{Role, Stamp};
use crate::wire::api::TopicRef;
use crate::wire::api::fetch::{Forgotten, Partition};

use super::output::Ticket;

/// The parameters a session remembers of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    offset: Offset,
    leader_epoch: Option<LeaderEpoch>,
    last_fetched_epoch: Option<LeaderEpoch>,
    max_bytes: i32,
    topic_id: Option<TopicId>,
}

/// One partition of a lane.
#[derive(Clone, Debug)]
struct Member {
    /// What is to be fetched; `None` once a row consumed it or the route took it back.
    want: Option<Demand>,
    /// First ticket that carries `want`.
    since: Ticket,
    /// The demand of the Fetch in flight, once `want` moved on.
    flying: Option<Stamp>,
    /// The route waits for the end of the flight.
    draining: bool,
    /// What the broker was told, and in which serial of the session.
    sent: Option<(u64, Sent)>,
    /// The last answer with a row of it: another one in there is one too many.
    answered: Option<Ticket>,
    /// Place in the order of full requests.
    turn: u64,
    /// Life of the topic name as last wanted.
    incarnation: TopicIncarnation,
}

/// What became of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    /// A route waits for it, under this stamp.
    Wanted(Stamp),
    /// The route has withdrawn; it read this life of the topic name.
    Withdrawn(TopicIncarnation),
    /// The session holds no such partition, or the answer has given its row already (wire.md 7 D7).
    Unasked,
}

/// The members of one lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    by_partition: BTreeMap<TopicPartition, Member>,
    names: BTreeMap<TopicId, TopicName>,
    /// Members whose parameters the session does not know yet.
    changed: BTreeSet<TopicPartition>,
    /// Members that leave the session with the next request.
    leaving: BTreeSet<TopicPartition>,
    /// Topic ids that lost their name to a newer id while in the session.
    retired: Vec<Forgotten>,
    /// Members whose row went out and who have neither wanted again nor withdrawn.
    owing: BTreeSet<TopicPartition>,
    /// Members that changed while a Fetch is in flight.
    touched: Vec<TopicPartition>,
    rotation: BTreeMap<u64, TopicPartition>,
    next_turn: u64,
    wants: usize,
    /// Sum of their limits.
    bytes: usize,
    /// Those of `wants` that read from this broker as a follower.
    followers: usize,
    nameless: usize,
}

impl Members {
    /// Number of standing demands.
    pub(super) fn wants(&self) -> usize {
        self.wants
    }

    /// The most that all standing demands together may be answered with.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of standing demands of follower routes, whom the breaker governs.
    pub(super) fn followers(&self) -> usize {
        self.followers
    }

    /// The partitions with a standing demand.
    pub(super) fn wanted(&self) -> Vec<TopicPartition> {
        let wanted = self
            .by_partition
            .iter()
            .filter(|(_, member)| member.want.is_some());
        wanted.map(|(partition, _)| partition.clone()).collect()
    }

    /// Whether no demand stands, none is owed and nobody has to leave.
    pub(super) fn is_idle(&self) -> bool {
        self.wants == 0 && self.owing.is_empty()
    }

    /// Whether some topic has no id, so that the lane speaks of topics by name.
    pub(super) fn by_name(&self) -> bool {
        self.nameless > 0
    }

    /// Whether some member has yet to want again or withdraw.
    pub(super) fn is_owed(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Enters or replaces a demand. `flight` is the Fetch in flight, `next` the ticket of the next
    /// one.
    pub(super) fn want(
        &mut self,
        partition: &TopicPartition,
        demand: Demand,
        flight: Option<Ticket>,
        next: Ticket,
        serial: u64,
    ) {
        self.take_back(partition, flight, true);
        self.leaving.remove(partition);
        let turn = self.next_turn;
        let member = self
            .by_partition
            .entry(partition.clone())
            .or_insert_with(|| Member {
                want: None,
                since: next,
                flying: None,
                draining: false,
                sent: None,
                answered: None,
                turn,
                incarnation: demand.stamp.topic,
            });
        if member.turn == turn {
            self.next_turn += 1;
            self.rotation.insert(turn, partition.clone());
        }
        member.want = Some(demand);
        member.incarnation = demand.stamp.topic;
        // The very fetch that is in flight is wanted after all.
        let reclaimed = flight.filter(|_| member.flying == Some(demand.stamp));
        member.flying = member.flying.filter(|_| reclaimed.is_none());
        member.since = reclaimed.unwrap_or(next);
        member.draining = false;
        let sent = sent_of(&demand);
        self.wants += 1;
        self.bytes += limit(&demand);
        self.followers += usize::from(demand.stamp.role == Role::Follower);
        self.nameless += usize::from(demand.topic_id.is_none());
        if let Some(id) = demand.topic_id {
            self.names
                .entry(id)
                .or_insert_with(|| partition.topic.clone());
        }
        let known = member
            .sent
            .filter(|(told, _)| *told == serial)
            .map(|(_, sent)| sent);
        if let Some(old) = known.filter(|old| old.topic_id != sent.topic_id) {
            self.retire(partition, old.topic_id);
        }
        if known != Some(sent) {
            self.changed.insert(partition.clone());
        }
    }

    /// Takes a demand back. `keep` keeps its flight's row welcome. Returns the stamp to drain at
    /// once, if nothing of it is in flight.
    pub(super) fn take_back(
        &mut self,
        partition: &TopicPartition,
        flight: Option<Ticket>,
        keep: bool,
    ) -> Option<Stamp> {
        self.owing.remove(partition);
        self.changed.remove(partition);
        let member = self.by_partition.get_mut(partition)?;
        if member.sent.is_some() {
            self.leaving.insert(partition.clone());
        }
        let Some(demand) = member.want.take() else {
            if !keep {
                member.flying = None;
            }
            return None;
        };
        let in_flight = flight.is_some_and(|ticket| member.since <= ticket);
        if in_flight && member.flying.is_none() {
            self.touched.push(partition.clone());
        }
        if in_flight {
            member.flying = keep.then_some(demand.stamp);
        }
        self.uncount(&demand);
        (!in_flight).then_some(demand.stamp)
    }

    /// Marks a member whose route waits for the end of its flight.
    pub(super) fn drain(
        &mut self,
        partition: &TopicPartition,
        flight: Option<Ticket>,
    ) -> Option<Stamp> {
        let stamp = self.take_back(partition, flight, true);
        if let Some(member) = self.by_partition.get_mut(partition) {
            member.draining = stamp.is_none() && member.flying.is_some();
        }
        stamp
    }

    /// The partition a row is about, if it is a member.
    pub(super) fn name(&self, topic: &TopicRef) -> Option<TopicName> {
        match topic {
            TopicRef::Name(name) => Some(name.clone()),
            TopicRef::Id(id) => self.names.get(id).cloned(),
        }
    }

    /// A row of the Fetch in flight came: whose is it? It consumes the demand it answers.
    pub(super) fn claim(
        &mut self,
        partition: &TopicPartition,
        ticket: Ticket,
        filled: bool,
    ) -> Claim {
        let Some(member) = self.by_partition.get_mut(partition) else {
            return Claim::Unasked;
        };
        if member.answered.replace(ticket) == Some(ticket) {
            return Claim::Unasked;
        }
        if filled {
            self.rotation.remove(&member.turn);
            member.turn = self.next_turn;
            self.next_turn += 1;
            self.rotation.insert(member.turn, partition.clone());
        }
        if let Some(stamp) = member.flying.take() {
            member.draining = false;
            return Claim::Wanted(stamp);
        }
        match member.want {
            Some(demand) if member.since <= ticket => {
                member.want = None;
                self.uncount(&demand);
                self.owing.insert(partition.clone());
                Claim::Wanted(demand.stamp)
            }
            Some(_) => Claim::Withdrawn(member.incarnation),
            None if member.sent.is_some() => Claim::Withdrawn(member.incarnation),
            None => Claim::Unasked,
        }
    }

    /// The flight is over. Returns the drains that ended without a row.
    pub(super) fn landed(&mut self) -> Vec<(TopicPartition, Stamp)> {
        let mut drained = Vec::new();
        for partition in std::mem::take(&mut self.touched) {
            let Some(member) = self.by_partition.get_mut(&partition) else {
                continue;
            };
            let (flying, draining) = (member.flying.take(), member.draining);
            member.draining = false;
            if let Some(stamp) = flying.filter(|_| draining) {
                drained.push((partition.clone(), stamp));
            }
            self.drop_if_unused(&partition);
        }
        drained
    }

    /// The hold is over: who still has no room leaves the session.
    pub(super) fn release_owing(&mut self) {
        let owing = std::mem::take(&mut self.owing);
        self.leaving.extend(owing);
    }

    /// A full request was answered: whose row is missing is not in the session, and is asked for
    /// again.
    pub(super) fn discard_missing(&mut self, ticket: Ticket) {
        for (partition, member) in &mut self.by_partition {
            if member.want.is_some() && member.since <= ticket {
                member.sent = None;
                self.changed.insert(partition.clone());
            }
        }
    }

    /// Rows of a full request, in turn, and nobody else is in the session afterwards.
    pub(super) fn all(&mut self, serial: u64) -> Vec<Partition> {
        self.changed.clear();
        self.retired.clear();
        for partition in std::mem::take(&mut self.leaving) {
            if let Some(member) = self.by_partition.get_mut(&partition)
                && member.want.is_none()
            {
                member.sent = None;
            }
            self.drop_if_unused(&partition);
        }
        let turns = self.rotation.values();
        let mut rows = Vec::with_capacity(self.wants);
        for partition in turns {
            if let Some(row) = self.by_partition.get_mut(partition).and_then(|member| {
                let demand = member.want?;
                member.sent = Some((serial, sent_of(&demand)));
                Some(row(partition, &demand))
            }) {
                rows.push(row);
            }
        }
        rows
    }

    /// Rows of an incremental request: what changed, and who leaves.
    pub(super) fn changes(&mut self, serial: u64) -> (Vec<Partition>, Vec<Forgotten>) {
        let mut rows = Vec::with_capacity(self.changed.len());
        for partition in std::mem::take(&mut self.changed) {
            if let Some(member) = self.by_partition.get_mut(&partition)
                && let Some(demand) = member.want
            {
                member.sent = Some((serial, sent_of(&demand)));
                rows.push(row(&partition, &demand));
            }
        }
        let mut forgotten = std::mem::take(&mut self.retired);
        for partition in std::mem::take(&mut self.leaving) {
            if let Some(member) = self.by_partition.get_mut(&partition) {
                if member.want.is_some() || self.owing.contains(&partition) {
                    continue;
                }
                if let Some((_, sent)) = member.sent.take().filter(|(told, _)| *told == serial) {
                    forgotten.push(Forgotten {
                        topic: partition.topic.clone(),
                        topic_id: sent.topic_id,
                        partition: partition.partition,
                    });
                }
            }
            self.drop_if_unused(&partition);
        }
        (rows, forgotten)
    }

    fn uncount(&mut self, demand: &Demand) {
        self.wants -= 1;
        self.bytes -= limit(demand);
        self.followers -= usize::from(demand.stamp.role == Role::Follower);
        self.nameless -= usize::from(demand.topic_id.is_none());
    }

    fn retire(&mut self, partition: &TopicPartition, topic_id: Option<TopicId>) {
        if let Some(id) = topic_id {
            self.names.remove(&id);
        }
        self.retired.push(Forgotten {
            topic: partition.topic.clone(),
            topic_id,
            partition: partition.partition,
        });
    }

    fn drop_if_unused(&mut self, partition: &TopicPartition) {
        let unused = self.by_partition.get(partition).is_some_and(|member| {
            member.want.is_none()
                && member.flying.is_none()
                && member.sent.is_none()
                && !self.owing.contains(partition)
        });
        if unused && let Some(member) = self.by_partition.remove(partition) {
            self.rotation.remove(&member.turn);
        }
    }
}

fn limit(demand: &Demand) -> usize {
    usize::try_from(demand.max_bytes).unwrap_or(0)
}

fn sent_of(demand: &Demand) -> Sent {
    Sent {
        offset: demand.stamp.offset,
        leader_epoch: demand.stamp.epoch,
        last_fetched_epoch: demand.last_fetched_epoch,
        max_bytes: demand.max_bytes,
        topic_id: demand.topic_id,
    }
}

fn row(partition: &TopicPartition, demand: &Demand) -> Partition {
    Partition {
        topic: partition.topic.clone(),
        topic_id: demand.topic_id,
        partition: partition.partition,
        current_leader_epoch: demand.stamp.epoch,
        fetch_offset: demand.stamp.offset,
        last_fetched_epoch: demand.last_fetched_epoch,
        max_bytes: demand.max_bytes,
    }
}
