//! What a test, a demo or an operator does to the cluster: topics, records, faults, inspection.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::batch::Header;
use super::broker::{Health, Link};
use super::cluster::{Cluster, Timer};
use super::partition::{Partition, PartitionView, Replica};
use super::topics::PartitionKey;
use super::{Api, Record, Rule, RuleId, Seen, encode_batch};
use crate::ids::{BrokerId, GroupId, LeaderEpoch, Offset, TopicId, TopicName, TopicPartition};

/// Why a control call was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlError {
    /// No such topic or partition.
    UnknownPartition(TopicPartition),
    /// No such topic.
    UnknownTopic(TopicName),
    /// A topic of this name exists.
    TopicExists(TopicName),
    /// Fewer brokers than replicas wanted, no replica at all, or a broker that does not exist.
    NotEnoughBrokers,
    /// The partition has no leader to append to.
    NoLeader(TopicPartition),
    /// The broker is not an in-sync replica that lives.
    NotEligible(BrokerId),
    /// The bytes are not whole v2 batches.
    BadBatch,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPartition(at) => write!(f, "partition {at} does not exist"),
            Self::UnknownTopic(name) => write!(f, "topic {name} does not exist"),
            Self::TopicExists(name) => write!(f, "topic {name} exists already"),
            Self::NotEnoughBrokers => f.write_str("not enough brokers for the replicas wanted"),
            Self::NoLeader(at) => write!(f, "partition {at} has no leader"),
            Self::NotEligible(broker) => {
                write!(f, "broker {broker} is not a living in-sync replica")
            }
            Self::BadBatch => f.write_str("the bytes are not whole v2 record batches"),
        }
    }
}

impl std::error::Error for ControlError {}

/// Topics and records.
impl Cluster {
    /// Creates a topic; leaders are spread over the brokers in turn.
    ///
    /// # Errors
    ///
    /// The name is taken, or there are fewer brokers than replicas.
    pub fn create_topic(
        &mut self,
        name: impl Into<TopicName>,
        partitions: u32,
        replication: usize,
    ) -> Result<TopicId, ControlError> {
        let ids: Vec<BrokerId> = self.brokers.keys().copied().collect();
        if replication == 0 || replication > ids.len() {
            return Err(ControlError::NotEnoughBrokers);
        }
        let turn = |first: u32| {
            let skip = usize::try_from(first).unwrap_or(0) % ids.len();
            ids.iter()
                .cycle()
                .skip(skip)
                .take(replication)
                .copied()
                .collect()
        };
        let assignment: Vec<Vec<BrokerId>> = (0..partitions).map(turn).collect();
        self.create_topic_on(name, &assignment)
    }

    /// Creates a topic with the given replicas per partition, preferred leader first.
    ///
    /// # Errors
    ///
    /// The name is taken, or a partition has no replica or an unknown one.
    pub fn create_topic_on(
        &mut self,
        name: impl Into<TopicName>,
        assignment: &[Vec<BrokerId>],
    ) -> Result<TopicId, ControlError> {
        let name = name.into();
        if self.topics.contains(&name) {
            return Err(ControlError::TopicExists(name));
        }
        let known = |replicas: &Vec<BrokerId>| {
            !replicas.is_empty() && replicas.iter().all(|id| self.brokers.contains_key(id))
        };
        if !assignment.iter().all(known) {
            return Err(ControlError::NotEnoughBrokers);
        }
        let partitions = (0_i32..).zip(assignment).map(|(index, replicas)| {
            Partition::new(TopicPartition::new(name.clone(), index), replicas, self.now)
        });
        let partitions = partitions.collect();
        let index = self.topics.add(name, partitions);
        Ok(TopicId(
            self.topics
                .topic(index)
                .map_or_else(uuid::Uuid::nil, |topic| topic.id),
        ))
    }

    /// Deletes a topic. Created again under the same name it has another id.
    ///
    /// # Errors
    ///
    /// There is no such topic.
    pub fn delete_topic(&mut self, name: &TopicName) -> Result<(), ControlError> {
        let gone = self.topics.remove(name);
        gone.map(drop)
            .ok_or_else(|| ControlError::UnknownTopic(name.clone()))
    }

    /// Appends `records` as one batch at the leader and returns the offset of the first. They reach
    /// the followers, and consumers, by replication.
    ///
    /// # Errors
    ///
    /// No such partition, no leader, or no records.
    pub fn produce(
        &mut self,
        at: &TopicPartition,
        records: &[Record],
    ) -> Result<Offset, ControlError> {
        self.append(at, encode_batch(records))
    }

