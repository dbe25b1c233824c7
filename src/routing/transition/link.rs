//! R28, R30, R31, R46, H12: links and breakers.

use crate::cluster;
use crate::ids::BrokerId;
use crate::routing::change::Cause;
use crate::routing::cooldown::Fault;
use crate::routing::demand::Registered;
use crate::routing::event::Reason;
use crate::routing::facts::Class;
use crate::routing::hint::Source;
use crate::routing::input::LinkChange;
use crate::routing::output::Output;
use crate::routing::route::{Awaits, Context, Pending, Route};
use crate::routing::state::{Probe, State, Until, Why, Wish};
use crate::routing::timer::Timer;

impl Route {
    pub(in crate::routing) fn on_link_changed(
        &mut self,
        broker: BrokerId,
        class: Class,
        change: LinkChange,
        context: Context<'_>,
    ) {
        match change {
            LinkChange::Ready => self.on_link_ready(broker, class, context),
            LinkChange::Lost => self.on_link_lost(broker, class, context),
            LinkChange::Failed => {}
        }
        match change {
            LinkChange::Ready => {}
            LinkChange::Lost | LinkChange::Failed => self.on_dial_failed(broker, class, context),
        }
        self.on_haven_link(broker, class, change, context);
    }

    fn on_link_ready(&mut self, broker: BrokerId, class: Class, context: Context<'_>) {
        if self.gauges.overdue && self.leader() == Some(broker) {
            return self.end_lease(context);
        }
        if class != Class::Rack {
            return;
        }
        if !context.brokers.is_legacy(broker) {
            self.ledger
                .renegotiated(broker, &self.settings, context.now);
        }
        if self
            .pending
            .is_some_and(|hint| (hint.broker, hint.awaits) == (broker, Awaits::Link))
        {
            self.pending = None;
            self.timers.clear(Timer::Connect);
            let reason = match self.state {
                State::Follower { .. } => Reason::ProbeMoved,
                State::Forced {
                    why: Why::NotInIsr(_),
                    ..
                } => Reason::IsrGained,
                State::Parked | State::Leader | State::Forced { .. } => Reason::HintAdopted,
            };
            return self.take_hint(broker, Source::Pending(reason), context);
        }
        match self.state {
            State::Forced {
                why: Why::Connecting(hint),
                ..
            } if hint == broker => {
                self.take_hint(hint, Source::Pending(Reason::Connected), context);
            }
            State::Forced {
                why: Why::Cooldown(cooling),
                until: Until::Link,
                ..
            } if cooling == broker => {
                self.on_hold_ended(context);
            }
            State::Forced { .. } | State::Parked | State::Leader | State::Follower { .. } => {}
        }
    }

    /// R28.
    fn on_link_lost(&mut self, broker: BrokerId, class: Class, context: Context<'_>) {
        if !self.is_served_by(broker, class) {
            return;
        }
        match self.state {
            State::Parked => return,
            State::Leader | State::Forced { .. } => self.dial_havens(context),
            State::Follower { .. } => self.cool_and_leave(broker, Fault::Transport, context),
        }
        self.emit(Output::Refresh(cluster::Reason::LinkLost));
    }

    /// What stood at the link is gone with its former life: it is asked for again, and nothing that
    /// would have come from there is waited for.
    pub(in crate::routing) fn on_link_restarted(&mut self, broker: BrokerId, context: Context<'_>) {
        if self.registered.place().is_some_and(|(at, _)| at == broker) {
            self.registered = Registered::None;
            self.apply_deferred(context);
        }
        let asked = self.probed.is_some_and(|(asked, _)| asked == broker);
        if let (Probe::InFlight(_, wish), true) = (self.probe, asked) {
            self.probe = Probe::Wanted(wish);
        }
        self.on_dial_failed(broker, Class::Rack, context);
        self.seek_haven(broker, context);
        match self.state {
            State::Forced {
                why: Why::Cooldown(cooling),
                until: Until::Permit,
                ..
            } if cooling == broker => self.on_readmitted(broker, context),
            State::Forced { .. } | State::Parked | State::Leader | State::Follower { .. } => {}
        }
    }

    /// A replica that was being dialled cannot be reached: it cools, records go on where they are.
    fn on_dial_failed(&mut self, broker: BrokerId, class: Class, context: Context<'_>) {
        if class != Class::Rack {
            return;
        }
        if self
            .pending
            .is_some_and(|hint| (hint.broker, hint.awaits) == (broker, Awaits::Link))
        {
            self.pending = None;
            self.timers.clear(Timer::Connect);
            self.cool(broker, Fault::Transport, context);
            return self.refuse_unreachable(broker, context);
        }
        let dialled = match self.state {
            State::Forced {
                why: Why::Connecting(hint),
                ..
            } => hint == broker,
            State::Forced {
                why: Why::Cooldown(cooling),
                until: Until::Link,
                ..
            } => cooling == broker,
            State::Forced { .. } | State::Parked | State::Leader | State::Follower { .. } => false,
        };
        if dialled {
            self.cool(broker, Fault::Transport, context);
            self.refuse_unreachable(broker, context);
        }
    }

