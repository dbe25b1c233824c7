//! What the metadata machine does with answers and with their absence.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::diff::{Diff, RebootstrapReason};
use super::merge::Round;
use super::metadata::{Metadata, Phase};
use super::needs::Yield;
use super::output::{Counted, RequestToken, Target};
use super::refresh::Flight;
use super::settings::ClusterChange;
use crate::ids::{Draw, Moment, TopicName};
use crate::wire::api::metadata::Response;
use crate::wire::{ErrorCode, api};

impl Metadata {
    pub(super) fn on_response(
        &mut self,
        token: RequestToken,
        answer: &Response,
        draw: Draw,
        now: Moment,
    ) {
        let Some((flight, awaited)) = self.refresh.take(token) else {
            return;
        };
        if !awaited {
            self.count(Counted::LateAnswer);
        }
        if answer.error == ErrorCode::REBOOTSTRAP_REQUIRED {
            self.fail(&flight, awaited, draw, now);
            self.rebootstrap(RebootstrapReason::Asked);
        } else if answer.error.is_err() {
            self.fail(&flight, awaited, draw, now);
        } else if answer.brokers.is_empty() {
            self.count(Counted::EmptyBrokerList);
            self.empty_lists += 1;
            self.fail(&flight, awaited, draw, now);
            if self.empty_lists >= EMPTY_LISTS_MAX {
                self.rebootstrap(RebootstrapReason::EmptyBrokerList);
            }
        } else if self.is_ours(answer, now) {
            self.apply(&flight, awaited, answer, draw, now);
        }
    }

    /// Whether the answer comes from the cluster we know; decides what happens if not.
    pub(super) fn is_ours(&mut self, answer: &Response, now: Moment) -> bool {
        let (Some(old), Some(new)) = (&self.view.work.cluster_id, &answer.cluster_id) else {
            return true;
        };
        if old == new {
            return true;
        }
        let change = Diff::ClusterChanged {
            old: Arc::clone(old),
            new: Arc::clone(new),
        };
        match self.view.settings.cluster_change {
            ClusterChange::Fail => {
                self.count(Counted::ForeignCluster);
                self.view.diffs.push(change);
                self.phase = Phase::Fatal;
                false
            }
            ClusterChange::Follow => {
                self.view.start_afresh();
                self.refresh.needs.clear();
                self.refresh.plan_full(now);
                self.view.diffs.push(change);
                true
            }
        }
    }

    pub(super) fn apply(
        &mut self,
        flight: &Flight,
        awaited: bool,
        answer: &Response,
        draw: Draw,
        now: Moment,
    ) {
        self.empty_lists = 0;
        let round = Round {
            from: self.identity(flight.to, answer),
            links: &self.links,
            now,
        };
        let expected = self.expected(flight);
        // An answer about everything holds more than anybody is interested in.
        let keep = |name: &TopicName| {
            flight.topics.is_some()
                || self.interest.includes(name)
                || self.refresh.needs.contains(name)
        };
        let merged = self.view.merge(answer, &expected, keep, round);
        let yielded = self
            .refresh
            .needs
            .settle(&merged, &self.view.work, &self.links, now);
        if yielded == Yield::Nothing {
            self.count(Counted::NoProgress);
        }
        // What this answer made doubtful is for the next one to settle.
        self.take_asks(now);
        let done = self
            .refresh
            .answered(flight, yielded, &self.view.settings, draw, now);
        self.done.extend(done);
        self.links.refreshed();
        self.phase = match self.phase {
            // A late success must not cancel a rebootstrap half-way.
            Phase::Rebootstrapping if !awaited => Phase::Rebootstrapping,
            Phase::Resolving => Phase::Resolving,
            Phase::Rebootstrapping => {
                self.view.diffs.push(Diff::RebootstrapEnded);
                Phase::Running
            }
            Phase::Asleep | Phase::Starting | Phase::Running => Phase::Running,
            Phase::Fatal => Phase::Fatal,
        };
    }

    /// The names that should be in an answer.
    pub(super) fn expected(&self, flight: &Flight) -> BTreeSet<TopicName> {
        flight.topics.clone().unwrap_or_else(|| {
            let known = self.view.work.topics().map(|topic| &topic.name);
            let known = known.filter(|name| self.interest.includes(name));
            known.chain(&self.interest.topics).cloned().collect()
        })
    }

    /// The broker behind a bootstrap address, if the answer lists one there.
    pub(super) fn identity(&self, to: Target, answer: &Response) -> Target {
        let Target::Bootstrap(index) = to else {
            return to;
        };
        let Some(endpoint) = self.bootstrap.get(index) else {
            return to;
        };
        let here = |row: &&api::Endpoint| row.host == endpoint.host && row.port == endpoint.port;
        answer
            .brokers
            .iter()
            .find(here)
            .map_or(to, |row| Target::Broker(row.broker))
    }

    pub(super) fn on_failed(&mut self, token: RequestToken, draw: Draw, now: Moment) {
        if let Some((flight, awaited)) = self.refresh.take(token) {
            self.fail(&flight, awaited, draw, now);
        }
    }

    pub(super) fn fail(&mut self, flight: &Flight, awaited: bool, draw: Draw, now: Moment) {
        self.count(Counted::RequestFailed);
        if awaited {
            self.refresh
                .failed(flight.to, &self.view.settings, draw, now);
        }
    }
}

/// Answers without brokers in a row that make all nodes suspect.
const EMPTY_LISTS_MAX: u32 = 2;
