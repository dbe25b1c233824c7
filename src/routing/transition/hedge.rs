//! R29: the follower being read stays away, so the leader is asked for records as well
//! (routing.md 8.5).

use crate::cluster;
use crate::ids::BrokerId;
use crate::routing::codes::{LeaderAnswer, leader_answer};
use crate::routing::cooldown::Fault;
use crate::routing::event::Reason;
use crate::routing::facts::Class;
use crate::routing::output::{Count, Output};
use crate::routing::route::{Context, Route};
use crate::routing::stamp::{Gate, Lane, Stamp};
use crate::routing::timer::Timer;
use crate::wire::ErrorCode;
use crate::wire::api::fetch::Row;

impl Route {
    /// The reading fetch missed its hedge deadline.
    pub(in crate::routing) fn on_follower_silent(&mut self, context: Context<'_>) {
        let Some(broker) = self.state.follower() else {
            return;
        };
        if self.deferred.is_some() {
            return self.apply_deferred(context);
        }
        if self.timers.is_set(Timer::Hedge) || !self.wants_fetch() {
            return;
        }
        match self.leader() {
            Some(leader) if !is_silent(leader, context) => self.send_hedge(leader, context),
            Some(_) | None => self.give_up_on(broker, context),
        }
    }

    /// The leader answered the hedge first: the follower cools, its answer will fail the gate.
    pub(in crate::routing) fn on_hedge_row(
        &mut self,
        stamp: &Stamp,
        row: Row,
        context: Context<'_>,
    ) {
        let failed = stamp.check(&self.current());
        if failed.is_some() && !row.records.is_empty() {
            self.count(Count::Wasted {
                gate: failed,
                bytes: row.records.len(),
            });
        }
        match failed {
            Some(Gate::G1 | Gate::G2 | Gate::G3) => return,
            // The follower moved the fetch end: it answered first.
            Some(Gate::G4) => return self.drop_hedge("follower"),
            None => {}
        }
        if row.error != ErrorCode::NONE {
            return self.on_hedge_error(row.error);
        }
        self.marks.leader_told(&row, context.now);
        let Some(broker) = self.state.follower() else {
            return self.drop_hedge("follower");
        };
        if !self.is_serving_silent(context) {
            // Its answer left out a row that had not changed.
            return self.drop_hedge("follower");
        }
        self.hedge.out = None;
        self.timers.clear(Timer::Hedge);
        self.count(Count::Hedge("leader"));
        if let (Lane::NoRack, Some(_)) = (stamp.lane, row.preferred_read_replica) {
            self.hints.seen = true;
            self.drop_lane(stamp.broker, None, context);
        }
        if !row.records.is_empty() {
            self.deliver(stamp, row);
        }
        self.cool(broker, Fault::Slow, context);
        self.leave(broker, Reason::Cooldown(Fault::Slow), context);
    }

    /// The leader refused: that is no answer, but it may say something about the position.
    fn on_hedge_error(&mut self, error: ErrorCode) {
        self.hedge.out = None;
        self.count(Count::Hedge("failed"));
        match leader_answer(error) {
            LeaderAnswer::OutOfRange => self.ask_for_range(),
            LeaderAnswer::Stale(reason) => self.emit(Output::Refresh(reason)),
            LeaderAnswer::Fenced => self.emit(Output::Refresh(cluster::Reason::NotLeader)),
            LeaderAnswer::Corrupt
            | LeaderAnswer::Refused
            | LeaderAnswer::Rolled
            | LeaderAnswer::Unreadable
            | LeaderAnswer::Session
            | LeaderAnswer::Behind
            | LeaderAnswer::NotYet
            | LeaderAnswer::ServerError
            | LeaderAnswer::Unknown => {}
        }
    }

    /// No answer from the leader either; the rest of the patience is the follower's.
    pub(in crate::routing) fn on_hedge_failed(&mut self, stamp: &Stamp) {
        match stamp.check(&self.current()) {
            None | Some(Gate::G4) => {
                self.hedge.out = None;
                self.count(Count::Hedge("failed"));
            }
            Some(Gate::G1 | Gate::G2 | Gate::G3) => {}
        }
    }

    /// Neither answered in time.
    pub(in crate::routing) fn on_hedge_patience_over(&mut self, context: Context<'_>) {
        let Some(broker) = self.state.follower() else {
            return;
        };
        if !self.is_serving_silent(context) {
            return self.drop_hedge("follower");
        }
        self.drop_hedge("neither");
        self.give_up_on(broker, context);
    }

    fn give_up_on(&mut self, broker: BrokerId, context: Context<'_>) {
        self.cool(broker, Fault::Slow, context);
        if self.take_refuge(false, context) {
            self.emit(Output::Refresh(cluster::Reason::LinkLost));
        } else {
            self.leave(broker, Reason::Cooldown(Fault::Slow), context);
        }
    }

    /// The hedge is of no interest any more.
    pub(in crate::routing) fn drop_hedge(&mut self, outcome: &'static str) {
        self.timers.clear(Timer::Hedge);
        if let Some((broker, _)) = self.hedge.out.take() {
            self.count(Count::Hedge(outcome));
            self.emit(Output::CancelHedge { broker });
        }
    }
}

/// A leader that owes an answer on a lane would owe the hedge as well.
fn is_silent(leader: BrokerId, context: Context<'_>) -> bool {
    [Class::Rack, Class::NoRack]
        .into_iter()
        .any(|class| context.brokers.is_silent(leader, class))
}
