//! R9 to R16: rows of the reading fetch without an error.

use crate::ids::BrokerId;
use crate::routing::cooldown::Fault;
use crate::routing::demand::Registered;
use crate::routing::hint::Source;
use crate::routing::output::{Count, Delivery, Output};
use crate::routing::route::{Context, Route};
use crate::routing::stamp::{Gate, Lane, Role, Stamp};
use crate::routing::state::{State, Wish};
use crate::wire::ErrorCode;
use crate::wire::api::fetch::Row;

impl Route {
    pub(in crate::routing) fn on_row(
        &mut self,
        stamp: &Stamp,
        row: Row,
        inconclusive: bool,
        context: Context<'_>,
    ) {
        self.consume(stamp);
        let failed = stamp.check(&self.current());
        if let Some(gate) = failed
            && !row.records.is_empty()
        {
            self.count(Count::Wasted {
                gate: Some(gate),
                bytes: row.records.len(),
            });
        }
        let in_position = match failed {
            Some(Gate::G1 | Gate::G2 | Gate::G3) => return,
            Some(Gate::G4) => false,
            None => true,
        };
        self.watch.heard(context.now);
        self.trust(context);
        self.drop_hedge("follower");
        let deferred = self.deferred.take();
        let before = self.generation;
        if row.error != ErrorCode::NONE {
            self.on_row_error(stamp, &row, in_position, context);
        } else {
            self.on_good_row(stamp, row, in_position, inconclusive, context);
        }
        // The change that waited for this answer; a fault in it does not undo what the leader said.
        if let (Some(waiting), None) = (deferred, &self.deferred)
            && (before == self.generation || waiting.state.follower() != Some(stamp.broker))
        {
            self.carry_out(*waiting, context);
        }
    }

    /// The row used up the demand it answers, unless a later demand took its place.
    fn consume(&mut self, stamp: &Stamp) {
        match self.registered {
            Registered::Standing(demand) | Registered::Draining(demand)
                if demand.stamp == *stamp =>
            {
                self.registered = Registered::Consumed(stamp.broker, stamp.lane);
            }
            Registered::None
            | Registered::Standing(_)
            | Registered::Draining(_)
            | Registered::Consumed(..) => {}
        }
    }

    fn on_good_row(
        &mut self,
        stamp: &Stamp,
        row: Row,
        in_position: bool,
        inconclusive: bool,
        context: Context<'_>,
    ) {
        self.retry.served();
        self.retry.told = None;
        match stamp.role {
            Role::Leader => self.marks.leader_told(&row, context.now),
            Role::Follower => {
                let isolation = self.settings.isolation;
                let end = self.marks.replica_end(isolation);
                self.marks.replica_told(&row, context.now);
                if self.marks.replica_end(isolation) != end {
                    self.watch.moved_at = context.now;
                }
            }
        }
        let hint = row.preferred_read_replica;
        let empty = row.records.is_empty();
        if let (Some(end), true) = (row.diverging_epoch, in_position) {
            return self.on_divergence(stamp, (end.epoch, end.end_offset), context);
        }
        if in_position && !(empty && inconclusive) {
            // A hint explains why no records came (F1); it is judged below.
            self.note_emptiness(empty && hint.is_none(), context);
        }
        if empty {
            self.note_caught_up();
        }
        if in_position && !empty {
            self.deliver(stamp, row);
        }
        match (stamp.role, stamp.lane) {
            (Role::Leader, Lane::Rack) => self.on_leader_row(stamp, hint, empty, context),
            (Role::Leader, Lane::NoRack | Lane::V10) => self.on_forced_row(stamp, hint, context),
            (Role::Follower, _) => self.on_follower_row(stamp.broker, hint, context),
        }
    }

    /// D.
    pub(in crate::routing) fn deliver(&mut self, stamp: &Stamp, row: Row) {
        self.gates.unindexed = Some(*stamp);
        self.emit(Output::Deliver(Delivery {
            stamp: *stamp,
            records: row.records,
            aborted: row.aborted,
            high_watermark: row.high_watermark,
            last_stable: row.last_stable_offset,
        }));
    }

    /// R9, R10, R11.
    fn on_leader_row(
        &mut self,
        stamp: &Stamp,
        hint: Option<BrokerId>,
        empty: bool,
        context: Context<'_>,
    ) {
        if stamp.epoch < self.cluster.leadership.epoch {
            return;
        }
        if !empty {
            self.hints.own = 0;
            self.watch.starves = 0;
        }
        match (self.state, hint) {
            (State::Leader, None) => {
                self.pending = None;
                self.candidate = None;
                self.hints.own = 0;
                self.marks.confirmed_at = Some(context.now);
            }
            (State::Leader, Some(hint)) if self.is_own_with_records(hint, empty) => {
                self.count(Count::Hint("H6"));
            }
            (State::Leader, Some(hint)) => self.take_hint(hint, Source::Row, context),
            (State::Parked | State::Follower { .. } | State::Forced { .. }, _) => {}
        }
    }

    /// H6 counts only hints that held records back.
    fn is_own_with_records(&self, hint: BrokerId, empty: bool) -> bool {
        !empty && self.leader() == Some(hint)
    }

    /// R12: a hint without a rack says nothing about preference, only that this lane starves (H4).
    fn on_forced_row(&mut self, stamp: &Stamp, hint: Option<BrokerId>, context: Context<'_>) {
        match (stamp.lane, hint) {
            (Lane::NoRack, Some(_)) => {
                self.hints.seen = true;
                self.count(Count::Hint("H4"));
                self.drop_lane(stamp.broker, hint, context);
            }
            (Lane::NoRack, None) | (Lane::Rack | Lane::V10, _) => {}
        }
    }

    /// R14, R15: "stay", with or without records, changes nothing; least of all the lease.
    fn on_follower_row(&mut self, broker: BrokerId, hint: Option<BrokerId>, context: Context<'_>) {
        if self.ledger.remembers(broker)
            && context.now.since(self.since) >= self.settings.cooldown_reset
        {
            self.ledger.forgive(broker);
        }
        match (self.state, hint) {
            (State::Follower { .. }, Some(_)) => {
                self.count(Count::Hint("H1"));
                self.want_probe(Wish::FollowerHint);
            }
            (State::Follower { .. }, None)
            | (State::Parked | State::Leader | State::Forced { .. }, _) => {}
        }
    }

    /// routing.md 12: a divergence is a question for the leader; told by the leader it is half the
    /// answer.
    fn on_divergence(
        &mut self,
        stamp: &Stamp,
        told: (crate::ids::LeaderEpoch, crate::ids::Offset),
        context: Context<'_>,
    ) {
        match stamp.role {
            Role::Leader => self.validate(Some(told)),
            Role::Follower => {
                self.retry.suspect = Some(stamp.broker);
                self.validate(None);
                self.cool_and_leave(stamp.broker, Fault::Range, context);
            }
        }
    }

    /// Answer to a drain: the fetch in flight ended without a row.
    pub(in crate::routing) fn on_drained(&mut self, stamp: &Stamp, context: Context<'_>) {
        match self.registered {
            Registered::Draining(demand) if demand.stamp == *stamp => {
                self.registered = Registered::None;
                self.apply_deferred(context);
            }
            Registered::None
            | Registered::Standing(_)
            | Registered::Draining(_)
            | Registered::Consumed(..) => {}
        }
    }
}
