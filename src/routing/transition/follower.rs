//! What all ways of leaving a follower share.

use crate::ids::BrokerId;
use crate::routing::change::Cause;
use crate::routing::cooldown::Fault;
use crate::routing::event::Reason;
use crate::routing::input::Input;
use crate::routing::lease::Hold;
use crate::routing::output::{Count, Output};
use crate::routing::route::{Context, Route};
use crate::routing::stamp::{Gate, Role};
use crate::routing::state::{State, Why};
use crate::wire::ErrorCode;

impl Route {
    /// C(r): the broker cools for this partition, and its breaker hears of it.
    pub(in crate::routing) fn cool(
        &mut self,
        broker: BrokerId,
        fault: Fault,
        context: Context<'_>,
    ) {
        self.ledger
            .start(broker, fault, &self.settings, context.draw, context.now);
        self.count(Count::Cooldown(fault));
        self.emit(Output::Cooling {
            broker,
            fault: Some(fault),
        });
    }

    /// Forced(cooldown): the leader serves while `broker` is left alone. R45: a refuge is left for
    /// somebody else.
    pub(in crate::routing) fn leave(
        &mut self,
        broker: BrokerId,
        cause: impl Into<Cause>,
        context: Context<'_>,
    ) {
        if self.on_refuge() {
            return self.flee(context);
        }
        let until = self.cooldown_end(broker, context);
        self.change(Self::forced(Why::Cooldown(broker), until), cause, context);
    }

    /// R25: a fault of the follower being read; the next fetch goes to the leader.
    pub(in crate::routing) fn cool_and_leave(
        &mut self,
        broker: BrokerId,
        fault: Fault,
        context: Context<'_>,
    ) {
        self.cool(broker, fault, context);
        match self.state {
            State::Follower { broker: read, .. } if read == broker => {
                self.leave(broker, Reason::Cooldown(fault), context);
            }
            State::Parked | State::Leader | State::Follower { .. } | State::Forced { .. } => {}
        }
    }

    /// I8: throttling changes no route, nor do records of the follower being read, whatever else
    /// the facts would lead to by now.
    pub(in crate::routing) fn is_told_to_stay(&self, input: &Input) -> bool {
        if let Input::Row { stamp, row, .. } = input {
            let counts = matches!(stamp.check(&self.current()), None | Some(Gate::G4));
            let plain = row.error == ErrorCode::NONE
                && row.preferred_read_replica.is_none()
                && row.diverging_epoch.is_none();
            return counts && plain && stamp.role == Role::Follower && !row.records.is_empty();
        }
        matches!(input, Input::Throttled { .. })
    }

    /// Whether the follower being read is a refuge, for which R45 replaces most rules.
    pub(crate) fn on_refuge(&self) -> bool {
        match self.state {
            State::Follower {
                hold: Hold::Refuge, ..
            } => true,
            State::Follower {
                hold: Hold::Full(_) | Hold::Trial(_),
                ..
            }
            | State::Parked
            | State::Leader
            | State::Forced { .. } => false,
        }
    }
}
