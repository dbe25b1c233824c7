//! A leader that hints whatever the rack, and whose Fetch starts above v10: no lane makes it serve
//! (routing.md 6).

use std::time::Duration;

use crate::ids::BrokerId;
use crate::routing::event::Reason;
use crate::routing::facts::Class;
use crate::routing::output::{Count, Output};
use crate::routing::route::{Context, Route};
use crate::routing::timer::Timer;

impl Route {
    /// The no-rack lane starves: it drops to v10, or, where there is none, whoever the leader hints
    /// is tried although it cools.
    pub(in crate::routing) fn drop_lane(
        &mut self,
        leader: BrokerId,
        hint: Option<BrokerId>,
        context: Context<'_>,
    ) {
        if !context.brokers.lacks_v10(leader) {
            return self.emit(Output::DropLane { broker: leader });
        }
        self.raise_starving(true);
        // The next answer would be as empty, and come at once.
        self.timers.set(Timer::Backoff, context.now + PAUSE);
        if let Some(hint) = hint.filter(|hint| self.may_be_tried(*hint, context)) {
            self.try_cooling(hint, context);
        }
    }

    /// Once per step of the cooldown: a try that fails starts the next one.
    fn may_be_tried(&self, hint: BrokerId, context: Context<'_>) -> bool {
        self.leader() != Some(hint)
            && !self.policy_forbids()
            && context.brokers.is_addressable(hint)
            && !context.brokers.is_legacy(hint)
            && self.breaker_lets(hint, context)
            && self.ledger.is_half_over(hint, context.now)
    }

    fn try_cooling(&mut self, broker: BrokerId, context: Context<'_>) {
        if context.brokers.is_ready(broker, Class::Rack) {
            self.count(Count::Hint("starving"));
            self.ledger.cut_short(broker, context.now);
            let state = self.leased(broker, true, context);
            self.change(state, Reason::HintAdopted, context);
        } else {
            let class = Class::Rack;
            self.emit(Output::Dial { broker, class });
        }
    }
}

/// Between two fetches of a lane that hints and cannot drop.
const PAUSE: Duration = Duration::from_millis(250);