    fn refuse_unreachable(&mut self, broker: BrokerId, context: Context<'_>) {
        let until = self.cooldown_end(broker, context);
        match self.state {
            State::Parked => {}
            State::Follower { .. } if !self.on_refuge() => self.renew(true, context),
            State::Follower { .. } | State::Leader | State::Forced { .. } => {
                let cause = Cause {
                    reason: Reason::Cooldown(Fault::Transport),
                    hint: Some(broker),
                };
                let state = Self::forced(Why::Cooldown(broker), until);
                self.change_after_flight(state, cause, context);
            }
        }
    }

    /// H12: the dial had its quarter of a second. A black-holed address must not cost more.
    pub(in crate::routing) fn on_connect_overdue(&mut self, context: Context<'_>) {
        let dialled = |pending: &mut Pending| pending.awaits == Awaits::Link;
        let Some(Pending { broker, .. }) = self.pending.take_if(dialled) else {
            return;
        };
        let why = Why::Connecting(broker);
        self.refuse(
            broker,
            why,
            Until::Link,
            Source::Pending(Reason::Connecting),
            context,
        );
    }

    /// R30.
    pub(in crate::routing) fn on_breaker_opened(&mut self, broker: BrokerId, context: Context<'_>) {
        // A permit is good for one readmission.
        self.permit = self.permit.filter(|permitted| *permitted != broker);
        match self.state {
            State::Parked | State::Leader => {}
            State::Follower { broker: read, .. } if read == broker => {
                self.leave(broker, Reason::BreakerOpen, context);
            }
            State::Forced {
                why: Why::Cooldown(cooling),
                resume,
                ..
            } if cooling == broker => {
                let why = Why::Cooldown(broker);
                let state = State::Forced {
                    why,
                    until: Until::Permit,
                    resume,
                };
                self.change(state, Reason::BreakerOpen, context);
            }
            State::Follower { .. } | State::Forced { .. } => {}
        }
    }

    /// Nobody needs a permit any more: what is left of a cooldown decides.
    pub(in crate::routing) fn on_breaker_closed(&mut self, broker: BrokerId, context: Context<'_>) {
        self.seek_haven(broker, context);
        match self.state {
            State::Forced {
                why: Why::Cooldown(cooling),
                until: Until::Permit,
                ..
            } if cooling == broker => self.on_hold_ended(context),
            State::Parked | State::Leader | State::Follower { .. } | State::Forced { .. } => {}
        }
    }

    /// R31: the permit ends what kept the whole broker away; other faults of this partition go on.
    pub(in crate::routing) fn on_readmitted(&mut self, broker: BrokerId, context: Context<'_>) {
        match self.state {
            State::Forced {
                why: Why::Cooldown(cooling),
                resume,
                ..
            } if cooling == broker => {
                self.ledger.readmit(broker, &self.settings, context.now);
                self.permit = Some(broker);
                let why = Why::Cooldown(broker);
                let until = match self.ledger.until(broker, context.now) {
                    Some(end) => Until::At(end),
                    None => Until::Probe,
                };
                self.change(
                    State::Forced { why, until, resume },
                    Reason::HoldEnded,
                    context,
                );
                if until == Until::Probe {
                    self.want_probe(Wish::Readmission);
                }
            }
            // H8 put it into the queue, since the leader recommends a better replica.
            State::Follower { broker: read, .. } if read != broker => {
                self.ledger.readmit(broker, &self.settings, context.now);
                self.permit = Some(broker);
                if !self.on_refuge() {
                    self.want_probe(Wish::Readmission);
                }
            }
            // There is no leader to be asked: the end of this call takes the refuge.
            State::Parked | State::Leader | State::Forced { .. } if self.alert => {
                self.ledger.readmit(broker, &self.settings, context.now);
                self.permit = Some(broker);
            }
            State::Parked | State::Leader | State::Follower { .. } | State::Forced { .. } => {}
        }
    }

    /// R46: the no-rack lane of our leader goes on at another version. A change that waits for the
    /// fetch in flight will see to the lane by itself.
    pub(in crate::routing) fn on_lane_changed(&mut self, broker: BrokerId, context: Context<'_>) {
        match self.state {
            State::Parked | State::Leader | State::Follower { .. } => {}
            State::Forced { .. } if self.leader() == Some(broker) && self.deferred.is_none() => {
                let reason = match context.brokers.is_v10(broker) {
                    true => Reason::LaneV10,
                    false => Reason::LaneRestored,
                };
                self.change_after_flight(self.state, reason, context);
            }
            State::Forced { .. } => {}
        }
    }
}
