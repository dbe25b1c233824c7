//! Replication and leadership in virtual time: follower fetches, the high watermark, the in-sync
//! set, elections.

use std::time::Duration;

use super::api::{fetch, produce};
use super::broker::Health;
use super::cluster::{Cluster, Timer};
use super::partition::Partition;
use super::topics::PartitionKey;
use crate::ids::{BrokerId, Moment};

impl Cluster {
    /// Followers of `key` have something to fetch, or may have.
    pub(super) fn wake_followers(&mut self, key: PartitionKey) {
        let Some(partition) = self.topics.partition(key) else {
            return;
        };
        let followers: Vec<BrokerId> = partition
            .replicas
            .iter()
            .filter(|replica| replica.fetch_due.is_none() && partition.behind(replica.broker))
            .map(|replica| replica.broker)
            .collect();
        for broker in followers {
            self.schedule_fetch(key, broker);
        }
        self.arm_lag_check(key);
    }

    fn schedule_fetch(&mut self, key: PartitionKey, broker: BrokerId) {
        let Some(state) = self.brokers.get(&broker) else {
            return;
        };
        let held = self
            .topics
            .partition(key)
            .and_then(|p| p.replica(broker))
            .is_none_or(|r| r.held);
        if !state.runs() || !state.replicating || held {
            return;
        }
        let delay = state
            .replication_delay
            .unwrap_or(self.settings.replication_delay);
        let due = self.now + delay;
        self.set_fetch_due(key, broker, Some(due));
        if delay.is_zero() {
            self.follower_fetch(key, broker);
        } else {
            self.arm(Timer::Replicate(key, broker), due);
        }
    }

    fn set_fetch_due(&mut self, key: PartitionKey, broker: BrokerId, due: Option<Moment>) {
        if let Some(replica) = self
            .topics
            .partition_mut(key)
            .and_then(|p| p.replica_mut(broker))
        {
            replica.fetch_due = due;
        }
    }

    /// One fetch of a follower: it tells the leader where its log ends, which may move the high
    /// watermark and the ISR, and takes home what the leader has.
    pub(super) fn follower_fetch(&mut self, key: PartitionKey, broker: BrokerId) {
        let now = self.now;
        let Some(replica) = self
            .topics
            .partition(key)
            .and_then(|p| p.replica(broker))
            .copied()
        else {
            return;
        };
        if replica.fetch_due.is_none_or(|due| due > now) {
            return;
        }
        self.set_fetch_due(key, broker, None);
        let follower_runs = !replica.held
            && self
                .brokers
                .get(&broker)
                .is_some_and(|b| b.runs() && b.replicating);
        let Some(partition) = self.topics.partition(key) else {
            return;
        };
        let leader = partition.leader.filter(|&leader| leader != broker);
        let leader_runs = leader
            .and_then(|leader| self.brokers.get(&leader))
            .is_some_and(|leader| leader.health == Health::Up);
        let fenced = self.brokers.get(&broker).is_none_or(|broker| broker.fenced);
        if !follower_runs || !leader_runs {
            return;
        }
        let Some(partition) = self.topics.partition_mut(key) else {
            return;
        };
        partition.note_follower_end(broker, fenced, now);
        let leader_moved = partition.advance_high_watermark();
        let follower_moved = partition.copy_to(broker);
        if leader_moved {
            self.high_watermark_moved(key);
        }
        if follower_moved {
            fetch::wake(self, key, broker, fetch::Wake::Records);
        }
        self.wake_followers(key);
    }

    /// The leader's high watermark rose: parked fetches and produces may be done.
    pub(super) fn high_watermark_moved(&mut self, key: PartitionKey) {
        let Some(leader) = self.topics.partition(key).and_then(|p| p.leader) else {
            return;
        };
        fetch::wake(self, key, leader, fetch::Wake::Records);
        produce::wake(self, key);
        self.wake_followers(key);
    }

    fn arm_lag_check(&mut self, key: PartitionKey) {
        let lag_max = self.settings.replica_lag_max;
        let Some(partition) = self.topics.partition_mut(key) else {
            return;
        };
        if partition.lag_check {
            return;
        }
        if let Some(since) = partition.oldest_lag() {
            partition.lag_check = true;
            self.arm(Timer::LagCheck(key), since + lag_max);
        }
    }