    /// Appends whole raw batches at the leader; offsets and leader epochs are assigned.
    ///
    /// # Errors
    ///
    /// No such partition, no leader, or bytes that are not whole batches.
    pub fn append(&mut self, at: &TopicPartition, batches: Bytes) -> Result<Offset, ControlError> {
        let key = self.key(at)?;
        let first = self.append_batches(key, batches)?;
        self.appended(key);
        Ok(first)
    }

    /// As [`append`](Self::append), but every in-sync replica has the records, and knows that the
    /// others have them, at once.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn preload(&mut self, at: &TopicPartition, batches: Bytes) -> Result<Offset, ControlError> {
        let key = self.key(at)?;
        let first = self.append_batches(key, batches)?;
        self.settle(key);
        Ok(first)
    }

    /// Every in-sync replica catches up at once.
    pub(super) fn settle(&mut self, key: PartitionKey) {
        let now = self.now;
        let Some(partition) = self.topics.partition_mut(key) else {
            return;
        };
        let end = partition.log.end();
        let isr = partition.isr.clone();
        for broker in &isr {
            if let Some(replica) = partition.replica_mut(*broker) {
                (replica.end, replica.seen_end, replica.high_watermark) = (end, end, end);
                replica.caught_up_at = now;
            }
        }
        for broker in isr {
            super::api::fetch::wake(self, key, broker, super::api::fetch::Wake::Records);
        }
        super::api::produce::wake(self, key);
        self.wake_followers(key);
    }

    /// Rewrites and stores batches at the end of the log; the leader's own log end follows.
    pub(super) fn append_batches(
        &mut self,
        key: PartitionKey,
        batches: Bytes,
    ) -> Result<Offset, ControlError> {
        let now = self.now;
        let Some(partition) = self.topics.partition_mut(key) else {
            return Err(ControlError::BadBatch);
        };
        let leader = partition
            .leader
            .ok_or_else(|| ControlError::NoLeader(partition.at.clone()))?;
        let first = partition.log.end();
        let (chunk, headers) = assign_offsets(batches, first, partition.epoch)?;
        for replica in &mut partition.replicas {
            if replica.seen_end >= first {
                replica.caught_up_at = now;
            }
        }
        partition.log.append(chunk, &headers);
        let end = partition.log.end();
        if let Some(own) = partition.replica_mut(leader) {
            (own.end, own.seen_end) = (end, end);
        }
        Ok(Offset(first))
    }

    /// The leader's log has grown.
    pub(super) fn appended(&mut self, key: PartitionKey) {
        let advances = self
            .topics
            .partition_mut(key)
            .is_some_and(Partition::advance_high_watermark);
        if advances {
            self.high_watermark_moved(key);
        }
        self.wake_followers(key);
    }

    /// Moves the log start, as retention or DeleteRecords would.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn delete_records(
        &mut self,
        at: &TopicPartition,
        before: Offset,
    ) -> Result<(), ControlError> {
        let key = self.key(at)?;
        if let Some(partition) = self.topics.partition_mut(key) {
            let limit = before.0.min(partition.high_watermark());
            partition.log.delete_before(limit);
        }
        Ok(())
    }

    pub(super) fn key(&self, at: &TopicPartition) -> Result<PartitionKey, ControlError> {
        self.topics
            .key(at)
            .ok_or_else(|| ControlError::UnknownPartition(at.clone()))
    }

    pub(super) fn auto_create(&mut self, name: &TopicName) {
        if let Some(partitions) = self.settings.auto_create_partitions {
            let replication = self.brokers.len().min(3);
            if self
                .create_topic(name.clone(), partitions, replication)
                .is_err()
            {
                debug_assert!(
                    self.topics.contains(name),
                    "brokers suffice for the replication"
                );
            }
        }
    }
}

/// Leadership and replication.
impl Cluster {
    /// Elects `leader` and raises the epoch, as a preferred election after a reordering would.
    ///
    /// # Errors
    ///
    /// No such partition, or `leader` is not a living in-sync replica.
    pub fn move_leader(
        &mut self,
        at: &TopicPartition,
        leader: BrokerId,
    ) -> Result<LeaderEpoch, ControlError> {
        let key = self.key(at)?;
        self.elect(key, Some(leader));
        let view = self.topics.partition(key).map(Partition::view);
        match view {
            Some(view) if view.leader == Some(leader) => Ok(view.epoch),
            _ => Err(ControlError::NotEligible(leader)),
        }
    }

    /// Elects the first replica in order of preference, if it is in sync and lives.
    ///
    /// # Errors
    ///
    /// As [`move_leader`](Self::move_leader).
    pub fn elect_preferred(&mut self, at: &TopicPartition) -> Result<LeaderEpoch, ControlError> {
        let key = self.key(at)?;
        let first = self
            .topics
            .partition(key)
            .and_then(|p| p.replicas.first())
            .map(|r| r.broker);
        self.move_leader(at, first.ok_or(ControlError::NotEnoughBrokers)?)
    }

