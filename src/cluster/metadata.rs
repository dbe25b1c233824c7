//! The metadata machine: inputs in, merges and clockwork driven, outputs out.

use std::collections::VecDeque;
use std::sync::Arc;

use super::diff::{Diff, RebootstrapReason};
use super::input::{Input, Interest, LinkState, Reason, Waiter, Want};
use super::links::{Links, is_down};
use super::output::{Counted, Output, Target};
use super::refresh::Refresh;
use super::settings::{RecoveryStrategy, Settings};
use super::snapshot::{Endpoint, Snapshot};
use super::view::{Ask, View};
use crate::ids::{BrokerId, Draw, Moment, TopicPartition};

/// The only writer of the cluster snapshot. Hand it an input, then drain
/// [`poll_output`](Self::poll_output); come back with [`Input::Tick`] when
/// [`next_deadline`](Self::next_deadline) has passed.
#[derive(Debug)]
pub struct Metadata {
    pub(super) phase: Phase,
    pub(super) bootstrap: Vec<Endpoint>,
    pub(super) interest: Interest,
    pub(super) links: Links,
    pub(super) refresh: Refresh,
    pub(super) view: View,
    pub(super) empty_lists: u32,
    /// Waiters to be told once the snapshot is out.
    pub(super) done: Vec<Waiter>,
    published: Arc<Snapshot>,
    pub(super) outputs: VecDeque<Output>,
}

/// Whom the machine may ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nobody has asked for anything yet.
    Asleep,
    /// The bootstrap addresses: no broker is known.
    Starting,
    /// The known brokers.
    Running,
    /// Nobody: bootstrap names are being resolved after all nodes became suspect.
    Resolving,
    /// The bootstrap addresses again.
    Rebootstrapping,
    /// Nobody any more: another cluster answered.
    Fatal,
}

impl Metadata {
    /// A machine that knows the bootstrap addresses and nothing else. It asks nobody before the
    /// first [`Input::Subscribe`] or [`Input::Refresh`].
    pub fn new(settings: Settings, bootstrap: Vec<Endpoint>) -> Self {
        let mut view = View::new(settings);
        view.hosts
            .extend(bootstrap.iter().map(|endpoint| Arc::clone(&endpoint.host)));
        Self {
            phase: Phase::Asleep,
            bootstrap,
            interest: Interest::default(),
            links: Links::default(),
            refresh: Refresh::default(),
            view,
            empty_lists: 0,
            done: Vec::new(),
            published: Arc::new(Snapshot::default()),
            outputs: VecDeque::new(),
        }
    }

    /// Applies one input that happened at `now`.
    pub fn handle(&mut self, input: Input, draw: Draw, now: Moment) {
        if self.phase == Phase::Fatal {
            return;
        }
        match input {
            Input::Response { token, answer } => self.on_response(token, &answer, draw, now),
            Input::Failed { token } => self.on_failed(token, draw, now),
            Input::Hints(lot) => self.view.apply_hints(&lot, now),
            Input::LeaderServed(partition) => self.view.leader_served(&partition),
            Input::LinkChanged { target, state } => self.on_link(target, state, now),
            Input::Subscribe(interest) => self.on_subscribe(interest, now),
            Input::Refresh {
                reason,
                wants,
                prefer,
                waiter,
            } => {
                self.on_refresh(reason, &wants, prefer, waiter, now);
            }
            Input::Resolved(bootstrap) => self.on_resolved(bootstrap, now),
            Input::Tick => {}
        }
        self.take_asks(now);
        self.on_time(draw, now);
        self.publish();
    }

