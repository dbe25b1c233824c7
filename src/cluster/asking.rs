//! What the metadata machine wants to know, and when it asks whom.

use std::collections::BTreeSet;

use super::choose::choose;
use super::diff::RebootstrapReason;
use super::input::{Interest, Reason, Waiter, Want};
use super::metadata::{Metadata, Phase};
use super::output::{Counted, Output, Target};
use super::refresh::Plan;
use crate::ids::{BrokerId, Draw, Moment, TopicName};
use crate::wire::api::TopicRef;
use crate::wire::api::metadata::Request;

impl Metadata {
    pub(super) fn on_subscribe(&mut self, interest: Interest, now: Moment) {
        let dropped: Vec<TopicName> = self.interest_lost(&interest);
        for name in &dropped {
            self.view.forget_topic(name);
            self.refresh.needs.forget(name);
        }
        if self.phase == Phase::Asleep {
            self.phase = Phase::Starting;
            self.refresh.plan_full(now);
        }
        let unknown = |name: &&TopicName| self.view.work.topic(name).is_none();
        let added: Vec<_> = interest.topics.iter().filter(unknown).cloned().collect();
        for name in added {
            self.want(Reason::Subscription, &Want::Topic(name), now);
        }
        if !interest.patterns.is_empty() {
            self.refresh.plan_full(now + self.view.settings.debounce);
        }
        self.interest = interest;
    }

    /// Topics that were of interest and no longer are.
    pub(super) fn interest_lost(&self, interest: &Interest) -> Vec<TopicName> {
        let known = self.view.work.topics().map(|topic| &topic.name);
        let lost = |name: &&TopicName| self.interest.includes(name) && !interest.includes(name);
        known.filter(lost).cloned().collect()
    }

    pub(super) fn on_refresh(
        &mut self,
        reason: Reason,
        wants: &[Want],
        prefer: Option<BrokerId>,
        waiter: Option<Waiter>,
        now: Moment,
    ) {
        if self.phase == Phase::Asleep {
            self.phase = Phase::Starting;
            self.refresh.plan_full(now);
        }
        for want in wants {
            let (topic, partition) = match want {
                Want::Topic(topic) => (topic, None),
                Want::Leader { partition, .. } => (&partition.topic, Some(partition)),
            };
            match reason {
                Reason::NotHosted => self.view.id_refused(topic),
                Reason::UnknownLeaderEpoch => {
                    if let Some(partition) = partition {
                        self.view.leader_denies(partition, None, None);
                    }
                }
                Reason::NotLeader
                | Reason::LinkLost
                | Reason::UnknownBroker
                | Reason::OutsideIsr
                | Reason::Subscription
                | Reason::Hint
                | Reason::Contested
                | Reason::Age => {}
            }
            self.want(reason, want, now);
        }
        if prefer.is_some() {
            self.refresh.prefer = prefer;
        }
        if wants.is_empty() {
            self.count(Counted::Refresh(reason));
        }
        if let Some(waiter) = waiter {
            self.refresh.wait(waiter);
        }
        if waiter.is_some() || wants.is_empty() {
            self.refresh.hurry(&self.view.settings, now);
        }
    }

    pub(super) fn want(&mut self, reason: Reason, want: &Want, now: Moment) {
        if self.refresh.needs.add(want, &self.view.work, now) {
            self.count(Counted::Refresh(reason));
            self.refresh.hurry(&self.view.settings, now);
        }
    }

    /// Turns what merges asked for into needs.
    pub(super) fn take_asks(&mut self, now: Moment) {
        for ask in std::mem::take(&mut self.view.asks) {
            self.want(ask.reason, &ask.want, now);
            self.refresh.prefer = ask.prefer.or(self.refresh.prefer);
            self.refresh.avoid = ask.avoid.or(self.refresh.avoid);
        }
    }

    /// Does what is due: gives up, starts over, asks.
    pub(super) fn on_time(&mut self, draw: Draw, now: Moment) {
        if let Some(to) = self.refresh.give_up(now) {
            self.count(Counted::RequestFailed);
            self.refresh.failed(to, &self.view.settings, draw, now);
        }
        if self.overdue_at().is_some_and(|at| at <= now) {
            self.rebootstrap(RebootstrapReason::Overdue);
        }
        let Some(full) = self.refresh.is_due(now) else {
            return;
        };
        let Some(to) = choose(&self.known(), &self.links, &self.refresh) else {
            return;
        };
        let topics = self.topics_to_ask(full);
        let named =
            |topics: &BTreeSet<TopicName>| topics.iter().cloned().map(TopicRef::Name).collect();
        let request = Request {
            topics: topics.as_ref().map(named),
            allow_auto_creation: false,
        };
        let token = self
            .refresh
            .send(Plan { to, topics, full }, &self.view.settings, now);
        self.outputs
            .push_back(Output::SendMetadata { to, request, token });
    }

    pub(super) fn topics_to_ask(&self, full: bool) -> Option<BTreeSet<TopicName>> {
        let mut topics: BTreeSet<_> = self.refresh.needs.topics().cloned().collect();
        if full {
            if !self.interest.patterns.is_empty() {
                return None;
            }
            topics.extend(self.interest.topics.iter().cloned());
        }
        Some(topics)
    }

    /// Who may be asked.
    pub(super) fn known(&self) -> Vec<Target> {
        match self.phase {
            Phase::Asleep | Phase::Resolving | Phase::Fatal => Vec::new(),
            Phase::Starting | Phase::Rebootstrapping => {
                (0..self.bootstrap.len()).map(Target::Bootstrap).collect()
            }
            Phase::Running => self
                .view
                .work
                .brokers
                .keys()
                .copied()
                .map(Target::Broker)
                .collect(),
        }
    }
}