    /// Raises the leader epoch without moving the leader, as a broker restart does.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn raise_epoch(
        &mut self,
        at: &TopicPartition,
        epoch: LeaderEpoch,
    ) -> Result<(), ControlError> {
        let key = self.key(at)?;
        let now = self.now;
        if let Some(partition) = self.topics.partition_mut(key) {
            partition.epoch = partition.epoch.max(epoch.0 - 1);
            partition.lead(partition.leader, now);
        }
        self.leadership_changed(key);
        Ok(())
    }

    /// Gives the partition other replicas, preferred leader first. New ones are in sync at once; the
    /// epoch rises if a replica goes or the leader changes (F15).
    ///
    /// # Errors
    ///
    /// No such partition, no replicas, or an unknown broker.
    pub fn reassign(
        &mut self,
        at: &TopicPartition,
        replicas: &[BrokerId],
    ) -> Result<(), ControlError> {
        let key = self.key(at)?;
        if replicas.is_empty() || !replicas.iter().all(|id| self.brokers.contains_key(id)) {
            return Err(ControlError::NotEnoughBrokers);
        }
        let now = self.now;
        let Some(partition) = self.topics.partition_mut(key) else {
            return Ok(());
        };
        let (end, high_watermark) = (partition.log.end(), partition.high_watermark());
        let carry = |&broker: &BrokerId| {
            let joins = Replica {
                end,
                high_watermark,
                seen_end: end,
                ..Replica::new(broker, now)
            };
            partition.replica(broker).copied().unwrap_or(joins)
        };
        let next: Vec<Replica> = replicas.iter().map(carry).collect();
        let removed = partition
            .replicas
            .iter()
            .any(|old| !replicas.contains(&old.broker));
        let joined = next
            .iter()
            .filter(|new| partition.replica(new.broker).is_none());
        let joined: Vec<BrokerId> = joined.map(|new| new.broker).collect();
        partition.isr.retain(|member| replicas.contains(member));
        partition.isr.extend(joined);
        partition.replicas = next;
        if partition
            .leader
            .is_some_and(|leader| !replicas.contains(&leader))
        {
            self.elect(key, None);
        } else if removed {
            partition.lead(partition.leader, now);
            self.leadership_changed(key);
        }
        Ok(())
    }

    /// Takes a follower out of the ISR now. It comes back with its next fetch unless it is held.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn shrink_isr(
        &mut self,
        at: &TopicPartition,
        follower: BrokerId,
    ) -> Result<(), ControlError> {
        let key = self.key(at)?;
        let Some(partition) = self.topics.partition_mut(key) else {
            return Ok(());
        };
        if !partition.is_leader(follower) {
            partition.isr.retain(|&member| member != follower);
        }
        if partition.advance_high_watermark() {
            self.high_watermark_moved(key);
        }
        self.wake_followers(key);
        Ok(())
    }

    /// Stops (`true`) or restarts the fetches of one follower of one partition.
    ///
    /// # Errors
    ///
    /// No such partition, or `follower` is not a replica of it.
    pub fn hold_replica(
        &mut self,
        at: &TopicPartition,
        follower: BrokerId,
        held: bool,
    ) -> Result<(), ControlError> {
        let key = self.key(at)?;
        let partition = self.topics.partition_mut(key);
        let replica = partition.and_then(|p| p.replica_mut(follower));
        replica.ok_or(ControlError::NotEligible(follower))?.held = held;
        self.wake_followers(key);
        Ok(())
    }

    /// Stops (`false`) or restarts all follower fetches of a broker.
    pub fn set_replicating(&mut self, broker: BrokerId, replicating: bool) {
        if let Some(state) = self.brokers.get_mut(&broker) {
            state.replicating = replicating;
        }
        if replicating {
            self.restart_followers(broker);
        }
    }

    /// Sets the pause between two follower fetches of a broker: its lag behind the leaders.
    pub fn set_replication_delay(&mut self, broker: BrokerId, delay: Duration) {
        if let Some(state) = self.brokers.get_mut(&broker) {
            state.replication_delay = Some(delay);
        }
    }
}

/// Faults.
impl Cluster {
    /// Kills a broker: connections close, new ones are refused, its sessions are lost. The
    /// controller notices after `broker_session`.
    pub fn kill(&mut self, broker: BrokerId) {
        let (slots, due) = (
            self.settings.fetch_session_slots,
            self.now + self.settings.broker_session,
        );
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        state.health = Health::Down;
        state.sessions = super::api::fetch::Sessions::new(slots);
        self.close_all(broker);
        self.lose_coordinator(broker);
        self.arm(Timer::Fence(broker), due);
    }

