//! Hints: whom the leader recommends, and whether we follow (routing.md 7).

use std::time::Duration;

use super::change::Cause;
use super::cooldown::Fault;
use super::event::Reason;
use super::facts::{Breaker, Class};
use super::output::{Count, Output};
use super::refuge::Candidate;
use super::route::{Awaits, Context, Pending, Route};
use super::settings::{FollowHints, IsrPolicy};
use super::state::{State, Until, Why};
use super::timer::Timer;
use crate::cluster;
use crate::ids::{BrokerId, Moment};

/// Where a hint comes from, which decides how the route may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A row of the reading fetch: nothing is in flight any more.
    Row,
    /// A probe: a reading fetch may be in flight.
    Probe,
    /// An earlier hint whose obstacle is gone.
    Pending(Reason),
}

/// What 7.1 says of a hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judgement {
    /// H6: the leader means itself.
    Own,
    /// H5, H7 to H11: not followed.
    Refused {
        rule: &'static str,
        why: Why,
        until: Until,
    },
    /// H12: followed once its link is Ready.
    Connect,
    /// H13; a trial if the ISR view does not vouch for it.
    Adopted { trial: bool },
}

impl Route {
    /// Takes a hint from role leader at the current epoch (H1 and the gate are passed).
    pub(super) fn take_hint(&mut self, hint: BrokerId, source: Source, context: Context<'_>) {
        self.hints.seen = true;
        self.marks.confirmed_at = Some(context.now);
        let judgement = self.judge(hint, context);
        match judgement {
            Judgement::Own => self.own_hint(hint, source, context),
            Judgement::Refused { rule, why, until } => {
                self.count(Count::Hint(rule));
                self.refuse(hint, why, until, source, context);
            }
            Judgement::Connect => {
                self.count(Count::Hint("H12"));
                self.await_link(hint, context);
            }
            Judgement::Adopted { trial } => self.adopt(hint, trial, source, context),
        }
    }

    /// Whether a follower may be read as far as its breaker goes.
    pub(super) fn breaker_lets(&self, broker: BrokerId, context: Context<'_>) -> bool {
        match context.brokers.breaker(broker) {
            Breaker::Closed => true,
            Breaker::Open(_) => false,
            Breaker::Readmitting => self.permit == Some(broker),
        }
    }

    /// The hold of a route that has to leave `broker` alone.
    pub(super) fn cooldown_end(&self, broker: BrokerId, context: Context<'_>) -> Until {
        let now = context.now;
        match (
            self.ledger.until(broker, now),
            self.breaker_lets(broker, context),
        ) {
            (Some(end), true) => Until::At(end),
            (_, false) => Until::Permit,
            (None, true) => Until::At(now),
        }
    }

    /// 7.1, first match wins; H1 to H4 are judged by the rows that carry the hint.
    fn judge(&self, hint: BrokerId, context: Context<'_>) -> Judgement {
        let Context { brokers, now, .. } = context;
        let refused = |rule, why, until| Judgement::Refused { rule, why, until };
        if self.policy_forbids() {
            return refused("H5", Why::Policy, Until::Epoch);
        }
        if self.leader() == Some(hint) {
            return Judgement::Own;
        }
        if !brokers.is_addressable(hint) || self.cluster.offline.contains(&hint) {
            return refused("H7", Why::UnknownBroker(hint), Until::Version);
        }
        let cooling = self.ledger.is_cooling(hint, now);
        if cooling || !self.breaker_lets(hint, context) || brokers.is_legacy(hint) {
            return refused("H8", Why::Cooldown(hint), self.cooldown_end(hint, context));
        }
        if let Some(end) = self.former_until(hint, now) {
            return refused("H9", Why::FormerLeader(hint), Until::At(end));
        }
        let is_move = self.state.follower() != Some(hint);
        if is_move && self.adoptions_since(now) >= self.settings.flap_max {
            let hold = self.settings.flap_hold.plain(self.hints.flaps);
            return refused("H10", Why::Flap, Until::At(now + hold));
        }
        let vouched = self.in_isr_view(hint);
        if !vouched && self.settings.isr == IsrPolicy::Require {
            return refused("H11", Why::NotInIsr(hint), Until::Version);
        }
        if !brokers.is_ready(hint, Class::Rack) {
            return Judgement::Connect;
        }
        Judgement::Adopted { trial: !vouched }
    }

    pub(super) fn policy_forbids(&self) -> bool {
        match self.settings.follow_hints {
            FollowHints::Always => false,
            FollowHints::Rack => self.settings.client_rack.is_none(),
            FollowHints::Never => true,
        }
    }