    /// The next thing to do for the host, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to come back with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Moment> {
        match self.phase {
            Phase::Asleep | Phase::Resolving | Phase::Fatal => None,
            // Without anybody to ask, a due refresh must not make the host spin.
            Phase::Starting | Phase::Rebootstrapping if self.bootstrap.is_empty() => None,
            Phase::Starting | Phase::Running | Phase::Rebootstrapping => {
                [self.refresh.next_deadline(), self.overdue_at()]
                    .into_iter()
                    .flatten()
                    .min()
            }
        }
    }

    /// The snapshot as last published.
    pub const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.published
    }

    /// The bootstrap addresses, in the order of [`Target::Bootstrap`].
    pub fn bootstrap(&self) -> &[Endpoint] {
        &self.bootstrap
    }

    /// The settings in use.
    pub const fn settings(&self) -> &Settings {
        &self.view.settings
    }

    /// Whether another cluster answered and the machine has stopped for good.
    pub fn is_fatal(&self) -> bool {
        self.phase == Phase::Fatal
    }

    fn on_link(&mut self, target: Target, state: LinkState, now: Moment) {
        let before = self.links.set(target, state);
        if let Target::Broker(broker) = target {
            if state == LinkState::Failed {
                self.view.dial_failed(broker);
            }
            if is_down(state) && !is_down(before) {
                self.leader_lost(broker);
            } else if state == LinkState::Ready {
                self.refresh.needs.link_is_back(broker, &self.view.work);
            }
        }
        self.take_asks(now);
        if self.phase == Phase::Running && self.links.all_failed(self.known()) {
            self.rebootstrap(RebootstrapReason::NothingReachable);
        }
    }

    /// The connection to a broker is gone: where it leads, somebody else may lead now.
    fn leader_lost(&mut self, broker: BrokerId) {
        let mut asks = Vec::new();
        for topic in self.view.work.topics() {
            for (index, row) in topic.partitions.iter() {
                if row.leader() == Some(broker) {
                    let partition = TopicPartition::new(topic.name.clone(), *index);
                    let want = Want::Leader {
                        partition,
                        failed: row.floor,
                    };
                    let avoid = Some(Target::Broker(broker));
                    asks.push(Ask {
                        reason: Reason::LinkLost,
                        want,
                        prefer: None,
                        avoid,
                    });
                }
            }
        }
        self.view.asks.extend(asks);
    }

    fn on_resolved(&mut self, bootstrap: Vec<Endpoint>, now: Moment) {
        if !bootstrap.is_empty() {
            self.bootstrap = bootstrap;
        }
        if self.phase == Phase::Resolving {
            self.phase = Phase::Rebootstrapping;
            self.refresh.restart(now);
        }
    }

    /// When the known nodes are given up for want of an answer.
    pub(super) fn overdue_at(&self) -> Option<Moment> {
        let running = self.phase == Phase::Running && self.recovers();
        let due = self.refresh.due_since().filter(|_| running)?;
        Some(due + self.view.settings.rebootstrap_after)
    }

    pub(super) fn recovers(&self) -> bool {
        self.view.settings.recovery == RecoveryStrategy::Rebootstrap
    }

    /// Goes back to the bootstrap names; one event per outage.
    pub(super) fn rebootstrap(&mut self, reason: RebootstrapReason) {
        if self.phase != Phase::Running || !self.recovers() {
            return;
        }
        self.phase = Phase::Resolving;
        self.empty_lists = 0;
        self.refresh.abandon_flight();
        self.links.clear();
        self.view.distrust_brokers();
        self.view.diffs.push(Diff::RebootstrapStarted { reason });
        self.outputs.push_back(Output::Rebootstrap);
    }

    pub(super) fn count(&mut self, counted: Counted) {
        self.outputs.push_back(Output::Counted(counted));
    }

    /// Publishes the working copy if anything changed, names the differences, then tells who
    /// waited.
    fn publish(&mut self) {
        self.outputs
            .extend(self.view.counts.drain(..).map(Output::Counted));
        let diffs = std::mem::take(&mut self.view.diffs);
        if !diffs.is_empty() {
            self.publish_diffs(diffs);
        }
        self.outputs
            .extend(self.done.drain(..).map(Output::WaiterDone));
    }

    fn publish_diffs(&mut self, diffs: Vec<Diff>) {
        let changed = diffs
            .iter()
            .any(|diff| !matches!(diff, Diff::MetadataVersion { .. }));
        self.view.work.revision.0 += u64::from(changed);
        self.published = Arc::new(self.view.work.clone());
        self.outputs
            .push_back(Output::Publish(Arc::clone(&self.published)));
        self.outputs.extend(diffs.into_iter().map(Output::Diff));
    }
}
