//! How a route changes: at once, or after the fetch in flight (routing.md 4.2, 15).

use super::event::{Endpoint, Event, Reason, RoutingChange};
use super::lease::{Hold, Lease};
use super::output::Output;
use super::route::{Context, Deferred, Route};
use super::settings::IsrPolicy;
use super::stamp::Lane;
use super::state::{Probe, State, Until, Why, Wish};
use super::timer::Timer;
use crate::ids::{BrokerId, Moment};

/// Why a route changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cause {
    pub(super) reason: Reason,
    pub(super) hint: Option<BrokerId>,
}

impl From<Reason> for Cause {
    fn from(reason: Reason) -> Self {
        Self { reason, hint: None }
    }
}

impl Route {
    /// Changes the state now (`!`, or no fetch is in flight). An answer still under way fails the
    /// gate.
    pub(super) fn change(&mut self, state: State, cause: impl Into<Cause>, context: Context<'_>) {
        let state = self.possible(state, context);
        let from = self.endpoint(context);
        self.deferred = None;
        self.timers.clear(Timer::Flight);
        let last = std::mem::replace(&mut self.state, state);
        let served = self.serving_of(&self.state, context);
        if served != self.served {
            self.timers.clear(Timer::Trust);
        }
        self.arm(&last, context);
        if served != self.served {
            self.served = served;
            self.generation.0 += 1;
            self.since = context.now;
            self.retry.moved();
            self.marks.route_changed();
            self.pending = None;
            // Whoever was readmitted stays so as long as nothing drives it away.
            self.permit = self
                .permit
                .filter(|broker| self.state.follower() == Some(*broker));
            self.watch.route_changed(context.now);
            for timer in OF_A_GENERATION {
                self.timers.clear(timer);
            }
            let wish = self.standing_wish().filter(|_| self.holds_on(&last));
            self.drop_probe();
            if let Some(wish) = wish {
                self.want_probe(wish);
            }
            self.drop_hedge("dropped");
            self.raise_overdue(false);
            self.announce(from, cause.into(), context);
        }
    }

    /// The same hold on another lane (R46): what was to be asked is still to be asked.
    fn holds_on(&self, last: &State) -> bool {
        self.state.why().is_some() && self.state.why() == last.why()
    }

    /// Changes the state once the fetch in flight has answered (`~`); its records are kept.
    pub(super) fn change_after_flight(
        &mut self,
        state: State,
        cause: impl Into<Cause>,
        context: Context<'_>,
    ) {
        let cause = cause.into();
        let moves = self.serving_of(&self.possible(state, context), context) != self.served;
        if moves && self.registered.may_be_in_flight() {
            self.deferred = Some(Box::new(Deferred { state, cause }));
            let patience = self.settings.hedge_deadline();
            self.timers.set(Timer::Flight, context.now + patience);
        } else {
            self.change(state, cause, context);
        }
    }

    /// Carries out a change that waited for the fetch in flight.
    pub(super) fn apply_deferred(&mut self, context: Context<'_>) {
        if let Some(deferred) = self.deferred.take() {
            self.carry_out(*deferred, context);
        }
    }

    /// Carries out a change decided a while ago. A follower that may not be read any more is asked
    /// about again instead.
    pub(super) fn carry_out(&mut self, deferred: Deferred, context: Context<'_>) {
        self.timers.clear(Timer::Flight);
        let Deferred { state, cause } = deferred;
        match state {
            State::Follower { broker, .. } if !self.may_read(broker, context) => {
                self.want_probe(Wish::Isr);
            }
            State::Follower { .. } | State::Parked | State::Leader | State::Forced { .. } => {
                self.change(state, cause, context);
            }
        }
        if cause.reason == Reason::IsrLost {
            // A probe that had not answered yet ended with the route it was asked from.
            self.want_probe(Wish::Isr);
        }
    }

    /// I5, I6 and the breaker, of a follower about to be read.
    pub(super) fn may_read(&self, broker: BrokerId, context: Context<'_>) -> bool {
        let in_sync = match self.settings.isr {
            IsrPolicy::Require => self.in_isr_view(broker),
            IsrPolicy::Advise => true,
        };
        in_sync
            && !self.ledger.is_cooling(broker, context.now)
            && self.breaker_lets(broker, context)
    }

    /// Forces the route to the leader on the no-rack lane; same `why` and `until` as given.
    pub(super) fn forced(why: Why, until: Until) -> State {
        State::Forced {
            why,
            until,
            resume: None,
        }
    }

    /// A follower route under a fresh lease. Without epochs nobody fences a stale follower: trial
    /// leases only (F7).
    pub(super) fn leased(&self, broker: BrokerId, trial: bool, context: Context<'_>) -> State {
        let hold = if trial || self.cluster.leadership.epoch.is_none() {
            Hold::Trial(Lease::trial(&self.settings, context.now))
        } else {
            Hold::Full(Lease::full(&self.settings, context.draw, context.now))
        };
        State::Follower { broker, hold }
    }

    /// Replaces the lease of the follower being read; the route stays.
    pub(super) fn renew(&mut self, trial: bool, context: Context<'_>) {
        if let Some(broker) = self.state.follower() {
            let lease = self.leased(broker, trial, context);
            let last = std::mem::replace(&mut self.state, lease);
            self.arm(&last, context);
            self.raise_overdue(false);
        }
    }

    /// Raises or lowers the gauge of a lease past its hard stop.
    pub(super) fn raise_overdue(&mut self, overdue: bool) {
        if self.gauges.overdue != overdue {
            self.gauges.overdue = overdue;
            self.emit(Output::Event(Event::LeaseOverdue(overdue)));
        }
    }

