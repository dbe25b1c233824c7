//! Flushes: everything observed is committed before its partitions are given up.

use std::collections::{BTreeMap, BTreeSet};

use super::committer::{Committer, Flush};
use super::io::{FlushId, Output};
use crate::group::{Assigned, Standing};
use crate::ids::{Moment, TopicPartition};

impl Committer {
    pub(super) fn flush(
        &mut self,
        id: FlushId,
        partitions: Vec<Assigned>,
        until: Moment,
        now: Moment,
    ) {
        let mut members = BTreeSet::new();
        let mut waiting = BTreeMap::new();
        for assigned in partitions {
            let partition = assigned.partition.clone();
            let Some(row) = self
                .rows
                .get(&partition)
                .filter(|row| row.epoch == assigned.epoch)
            else {
                continue;
            };
            if !row.is_clean() {
                self.schedule(&partition, true, now);
                waiting.insert(partition.clone(), assigned);
            }
            members.insert(partition);
        }
        // Outside a membership there is nobody to commit for: a drain must not wait for it.
        let until = if self.standing == Standing::Outside {
            now
        } else {
            until
        };
        self.flushes.insert(
            id,
            Flush {
                members,
                waiting,
                failed: Vec::new(),
                until,
            },
        );
        self.expire_flushes(now);
    }

    pub(super) fn is_flushing(&self, partition: &TopicPartition) -> bool {
        self.flushes
            .values()
            .any(|flush| flush.members.contains(partition))
    }

    /// A deleted topic, or one without permission, must not hold up a release.
    pub(super) fn fail_in_flushes(&mut self, partition: &TopicPartition) {
        for flush in self.flushes.values_mut() {
            flush.failed.extend(flush.waiting.remove(partition));
        }
    }

    pub(super) fn expire_flushes(&mut self, now: Moment) {
        for flush in self.flushes.values_mut().filter(|flush| flush.until <= now) {
            flush
                .failed
                .extend(std::mem::take(&mut flush.waiting).into_values());
        }
    }

    pub(super) fn end_flushes(&mut self) {
        let is_over = |(id, flush): (&FlushId, &Flush)| flush.waiting.is_empty().then_some(*id);
        let over: Vec<FlushId> = self.flushes.iter().filter_map(is_over).collect();
        for id in over {
            if let Some(flush) = self.flushes.remove(&id) {
                self.outputs.push_back(Output::Flushed {
                    id,
                    unfinished: flush.failed,
                });
            }
        }
    }
}
