//! Elections, reassignment, and followers held back.

use std::time::Duration;

use super::super::cluster::Cluster;
use super::super::partition::{Partition, Replica};
use super::ControlError;
use crate::ids::{BrokerId, LeaderEpoch, TopicPartition};

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

    /// Elects a replica that may be out of sync, as `unclean.leader.election.enable` would: what it
    /// never had is lost, and the others have to follow.
    ///
    /// # Errors
    ///
    /// As [`move_leader`](Self::move_leader).
    pub fn elect_unclean(
        &mut self,
        at: &TopicPartition,
        leader: BrokerId,
    ) -> Result<LeaderEpoch, ControlError> {
        let key = self.key(at)?;
        if let Some(partition) = self.topics.partition_mut(key) {
            partition.isr = vec![leader];
        }
        self.move_leader(at, leader)
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

    /// Gives the partition other replicas, preferred leader first. New ones are in sync at once;
    /// the epoch rises if a replica goes or the leader changes (routing.md F15).
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
    /// Only a leader judges its followers: without one nothing happens, or the last replica that
    /// may be elected would be gone.
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
        if partition.leader.is_some_and(|leader| leader != follower) {
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
