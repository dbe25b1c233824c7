//! R13, R16: a broker that answers and gives nothing (routing.md 14.3).

use crate::cluster;
use crate::ids::Offset;
use crate::routing::cooldown::Fault;
use crate::routing::event::{Event, Reason};
use crate::routing::facts::Class;
use crate::routing::output::Output;
use crate::routing::route::{Context, Route};
use crate::routing::stamp::Lane;
use crate::routing::state::{Position, State, Until, Why, Wish};
use crate::routing::timer::Timer;

impl Route {
    /// A row of the reading fetch, `empty` if it had room for records and a reason to hold them.
    pub(in crate::routing) fn note_emptiness(&mut self, empty: bool, context: Context<'_>) {
        if !empty || !self.is_below_end() {
            self.retry.empty = None;
            return;
        }
        let (since, count) = self.retry.empty.unwrap_or((context.now, 0));
        let count = count.saturating_add(1);
        self.retry.empty = Some((since, count));
        let lasted = context.now.since(since) >= self.settings.starve;
        if count >= self.settings.starve_count || lasted {
            self.on_starved(context);
        }
    }

    fn on_starved(&mut self, context: Context<'_>) {
        self.retry.empty = None;
        match self.state {
            State::Parked => {}
            State::Leader if self.hints_are_possible(context) => self.force_starved(context),
            State::Leader => {}
            // R16, or R45 on a refuge.
            State::Follower { broker, .. } => self.cool_and_leave(broker, Fault::Slow, context),
            State::Forced { .. } => self.on_forced_starved(context),
        }
    }

    /// R13: the leader may hold records back for a replica it does not name.
    fn force_starved(&mut self, context: Context<'_>) {
        let hold = self.settings.starve_hold.plain(self.watch.starves);
        self.watch.starves = self.watch.starves.saturating_add(1);
        let state = Self::forced(Why::Starved, Until::At(context.now + hold));
        self.change(state, Reason::Hold(Why::Starved), context);
    }

    /// R13 without a rack: the lane drops to v10; there, nothing more can be done.
    fn on_forced_starved(&mut self, context: Context<'_>) {
        match self.served {
            Some((broker, Lane::NoRack)) => self.drop_lane(broker, None, context),
            Some((_, Lane::V10)) => {
                self.raise_starving(true);
                self.emit(Output::Refresh(cluster::Reason::NotLeader));
            }
            Some((_, Lane::Rack)) | None => {}
        }
    }

    /// Raises or lowers the gauge of a partition that nothing feeds.
    pub(in crate::routing) fn raise_starving(&mut self, starving: bool) {
        if self.gauges.starving != starving {
            self.gauges.starving = starving;
            self.emit(Output::Event(Event::Starving(starving)));
        }
    }

    /// An omitted row is no input, so missing rows are told by the clock, and judged by what the
    /// link says of its answers.
    pub(in crate::routing) fn watch_rows(&mut self, context: Context<'_>) {
        // While a fetch is kept back on purpose, nothing is missed.
        let waits = self.gates.fenced
            || self.timers.is_set(Timer::Backoff)
            || self.timers.is_set(Timer::Resume);
        let reads = self.reads() && !waits;
        let follows = self.state.follower().is_some();
        let hinted = reads && !follows && self.hints_are_possible(context);
        if !(hinted || (reads && follows)) || !self.is_below_end() {
            self.timers.clear(Timer::Starve);
        } else if !self.timers.is_set(Timer::Starve) {
            self.watch.missed_since = context.now;
            self.timers
                .set(Timer::Starve, context.now + self.starve_window());
        }
        if !hinted || self.state != State::Leader || self.watch.asked {
            self.timers.clear(Timer::Quiet);
        } else if !self.timers.is_set(Timer::Quiet) {
            let due = self.watch.heard_at.max(context.now) + self.settings.starve_quiet;
            self.timers.set(Timer::Quiet, due);
        }
    }

    /// No row for long enough, though answers came that could have held one.
    pub(in crate::routing) fn on_rows_missed(&mut self, context: Context<'_>) {
        let due = self.watch.missed_since + self.starve_window();
        if due > context.now {
            return self.timers.set(Timer::Starve, due);
        }
        let answered = self
            .served
            .and_then(|(broker, lane)| context.brokers.answered(broker, Class::of(lane)));
        let asked_by = self.watch.missed_since + self.settings.max_wait;
        if answered.is_some_and(|at| at >= asked_by) {
            self.on_starved(context);
        }
    }

    /// R13: no row at all from the leader. One question is spent on it.
    pub(in crate::routing) fn on_rows_quiet(&mut self, context: Context<'_>) {
        let due = self.watch.heard_at + self.settings.starve_quiet;
        if due > context.now {
            return self.timers.set(Timer::Quiet, due);
        }
        self.watch.asked = true;
        self.want_probe(Wish::Quiet);
    }

    fn starve_window(&self) -> std::time::Duration {
        self.settings.starve + self.settings.connect_grace
    }

    /// Whether a fetch is wanted, or only kept back for a moment.
    pub(in crate::routing) fn reads(&self) -> bool {
        self.position == Position::Ready && self.is_readable() && self.deferred.is_none()
    }

    /// Whether the broker that serves has told of an end beyond the fetch end.
    fn is_below_end(&self) -> bool {
        self.served_end().is_some_and(|end| end > self.fetch_end)
    }

    fn served_end(&self) -> Option<Offset> {
        let isolation = self.settings.isolation;
        match self.state {
            State::Parked => None,
            State::Leader | State::Forced { .. } => self.marks.leader_end(isolation),
            State::Follower { .. } => self.marks.replica_end(isolation),
        }
    }

    fn hints_are_possible(&self, context: Context<'_>) -> bool {
        let legacy = |leader| context.brokers.is_legacy(leader);
        (self.hints.seen || self.settings.rack_sent().is_some())
            && !self.leader().is_some_and(legacy)
    }
}
