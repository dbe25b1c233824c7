//! R2 to R4: who leads.

use crate::cluster;
use crate::ids::Moment;
use crate::routing::event::Reason;
use crate::routing::facts::Class;
use crate::routing::input::Leadership;
use crate::routing::output::Output;
use crate::routing::route::{Context, Route};
use crate::routing::state::{Position, State};
use crate::routing::timer::Timer;

impl Route {
    /// R2, R3. Restated leadership is no input: it changes nothing.
    pub(in crate::routing) fn on_leader_changed(&mut self, new: Leadership, context: Context<'_>) {
        let old = self.cluster.leadership;
        let is_new = (new.leader, new.epoch) != (old.leader, old.epoch);
        self.cluster.leadership = new;
        self.cluster.lost = false;
        self.on_back();
        if is_new {
            self.note_rise(old, context.now);
        }
        match (new.leader, new.addressable) {
            (Some(leader), true) => {
                let parked = self.state == State::Parked;
                if is_new || parked {
                    self.ledger.leads(leader);
                    self.ledger.row_changed(&self.settings, context.now);
                    self.follow_leader(context);
                }
            }
            (Some(_) | None, _) => self.park(is_new, context),
        }
    }

    /// A higher epoch: what the last leader said of its log, and what we still wanted to ask it, is
    /// void.
    fn note_rise(&mut self, old: Leadership, now: Moment) {
        let moved = old.leader.filter(|leader| Some(*leader) != self.leader());
        self.cluster.former = moved.map(|leader| (leader, now)).or(self.cluster.former);
        self.marks.epoch_rose();
        self.pending = None;
        self.hints.own = 0;
        self.drop_probe();
    }

    /// R2: read from the new leader, once it has confirmed that our history is its own.
    fn follow_leader(&mut self, context: Context<'_>) {
        self.gates.fenced = false;
        self.retry.fenced = 0;
        if self.may_retry_free(context.now) {
            self.timers.clear(Timer::Backoff);
        }
        match self.state {
            State::Parked | State::Leader | State::Follower { .. } | State::Forced { .. } => {
                self.change(State::Leader, Reason::LeaderChanged, context);
            }
        }
        self.validate(None);
    }

    /// metadata.md 10: one retry without backoff per new epoch, and only so many per second.
    fn may_retry_free(&mut self, now: Moment) -> bool {
        let second = std::time::Duration::from_secs(1);
        let (start, count) = match self.retry.free {
            Some((start, count)) if now.since(start) < second => (start, count),
            Some(_) | None => (now, 0),
        };
        let allowed = count < self.settings.free_retries;
        self.retry.free = Some((start, count.saturating_add(1)));
        allowed
    }

    /// R3.
    fn park(&mut self, is_new: bool, context: Context<'_>) {
        match self.state {
            State::Parked => {}
            State::Leader | State::Follower { .. } | State::Forced { .. } if !is_new => return,
            State::Leader | State::Follower { .. } | State::Forced { .. } => {
                self.change(State::Parked, Reason::LeaderLost, context);
            }
        }
        self.emit(Output::Refresh(cluster::Reason::NotLeader));
    }

    /// R4: a row of the same epoch names no leader.
    pub(in crate::routing) fn on_leader_lost(&mut self, context: Context<'_>) {
        match self.state {
            // What the follower has is committed at this epoch: reading on is right.
            State::Parked | State::Follower { .. } => {}
            State::Leader | State::Forced { .. } => {
                if !self.serving_link_is_ready(context) {
                    self.lose_leader(context);
                }
            }
        }
        self.emit(Output::Refresh(cluster::Reason::NotLeader));
    }

    /// R43 at once: whoever may be read instead; else nobody, until R43 finds somebody.
    fn lose_leader(&mut self, context: Context<'_>) {
        let reads = self.position == Position::Ready && !self.gates.paused;
        if !(reads && self.take_refuge(false, context)) {
            self.change(State::Parked, Reason::LeaderLost, context);
            self.cluster.lost = true;
        }
    }

    fn serving_link_is_ready(&self, context: Context<'_>) -> bool {
        self.served
            .is_some_and(|(broker, lane)| context.brokers.is_ready(broker, Class::of(lane)))
    }
}
