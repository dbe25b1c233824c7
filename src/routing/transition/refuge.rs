//! R43 to R45: no outage while any in-sync replica can be reached (routing.md 8.4).

use crate::cluster;
use crate::ids::{BrokerId, Moment, PositionGeneration};
use crate::routing::cooldown::Fault;
use crate::routing::event::{Event, Reason};
use crate::routing::facts::Class;
use crate::routing::input::LinkChange;
use crate::routing::lease::Hold;
use crate::routing::output::Output;
use crate::routing::route::{Context, Route};
use crate::routing::state::{Position, State, Wish};
use crate::routing::timer::Timer;

impl Route {
    /// The edge of a silence. What follows from its level is judged at the end of the call.
    pub(in crate::routing) fn on_silent(
        &mut self,
        broker: BrokerId,
        class: Class,
        context: Context<'_>,
    ) {
        if self.is_served_by(broker, class) {
            self.timers.clear(Timer::Trust);
            self.dial_havens(context);
        }
    }

    /// Nothing came for a while: links that may be needed soon are made now.
    pub(in crate::routing) fn on_quiet(
        &mut self,
        broker: BrokerId,
        class: Class,
        context: Context<'_>,
    ) {
        if self.is_served_by(broker, class) {
            self.dial_havens(context);
        }
    }

    /// R43, R45 and the level of R29: silence of whoever serves, and who may serve instead. Judged
    /// at the end of every call, since any input may have changed the answer; but an input that
    /// may change no route leaves it to a call of its own, at once.
    pub(in crate::routing) fn judge_silence(&mut self, stays: bool, context: Context<'_>) {
        let reads = self.position == Position::Ready && !self.gates.paused && !self.gates.fenced;
        if reads && self.is_called_away(context) {
            if stays {
                return self.timers.set(Timer::Recheck, context.now);
            }
            self.answer_silence(context);
        }
        self.watch_havens(context);
        self.tell_unreachable(context);
    }

    /// Whether whoever serves is silent, or a refuge is needed no longer.
    fn is_called_away(&self, context: Context<'_>) -> bool {
        match self.state {
            State::Parked | State::Leader | State::Forced { .. } => self.is_without_leader(context),
            State::Follower {
                hold: Hold::Refuge, ..
            } => self.is_serving_silent(context) || self.usable_candidate(context).is_some(),
            State::Follower {
                hold: Hold::Full(_) | Hold::Trial(_),
                ..
            } => self.is_serving_silent(context),
        }
    }

    fn answer_silence(&mut self, context: Context<'_>) {
        match self.state {
            State::Parked | State::Leader | State::Forced { .. } => self.on_leader_silent(context),
            State::Follower {
                hold: Hold::Refuge, ..
            } => self.judge_refuge(context),
            State::Follower {
                hold: Hold::Full(_) | Hold::Trial(_),
                ..
            } => self.on_follower_silent(context),
        }
    }

    /// R43. A change that waits for the fetch in flight waits no longer.
    fn on_leader_silent(&mut self, context: Context<'_>) {
        self.apply_deferred(context);
        match self.state {
            State::Follower { .. } => {}
            State::Parked | State::Leader | State::Forced { .. } => {
                if self.take_refuge(false, context) {
                    self.emit(Output::Refresh(cluster::Reason::LinkLost));
                }
            }
        }
    }

    /// The candidate, else a refuge, is read from now on. `moved` from a refuge.
    pub(in crate::routing) fn take_refuge(&mut self, moved: bool, context: Context<'_>) -> bool {
        let reason = |first| if moved { Reason::RefugeMoved } else { first };
        if let Some(candidate) = self.usable_candidate(context) {
            let (broker, hold) = (candidate.broker, candidate.hold);
            let state = State::Follower { broker, hold };
            self.change(state, reason(Reason::LeaderUnreachable), context);
        } else if let Some(broker) = self.refuge(context) {
            let hold = Hold::Refuge;
            let state = State::Follower { broker, hold };
            self.change(state, reason(Reason::Refuge), context);
        } else {
            return false;
        }
        true
    }

    /// R45 by level: the refuge is silent, or the candidate may be read again.
    fn judge_refuge(&mut self, context: Context<'_>) {
        let Some(broker) = self.state.follower() else {
            return;
        };
        if self.is_serving_silent(context) {
            if self.deferred.is_some() {
                return self.apply_deferred(context);
            }
            self.cool(broker, Fault::Slow, context);
            self.flee(context);
        } else if self.deferred.is_none() && self.usable_candidate(context).is_some() {
            self.flee(context);
        }
    }