    /// A leader of a moment ago may still expose a tail that is about to be truncated
    /// (KAFKA-14704).
    pub(super) fn former_until(&self, broker: BrokerId, now: Moment) -> Option<Moment> {
        let (former, rose) = self.cluster.former?;
        let end = rose + self.settings.former_leader_hold;
        (former == broker && end > now).then_some(end)
    }

    fn adoptions_since(&self, now: Moment) -> usize {
        let window = self.settings.flap_window;
        self.hints
            .adoptions
            .iter()
            .filter(|at| now.since(**at) < window)
            .count()
    }

    fn own_hint(&mut self, hint: BrokerId, source: Source, context: Context<'_>) {
        self.count(Count::Hint("H6"));
        match source {
            Source::Row => {
                self.pending = None;
                self.candidate = None;
                self.hints.own = self.hints.own.saturating_add(1);
                if self.hints.own >= SELF_HINTS {
                    self.hints.own = 0;
                    let until = Until::At(context.now + self.settings.self_hint_hold);
                    self.refuse(hint, Why::SelfHint, until, source, context);
                }
            }
            Source::Probe | Source::Pending(_) => self.leader_serves(context),
        }
    }

    /// R20: the leader recommends nobody, that is itself.
    pub(super) fn leader_serves(&mut self, context: Context<'_>) {
        self.pending = None;
        self.candidate = None;
        let reason = match self.on_refuge() {
            true => Reason::RefugeEnded,
            false => Reason::LeaderSaidStay,
        };
        match self.state {
            State::Parked | State::Leader => {}
            State::Follower { .. } | State::Forced { .. } => {
                self.change_after_flight(State::Leader, reason, context);
            }
        }
    }

    /// R10, R18: read from the hinted follower.
    fn adopt(&mut self, hint: BrokerId, trial: bool, source: Source, context: Context<'_>) {
        self.count(Count::Hint("adopted"));
        if trial {
            self.emit(Output::Refresh(cluster::Reason::OutsideIsr));
        }
        let reason = match (source, self.state) {
            (Source::Pending(reason), _) => reason,
            (Source::Row, State::Follower { .. }) => Reason::HintMoved,
            (Source::Row, State::Parked | State::Leader | State::Forced { .. }) => {
                Reason::HintAdopted
            }
            (Source::Probe, State::Follower { .. }) => Reason::ProbeMoved,
            (Source::Probe, State::Parked | State::Leader | State::Forced { .. }) => {
                Reason::HintAdopted
            }
        };
        self.note_adoption(context.now);
        let state = self.leased(hint, trial, context);
        self.remember(state);
        let cause = Cause {
            reason,
            hint: Some(hint),
        };
        match source {
            Source::Row => self.change(state, cause, context),
            Source::Probe | Source::Pending(_) => self.change_after_flight(state, cause, context),
        }
    }

    /// The follower being read was granted by the leader just now.
    pub(super) fn note_candidate(&mut self) {
        self.remember(self.state);
    }

    fn remember(&mut self, granted: State) {
        let epoch = self.cluster.leadership.epoch;
        if let State::Follower { broker, hold } = granted {
            let candidate = Candidate {
                broker,
                hold,
                epoch,
            };
            self.candidate = Some(Box::new(candidate));
        }
    }

    fn note_adoption(&mut self, now: Moment) {
        if self.adoptions_since(now) == 0 {
            self.hints.flaps = 0;
        }
        if self.hints.adoptions.len() >= self.settings.flap_max {
            self.hints.adoptions.pop_front();
        }
        self.hints.adoptions.push_back(now);
        self.hints.own = 0;
        self.hints.ladder = None;
    }

    /// H12: dial. At the leader nothing is fetched meanwhile, it would be the same hint again;
    /// elsewhere reading goes on.
    fn await_link(&mut self, hint: BrokerId, context: Context<'_>) {
        let since = context.now;
        self.pending = Some(Pending {
            broker: hint,
            since,
            awaits: Awaits::Link,
        });
        self.timers
            .set(Timer::Connect, since + self.settings.connect_grace);
        self.emit(Output::Dial {
            broker: hint,
            class: Class::Rack,
        });
    }