    /// Takes followers out of the ISR that were not caught up for too long.
    pub(super) fn check_lag(&mut self, key: PartitionKey) {
        let (now, lag_max) = (self.now, self.settings.replica_lag_max);
        let leader = self
            .topics
            .partition(key)
            .and_then(|partition| partition.leader);
        let leads = leader
            .and_then(|leader| self.brokers.get(&leader))
            .is_some_and(|b| b.runs());
        let Some(partition) = self.topics.partition_mut(key) else {
            return;
        };
        partition.lag_check = false;
        // A leader that stands still judges nobody; the next append or revival arms this again.
        if !leads {
            return;
        }
        partition.drop_laggards(lag_max, now);
        if partition.advance_high_watermark() {
            self.high_watermark_moved(key);
        }
        self.arm_lag_check(key);
    }

    /// The controller notices that `broker` is gone: it leaves every ISR it can leave, and leaders
    /// move on. F15: a follower's departure does not raise the epoch.
    pub(super) fn fence(&mut self, broker: BrokerId) {
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        if state.health == Health::Up || state.fenced {
            return;
        }
        state.fenced = true;
        for key in self.topics.keys() {
            let Some(partition) = self.topics.partition_mut(key) else {
                continue;
            };
            if partition.replica(broker).is_none() {
                continue;
            }
            if partition.isr.len() > 1 {
                partition.isr.retain(|&member| member != broker);
            }
            if partition.is_leader(broker) {
                self.elect(key, None);
            } else if partition.advance_high_watermark() {
                self.high_watermark_moved(key);
            }
        }
    }

    /// Elects a leader among the living in-sync replicas: `wanted` if it is one, else the first in
    /// order of preference, else none. Raises the epoch if anything changes.
    pub(super) fn elect(&mut self, key: PartitionKey, wanted: Option<BrokerId>) {
        let Some(partition) = self.topics.partition(key) else {
            return;
        };
        let eligible = |broker: &BrokerId| {
            let lives = self
                .brokers
                .get(broker)
                .is_some_and(|b| !b.fenced && b.health == Health::Up);
            lives && partition.isr.contains(broker)
        };
        let preferred = partition
            .replicas
            .iter()
            .map(|replica| replica.broker)
            .find(eligible);
        let chosen = wanted.filter(eligible).or(preferred);
        let before = partition.leader;
        if chosen == before {
            return;
        }
        let now = self.now;
        if let Some(partition) = self.topics.partition_mut(key) {
            partition.lead(chosen, now);
        }
        self.leadership_changed(key);
    }

    /// Parked requests look again, followers fetch from the new leader.
    pub(super) fn leadership_changed(&mut self, key: PartitionKey) {
        let Some(partition) = self.topics.partition_mut(key) else {
            return;
        };
        let alone = partition.advance_high_watermark();
        let replicas: Vec<BrokerId> = partition.replicas.iter().map(|r| r.broker).collect();
        for broker in replicas {
            self.set_fetch_due(key, broker, None);
        }
        let brokers: Vec<BrokerId> = self.brokers.keys().copied().collect();
        for broker in brokers {
            fetch::wake(self, key, broker, fetch::Wake::Leadership);
        }
        produce::wake(self, key);
        if alone {
            self.high_watermark_moved(key);
        }
        self.wake_followers(key);
    }

    /// Lets the followers on a broker fetch again after a revival, a thaw or a hold.
    pub(super) fn restart_followers(&mut self, broker: BrokerId) {
        for key in self.topics.keys() {
            let Some(partition) = self.topics.partition(key) else {
                continue;
            };
            if partition.replica(broker).is_none() {
                continue;
            }
            if partition.leader.is_none() {
                self.elect(key, None);
            }
            self.set_fetch_due(key, broker, None);
            self.wake_followers(key);
        }
    }
}

