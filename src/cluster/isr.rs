//! Which news of the in-sync replicas to believe (metadata.md 7.2).
//!
//! Changes of the list need not move the leader epoch, so answers of different brokers have no
//! order. A list that goes back to the one published before is held until a second answer agrees.

use std::sync::Arc;

use super::diff::Diff;
use super::input::{Reason, Want};
use super::merge::Round;
use super::output::{Counted, Target};
use super::topic::Partition;
use super::view::{Ask, View};
use crate::ids::{BrokerId, TopicPartition};
use crate::wire::api::metadata;

/// What is remembered about published lists.
#[derive(Debug, Default)]
pub(super) struct IsrWatch {
    /// The list published before the current one.
    previous: Option<Arc<[BrokerId]>>,
    /// A return to that list, waiting for a second answer.
    held: Option<Arc<[BrokerId]>>,
}

impl View {
    /// Takes the list of a row at the current epoch; true if it is to be published.
    pub(super) fn take_isr(
        &mut self,
        partition: &TopicPartition,
        ours: &mut Partition,
        row: &metadata::Partition,
        round: Round<'_>,
    ) -> bool {
        if ours.isr_epoch != ours.floor {
            return self.take_new_isr(partition, ours, row, round.from);
        }
        let list = self.sorted_set(&row.isr);
        if list == ours.isr {
            if let Some(watch) = self.watches.get_mut(partition) {
                watch.isr.held = None;
            }
            return false;
        }
        let authority = round.from == ours.source
            || ours
                .leader()
                .is_some_and(|leader| round.from == Target::Broker(leader));
        if !authority && self.is_unconfirmed_return(partition, &list) {
            self.counts.push(Counted::IsrHeld);
            self.asks.push(Ask {
                reason: Reason::Contested,
                want: Want::Topic(partition.topic.clone()),
                prefer: ours.leader(),
                avoid: Some(round.from),
            });
            return false;
        }
        self.replace_isr(partition, ours, list, round.from);
        true
    }

    /// Takes the list of a row at an epoch for which none is known yet; always news.
    pub(super) fn take_new_isr(
        &mut self,
        partition: &TopicPartition,
        ours: &mut Partition,
        row: &metadata::Partition,
        from: Target,
    ) -> bool {
        let list = self.sorted_set(&row.isr);
        self.replace_isr(partition, ours, list, from);
        ours.isr_epoch = ours.floor;
        true
    }

    /// Tells what the in-sync replicas of `partition` are now.
    pub(super) fn tell_isr(&mut self, partition: &TopicPartition, row: &Partition) {
        self.diffs.push(Diff::IsrChanged {
            partition: partition.clone(),
            isr: Arc::clone(&row.isr),
            isr_epoch: row.isr_epoch,
            source: row.source,
            observed_at: row.observed_at,
            version: self.work.version,
        });
    }

    /// Whether `list` goes back to the one before, and nobody else said so yet.
    fn is_unconfirmed_return(
        &mut self,
        partition: &TopicPartition,
        list: &Arc<[BrokerId]>,
    ) -> bool {
        let Some(watch) = self.watches.get_mut(partition) else {
            return false;
        };
        if watch.isr.previous.as_ref() != Some(list) || watch.isr.held.as_ref() == Some(list) {
            return false;
        }
        watch.isr.held = Some(Arc::clone(list));
        true
    }

    fn replace_isr(
        &mut self,
        partition: &TopicPartition,
        ours: &mut Partition,
        list: Arc<[BrokerId]>,
        from: Target,
    ) {
        if list != ours.isr {
            let previous = std::mem::replace(&mut ours.isr, list);
            let watch = self.watch(partition);
            watch.isr = IsrWatch {
                previous: Some(previous),
                held: None,
            };
        }
        ours.source = from;
    }
}
