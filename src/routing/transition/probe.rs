//! R17 to R22: what a probe brings.

use crate::cluster;
use crate::ids::BrokerId;
use crate::routing::codes::{LeaderAnswer, leader_answer};
use crate::routing::event::Reason;
use crate::routing::hint::Source;
use crate::routing::lease::Hold;
use crate::routing::output::{Count, Output};
use crate::routing::route::{Context, Route};
use crate::routing::stamp::{Gate, Stamp};
use crate::routing::state::{Probe, State, Wish};
use crate::routing::timer::Timer;
use crate::wire::ErrorCode;
use crate::wire::api::fetch::Row;

impl Route {
    /// P: wishes merge; the first one names the probe.
    pub(in crate::routing) fn want_probe(&mut self, wish: Wish) {
        match self.probe {
            Probe::None => self.probe = Probe::Wanted(wish),
            Probe::Wanted(_) | Probe::InFlight(..) => {}
        }
    }

    pub(in crate::routing) fn on_probe_row(
        &mut self,
        stamp: &Stamp,
        row: &Row,
        context: Context<'_>,
    ) {
        let failed = stamp.check(&self.current());
        if !row.records.is_empty() {
            self.count(Count::Wasted {
                gate: failed,
                bytes: row.records.len(),
            });
        }
        let in_position = match failed {
            Some(Gate::G1 | Gate::G2 | Gate::G3) => return,
            Some(Gate::G4) => false,
            None => true,
        };
        let Probe::InFlight(_, wish) = self.probe else {
            return;
        };
        self.probe = Probe::None;
        self.timers.clear(Timer::Resume);
        if row.error != ErrorCode::NONE {
            return self.on_probe_error(row.error, in_position, wish, context);
        }
        self.hints.probe_failures = 0;
        if let (true, Some(absence)) = (self.on_refuge(), self.absence.as_deref_mut()) {
            absence.leader_answered();
        }
        self.marks.leader_told(row, context.now);
        self.marks.confirmed_at = Some(context.now);
        match row.preferred_read_replica {
            None => {
                self.count(Count::Probe {
                    outcome: "stay",
                    wish,
                });
                self.leader_serves(context);
            }
            Some(hint) => {
                self.count(Count::Probe {
                    outcome: "hint",
                    wish,
                });
                self.on_probe_hint(hint, context);
            }
        }
    }

    /// R17 to R19.
    fn on_probe_hint(&mut self, hint: BrokerId, context: Context<'_>) {
        match self.state {
            // R44: a refuge that the leader recommends is one no more.
            State::Follower { broker, .. } if broker == hint && !self.policy_forbids() => {
                self.count(Count::Hint("repeated"));
                let vouched = self.in_isr_view(broker);
                self.renew(!vouched, context);
                self.note_candidate();
            }
            State::Parked | State::Leader | State::Follower { .. } | State::Forced { .. } => {
                self.take_hint(hint, Source::Probe, context);
            }
        }
    }

    /// R21, R22.
    fn on_probe_error(
        &mut self,
        error: ErrorCode,
        in_position: bool,
        wish: Wish,
        context: Context<'_>,
    ) {
        self.count(Count::Probe {
            outcome: "error",
            wish,
        });
        match leader_answer(error) {
            LeaderAnswer::OutOfRange if in_position => return self.ask_for_range(),
            LeaderAnswer::Stale(reason) => self.emit(Output::Refresh(reason)),
            LeaderAnswer::Fenced => self.emit(Output::Refresh(cluster::Reason::NotLeader)),
            LeaderAnswer::OutOfRange
            | LeaderAnswer::Corrupt
            | LeaderAnswer::Refused
            | LeaderAnswer::Rolled
            | LeaderAnswer::Unreadable
            | LeaderAnswer::Session
            | LeaderAnswer::Behind
            | LeaderAnswer::NotYet
            | LeaderAnswer::ServerError
            | LeaderAnswer::Unknown => {}
        }
        self.retry_probe(wish, context);
    }

    /// R21.
    pub(in crate::routing) fn on_probe_failed(&mut self, stamp: &Stamp, context: Context<'_>) {
        match (stamp.check(&self.current()), self.probe) {
            (None | Some(Gate::G4), Probe::InFlight(_, wish)) => {
                self.count(Count::Probe {
                    outcome: "failed",
                    wish,
                });
                self.retry_probe(wish, context);
            }
            (Some(Gate::G1 | Gate::G2 | Gate::G3), _) | (_, Probe::None | Probe::Wanted(_)) => {}
        }
    }

    /// At the leader every fetch is a probe; elsewhere ask again, while reading goes on.
    fn retry_probe(&mut self, wish: Wish, context: Context<'_>) {
        self.probe = Probe::None;
        match self.state {
            State::Parked | State::Leader => {}
            // R44 asks again by its own clock.
            State::Follower {
                hold: Hold::Refuge, ..
            } => {}
            State::Follower {
                hold: Hold::Full(_) | Hold::Trial(_),
                ..
            }
            | State::Forced { .. } => {
                let step = self.hints.probe_failures;
                let delay = self.settings.probe_backoff.delay(step, context.draw);
                self.hints.probe_failures = step.saturating_add(1);
                self.timers.set(Timer::ProbeRetry, context.now + delay);
                self.probe = Probe::Wanted(wish);
            }
        }
    }

    /// R20 by way of a lease that nobody confirmed (R34).
    pub(in crate::routing) fn end_lease(&mut self, context: Context<'_>) {
        self.change_after_flight(State::Leader, Reason::LeaseHardStop, context);
    }
}
