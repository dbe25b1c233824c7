//! One partition: leadership, replicas, in-sync set, watermarks, epochs and producers.

use std::collections::BTreeMap;

use super::api::produce::ProducerState;
use super::log::Log;
use crate::ids::{BrokerId, LeaderEpoch, Moment, Offset, TopicPartition};

/// A partition as the cluster knows it, for inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    /// The leader, if there is one.
    pub leader: Option<BrokerId>,
    /// The leader epoch.
    pub epoch: LeaderEpoch,
    /// In-sync replicas.
    pub isr: Vec<BrokerId>,
    /// First offset retained.
    pub log_start: Offset,
    /// The leader's high watermark.
    pub high_watermark: Offset,
    /// The leader's log end.
    pub log_end: Offset,
    /// All replicas in order of preference.
    pub replicas: Vec<ReplicaView>,
}

/// One replica of a partition, for inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    /// The broker that holds it.
    pub broker: BrokerId,
    /// Its log end.
    pub log_end: Offset,
    /// The high watermark as it knows it.
    pub high_watermark: Offset,
}

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) at: TopicPartition,
    pub(super) leader: Option<BrokerId>,
    pub(super) epoch: i32,
    pub(super) isr: Vec<BrokerId>,
    /// In order of preference.
    pub(super) replicas: Vec<Replica>,
    pub(super) log: Log,
    /// First offset of each leader epoch (KIP-101), ascending.
    pub(super) epochs: Vec<(i32, i64)>,
    pub(super) producers: BTreeMap<i64, ProducerState>,
    pub(super) lag_check: bool,
    /// Where a transaction began that nobody has ended.
    pub(super) open_from: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Replica {
    pub(super) broker: BrokerId,
    pub(super) end: i64,
    pub(super) high_watermark: i64,
    /// Its log end as its last fetch told the leader; -1 before the first under this leader.
    pub(super) seen_end: i64,
    pub(super) caught_up_at: Moment,
    /// When its next fetch is due, if it has something to fetch.
    pub(super) fetch_due: Option<Moment>,
    /// Held back by a test: it does not fetch.
    pub(super) held: bool,
}

impl Partition {
    pub(super) fn new(at: TopicPartition, replicas: &[BrokerId], now: Moment) -> Self {
        let replica = |&broker: &BrokerId| Replica::new(broker, now);
        Self {
            at,
            leader: replicas.first().copied(),
            epoch: 0,
            isr: replicas.to_vec(),
            replicas: replicas.iter().map(replica).collect(),
            log: Log::default(),
            epochs: vec![(0, 0)],
            producers: BTreeMap::new(),
            lag_check: false,
            open_from: None,
        }
    }

    pub(super) fn replica(&self, broker: BrokerId) -> Option<&Replica> {
        self.replicas
            .iter()
            .find(|replica| replica.broker == broker)
    }

    pub(super) fn replica_mut(&mut self, broker: BrokerId) -> Option<&mut Replica> {
        self.replicas
            .iter_mut()
            .find(|replica| replica.broker == broker)
    }

    pub(super) fn is_leader(&self, broker: BrokerId) -> bool {
        self.leader == Some(broker)
    }

    /// The leader's high watermark.
    pub(super) fn high_watermark(&self) -> i64 {
        let of_leader = self.leader.and_then(|leader| self.replica(leader));
        let known = of_leader.map(|replica| replica.high_watermark);
        known
            .or_else(|| {
                self.replicas
                    .iter()
                    .map(|replica| replica.high_watermark)
                    .max()
            })
            .unwrap_or(0)
    }

    /// How far followers and consumers may read at `broker`: its high watermark and log end.
    pub(super) fn bounds(&self, broker: BrokerId) -> Option<(i64, i64)> {
        self.replica(broker)
            .map(|replica| (replica.high_watermark, replica.end))
    }

    /// The last stable offset below a high watermark.
    pub(super) fn stable_below(&self, high_watermark: i64) -> i64 {
        self.open_from
            .map_or(high_watermark, |open| open.min(high_watermark))
    }

    /// The largest epoch at or below `epoch`, and where it ends (KIP-101); `None` if `epoch` is
    /// newer than any known. An epoch older than all ends where the first known one starts.
    /// `log_end` is where the replica asked ends.
    pub(super) fn end_of_epoch(&self, epoch: i32, log_end: i64) -> Option<(i32, i64)> {
        let (latest, _) = *self.epochs.last()?;
        if epoch > latest {
            return None;
        }
        let later = self.epochs.partition_point(|&(known, _)| known <= epoch);
        let floor = later
            .checked_sub(1)
            .and_then(|index| self.epochs.get(index));
        let found = floor.map_or(epoch, |&(known, _)| known);
        let end = self
            .epochs
            .get(later)
            .map_or(log_end, |&(_, start)| start.min(log_end));
        Some((found, end))
    }

    /// The leader epoch of the record at `offset`.
    pub(super) fn epoch_at(&self, offset: i64) -> i32 {
        let later = self.epochs.partition_point(|&(_, start)| start <= offset);
        let found = later
            .checked_sub(1)
            .and_then(|index| self.epochs.get(index));
        found.map_or(-1, |&(epoch, _)| epoch)
    }

    pub(super) fn view(&self) -> PartitionView {
        let replica = |replica: &Replica| ReplicaView {
            broker: replica.broker,
            log_end: Offset(replica.end),
            high_watermark: Offset(replica.high_watermark),
        };
        PartitionView {
            leader: self.leader,
            epoch: LeaderEpoch(self.epoch),
            isr: self.isr.clone(),
            log_start: Offset(self.log.start()),
            high_watermark: Offset(self.high_watermark()),
            log_end: Offset(self.log.end()),
            replicas: self.replicas.iter().map(replica).collect(),
        }
    }
}

impl Replica {
    pub(super) fn new(broker: BrokerId, now: Moment) -> Self {
        Self {
            broker,
            end: 0,
            high_watermark: 0,
            seen_end: 0,
            caught_up_at: now,
            fetch_due: None,
            held: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next() {
        let mut partition =
            Partition::new(TopicPartition::new("t", 0), &[BrokerId(1)], Moment::ZERO);
        partition.epochs = vec![(2, 0), (5, 800)];
        assert_eq!(partition.end_of_epoch(5, 900), Some((5, 900)));
        assert_eq!(partition.end_of_epoch(3, 900), Some((2, 800)));
        assert_eq!(partition.end_of_epoch(6, 900), None);
        assert_eq!(partition.end_of_epoch(1, 900), Some((1, 0)));
        assert_eq!(partition.epoch_at(799), 2);
        assert_eq!(partition.epoch_at(800), 5);
    }
}
