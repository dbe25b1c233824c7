//! R36: a follower whose end stands still while the leader's moves on (routing.md 14.1, 14.2).

use std::time::Duration;

use crate::ids::{Moment, Offset, PositionGeneration};
use crate::routing::cooldown::Fault;
use crate::routing::event::Reason;
use crate::routing::output::Output;
use crate::routing::route::{Context, Route};
use crate::routing::state::{State, Why, Wish};
use crate::routing::timer::Timer;

impl Route {
    /// Keeps the watch over a follower whose end is reached. It runs by the clock alone, since a
    /// frozen follower sends no rows.
    pub(in crate::routing) fn watch_end(&mut self, context: Context<'_>) {
        if !self.timers.is_set(Timer::Stuck)
            && let Some(end) = self.reached_end()
        {
            self.timers.set(Timer::Stuck, self.stuck_due(end, context));
        }
    }

    pub(in crate::routing) fn on_stuck_due(&mut self, context: Context<'_>) {
        let Some(end) = self.reached_end() else {
            return;
        };
        let now = context.now;
        if self.fetch_end > end && !self.watch.ahead_asked {
            self.watch.ahead_asked = true;
            self.want_probe(Wish::Ahead);
        }
        if self.frozen_at() <= now {
            self.watch.sampled_at = Some(now);
            let generation = self.position_generation;
            self.emit(Output::Sample { generation });
        }
        self.timers.set(Timer::Stuck, self.stuck_due(end, context));
    }

    /// The leader's end. A follower that is behind gets a moment to reach it.
    pub(in crate::routing) fn on_sampled(
        &mut self,
        generation: PositionGeneration,
        leader_end: Offset,
        now: Moment,
    ) {
        if generation != self.position_generation {
            return;
        }
        self.marks
            .leader_sampled(leader_end, self.settings.isolation, now);
        if self.reached_end().is_some_and(|end| end < leader_end) {
            self.watch.target = Some(leader_end);
            self.timers
                .set(Timer::Grace, now + self.settings.stuck_grace);
        }
    }

    pub(in crate::routing) fn on_grace_over(&mut self, context: Context<'_>) {
        let target = self.watch.target.take();
        let behind = match (self.reached_end(), target) {
            (Some(end), Some(target)) => end < target,
            (Some(_) | None, _) => false,
        };
        if let (Some(broker), true) = (self.state.follower(), behind) {
            self.cool(broker, Fault::Slow, context);
            let until = self.cooldown_end(broker, context);
            let state = Self::forced(Why::Cooldown(broker), until);
            self.change_after_flight(state, Reason::Cooldown(Fault::Slow), context);
        }
    }

    /// The end of the leased follower being read, if the fetch end is there or beyond.
    fn reached_end(&self) -> Option<Offset> {
        match self.state {
            State::Follower { .. } if self.reads() && !self.on_refuge() => {
                let end = self.marks.replica_end(self.settings.isolation);
                end.filter(|end| *end <= self.fetch_end)
            }
            State::Parked | State::Leader | State::Follower { .. } | State::Forced { .. } => None,
        }
    }

    /// When the leader's end is to be sampled next.
    fn frozen_at(&self) -> Moment {
        let first = self.watch.moved_at + self.settings.stuck;
        let again = self.watch.sampled_at;
        again.map_or(first, |at| first.max(at + self.settings.stuck_probe))
    }

    fn stuck_due(&self, end: Offset, context: Context<'_>) -> Moment {
        let frozen = self.frozen_at().max(context.now);
        match self.fetch_end > end && !self.watch.ahead_asked {
            true => frozen.min(context.now + AHEAD_MAX),
            false => frozen,
        }
    }
}

/// A fetch end beyond the follower's end is normal for so long after a switch.
const AHEAD_MAX: Duration = Duration::from_secs(2);
