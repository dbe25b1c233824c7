//! R33 to R35 and the other deadlines.

use crate::ids::BrokerId;
use crate::routing::event::Reason;
use crate::routing::facts::Class;
use crate::routing::lease::Hold;
use crate::routing::output::Output;
use crate::routing::route::{Context, Route};
use crate::routing::state::{State, Until, Why, Wish};
use crate::routing::timer::Timer;

impl Route {
    pub(in crate::routing) fn on_tick(&mut self, context: Context<'_>) {
        // Each expiry stops its timer and none sets one that is due already, but for the first
        // alternative probe.
        for _ in 0..EXPIRIES_MAX {
            match self.timers.expire(context.now) {
                Some(timer) => self.on_expired(timer, context),
                None => return,
            }
        }
    }

    fn on_expired(&mut self, timer: Timer, context: Context<'_>) {
        match timer {
            Timer::Reask => self.want_probe(Wish::Lease),
            Timer::HardStop => self.on_hard_stop(context),
            Timer::Hold => self.on_hold_ended(context),
            Timer::Alternative => self.on_alternative_due(context),
            // The probe waits as a wish; the end of this call sends it.
            Timer::ProbeRetry => {}
            Timer::Backoff => self.on_backoff_over(context),
            Timer::Flight => self.apply_deferred(context),
            Timer::Connect => self.on_connect_overdue(context),
            Timer::Refresh => self.on_refresh_due(context.now),
            Timer::Resume => self.on_hard_stop(context),
            Timer::Refuge => self.ask_absent_leader(context),
            Timer::Recheck => self.dial_havens(context),
            // The end of this call judges the level anew.
            Timer::Trust => {}
            Timer::Hedge => self.on_hedge_patience_over(context),
            Timer::Starve => self.on_rows_missed(context),
            Timer::Quiet => self.on_rows_quiet(context),
            Timer::Stuck => self.on_stuck_due(context),
            Timer::Grace => self.on_grace_over(context),
            Timer::Unreachable => self.on_still_unreachable(),
        }
    }

    /// R34: nobody confirmed the lease. If the leader cannot be reached, what the follower has is
    /// still right at this epoch, and moving to an unreachable broker would be self-inflicted
    /// starvation.
    fn on_hard_stop(&mut self, context: Context<'_>) {
        match self.state {
            State::Parked | State::Leader | State::Forced { .. } => {}
            // A stopped partition asks first when it goes on (R39).
            State::Follower { .. } if !self.is_readable() => {}
            State::Follower { .. } => {
                let leader = self.leader();
                if leader.is_some_and(|leader| context.brokers.is_reachable(leader)) {
                    self.end_lease(context);
                } else {
                    self.raise_overdue(true);
                }
            }
        }
    }

    /// R35.
    pub(in crate::routing) fn on_hold_ended(&mut self, context: Context<'_>) {
        let State::Forced { why, resume, .. } = self.state else {
            return;
        };
        match why {
            Why::NotYet(broker) => match resume {
                Some(hold) if self.may_go_back(broker, hold, context) => {
                    let state = State::Follower { broker, hold };
                    self.change_after_flight(state, Reason::HoldEnded, context);
                }
                Some(_) | None => self.ask_after_hold(why),
            },
            Why::Cooldown(broker) => self.on_cooldown_over(broker, context),
            Why::Connecting(_)
            | Why::NotInIsr(_)
            | Why::UnknownBroker(_)
            | Why::Starved
            | Why::Flap
            | Why::SelfHint
            | Why::FormerLeader(_)
            | Why::Policy => self.ask_after_hold(why),
        }
    }

    fn may_go_back(&self, broker: BrokerId, hold: Hold, context: Context<'_>) -> bool {
        hold.lease().is_some_and(|lease| lease.ask_at > context.now)
            && self.may_read(broker, context)
            && context.brokers.is_ready(broker, Class::Rack)
    }

    fn ask_after_hold(&mut self, why: Why) {
        self.state = Self::forced(why, Until::Probe);
        self.want_probe(Wish::HoldEnded);
    }

    /// An unreachable replica costs a dial, not a probe.
    fn on_cooldown_over(&mut self, broker: BrokerId, context: Context<'_>) {
        let why = Why::Cooldown(broker);
        if let Some(end) = self.ledger.until(broker, context.now) {
            self.state = Self::forced(why, Until::At(end));
            self.timers.set(Timer::Hold, end);
        } else if !self.breaker_lets(broker, context) {
            self.state = Self::forced(why, Until::Permit);
            self.queue_for_permit(broker);
        } else if context.brokers.is_ready(broker, Class::Rack) {
            self.ask_after_hold(why);
        } else {
            self.state = Self::forced(why, Until::Link);
            self.emit(Output::Dial {
                broker,
                class: Class::Rack,
            });
        }
    }

    /// 4.1: while one replica cools, another one of our rack may serve.
    fn on_alternative_due(&mut self, context: Context<'_>) {
        match self.state {
            State::Forced {
                why: Why::Cooldown(cooling),
                ..
            } => {
                if self.has_alternative(cooling, context) {
                    self.want_probe(Wish::HoldEnded);
                    self.timers.set(
                        Timer::Alternative,
                        context.now + self.settings.alternative_probe,
                    );
                }
            }
            State::Forced { .. } | State::Parked | State::Leader | State::Follower { .. } => {}
        }
    }
}

/// More deadlines than a route has timers cannot expire in one call.
const EXPIRIES_MAX: usize = 32;
