//! Merging a Metadata answer, row by row, under the fence of the floor epoch (metadata.md 3.1).

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use super::diff::{Diff, LeaderSource};
use super::input::Reason;
use super::links::Links;
use super::output::{Counted, Target};
use super::topic::{Leadership, Partition};
use super::view::View;
use crate::ids::{BrokerId, LeaderEpoch, Moment, TopicName, TopicPartition};
use crate::wire::ErrorCode;
use crate::wire::api::metadata::{self, Response};

/// Who answered, when, and how everybody's links stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round<'a> {
    pub(super) from: Target,
    pub(super) links: &'a Links,
    pub(super) now: Moment,
}

/// What an answer was good for.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Topics it listed with an id we accept.
    pub(super) listed: BTreeSet<TopicName>,
    /// Partitions for which its row was stale, contested, without an epoch, or missing.
    pub(super) doubtful: BTreeSet<TopicPartition>,
}

impl View {
    /// Merges the brokers and topics of `answer`; the cluster id has been checked. `expected` are
    /// the names that should be in it, `keep` tells which of the others are of use.
    pub(super) fn merge(
        &mut self,
        answer: &Response,
        expected: &BTreeSet<TopicName>,
        keep: impl Fn(&TopicName) -> bool,
        round: Round<'_>,
    ) -> Merged {
        self.work.version.0 += 1;
        self.work.cluster_id = answer
            .cluster_id
            .clone()
            .or_else(|| self.work.cluster_id.take());
        self.work.controller = answer.controller.or(self.work.controller);
        self.merge_brokers(answer, round.from, round.now);
        let mut merged = Merged::default();
        let mut absent = expected.clone();
        for topic in &answer.topics {
            let Some(name) = topic.name.as_ref().filter(|name| keep(name)) else {
                continue;
            };
            let code = topic.error;
            if code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
                absent.remove(name);
            }
            if code.is_ok() && self.admit_topic(name, topic.id, round) {
                self.merge_partitions(name, &topic.partitions, round, &mut merged);
                merged.listed.insert(name.clone());
            } else if code.is_err() {
                self.topic_failed(name, code, &mut merged);
            }
        }
        for name in &absent {
            self.topic_absent(name, round);
        }
        self.drop_unlisted_brokers(answer, round.now);
        // Last: who waits for a version wants to know by then what it brought.
        self.diffs.push(Diff::MetadataVersion {
            version: self.work.version,
        });
        merged
    }

    fn merge_partitions(
        &mut self,
        name: &TopicName,
        rows: &[metadata::Partition],
        round: Round<'_>,
        merged: &mut Merged,
    ) {
        let before = self
            .work
            .topic(name)
            .map_or(0, |topic| topic.partition_count());
        let known = self
            .work
            .topic(name)
            .map_or(0, |topic| topic.partitions.len());
        for row in rows {
            let partition = TopicPartition::new(name.clone(), row.partition);
            if !self.merge_row(&partition, row, round) {
                merged.doubtful.insert(partition);
            }
        }
        let after = self
            .work
            .topic(name)
            .map_or(0, |topic| topic.partition_count());
        if after > before {
            self.diffs.push(Diff::PartitionsAdded {
                topic: name.clone(),
                from: before,
                to: after,
            });
        }
        if rows.len() < known {
            self.counts.push(Counted::FewerPartitions);
            let listed: BTreeSet<_> = rows.iter().map(|row| row.partition).collect();
            let topic = self.work.topic(name);
            let missing = topic.into_iter().flat_map(|topic| topic.partitions.keys());
            let missing = missing.filter(|index| !listed.contains(*index));
            merged
                .doubtful
                .extend(missing.map(|i| TopicPartition::new(name.clone(), *i)));
        }
    }

    /// Merges one row; false if it is no evidence for the partition's present state.
    fn merge_row(
        &mut self,
        partition: &TopicPartition,
        row: &metadata::Partition,
        round: Round<'_>,
    ) -> bool {
        // Code 9 says that some replica is away and leaves the row usable; any other code spoils
        // the leader.
        let usable = row.error.is_ok() || row.error == ErrorCode::REPLICA_NOT_AVAILABLE;
        let leader = row.leader.filter(|_| usable);
        let Some(ours) = self.work.partition(partition).cloned() else {
            self.insert_row(partition, row, leader, round);
            return true;
        };
        match (row.leader_epoch, ours.floor) {
            (Some(epoch), Some(floor)) => match epoch.cmp(&floor) {
                Ordering::Greater => self.accept_row(partition, ours, row, leader, round),
                Ordering::Equal => self.equal_row(partition, ours, row, leader, round),
                Ordering::Less => self.stale_row(partition, ours, row, leader, round),
            },
            (Some(_), None) => self.accept_row(partition, ours, row, leader, round),
            (None, Some(_)) => self.epochless_row(partition, ours, row, leader, round),
            (None, None) => self.plain_row(partition, ours, row, leader, round),
        }
    }

    fn insert_row(
        &mut self,
        partition: &TopicPartition,
        row: &metadata::Partition,
        leader: Option<BrokerId>,
        round: Round<'_>,
    ) {
        let fresh = Partition {
            leadership: named(leader),
            floor: row.leader_epoch,
            addressable: self.has_address(leader),
            replicas: self.shared_set(&row.replicas),
            offline: self.sorted_set(&row.offline),
            isr: self.sorted_set(&row.isr),
            isr_epoch: row.leader_epoch,
            source: round.from,
            observed_at: round.now,
        };
        self.store(partition, fresh.clone());
        self.tell_leader(partition, &fresh, LeaderSource::Metadata(round.from));
        self.tell_replicas(partition, &fresh);
        self.tell_isr(partition, &fresh);
        self.ask_if_leaderless(partition, &fresh, round);
    }

    /// A row of a new epoch: everything in it counts.
    pub(super) fn accept_row(
        &mut self,
        partition: &TopicPartition,
        mut ours: Partition,
        row: &metadata::Partition,
        leader: Option<BrokerId>,
        round: Round<'_>,
    ) -> bool {
        self.forgive(partition);
        ours.floor = row.leader_epoch;
        ours.leadership = named(leader);
        ours.addressable = self.has_address(leader);
        ours.observed_at = round.now;
        let moved = self.take_replicas(&mut ours, row);
        let isr = self.take_new_isr(partition, &mut ours, row, round.from);
        self.store(partition, ours.clone());
        self.tell_leader(partition, &ours, LeaderSource::Metadata(round.from));
        if moved {
            self.tell_replicas(partition, &ours);
        }
        if isr {
            self.tell_isr(partition, &ours);
        }
        self.ask_if_leaderless(partition, &ours, round);
        true
    }

    /// A row of the epoch we are at.
    fn equal_row(
        &mut self,
        partition: &TopicPartition,
        mut ours: Partition,
        row: &metadata::Partition,
        leader: Option<BrokerId>,
        round: Round<'_>,
    ) -> bool {
        self.forgive(partition);
        let Some(leader) = leader else {
            self.lose_leader(partition, ours, Some(row), round);
            return true;
        };
        if let Leadership::Known {
            leader: known,
            provisional: false,
        } = ours.leadership
            && known != leader
        {
            self.counts.push(Counted::LeaderConflict);
            self.ask_leader(partition, Reason::Contested, Some(round.from));
            return false;
        }
        let regained = ours.leader() != Some(leader);
        ours.leadership = named(Some(leader));
        self.refresh_row(partition, ours, row, regained, round)
    }

    /// Takes replicas and ISR of a row whose leadership is settled, and tells what changed.
    fn refresh_row(
        &mut self,
        partition: &TopicPartition,
        mut ours: Partition,
        row: &metadata::Partition,
        regained: bool,
        round: Round<'_>,
    ) -> bool {
        let addressable = self.has_address(ours.leader());
        let reached = addressable && !ours.addressable;
        ours.addressable = addressable;
        let moved = self.take_replicas(&mut ours, row);
        let isr = self.take_isr(partition, &mut ours, row, round);
        if regained || reached || moved || isr {
            ours.observed_at = round.now;
        }
        self.store(partition, ours.clone());
        if regained || reached {
            self.tell_leader(partition, &ours, LeaderSource::Metadata(round.from));
        }
        if moved {
            self.tell_replicas(partition, &ours);
        }
        if isr {
            self.tell_isr(partition, &ours);
        }
        true
    }

    /// A row without an epoch where one is known: "unknown", never older and never newer.
    fn epochless_row(
        &mut self,
        partition: &TopicPartition,
        mut ours: Partition,
        row: &metadata::Partition,
        leader: Option<BrokerId>,
        round: Round<'_>,
    ) -> bool {
        self.counts.push(Counted::RowWithoutEpoch);
        match leader {
            None => self.lose_leader(partition, ours, Some(row), round),
            Some(leader) if ours.leader().is_none() => {
                ours.leadership = Leadership::Known {
                    leader,
                    provisional: true,
                };
                ours.addressable = self.has_address(Some(leader));
                ours.observed_at = round.now;
                self.store(partition, ours.clone());
                self.tell_leader(partition, &ours, LeaderSource::Metadata(round.from));
            }
            Some(_) => {}
        }
        self.ask_leader(partition, Reason::Contested, Some(round.from));
        false
    }

    /// A row of a cluster without epochs: the last one counts.
    fn plain_row(
        &mut self,
        partition: &TopicPartition,
        mut ours: Partition,
        row: &metadata::Partition,
        leader: Option<BrokerId>,
        round: Round<'_>,
    ) -> bool {
        if leader.is_none() {
            self.lose_leader(partition, ours, Some(row), round);
            return true;
        }
        let moved = ours.leader() != leader;
        ours.leadership = named(leader);
        self.refresh_row(partition, ours, row, moved, round)
    }

    /// The leader of the current epoch is gone; its id is remembered, the epoch stands.
    fn lose_leader(
        &mut self,
        partition: &TopicPartition,
        mut ours: Partition,
        row: Option<&metadata::Partition>,
        round: Round<'_>,
    ) {
        self.ask_leader(partition, Reason::Contested, Some(round.from));
        let moved = row.is_some_and(|row| self.take_replicas(&mut ours, row));
        let floor = ours.floor;
        if let Leadership::Known { leader, .. } = ours.leadership {
            let watch = self.watch(partition);
            // Brokers that contradict each other must not make the partition flicker.
            let again = watch
                .lost
                .is_some_and(|(epoch, at)| epoch == floor && round.now.since(at) < LOSS_PAUSE);
            if !again {
                watch.lost = Some((floor, round.now));
                ours.leadership = Leadership::Lost { last: leader };
                ours.addressable = false;
                ours.observed_at = round.now;
                self.diffs.push(Diff::LeaderLost {
                    partition: partition.clone(),
                    epoch: floor,
                });
            }
        }
        self.store(partition, ours.clone());
        if moved {
            self.tell_replicas(partition, &ours);
        }
    }

    /// Takes replicas and offline replicas of `row`; true if either changed.
    fn take_replicas(&mut self, ours: &mut Partition, row: &metadata::Partition) -> bool {
        let replicas = self.shared_set(&row.replicas);
        let offline = self.sorted_set(&row.offline);
        let moved = replicas != ours.replicas || offline != ours.offline;
        ours.replicas = replicas;
        ours.offline = offline;
        moved
    }

    fn ask_if_leaderless(&mut self, partition: &TopicPartition, row: &Partition, round: Round<'_>) {
        if !row.addressable {
            self.ask_leader(partition, Reason::Contested, Some(round.from));
        }
    }

    /// A row below the floor: kept out, and watched in case the cluster really went back.
    fn stale_row(
        &mut self,
        partition: &TopicPartition,
        ours: Partition,
        row: &metadata::Partition,
        leader: Option<BrokerId>,
        round: Round<'_>,
    ) -> bool {
        let (Some(epoch), Some(floor)) = (row.leader_epoch, ours.floor) else {
            return false;
        };
        self.counts.push(Counted::StaleRow);
        if !self.is_regression(partition, &ours, epoch, round) {
            return false;
        }
        let (from, to) = (floor, epoch);
        self.diffs.push(Diff::EpochRegressed {
            partition: partition.clone(),
            from,
            to,
        });
        self.accept_row(partition, ours, row, leader, round)
    }

    /// The floor was reported: no regression is under way.
    fn forgive(&mut self, partition: &TopicPartition) {
        if let Some(watch) = self.watches.get_mut(partition) {
            watch.regress = None;
        }
    }

    /// The epoch of `partition` in `answer`, if it has a row for it.
    pub(super) fn epoch_in(answer: &Response, partition: &TopicPartition) -> Option<LeaderEpoch> {
        let topic = answer
            .topics
            .iter()
            .find(|t| t.name.as_ref() == Some(&partition.topic))?;
        topic
            .partitions
            .iter()
            .find(|row| row.partition == partition.partition)?
            .leader_epoch
    }
}

const fn named(leader: Option<BrokerId>) -> Leadership {
    match leader {
        Some(leader) => Leadership::Known {
            leader,
            provisional: false,
        },
        None => Leadership::None,
    }
}

/// A lost leader at one epoch is published at most this often.
const LOSS_PAUSE: Duration = Duration::from_secs(10);
