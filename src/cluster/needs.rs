//! What must become known, and whether an answer made it known (metadata.md 8, "Done").

use std::collections::BTreeMap;
use std::time::Duration;

use super::input::{LinkState, Want};
use super::links::Links;
use super::merge::Merged;
use super::output::Target;
use super::snapshot::Snapshot;
use super::topic::{Partition, TopicState};
use crate::ids::{BrokerId, LeaderEpoch, Moment, PartitionIndex, TopicName, TopicPartition};

/// The wanted topics and partitions; one set for everybody.
#[derive(Debug, Default)]
pub(super) struct Needs {
    topics: BTreeMap<TopicName, TopicNeed>,
}

#[derive(Debug, Default)]
struct TopicNeed {
    /// The topic itself is wanted: id, existence, partitions.
    whole: bool,
    leaders: BTreeMap<PartitionIndex, LeaderNeed>,
}

#[derive(Debug)]
struct LeaderNeed {
    /// Epoch at which a leader was asked in vain.
    failed: Option<LeaderEpoch>,
    asked_at: Moment,
    /// The floor when last looked at; a higher one is progress.
    floor: Option<LeaderEpoch>,
}

/// What an answer brought of what was wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Yield {
    /// Nothing was wanted.
    NothingWanted,
    /// Something advanced.
    Progress,
    /// Nothing advanced.
    Nothing,
}

impl Needs {
    /// Adds `want`; true if it was not wanted before.
    pub(super) fn add(&mut self, want: &Want, work: &Snapshot, now: Moment) -> bool {
        match want {
            Want::Topic(name) => {
                let need = self.topics.entry(name.clone()).or_default();
                !std::mem::replace(&mut need.whole, true)
            }
            Want::Leader { partition, failed } => {
                let need = self.topics.entry(partition.topic.clone()).or_default();
                let floor = work.partition(partition).and_then(|row| row.floor);
                let known = need.leaders.get_mut(&partition.partition);
                if let Some(known) = known {
                    known.asked_at = now;
                    let news = *failed > known.failed;
                    known.failed = known.failed.max(*failed);
                    return news;
                }
                let leader = LeaderNeed {
                    failed: *failed,
                    asked_at: now,
                    floor,
                };
                need.leaders.insert(partition.partition, leader);
                true
            }
        }
    }

    /// The names to ask for.
    pub(super) fn topics(&self) -> impl Iterator<Item = &TopicName> {
        self.topics.keys()
    }

    pub(super) fn contains(&self, topic: &TopicName) -> bool {
        self.topics.contains_key(topic)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.topics.clear();
    }

    pub(super) fn forget(&mut self, topic: &TopicName) {
        self.topics.remove(topic);
    }

    /// Takes off what the answer made known.
    pub(super) fn settle(
        &mut self,
        merged: &Merged,
        work: &Snapshot,
        links: &Links,
        now: Moment,
    ) -> Yield {
        if self.topics.is_empty() {
            return Yield::NothingWanted;
        }
        let mut progress = false;
        self.topics.retain(|name, need| {
            let listed = merged.listed.contains(name);
            if is_settled(work, name) {
                progress = true;
                return false;
            }
            if need.whole && listed {
                need.whole = false;
                progress = true;
            }
            if listed {
                need.leaders.retain(|index, leader| {
                    let partition = TopicPartition::new(name.clone(), *index);
                    let row = work.partition(&partition);
                    let done =
                        !merged.doubtful.contains(&partition) && leader.is_met(row, links, now);
                    let advanced = row.is_some_and(|row| row.floor > leader.floor);
                    leader.floor = row.and_then(|row| row.floor).max(leader.floor);
                    progress |= done || advanced;
                    !done
                });
            }
            need.whole || !need.leaders.is_empty()
        });
        if progress {
            Yield::Progress
        } else {
            Yield::Nothing
        }
    }

    /// The link to `broker` is back: what was asked in vain because of it may be asked there again.
    pub(super) fn link_is_back(&mut self, broker: BrokerId, work: &Snapshot) {
        for (name, need) in &mut self.topics {
            for (index, leader) in &mut need.leaders {
                let row = work.topic(name).and_then(|topic| topic.partition(*index));
                if row.and_then(Partition::leader) == Some(broker) {
                    leader.failed = None;
                }
            }
        }
    }
}

impl LeaderNeed {
    fn is_met(&self, row: Option<&Partition>, links: &Links, now: Moment) -> bool {
        let Some(row) = row else {
            // The topic has no such partition: whoever asked will ask again if it still matters.
            return now.since(self.asked_at) >= PATIENCE;
        };
        let Some(leader) = row.leader() else {
            return false;
        };
        let newer = self.failed.is_none_or(|failed| row.floor > Some(failed));
        // The same leader at the same epoch may have recovered; a partition it still refuses asks
        // again.
        let recovered = links.get(Target::Broker(leader)) == LinkState::Ready
            && now.since(self.asked_at) >= PATIENCE;
        row.addressable && (newer || recovered)
    }
}

/// Whether the topic is gone or refused: only the periodic refresh asks about it again.
fn is_settled(work: &Snapshot, name: &TopicName) -> bool {
    work.topic(name).is_some_and(|topic| match topic.state {
        TopicState::Gone | TopicState::Error(_) => true,
        TopicState::Known | TopicState::Unconfirmed { .. } => false,
    })
}

/// Silence of whoever asked after which a need counts as met by the present state.
const PATIENCE: Duration = Duration::from_secs(30);
