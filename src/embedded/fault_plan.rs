//! Evaluates the rules of the fault plan against requests and rows.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::FetchRequest;

use super::call::Call;
use super::faults::{Effect, MetadataEdit, RowEdit, RowFacts, RowPlan, Rule, When};
use super::{Api, RuleId};
use crate::ids::{BrokerId, GroupId, Offset, TopicPartition};

/// The rules in force, in the order of their injection.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    rules: Vec<(RuleId, Rule)>,
    next: u64,
    denied_groups: BTreeSet<GroupId>,
}

/// What the plan makes of a request as a whole.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) close: bool,
    pub(super) swallow: bool,
    pub(super) delay: Duration,
    pub(super) throttle: Duration,
    pub(super) garble: bool,
}

impl FaultPlan {
    pub(super) fn inject(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.rules.push((id, rule));
        id
    }

    pub(super) fn withdraw(&mut self, id: RuleId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|(known, _)| *known != id);
        self.rules.len() < before
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.denied_groups.clear();
    }

    pub(super) fn deny_group(&mut self, group: GroupId) {
        self.denied_groups.insert(group);
    }

    pub(super) fn denies_group(&self, group: &GroupId) -> bool {
        self.denied_groups.contains(group)
    }

    /// What becomes of the request with this body.
    pub(super) fn verdict(&mut self, call: &Call, body: &Bytes) -> Verdict {
        let mut verdict = Verdict::default();
        if self.rules.is_empty() {
            return verdict;
        }
        let looks = |rule: &Rule| rule.when.rack_present.or(rule.when.in_session).is_some();
        let needs_body = self.rules.iter().any(|(_, rule)| looks(rule));
        let fetch = (needs_body && call.api == Api::Fetch)
            .then(|| call.body::<FetchRequest>(&mut body.clone()))
            .flatten();
        let rack = fetch
            .as_ref()
            .is_some_and(|fetch| !fetch.rack_id.is_empty());
        let session = fetch.as_ref().map(|fetch| fetch.session_epoch >= 0);
        for (_, rule) in &mut self.rules {
            let matches = rule.when.partition.is_none()
                && rule
                    .when
                    .in_session
                    .is_none_or(|only| session == Some(only))
                && rule.when.matches(call.broker, call.api, rack);
            if !matches {
                continue;
            }
            match &rule.effect {
                Effect::Close => verdict.close = true,
                Effect::Swallow => verdict.swallow = true,
                Effect::Delay(delay) => verdict.delay += *delay,
                Effect::Throttle(throttle) => verdict.throttle += *throttle,
                Effect::Garble => verdict.garble = true,
                Effect::Error(_) | Effect::Row(_) | Effect::Metadata(_) | Effect::EpochEnd(_) => {
                    continue;
                }
            }
            rule.spend();
        }
        self.drop_spent();
        verdict
    }

    /// The code with which the whole answer fails, if the plan says so.
    pub(super) fn error(&mut self, call: &Call, rack: bool) -> Option<i16> {
        self.first_error(|when| {
            when.partition.is_none() && when.matches(call.broker, call.api, rack)
        })
    }

    /// The code with which the row of `partition` fails, if the plan says so; also from rules for
    /// the whole answer, for APIs that have no code of their own.
    pub(super) fn row_error(&mut self, call: &Call, partition: &TopicPartition) -> Option<i16> {
        self.first_error(|when| {
            when.partition.as_ref().is_none_or(|only| only == partition)
                && when.matches(call.broker, call.api, false)
        })
    }

    /// Whether any rule edits Fetch rows, or fails them.
    pub(super) fn touches_fetch_rows(&self) -> bool {
        self.rules.iter().any(|(_, rule)| match rule.effect {
            Effect::Row(_) => true,
            Effect::Error(_) => rule.when.partition.is_some(),
            Effect::Close
            | Effect::Swallow
            | Effect::Garble
            | Effect::Delay(_)
            | Effect::Throttle(_)
            | Effect::Metadata(_)
            | Effect::EpochEnd(_) => false,
        })
    }

    /// How often each rule may still apply: to be [restored](Self::restore) if a request that was
    /// looked at is parked instead of answered.
    pub(super) fn checkpoint(&self) -> Vec<Option<u32>> {
        self.rules.iter().map(|(_, rule)| rule.left).collect()
    }

    pub(super) fn restore(&mut self, checkpoint: &[Option<u32>]) {
        for ((_, rule), left) in self.rules.iter_mut().zip(checkpoint) {
            rule.left = *left;
        }
    }

    /// The edits of a Fetch row, in order. Spent rules stay until [`drop_spent`](Self::drop_spent).
    pub(super) fn row_edits(&mut self, facts: &RowFacts<'_>) -> Vec<RowEdit> {
        let mut edits = Vec::new();
        for (_, rule) in &mut self.rules {
            let of_row = rule
                .when
                .partition
                .as_ref()
                .is_none_or(|only| only == facts.partition);
            if !of_row
                || !rule
                    .when
                    .matches(facts.broker, Api::Fetch, facts.rack.is_some())
            {
                continue;
            }
            let edit = match &mut rule.effect {
                Effect::Row(RowPlan::Always(edit)) => Some(edit.clone()),
                Effect::Row(RowPlan::Decided(decide)) => decide(facts),
                Effect::Error(code) if rule.when.partition.is_some() => Some(RowEdit {
                    error: Some(*code),
                    ..RowEdit::default()
                }),
                Effect::Error(_)
                | Effect::Close
                | Effect::Swallow
                | Effect::Garble
                | Effect::Delay(_)
                | Effect::Throttle(_)
                | Effect::Metadata(_)
                | Effect::EpochEnd(_) => None,
            };
            if let Some(edit) = edit {
                rule.spend();
                edits.push(edit);
            }
        }
        edits
    }

    /// Where the plan says that an epoch of `partition` ends.
    pub(super) fn epoch_end(&mut self, call: &Call, partition: &TopicPartition) -> Option<Offset> {
        let found = self.rules.iter_mut().find_map(|(_, rule)| {
            let only = rule.when.partition.as_ref();
            let matches = only.is_none_or(|only| only == partition)
                && rule.when.matches(call.broker, call.api, false);
            match rule.effect {
                Effect::EpochEnd(end) if matches => {
                    rule.spend();
                    Some(end)
                }
                Effect::EpochEnd(_)
                | Effect::Error(_)
                | Effect::Close
                | Effect::Swallow
                | Effect::Garble
                | Effect::Delay(_)
                | Effect::Throttle(_)
                | Effect::Row(_)
                | Effect::Metadata(_) => None,
            }
        });
        self.drop_spent();
        found
    }

    /// The edits of what Metadata says, each with the partition it is limited to.
    pub(super) fn metadata_edits(
        &mut self,
        broker: BrokerId,
    ) -> Vec<(Option<TopicPartition>, MetadataEdit)> {
        let mut edits = Vec::new();
        for (_, rule) in &mut self.rules {
            if !rule.when.matches(broker, Api::Metadata, false) {
                continue;
            }
            if let Effect::Metadata(edit) = &rule.effect {
                edits.push((rule.when.partition.clone(), edit.clone()));
                rule.spend();
            }
        }
        self.drop_spent();
        edits
    }

    fn first_error(&mut self, matches: impl Fn(&When) -> bool) -> Option<i16> {
        let found = self
            .rules
            .iter_mut()
            .find_map(|(_, rule)| match rule.effect {
                Effect::Error(code) if matches(&rule.when) => {
                    rule.spend();
                    Some(code)
                }
                Effect::Error(_)
                | Effect::Close
                | Effect::Swallow
                | Effect::Garble
                | Effect::Delay(_)
                | Effect::Throttle(_)
                | Effect::Row(_)
                | Effect::Metadata(_)
                | Effect::EpochEnd(_) => None,
            });
        self.drop_spent();
        found
    }

    pub(super) fn drop_spent(&mut self) {
        self.rules.retain(|(_, rule)| rule.left != Some(0));
    }
}

impl Rule {
    fn spend(&mut self) {
        self.left = self.left.map(|left| left.saturating_sub(1));
    }
}

impl When {
    fn matches(&self, broker: BrokerId, api: Api, rack: bool) -> bool {
        self.broker.is_none_or(|only| only == broker)
            && self.api.is_none_or(|only| only == api)
            && self.rack_present.is_none_or(|only| only == rack)
    }
}