    /// R11, R19: the hint is not followed. Records go on: at the leader without a rack, or from the
    /// follower.
    pub(super) fn refuse(
        &mut self,
        hint: BrokerId,
        why: Why,
        until: Until,
        source: Source,
        context: Context<'_>,
    ) {
        let cause = Cause {
            reason: reason_of(why),
            hint: Some(hint),
        };
        match self.state {
            State::Parked => return,
            State::Leader if source == Source::Row => {
                self.change(Self::forced(why, until), cause, context);
            }
            State::Leader => self.change_after_flight(Self::forced(why, until), cause, context),
            State::Follower { .. } if why == Why::Policy || self.on_refuge() => {
                self.change_after_flight(Self::forced(why, until), cause, context);
            }
            State::Follower { .. } => self.renew(true, context),
            State::Forced { .. } => self.change(Self::forced(why, until), cause, context),
        }
        self.follow_up(hint, why, context);
    }

    /// What a refusal asks for beside the route: a refresh, a cooldown, a place in the queue of the
    /// breaker.
    fn follow_up(&mut self, hint: BrokerId, why: Why, context: Context<'_>) {
        let now = context.now;
        match why {
            Why::UnknownBroker(_) => self.ask_for_unknown(now),
            Why::NotInIsr(_) => {
                self.pending = Some(Pending {
                    broker: hint,
                    since: now,
                    awaits: Awaits::Isr,
                });
                self.ask_for_isr(hint, now);
            }
            Why::Cooldown(broker) => {
                let legacy = context.brokers.is_legacy(broker);
                if legacy && !self.ledger.is_cooling(broker, now) {
                    self.cool(broker, Fault::Version, context);
                }
                if !self.breaker_lets(broker, context) {
                    self.queue_for_permit(broker);
                }
            }
            Why::Flap => self.hints.flaps = self.hints.flaps.saturating_add(1),
            Why::Connecting(_)
            | Why::NotYet(_)
            | Why::Starved
            | Why::SelfHint
            | Why::FormerLeader(_)
            | Why::Policy => {}
        }
    }

    /// H7: a refresh for an unknown broker, at most once per second.
    fn ask_for_unknown(&mut self, now: Moment) {
        let earliest = self
            .hints
            .unknown_asked
            .map(|asked| asked + UNKNOWN_SPACING);
        match earliest {
            Some(earliest) if earliest > now => self.timers.set(Timer::Refresh, earliest),
            Some(_) | None => {
                self.hints.unknown_asked = Some(now);
                self.emit(Output::Refresh(cluster::Reason::UnknownBroker));
            }
        }
    }

    /// 7.2 steps 1 and 3: one refresh at once, further ones on a ladder of this replica.
    fn ask_for_isr(&mut self, hint: BrokerId, now: Moment) {
        match self.hints.ladder {
            Some((broker, step)) if broker == hint => {
                let delay = isr_ladder(step, self.settings.metadata_max_age);
                self.hints.ladder = Some((hint, step.saturating_add(1)));
                self.timers.set(Timer::Refresh, now + delay);
            }
            Some(_) | None => {
                self.hints.ladder = Some((hint, 0));
                self.emit(Output::Refresh(cluster::Reason::OutsideIsr));
            }
        }
    }

    /// The ladder's next question is due.
    pub(super) fn on_refresh_due(&mut self, now: Moment) {
        if self
            .pending
            .is_some_and(|pending| pending.awaits == Awaits::Isr)
        {
            return self.emit(Output::Refresh(cluster::Reason::OutsideIsr));
        }
        match self.state.why() {
            Some(Why::UnknownBroker(_)) => self.ask_for_unknown(now),
            Some(Why::NotInIsr(_)) => self.emit(Output::Refresh(cluster::Reason::OutsideIsr)),
            Some(
                Why::Connecting(_)
                | Why::Cooldown(_)
                | Why::NotYet(_)
                | Why::Starved
                | Why::Flap
                | Why::SelfHint
                | Why::FormerLeader(_)
                | Why::Policy,
            )
            | None => {}
        }
    }
}

/// The event reason of a hold.
pub(super) const fn reason_of(why: Why) -> Reason {
    match why {
        Why::Connecting(_) => Reason::Connecting,
        Why::NotInIsr(_)
        | Why::Cooldown(_)
        | Why::UnknownBroker(_)
        | Why::NotYet(_)
        | Why::Starved
        | Why::Flap
        | Why::SelfHint
        | Why::FormerLeader(_)
        | Why::Policy => Reason::Hold(why),
    }
}

/// Delay of step `step`: 1 s doubling up to the age at which metadata is refreshed anyway.
fn isr_ladder(step: u32, cap: Duration) -> Duration {
    Duration::from_secs(1)
        .saturating_mul(2_u32.saturating_pow(step.min(31)))
        .min(cap)
}

/// H6: so many empty rows in a row that hint the leader itself force the route.
const SELF_HINTS: u8 = 2;
/// H7: time between refreshes for unknown brokers.
const UNKNOWN_SPACING: Duration = Duration::from_secs(1);
