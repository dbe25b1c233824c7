//! Leadership learned from Fetch and Produce answers (KIP-951, metadata.md 4).
//!
//! A hint may come from any role; its epoch is what makes it safe. It touches leader, floor and
//! endpoint and nothing else, and only if its epoch exceeds the floor within the same life of the
//! topic.

use std::cmp::Ordering;
use std::time::Duration;

use super::diff::LeaderSource;
use super::input::{Hint, HintLot, Reason};
use super::output::{Counted, Target};
use super::snapshot::Witness;
use super::topic::{Leadership, Partition};
use super::view::View;
use crate::ids::{BrokerId, LeaderEpoch, Moment, TopicPartition};
use crate::wire::ErrorCode;

/// What is remembered about the hints of one partition.
#[derive(Debug, Default)]
pub(super) struct HintWatch {
    last: Option<(Option<BrokerId>, LeaderEpoch)>,
    /// How often `last` came, and when first.
    repeats: u32,
    since: Moment,
    distrusted_until: Option<Moment>,
}

/// A hint that passed all tests.
#[derive(Debug)]
struct Accepted {
    partition: TopicPartition,
    leader: Option<BrokerId>,
    epoch: LeaderEpoch,
}

impl View {
    /// Applies the hints of one answer: endpoints first, then leaders.
    pub(super) fn apply_hints(&mut self, lot: &HintLot, now: Moment) {
        let accepted: Vec<_> = lot
            .hints
            .iter()
            .filter_map(|hint| self.judge(hint, lot.from, now))
            .collect();
        for hint in &accepted {
            let endpoint = lot.endpoints.iter().find(|e| Some(e.broker) == hint.leader);
            if let Some(endpoint) = endpoint {
                let witness = Witness {
                    partition: hint.partition.clone(),
                    epoch: hint.epoch,
                };
                self.overlay(endpoint, witness, lot.from, now);
            }
        }
        for hint in accepted {
            self.apply(&hint, lot.from, now);
        }
    }

    /// A leader served a partition after a hint: hints about it do not go in circles.
    pub(super) fn leader_served(&mut self, partition: &TopicPartition) {
        if let Some(watch) = self.watches.get_mut(partition) {
            watch.hints.last = None;
            watch.hints.repeats = 0;
        }
    }

    fn judge(&mut self, hint: &Hint, from: BrokerId, now: Moment) -> Option<Accepted> {
        if !CODES.contains(&hint.code) {
            self.counts.push(Counted::HintOnOtherCode);
            return None;
        }
        let topic = self.work.topic(&hint.partition.topic)?;
        let other_id = hint.topic_id.is_some() && hint.topic_id != topic.id;
        if other_id || hint.incarnation != topic.incarnation {
            self.counts.push(Counted::HintOfOtherIncarnation);
            return None;
        }
        let ours = topic.partition(hint.partition.partition)?.clone();
        let Some(epoch) = hint.epoch else {
            self.counts.push(Counted::HintWithoutContent);
            return None;
        };
        if self.is_circling(hint, epoch, from, now) {
            return None;
        }
        match ours
            .floor
            .map_or(Ordering::Greater, |floor| epoch.cmp(&floor))
        {
            Ordering::Greater => {
                let (partition, leader) = (hint.partition.clone(), hint.leader);
                Some(Accepted {
                    partition,
                    leader,
                    epoch,
                })
            }
            Ordering::Equal => {
                self.judge_equal(hint, &ours, from);
                None
            }
            Ordering::Less => {
                self.counts.push(Counted::HintWithoutNews);
                self.leader_denies(&hint.partition, Some(from), Some(epoch));
                None
            }
        }
    }

    /// A hint at our epoch is never applied; one that names another leader is a conflict to settle.
    fn judge_equal(&mut self, hint: &Hint, ours: &Partition, from: BrokerId) {
        let conflict = matches!((hint.leader, ours.leader()), (Some(a), Some(b)) if a != b);
        if conflict {
            self.counts.push(Counted::HintConflict);
            self.ask_leader(
                &hint.partition,
                Reason::Contested,
                Some(Target::Broker(from)),
            );
        } else {
            self.counts.push(Counted::HintWithoutNews);
        }
    }

    /// Whether hints about this partition go in circles: a router that answers for the leader
    /// repeats itself.
    fn is_circling(
        &mut self,
        hint: &Hint,
        epoch: LeaderEpoch,
        from: BrokerId,
        now: Moment,
    ) -> bool {
        let pause = self.settings.hint_distrust;
        let watch = &mut self.watch(&hint.partition).hints;
        if watch.distrusted_until.is_some_and(|until| now < until) {
            self.counts.push(Counted::HintDistrusted);
            return true;
        }
        let same =
            watch.last == Some((hint.leader, epoch)) && now.since(watch.since) < CIRCLE_WINDOW;
        if !same {
            watch.last = Some((hint.leader, epoch));
            watch.repeats = 0;
            watch.since = now;
        }
        watch.repeats += 1;
        if watch.repeats < CIRCLE_REPEATS {
            return false;
        }
        watch.distrusted_until = Some(now + pause);
        self.counts.push(Counted::HintDistrusted);
        self.ask_leader(&hint.partition, Reason::Hint, Some(Target::Broker(from)));
        true
    }

    fn apply(&mut self, hint: &Accepted, from: BrokerId, now: Moment) {
        let Some(mut row) = self.work.partition(&hint.partition).cloned() else {
            return;
        };
        // Two rows of one answer may name the same partition; the higher epoch wins.
        if row.floor.is_some_and(|floor| floor >= hint.epoch) {
            return;
        }
        row.floor = Some(hint.epoch);
        row.leadership = match hint.leader {
            Some(leader) => Leadership::Known {
                leader,
                provisional: false,
            },
            None => Leadership::None,
        };
        row.addressable = self.has_address(hint.leader);
        row.observed_at = now;
        self.store(&hint.partition, row.clone());
        self.counts.push(Counted::HintApplied);
        self.tell_leader(&hint.partition, &row, LeaderSource::Hint(from));
        let unknown = hint.leader.is_some() && !row.addressable;
        let reason = if unknown {
            Reason::UnknownBroker
        } else {
            Reason::Hint
        };
        // Not from the one who hinted: it has told all it knows.
        self.ask_leader(&hint.partition, reason, Some(Target::Broker(from)));
    }
}

/// The codes that carry hints.
const CODES: [ErrorCode; 2] = [
    ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ErrorCode::FENCED_LEADER_EPOCH,
];
/// The same hint this often within the window, without a good answer from that leader, is a circle.
const CIRCLE_REPEATS: u32 = 3;
const CIRCLE_WINDOW: Duration = Duration::from_secs(10);