    /// R45: the refuge is left for the candidate, the next refuge, or the leader.
    pub(in crate::routing) fn flee(&mut self, context: Context<'_>) {
        if self.deferred.is_some() {
            // The leader has answered already.
            self.apply_deferred(context);
        } else if !self.take_refuge(true, context) {
            self.change(State::Leader, Reason::RefugeEnded, context);
        }
    }

    /// A refuge begins. The leader is asked from time to time whether it is back.
    pub(in crate::routing) fn enter_refuge(&mut self, context: Context<'_>) {
        let absence = self.absence.get_or_insert_default();
        absence.begin(context.now);
        let due = context.now + absence.interval(&self.settings, context.now);
        self.timers.set(Timer::Refuge, due);
        self.dial_leader(context);
    }

    /// A refuge is over. Silence from before the leader answered is old news.
    pub(in crate::routing) fn leave_refuge(&mut self, context: Context<'_>) {
        self.timers.clear(Timer::Refuge);
        match self.state {
            State::Parked | State::Follower { .. } => {}
            State::Leader | State::Forced { .. } => {
                let absence = self.absence.get_or_insert_default();
                if absence.end(context.now) {
                    let until = context.now + self.settings.hedge_deadline();
                    self.timers.set(Timer::Trust, until);
                }
            }
        }
    }

    /// R44: the next question to the leader, if its control connection can carry one.
    pub(in crate::routing) fn ask_absent_leader(&mut self, context: Context<'_>) {
        let (Some(leader), true) = (self.leader(), self.on_refuge()) else {
            return;
        };
        let now = context.now;
        let absence = self.absence.get_or_insert_default();
        let interval = absence.interval(&self.settings, now);
        if !context.brokers.is_ready(leader, Class::Control) {
            self.timers.set(Timer::Refuge, now + interval);
            return self.dial_leader(context);
        }
        let due = absence.asked_at + interval;
        if due > now {
            return self.timers.set(Timer::Refuge, due);
        }
        absence.asked_at = now;
        self.timers.set(Timer::Refuge, now + interval);
        if context.brokers.is_legacy(leader) {
            // It answers no probe: its connection has to be sign enough.
            absence.leader_answered();
            return self.change_after_flight(State::Leader, Reason::RefugeEnded, context);
        }
        self.want_probe(Wish::Refuge);
    }

    /// Links that matter only while the leader is absent.
    pub(in crate::routing) fn on_haven_link(
        &mut self,
        broker: BrokerId,
        class: Class,
        change: LinkChange,
        context: Context<'_>,
    ) {
        let of_leader = self.on_refuge() && self.leader() == Some(broker);
        match (class, change) {
            (Class::Control, LinkChange::Ready) if of_leader => self.ask_absent_leader(context),
            (Class::Control, LinkChange::Lost | LinkChange::Failed) if of_leader => {
                self.dial_leader(context);
            }
            (Class::Rack, LinkChange::Lost | LinkChange::Failed) => {
                self.seek_haven(broker, context);
            }
            (Class::Rack | Class::NoRack | Class::Control, _) => {}
        }
    }

    /// While the leader is absent, news of any replica may show a way.
    pub(in crate::routing) fn seek_haven(&mut self, broker: BrokerId, context: Context<'_>) {
        if self.alert {
            self.dial_haven(broker, context);
        }
    }

    fn dial_leader(&mut self, context: Context<'_>) {
        if let Some(broker) = self.leader()
            && !context.brokers.is_ready(broker, Class::Control)
        {
            let class = Class::Control;
            self.emit(Output::Dial { broker, class });
        }
    }

    /// Dials whoever may be read instead of the broker that serves.
    pub(in crate::routing) fn dial_havens(&mut self, context: Context<'_>) {
        let members = std::sync::Arc::clone(&self.cluster.isr);
        for member in members.iter() {
            self.dial_haven(*member, context);
        }
    }

    /// Its own cooldown and its breaker may end before the leader is back, so they keep nobody from
    /// making the link; a breaker that lets few in is asked for a permit.
    fn dial_haven(&mut self, broker: BrokerId, context: Context<'_>) {
        let brokers = context.brokers;
        if !self.is_haven(broker, context) {
            return;
        }
        if brokers.is_addressable(broker) && !brokers.is_ready(broker, Class::Rack) {
            let class = Class::Rack;
            self.emit(Output::Dial { broker, class });
        }
        if !self.breaker_lets(broker, context) {
            self.queue_for_permit(broker);
        }
    }