impl Partition {
    /// Whether a follower lacks records, in-sync membership, or the news of the high watermark.
    fn behind(&self, broker: BrokerId) -> bool {
        let Some(leader) = self.leader.filter(|&leader| leader != broker) else {
            return false;
        };
        let (Some(own), Some(other)) = (self.replica(leader), self.replica(broker)) else {
            return false;
        };
        let end = self.log.end();
        other.end < end
            || other.seen_end < end
            || other.high_watermark < own.high_watermark
            || !self.isr.contains(&broker)
    }

    /// The leader learns how far a follower has come, and lets it into the ISR if that is enough.
    fn note_follower_end(&mut self, broker: BrokerId, fenced: bool, now: Moment) {
        let (end, high_watermark) = (self.log.end(), self.high_watermark());
        let epoch_start = self.epochs.last().map_or(0, |&(_, start)| start);
        let Some(replica) = self.replica_mut(broker) else {
            return;
        };
        replica.seen_end = replica.end;
        if replica.seen_end >= end {
            replica.caught_up_at = now;
        }
        let in_sync = replica.seen_end >= high_watermark && replica.seen_end >= epoch_start;
        if in_sync && !fenced && !self.isr.contains(&broker) {
            self.isr.push(broker);
        }
    }

    /// The follower takes records and high watermark home; true if consumers can see more there.
    fn copy_to(&mut self, broker: BrokerId) -> bool {
        let (end, high_watermark) = (self.log.end(), self.high_watermark());
        let Some(replica) = self.replica_mut(broker) else {
            return false;
        };
        let before = replica.high_watermark;
        replica.end = end;
        replica.high_watermark = high_watermark.min(end).max(before.min(end));
        replica.high_watermark > before
    }

    /// Raises the leader's high watermark to what every in-sync replica is known to have.
    pub(super) fn advance_high_watermark(&mut self) -> bool {
        let Some(leader) = self.leader else {
            return false;
        };
        let known = |replica: &super::partition::Replica| {
            if replica.broker == leader {
                replica.end
            } else {
                replica.seen_end
            }
        };
        let in_sync = self
            .replicas
            .iter()
            .filter(|replica| self.isr.contains(&replica.broker));
        let Some(reached) = in_sync.map(known).min() else {
            return false;
        };
        let Some(own) = self.replica_mut(leader) else {
            return false;
        };
        let advances = reached > own.high_watermark;
        own.high_watermark = own.high_watermark.max(reached);
        advances
    }

    fn oldest_lag(&self) -> Option<Moment> {
        let end = self.log.end();
        self.replicas
            .iter()
            .filter(|replica| Some(replica.broker) != self.leader && replica.seen_end < end)
            .filter(|replica| self.isr.contains(&replica.broker))
            .map(|replica| replica.caught_up_at)
            .min()
    }

    fn drop_laggards(&mut self, lag_max: Duration, now: Moment) {
        let (end, leader) = (self.log.end(), self.leader);
        let lags = |broker: &BrokerId| {
            self.replicas.iter().any(|replica| {
                replica.broker == *broker
                    && Some(*broker) != leader
                    && replica.seen_end < end
                    && now.since(replica.caught_up_at) >= lag_max
            })
        };
        let stays: Vec<BrokerId> = self
            .isr
            .iter()
            .copied()
            .filter(|broker| !lags(broker))
            .collect();
        self.isr = stays;
    }

    /// Begins a new epoch under `leader`. What the new leader never had is gone for everybody.
    pub(super) fn lead(&mut self, leader: Option<BrokerId>, now: Moment) {
        self.epoch += 1;
        self.leader = leader;
        let Some(end) = leader
            .and_then(|leader| self.replica(leader))
            .map(|own| own.end)
        else {
            return;
        };
        self.log.truncate(end);
        let end = self.log.end();
        for producer in self.producers.values_mut() {
            producer.truncate(end);
        }
        self.epochs.retain(|&(_, start)| start < end);
        self.epochs.push((self.epoch, end));
        for replica in &mut self.replicas {
            replica.end = replica.end.min(end);
            replica.high_watermark = replica.high_watermark.min(end);
            replica.seen_end = if Some(replica.broker) == leader {
                end
            } else {
                -1
            };
            replica.caught_up_at = now;
        }
    }
}
