//! R5 to R8: in-sync replicas, replica lists, metadata versions.

use std::sync::Arc;

use crate::ids::{BrokerId, LeaderEpoch, MetadataVersion, Moment};
use crate::routing::cooldown::Fault;
use crate::routing::event::Reason;
use crate::routing::hint::Source;
use crate::routing::route::{Awaits, Context, Pending, Route};
use crate::routing::settings::IsrPolicy;
use crate::routing::state::{State, Until, Why, Wish};
use crate::routing::timer::Timer;

impl Route {
    /// R5, R6.
    pub(in crate::routing) fn on_isr_changed(
        &mut self,
        isr: Arc<[BrokerId]>,
        epoch: Option<LeaderEpoch>,
        context: Context<'_>,
    ) {
        self.cluster.isr = isr;
        self.cluster.isr_epoch = epoch;
        self.ledger.row_changed(&self.settings, context.now);
        self.on_members_changed(context);
    }

    /// R6, R7. A replica taken off the list is out of the ISR as well.
    pub(in crate::routing) fn on_replicas_changed(
        &mut self,
        replicas: Arc<[BrokerId]>,
        offline: Arc<[BrokerId]>,
        context: Context<'_>,
    ) {
        let isr = self.cluster.isr.iter().copied();
        self.cluster.isr = isr.filter(|member| replicas.contains(member)).collect();
        self.cluster.replicas = replicas;
        self.cluster.offline = offline;
        self.ledger.row_changed(&self.settings, context.now);
        match self.state {
            State::Follower { broker, .. } if self.cluster.offline.contains(&broker) => {
                self.on_follower_offline(broker, context);
            }
            State::Parked | State::Leader | State::Follower { .. } | State::Forced { .. } => {
                self.on_members_changed(context);
            }
        }
    }

    fn on_members_changed(&mut self, context: Context<'_>) {
        if self.alert {
            // Whoever joins while the leader is absent may be the only way out.
            self.dial_havens(context);
        }
        match self.state {
            State::Parked | State::Leader => {}
            State::Follower { broker, .. } if self.in_isr_view(broker) => {
                if let Some(hint) = self.pending_member(context.now) {
                    self.take_hint(hint, Source::Pending(Reason::IsrGained), context);
                }
            }
            State::Follower { broker, .. } => self.on_isr_lost(broker, context),
            State::Forced {
                why: Why::NotInIsr(broker),
                ..
            } if self.in_isr_view(broker) => match self.pending_member(context.now) {
                Some(hint) => {
                    self.take_hint(hint, Source::Pending(Reason::IsrGained), context);
                }
                None => self.want_probe(Wish::Isr),
            },
            State::Forced { why, .. } => {
                self.drop_pending_outsider();
                if !self.timers.is_set(Timer::Alternative) {
                    self.seek_alternative(why, context);
                }
            }
        }
    }

    /// R6.
    fn on_isr_lost(&mut self, broker: BrokerId, context: Context<'_>) {
        if self.on_refuge() {
            return self.flee(context);
        }
        match self.settings.isr {
            IsrPolicy::Advise => {}
            IsrPolicy::Require => {
                let state = Self::forced(Why::NotInIsr(broker), Until::Version);
                self.change_after_flight(state, Reason::IsrLost, context);
            }
        }
        self.want_probe(Wish::Isr);
    }

    /// R7.
    fn on_follower_offline(&mut self, broker: BrokerId, context: Context<'_>) {
        self.cool(broker, Fault::Transport, context);
        self.leave(broker, Reason::ReplicaOffline, context);
    }

    /// The replica of a fresh pending hint, if it is in sync by now.
    fn pending_member(&self, now: Moment) -> Option<BrokerId> {
        let Pending {
            broker,
            since,
            awaits,
        } = self.pending?;
        let fresh = now.since(since) <= self.settings.pending_max;
        (awaits == Awaits::Isr && fresh && self.in_isr_view(broker)).then_some(broker)
    }

    fn drop_pending_outsider(&mut self) {
        let outside = |pending: &Pending| !self.in_isr_view(pending.broker);
        if self.settings.isr == IsrPolicy::Require && self.pending.as_ref().is_some_and(outside) {
            self.pending = None;
        }
    }

    /// R8.
    pub(in crate::routing) fn on_version(&mut self, version: MetadataVersion) {
        let is_new = version > self.cluster.version;
        self.cluster.version = version;
        if !is_new {
            return;
        }
        match self.state {
            State::Parked | State::Leader => {}
            State::Follower { .. } => self.drop_pending_outsider(),
            State::Forced {
                why: Why::NotInIsr(broker),
                ..
            } => {
                if !self.in_isr_view(broker) {
                    self.drop_pending_outsider();
                }
                if self.pending.is_some() {
                    // In sync by now and being dialled: no question is open.
                    return;
                }
                self.probe_for_version(version);
            }
            State::Forced {
                why: Why::UnknownBroker(_),
                ..
            } => self.probe_for_version(version),
            State::Forced {
                why:
                    Why::Connecting(_)
                    | Why::Cooldown(_)
                    | Why::NotYet(_)
                    | Why::Starved
                    | Why::Flap
                    | Why::SelfHint
                    | Why::FormerLeader(_)
                    | Why::Policy,
                ..
            } => {}
        }
    }

    /// 7.2: at most one probe per version.
    fn probe_for_version(&mut self, version: MetadataVersion) {
        if self.hints.probed_version != Some(version) && self.deferred.is_none() {
            self.hints.probed_version = Some(version);
            self.want_probe(Wish::Version);
        }
    }
}
