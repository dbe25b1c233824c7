//! Existence and identity of topics (metadata.md 6).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::diff::{Diff, LeaderSource};
use super::input::{Reason, Want};
use super::merge::{Merged, Round};
use super::output::{Counted, Target};
use super::topic::{Topic, TopicState};
use super::view::{Ask, View};
use crate::ids::{Moment, TopicId, TopicIncarnation, TopicName, TopicPartition};
use crate::wire::ErrorCode;

/// What is remembered about a topic whose existence or id is contested.
#[derive(Debug, Default)]
pub(super) struct TopicWatch {
    /// Who answered without it.
    absent: BTreeSet<Target>,
    /// A retired id that somebody reports.
    contest: Option<Contest>,
}

#[derive(Debug)]
struct Contest {
    id: TopicId,
    since: Moment,
    reporters: BTreeSet<Target>,
    /// A leader refused the current id meanwhile (100, 103).
    refused: bool,
}

impl View {
    /// Settles which life of `name` an answer speaks of; false if its rows must not be used.
    pub(super) fn admit_topic(
        &mut self,
        name: &TopicName,
        id: Option<TopicId>,
        round: Round<'_>,
    ) -> bool {
        let Some(topic) = self.work.topic(name) else {
            self.add_topic(name, id);
            return true;
        };
        match (topic.id, id) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                if topic.retired.contains(&theirs) && !self.is_revived(name, theirs, round) {
                    self.counts.push(Counted::RetiredTopicId);
                    return false;
                }
                self.recreate(name, ours, theirs);
            }
            (None, Some(theirs)) => {
                if let Some(topic) = self.topic_mut(name) {
                    topic.id = Some(theirs);
                }
                self.work.names.insert(theirs, name.clone());
            }
            (Some(_) | None, _) => {}
        }
        self.confirm(name, round);
        true
    }

    /// The topic was expected in an answer and is not there, or is there with code 3.
    pub(super) fn topic_absent(&mut self, name: &TopicName, round: Round<'_>) {
        if self.work.topic(name).is_none() {
            let incarnation = TopicIncarnation(self.incarnation_base);
            let topic = Topic::unseen(name.clone(), incarnation, round.now);
            self.work.topics.insert(name.clone(), Arc::new(topic));
            self.tell_unconfirmed(name);
        }
        let Some(state) = self.work.topic(name).map(|topic| topic.state) else {
            return;
        };
        let watch = self.topic_watches.entry(name.clone()).or_default();
        let (since, answers) = match state {
            TopicState::Gone => return,
            TopicState::Unconfirmed { since, answers } => (since, answers),
            TopicState::Known | TopicState::Error(_) => {
                watch.absent.clear();
                self.tell_unconfirmed(name);
                (round.now, 0)
            }
        };
        let watch = self.topic_watches.entry(name.clone()).or_default();
        watch.absent.insert(round.from);
        let reporters = watch.absent.clone();
        let answers = answers.saturating_add(1);
        let ripe = answers >= 2 && round.now.since(since) >= self.settings.unconfirmed;
        if ripe && self.is_enough(&reporters, round) {
            self.set_state(name, TopicState::Gone);
            let incarnation = self.incarnation(name);
            self.diffs.push(Diff::TopicGone {
                topic: name.clone(),
                incarnation,
            });
            return;
        }
        self.set_state(name, TopicState::Unconfirmed { since, answers });
        let never_seen = self
            .work
            .topic(name)
            .is_some_and(|t| t.partitions.is_empty());
        if never_seen && answers == ABSENT_ANSWERS {
            self.diffs.push(Diff::TopicError {
                topic: name.clone(),
                incarnation: self.incarnation(name),
                code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            });
        }
        self.asks.push(Ask {
            reason: Reason::Contested,
            want: Want::Topic(name.clone()),
            prefer: None,
            avoid: Some(round.from),
        });
    }

    /// A broker answered for the topic with an error other than absence.
    pub(super) fn topic_failed(&mut self, name: &TopicName, code: ErrorCode, merged: &mut Merged) {
        let surfaced = [
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        ];
        // Any other code passes; the need for the topic stays open and the next answer may do
        // better.
        if !surfaced.contains(&code) {
            return;
        }
        if self.work.topic(name).is_none() {
            self.add_topic(name, None);
        }
        merged.listed.insert(name.clone());
        if self
            .work
            .topic(name)
            .is_some_and(|topic| topic.state != TopicState::Error(code))
        {
            self.set_state(name, TopicState::Error(code));
            let incarnation = self.incarnation(name);
            self.diffs.push(Diff::TopicError {
                topic: name.clone(),
                incarnation,
                code,
            });
        }
    }

    /// A leader refused the id of a topic (100, 103).
    pub(super) fn id_refused(&mut self, name: &TopicName) {
        let watch = self.topic_watches.get_mut(name);
        if let Some(contest) = watch.and_then(|watch| watch.contest.as_mut()) {
            contest.refused = true;
        }
    }

    /// Drops everything known about a topic nobody is interested in.
    pub(super) fn forget_topic(&mut self, name: &TopicName) {
        let Some(topic) = self.work.topics.remove(name) else {
            return;
        };
        // Coming back it may be another one, and its epochs must not be compared with these.
        self.incarnation_base = self.incarnation_base.max(topic.incarnation.0 + 1);
        if let Some(id) = topic.id {
            self.work.names.remove(&id);
        }
        self.topic_watches.remove(name);
        self.forget_partitions(name);
    }

    fn add_topic(&mut self, name: &TopicName, id: Option<TopicId>) {
        let incarnation = TopicIncarnation(self.incarnation_base);
        let mut topic = Topic::unseen(name.clone(), incarnation, Moment::ZERO);
        topic.id = id;
        topic.state = TopicState::Known;
        self.work.topics.insert(name.clone(), Arc::new(topic));
        if let Some(id) = id {
            self.work.names.insert(id, name.clone());
        }
    }

    /// The name stands for another topic now: nothing of the old one is comparable.
    fn recreate(&mut self, name: &TopicName, old: TopicId, new: TopicId) {
        self.forget_partitions(name);
        self.topic_watches.remove(name);
        self.work.names.remove(&old);
        self.work.names.insert(new, name.clone());
        let Some(topic) = self.topic_mut(name) else {
            return;
        };
        topic.id = Some(new);
        topic.incarnation.0 += 1;
        topic.partitions = Default::default();
        topic.retired.retain(|id| *id != new);
        topic.retired.push(old);
        if topic.retired.len() > Topic::RETIRED_MAX {
            topic.retired.remove(0);
        }
        let incarnation = topic.incarnation;
        let (old_id, new_id) = (Some(old), Some(new));
        let topic = name.clone();
        self.diffs.push(Diff::TopicRecreated {
            topic,
            old_id,
            new_id,
            incarnation,
        });
    }

    /// The topic is listed: it exists.
    fn confirm(&mut self, name: &TopicName, round: Round<'_>) {
        let Some(topic) = self.work.topic(name) else {
            return;
        };
        let state = topic.state;
        if state == TopicState::Known {
            return;
        }
        // Whoever gave it up must hear of its leaders again.
        let known: Vec<_> = match state {
            TopicState::Gone => topic
                .partitions
                .iter()
                .map(|(i, p)| (*i, p.clone()))
                .collect(),
            TopicState::Known | TopicState::Unconfirmed { .. } | TopicState::Error(_) => Vec::new(),
        };
        self.set_state(name, TopicState::Known);
        if let Some(watch) = self.topic_watches.get_mut(name) {
            watch.absent.clear();
        }
        for (index, row) in known {
            let partition = TopicPartition::new(name.clone(), index);
            self.tell_leader(&partition, &row, LeaderSource::Metadata(round.from));
        }
    }

    /// Whether a retired id is alive after all: told by enough brokers for long, and the current
    /// one refused.
    fn is_revived(&mut self, name: &TopicName, id: TopicId, round: Round<'_>) -> bool {
        let patience = self.settings.unconfirmed;
        let watch = self.topic_watches.entry(name.clone()).or_default();
        let fresh = || Contest {
            id,
            since: round.now,
            reporters: BTreeSet::new(),
            refused: false,
        };
        let contest = match &mut watch.contest {
            Some(contest) if contest.id == id => contest,
            other => other.insert(fresh()),
        };
        contest.reporters.insert(round.from);
        let ripe = contest.refused && round.now.since(contest.since) > patience;
        ripe && contest.reporters.len() >= 2
    }

    fn forget_partitions(&mut self, name: &TopicName) {
        let first = TopicPartition::new(name.clone(), i32::MIN);
        let ours = |partition: &TopicPartition| partition.topic == *name;
        let watched: Vec<_> = self
            .watches
            .range(first..)
            .map(|(p, _)| p)
            .take_while(|p| ours(p))
            .cloned()
            .collect();
        for partition in watched {
            self.watches.remove(&partition);
        }
        self.unaddressable.retain(|partition| !ours(partition));
    }

    fn set_state(&mut self, name: &TopicName, state: TopicState) {
        if let Some(topic) = self.topic_mut(name) {
            topic.state = state;
        }
    }

    fn incarnation(&self, name: &TopicName) -> TopicIncarnation {
        self.work
            .topic(name)
            .map(|topic| topic.incarnation)
            .unwrap_or_default()
    }

    fn tell_unconfirmed(&mut self, name: &TopicName) {
        let incarnation = self.incarnation(name);
        self.diffs.push(Diff::TopicUnconfirmed {
            topic: name.clone(),
            incarnation,
        });
    }
}

/// Answers that must lack a topic never seen before until that is told.
const ABSENT_ANSWERS: u32 = 2;