    /// While the leader is absent, the end of a cooldown may show a way.
    fn watch_havens(&mut self, context: Context<'_>) {
        let seeking = match self.state {
            State::Parked | State::Leader | State::Forced { .. } => self.is_without_leader(context),
            State::Follower { .. } => self.on_refuge(),
        };
        let news = seeking && !self.alert;
        self.alert = seeking;
        if news && !self.on_refuge() {
            self.dial_havens(context);
        }
        let end = if seeking {
            self.first_end(context)
        } else {
            None
        };
        match end {
            Some(end) => self.timers.set(Timer::Recheck, end),
            None => self.timers.clear(Timer::Recheck),
        }
    }

    /// When the first of the replicas that must not be read now may be.
    fn first_end(&self, context: Context<'_>) -> Option<Moment> {
        let ends = self.cluster.isr.iter().filter_map(|member| {
            let former = self.former_until(*member, context.now);
            self.ledger.until(*member, context.now).max(former)
        });
        ends.min()
    }

    /// Raises or lowers the gauge of a leader that nobody can replace (routing.md 18).
    fn tell_unreachable(&mut self, context: Context<'_>) {
        let silent = match self.state {
            State::Follower { .. } => false,
            State::Parked | State::Leader | State::Forced { .. } => self.is_without_leader(context),
        };
        let stuck = silent && self.position != Position::Unset && !self.gates.paused;
        let waits = self.gauges.unreachable && self.awaits_position();
        self.raise_unreachable(stuck || waits);
        if self.gauges.unreachable && !self.timers.is_set(Timer::Unreachable) {
            let pause = ASK_AGAIN.mul_f64(context.draw.split().uniform(0.8, 1.2));
            self.timers.set(Timer::Unreachable, context.now + pause);
        }
    }

    /// What metadata said last may be over by now: a replica that is in sync again moves no epoch
    /// and tells nobody.
    pub(in crate::routing) fn on_still_unreachable(&mut self) {
        if self.gauges.unreachable {
            self.emit(Output::Refresh(cluster::Reason::LinkLost));
        }
    }

    /// The position waits for a leader that is silent. It is so until the position is found.
    pub(in crate::routing) fn on_unanswered(&mut self, generation: PositionGeneration) {
        if self.awaits_position() && generation == self.position_generation {
            self.raise_unreachable(true);
        }
    }

    fn awaits_position(&self) -> bool {
        match self.position {
            Position::Resolving | Position::Validating => true,
            Position::Unset | Position::Ready | Position::Halted => false,
        }
    }

    pub(in crate::routing) fn raise_unreachable(&mut self, unreachable: bool) {
        if self.gauges.unreachable != unreachable {
            self.gauges.unreachable = unreachable;
            self.timers.clear(Timer::Unreachable);
            self.emit(Output::Event(Event::LeaderUnreachable(unreachable)));
            if unreachable {
                self.emit(Output::Refresh(cluster::Reason::LinkLost));
            }
        }
    }

    /// Whether the leader that should serve is silent, or metadata took it away (R4).
    fn is_without_leader(&self, context: Context<'_>) -> bool {
        match self.state {
            State::Parked => self.cluster.lost,
            State::Leader | State::Forced { .. } | State::Follower { .. } => {
                self.is_serving_silent(context)
            }
        }
    }

    /// Whether the lane that serves is silent, and has not answered since it fell silent.
    pub(in crate::routing) fn is_serving_silent(&self, context: Context<'_>) -> bool {
        let silent = |(broker, lane)| context.brokers.is_silent(broker, Class::of(lane));
        self.served.is_some_and(silent) && !self.timers.is_set(Timer::Trust)
    }

    /// A row of the lane that serves: if the facts still call it silent, they are late.
    pub(in crate::routing) fn trust(&mut self, context: Context<'_>) {
        let silent = |(broker, lane)| context.brokers.is_silent(broker, Class::of(lane));
        if self.served.is_some_and(silent) {
            let until = context.now + self.settings.hedge_deadline();
            self.timers.set(Timer::Trust, until);
        }
    }

    pub(in crate::routing) fn is_served_by(&self, broker: BrokerId, class: Class) -> bool {
        self.served
            .is_some_and(|(served, lane)| (served, Class::of(lane)) == (broker, class))
    }
}

/// How often metadata is asked about a partition that nobody in reach may serve, +-20 %. Its own
/// pace is the slower one, and all partitions that ask at a time share a request (metadata.md 8).
const ASK_AGAIN: std::time::Duration = std::time::Duration::from_secs(5);
