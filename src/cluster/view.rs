//! The working copy of the snapshot, and what its merges must remember beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::diff::{Diff, LeaderSource};
use super::hints::HintWatch;
use super::input::{Reason, Want};
use super::isr::IsrWatch;
use super::output::{Counted, Target};
use super::regress::RegressWatch;
use super::settings::Settings;
use super::snapshot::Snapshot;
use super::topic::{Partition, Topic};
use super::topics::TopicWatch;
use crate::ids::{BrokerId, LeaderEpoch, Moment, TopicName, TopicPartition};

/// The working copy. Merges change it and leave differences, needs and counts behind.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) settings: Settings,
    pub(super) work: Snapshot,
    pub(super) diffs: Vec<Diff>,
    pub(super) asks: Vec<Ask>,
    pub(super) counts: Vec<Counted>,
    pub(super) watches: BTreeMap<TopicPartition, Watch>,
    pub(super) topic_watches: BTreeMap<TopicName, TopicWatch>,
    /// Partitions whose leader has no address yet.
    pub(super) unaddressable: BTreeSet<TopicPartition>,
    /// Hosts that Metadata has named, for `route.hint.endpoints=known_hosts`.
    pub(super) hosts: BTreeSet<Arc<str>>,
    /// Failed dials of hinted addresses.
    pub(super) hinted_failures: BTreeMap<BrokerId, u32>,
    /// Brokers whose hinted addresses are no longer taken.
    pub(super) hint_ids_only: BTreeSet<BrokerId>,
    /// Incarnation of a name seen for the first time.
    pub(super) incarnation_base: u64,
    sets: BTreeSet<Arc<[BrokerId]>>,
}

/// What is remembered about a partition that had news; most have none.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) isr: IsrWatch,
    pub(super) hints: HintWatch,
    pub(super) regress: Option<RegressWatch>,
    /// Epoch and moment of the last published loss of a leader.
    pub(super) lost: Option<(Option<LeaderEpoch>, Moment)>,
}

/// A wish for a refresh that a merge leaves behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ask {
    pub(super) reason: Reason,
    pub(super) want: Want,
    /// Whose view is the freshest.
    pub(super) prefer: Option<BrokerId>,
    /// Whose view has just been found wanting.
    pub(super) avoid: Option<Target>,
}

impl View {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Forgets the cluster; counters go on, so that nothing of the next one is taken for this one.
    pub(super) fn start_afresh(&mut self) {
        let lives = self.work.topics().map(|topic| topic.incarnation.0);
        self.incarnation_base = lives.max().unwrap_or_default().max(self.incarnation_base) + 1;
        let (version, revision) = (self.work.version, self.work.revision);
        self.work = Snapshot {
            version,
            revision,
            ..Snapshot::default()
        };
        self.watches.clear();
        self.topic_watches.clear();
        self.unaddressable.clear();
        self.hinted_failures.clear();
        self.hint_ids_only.clear();
    }

    pub(super) fn topic_mut(&mut self, name: &TopicName) -> Option<&mut Topic> {
        self.work.topics.get_mut(name).map(Arc::make_mut)
    }

    pub(super) fn watch(&mut self, partition: &TopicPartition) -> &mut Watch {
        self.watches.entry(partition.clone()).or_default()
    }

    /// Writes a row back, if it changed.
    pub(super) fn store(&mut self, partition: &TopicPartition, row: Partition) {
        if row.leader().is_some() && !row.addressable {
            self.unaddressable.insert(partition.clone());
        } else if !self.unaddressable.is_empty() {
            self.unaddressable.remove(partition);
        }
        if self.work.partition(partition) == Some(&row) {
            return;
        }
        if let Some(topic) = self.topic_mut(&partition.topic) {
            topic.partitions.insert(partition.partition, row);
        }
    }

    /// Tells what the leader of `partition` is now.
    pub(super) fn tell_leader(
        &mut self,
        partition: &TopicPartition,
        row: &Partition,
        source: LeaderSource,
    ) {
        let Some(topic) = self.work.topic(&partition.topic) else {
            return;
        };
        self.diffs.push(Diff::LeaderChanged {
            partition: partition.clone(),
            incarnation: topic.incarnation,
            leader: row.leader(),
            epoch: row.floor,
            addressable: row.addressable,
            source,
        });
    }

    /// Tells what the replicas of `partition` are now.
    pub(super) fn tell_replicas(&mut self, partition: &TopicPartition, row: &Partition) {
        let rack = |id: &BrokerId| self.work.broker(*id).and_then(|broker| broker.rack.clone());
        let racks = row.replicas.iter().map(rack).collect();
        self.diffs.push(Diff::ReplicasChanged {
            partition: partition.clone(),
            replicas: Arc::clone(&row.replicas),
            offline: Arc::clone(&row.offline),
            racks,
        });
    }

    /// Asks for the leader of `partition`.
    pub(super) fn ask_leader(
        &mut self,
        partition: &TopicPartition,
        reason: Reason,
        avoid: Option<Target>,
    ) {
        let want = Want::Leader {
            partition: partition.clone(),
            failed: None,
        };
        self.asks.push(Ask {
            reason,
            want,
            prefer: None,
            avoid,
        });
    }

    pub(super) fn has_address(&self, broker: Option<BrokerId>) -> bool {
        broker.is_some_and(|broker| self.work.brokers.contains_key(&broker))
    }

    /// One shared copy per distinct list: thousands of partitions have the same replicas.
    pub(super) fn shared_set(&mut self, ids: &[BrokerId]) -> Arc<[BrokerId]> {
        if let Some(known) = self.sets.get(ids) {
            return Arc::clone(known);
        }
        if self.sets.len() >= SETS_MAX {
            self.sets.clear();
        }
        let fresh: Arc<[BrokerId]> = ids.into();
        self.sets.insert(Arc::clone(&fresh));
        fresh
    }

    /// As [`shared_set`](Self::shared_set), in ascending order.
    pub(super) fn sorted_set(&mut self, ids: &[BrokerId]) -> Arc<[BrokerId]> {
        if ids.is_sorted() {
            return self.shared_set(ids);
        }
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        self.shared_set(&sorted)
    }
}

/// Distinct replica lists remembered for sharing; beyond, sharing starts anew.
const SETS_MAX: usize = 16_384;