    /// Stops a broker as SIGSTOP does: it accepts everything and handles nothing until
    /// [`revive`](Self::revive). The controller notices after `broker_session`.
    pub fn freeze(&mut self, broker: BrokerId) {
        let due = self.now + self.settings.broker_session;
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        if state.health == Health::Up {
            state.health = Health::Frozen;
            self.arm(Timer::Fence(broker), due);
        }
    }

    /// Starts a killed broker, or lets a frozen one go on. Its replicas catch up and rejoin.
    pub fn revive(&mut self, broker: BrokerId) {
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        state.health = Health::Up;
        state.fenced = false;
        self.restart_followers(broker);
        self.resume(broker);
    }

    /// Makes the controller notice a dead broker now.
    pub fn notice(&mut self, broker: BrokerId) {
        self.fence(broker);
    }

    /// Changes the network between the clients and one broker. The cluster stays healthy. What is
    /// sent over a silent link arrives when it opens again, as TCP would retransmit it.
    pub fn set_link(&mut self, broker: BrokerId, link: Link) {
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        state.link = link;
        match link {
            Link::Open => self.release_packets(),
            Link::Refused => self.close_all(broker),
            Link::Silent => {}
        }
    }

    /// Closes every connection to a broker once.
    pub fn drop_connections(&mut self, broker: BrokerId) {
        self.close_all(broker);
    }

    /// Delays every further answer of a broker.
    pub fn set_answer_delay(&mut self, broker: BrokerId, delay: Duration) {
        if let Some(state) = self.brokers.get_mut(&broker) {
            state.answer_delay = delay;
        }
    }

    /// Limits the versions of an API that a broker serves; an empty range withdraws the API.
    pub fn limit_versions(&mut self, broker: BrokerId, api: Api, versions: RangeInclusive<i16>) {
        if let Some(state) = self.brokers.get_mut(&broker) {
            let low = api.min_version().max(*versions.start());
            state
                .versions
                .insert(api, (low, api.max_version().min(*versions.end())));
        }
    }

    /// Forgets all fetch sessions of a broker: the next incremental request gets code 70.
    pub fn evict_sessions(&mut self, broker: BrokerId) {
        let slots = self.settings.fetch_session_slots;
        if let Some(state) = self.brokers.get_mut(&broker) {
            state.sessions = super::api::fetch::Sessions::new(slots);
        }
    }

    /// Adds a rule to the fault plan.
    pub fn inject(&mut self, rule: Rule) -> RuleId {
        self.faults.inject(rule)
    }

    /// Takes a rule out of the fault plan; false if it has spent itself.
    pub fn withdraw(&mut self, rule: RuleId) -> bool {
        self.faults.withdraw(rule)
    }

    /// Empties the fault plan, denied groups included.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Every request about this group fails with GROUP_AUTHORIZATION_FAILED from now on.
    pub fn deny_group(&mut self, group: impl Into<GroupId>) {
        self.faults.deny_group(group.into());
    }
}

/// Inspection.
impl Cluster {
    /// Leadership, replicas and watermarks of a partition.
    pub fn partition(&self, at: &TopicPartition) -> Option<PartitionView> {
        self.topics
            .partition(self.topics.key(at)?)
            .map(Partition::view)
    }

    /// The names of all topics, in order.
    pub fn topics(&self) -> impl Iterator<Item = &TopicName> {
        self.topics.names().map(|(name, _)| name)
    }

    /// Requests received, oldest first, within `history_max`.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &Seen> {
        self.history.iter()
    }

    /// Requests received since the last call, oldest first.
    pub fn take_history(&mut self) -> Vec<Seen> {
        self.history.take()
    }

    /// Record-set bytes a broker served to consumers since the start.
    pub fn record_bytes(&self, broker: BrokerId) -> u64 {
        self.history.record_bytes(broker)
    }

    /// Requests of one API a broker received since the start.
    pub fn requests(&self, broker: BrokerId, api: Api) -> u64 {
        self.history.requests(broker, api)
    }
}

/// Gives the batches their place: offsets from `first` on, and the leader's epoch.
fn assign_offsets(
    batches: Bytes,
    first: i64,
    epoch: i32,
) -> Result<(Bytes, Vec<Header>), ControlError> {
    let mut chunk = batches
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    let (mut headers, mut at, mut offset) = (Vec::new(), 0, first);
    while at < chunk.len() {
        let rest = chunk.get_mut(at..).ok_or(ControlError::BadBatch)?;
        let mut header = Header::read(rest).map_err(|_| ControlError::BadBatch)?;
        Header::assign(rest, offset, epoch);
        header.base_offset = offset;
        offset = offset
            .saturating_add(i64::from(header.last_delta))
            .saturating_add(1);
        at = at.saturating_add(header.size);
        headers.push(header);
    }
    if headers.is_empty() {
        Err(ControlError::BadBatch)
    } else {
        Ok((chunk.freeze(), headers))
    }
}