    /// What a probe is wanted for, asked already or not.
    fn standing_wish(&self) -> Option<Wish> {
        match self.probe {
            Probe::None => None,
            Probe::Wanted(wish) | Probe::InFlight(_, wish) => Some(wish),
        }
    }

    /// Forgets the probe, wherever it is.
    pub(super) fn drop_probe(&mut self) {
        if let (Probe::InFlight(..), Some((broker, _))) = (self.probe, self.probed) {
            self.emit(Output::CancelProbe { broker });
        }
        self.probe = Probe::None;
        self.timers.clear(Timer::ProbeRetry);
    }

    /// `Leader` takes the place of `Forced` at a leader that computes no hints anyway, and a leader
    /// nobody knows can serve nobody.
    fn possible(&self, state: State, context: Context<'_>) -> State {
        match (state, self.leader()) {
            (State::Leader | State::Forced { .. }, None) => State::Parked,
            (State::Forced { .. }, Some(leader)) if context.brokers.is_legacy(leader) => {
                State::Leader
            }
            (State::Parked | State::Leader | State::Follower { .. } | State::Forced { .. }, _) => {
                state
            }
        }
    }

    /// The broker and lane a state is served by.
    fn serving_of(&self, state: &State, context: Context<'_>) -> Option<(BrokerId, Lane)> {
        match state {
            State::Parked => None,
            State::Leader => self.leader().map(|leader| (leader, Lane::Rack)),
            State::Follower { broker, .. } => Some((*broker, Lane::Rack)),
            State::Forced { .. } => self.leader().map(|leader| {
                let v10 = context.brokers.is_v10(leader);
                (leader, if v10 { Lane::V10 } else { Lane::NoRack })
            }),
        }
    }

    /// Sets the deadlines of the present state and stops those of the last one.
    fn arm(&mut self, last: &State, context: Context<'_>) {
        for timer in [Timer::Reask, Timer::HardStop, Timer::Hold, Timer::Refresh] {
            self.timers.clear(timer);
        }
        if self.state.why() != last.why() {
            self.timers.clear(Timer::Alternative);
        }
        match (is_refuge(last), self.on_refuge()) {
            (false, true) => self.enter_refuge(context),
            (true, false) => self.leave_refuge(context),
            (true, true) | (false, false) => {}
        }
        match self.state {
            State::Parked | State::Leader => {}
            State::Follower { hold, .. } => {
                if let Some(lease) = hold.lease() {
                    self.timers.set(Timer::Reask, lease.ask_at);
                    self.timers.set(Timer::HardStop, lease.stop_at);
                }
            }
            State::Forced { why, until, .. } => {
                if let Until::At(end) = until {
                    self.timers.set(Timer::Hold, end);
                }
                if last.why() != Some(why) {
                    self.seek_alternative(why, context);
                }
                if let (Why::Cooldown(broker), Until::Permit) = (why, until) {
                    self.queue_for_permit(broker);
                }
            }
        }
    }

    /// While a replica cools and another one of our rack is in sync, the leader may recommend that
    /// one: asked at once, then now and then.
    pub(super) fn seek_alternative(&mut self, why: Why, context: Context<'_>) {
        if let Why::Cooldown(cooling) = why
            && self.has_alternative(cooling, context)
        {
            self.timers.set(Timer::Alternative, context.now);
        }
    }

    /// Whoever waits for a permit of the breaker has to stand in its queue, for whatever fault the
    /// broker was left; asking twice is harmless, and a closed breaker answers at once.
    pub(super) fn queue_for_permit(&mut self, broker: BrokerId) {
        let fault = None;
        self.emit(Output::Cooling { broker, fault });
    }

    pub(super) fn has_alternative(&self, cooling: BrokerId, context: Context<'_>) -> bool {
        let Some(rack) = self.settings.rack_sent() else {
            return false;
        };
        let is_ours = |broker: &BrokerId| {
            *broker != cooling
                && self.in_isr_view(*broker)
                && context.brokers.rack(*broker) == Some(rack)
        };
        self.cluster.isr.iter().any(is_ours)
    }

    fn endpoint(&self, context: Context<'_>) -> Endpoint {
        let broker = self.served.map(|(broker, _)| broker);
        Endpoint {
            state: self.state.name(),
            broker,
            zone: broker
                .and_then(|broker| context.brokers.rack(broker))
                .cloned(),
            lane: self.served.map(|(_, lane)| lane),
        }
    }

    fn announce(&mut self, from: Endpoint, cause: Cause, context: Context<'_>) {
        let left = |at: Moment| at.since(context.now);
        let change = RoutingChange {
            incarnation: self.incarnation,
            from,
            to: self.endpoint(context),
            reason: cause.reason,
            lease_kind: self.state.lease_kind(),
            lease_left: self.state.lease().map(|lease| left(lease.ask_at)),
            generation: self.generation,
            hint: cause.hint,
            leader: self.leader(),
            leader_epoch: self.cluster.leadership.epoch,
            version: self.cluster.version,
            at: context.now,
        };
        self.emit(Output::Event(Event::RoutingChange(Box::new(change))));
    }
}

const fn is_refuge(state: &State) -> bool {
    matches!(
        state,
        State::Follower {
            hold: Hold::Refuge,
            ..
        }
    )
}

/// What is waited for at one broker and lane means nothing at the next.
const OF_A_GENERATION: [Timer; 7] = [
    Timer::Backoff,
    Timer::Connect,
    Timer::Resume,
    Timer::Starve,
    Timer::Quiet,
    Timer::Stuck,
    Timer::Grace,
];
