//! Where to read: resolved offsets, validation, and what indexing found (routing.md 11 to 13).

use crate::ids::{LeaderEpoch, Offset, PositionGeneration};
use crate::routing::cooldown::{Fault, Ledger};
use crate::routing::event::{Bound, Event, Halt};
use crate::routing::input::{Found, Indexed, Source, Verdict};
use crate::routing::marks::Watermarks;
use crate::routing::output::{Count, Output, Resolve};
use crate::routing::retry::Retry;
use crate::routing::route::{Context, Hints, Route};
use crate::routing::stamp::{Role, Stamp};
use crate::routing::state::{Position, Probe, State, Until, Why};
use crate::routing::timer::{Timer, Timers};
use crate::routing::watch::Watch;

impl Route {
    /// Q: ask for an offset. What was fetched under the old one is void.
    pub(in crate::routing) fn resolve(&mut self, what: Resolve) {
        self.position_generation.0 += 1;
        self.position = Position::Resolving;
        self.emit(Output::Resolve {
            generation: self.position_generation,
            what,
        });
    }

    /// V: ask the leader whether our history is still its own. Skipped, and counted, without epochs
    /// to compare.
    ///
    /// `told` is a divergence that a Fetch row brought up.
    pub(in crate::routing) fn validate(&mut self, told: Option<(LeaderEpoch, Offset)>) {
        match self.position {
            Position::Unset | Position::Resolving | Position::Halted => return,
            Position::Ready | Position::Validating => {}
        }
        self.position_generation.0 += 1;
        let known = self.cluster.leadership.epoch.is_some() && self.state != State::Parked;
        match self.fetched_epoch {
            Some(epoch) if known => {
                self.position = Position::Validating;
                self.emit(Output::Validate {
                    generation: self.position_generation,
                    offset: self.fetch_end,
                    epoch,
                    leader_epoch: self.cluster.leadership.epoch,
                    told,
                });
            }
            Some(_) | None => {
                self.position = Position::Ready;
                self.count(Count::ValidationSkipped);
            }
        }
    }

    pub(in crate::routing) fn on_resolved(
        &mut self,
        generation: PositionGeneration,
        found: Found,
        context: Context<'_>,
    ) {
        if self.position != Position::Resolving || generation != self.position_generation {
            return;
        }
        self.position = Position::Ready;
        self.gates.anew = false;
        match found {
            Found::Nothing => self.halt(Halt::NoOffset),
            Found::Offset {
                offset,
                epoch,
                source: Source::Committed,
            } => {
                self.set_position(offset, epoch);
                if epoch.is_some() {
                    self.validate(None);
                }
            }
            Found::Offset {
                offset,
                epoch,
                source: Source::Validated,
            } => {
                self.set_position(offset, epoch);
            }
            Found::Offset {
                offset,
                epoch,
                source: Source::Reset,
            } => {
                let from = self.gates.refused.take();
                self.set_position(offset, epoch);
                if let Some(from) = from {
                    self.tell_reset(from, offset);
                }
            }
            Found::Offset {
                offset,
                epoch,
                source: Source::Diverged,
            } => {
                self.gates.refused = None;
                self.truncate(offset, epoch);
            }
            Found::Offset {
                source: Source::Inside,
                ..
            } => self.on_inside(context),
        }
    }

    /// A policy puts a position between the bounds, so the direction tells which one it was beyond.
    fn tell_reset(&mut self, from: Offset, to: Offset) {
        let bound = match from < to {
            true => Bound::BelowStart,
            false => Bound::AboveEnd,
        };
        self.emit(Output::Event(Event::PositionReset { from, to, bound }));
    }

    /// The leader's bounds hold the offset its Fetch refused: ask again; the second time without
    /// the epoch, which its cache may not know (F11); then slowly.
    fn on_inside(&mut self, context: Context<'_>) {
        self.retry.inside = self.retry.inside.saturating_add(1);
        match self.retry.inside {
            0 | 1 => {}
            2 => self.retry.omit_epoch = true,
            3.. => self.timers.set(Timer::Backoff, context.now + INSIDE_PAUSE),
        }
    }

    pub(in crate::routing) fn on_validated(
        &mut self,
        generation: PositionGeneration,
        verdict: Verdict,
    ) {
        if self.position != Position::Validating || generation != self.position_generation {
            return;
        }
        self.position = Position::Ready;
        match verdict {
            Verdict::Agrees => {}
            Verdict::Unknown => self.count(Count::ValidationSkipped),
            Verdict::Truncated { to, epoch } => {
                if let Some(suspect) = self.retry.suspect.take() {
                    self.ledger.absolve(suspect, Fault::Range);
                }
                self.truncate(to, epoch);
            }
            Verdict::Halt => self.halt(Halt::Truncated),
        }
    }

    fn truncate(&mut self, to: Offset, epoch: Option<LeaderEpoch>) {
        let from = self.fetch_end;
        if to < from {
            let epochs = (self.fetched_epoch, epoch);
            self.position_generation.0 += 1;
            self.set_position(to, epoch);
            self.emit(Output::Truncate { from, to });
            self.emit(Output::Event(Event::Truncated { from, to, epochs }));
        }
    }

    pub(in crate::routing) fn halt(&mut self, why: Halt) {
        self.position = Position::Halted;
        self.emit(Output::Event(Event::Halted(why)));
    }

    pub(in crate::routing) fn set_position(&mut self, offset: Offset, epoch: Option<LeaderEpoch>) {
        self.fetch_end = offset;
        self.fetched_epoch = epoch;
    }

    /// What became of the records of the last row.
    pub(in crate::routing) fn on_indexed(&mut self, indexed: Indexed, context: Context<'_>) {
        let Some(stamp) = self.gates.unindexed.take() else {
            return;
        };
        match indexed {
            Indexed::Advanced { fetch_end, epoch } if fetch_end > self.fetch_end => {
                self.set_position(fetch_end, epoch.or(self.fetched_epoch));
                self.note_caught_up();
                self.on_progress(&stamp, context);
            }
            // Bytes came and nothing moved: never at network speed (wire.md 8.1 B9).
            Indexed::Advanced { .. } => self.back_off_error(context),
            Indexed::TooLarge { needed } => self.retry.limit = needed.max(self.retry.limit),
            Indexed::Corrupt => self.on_corrupt(&stamp, context),
            Indexed::Poison => {
                self.retry.corrupt |= stamp.role == Role::Leader;
                self.on_corrupt(&stamp, context);
            }
        }
    }

    /// Tells of an end that is reached, whoever named it.
    pub(in crate::routing) fn note_caught_up(&mut self) {
        let isolation = self.settings.isolation;
        let ends = [
            (Role::Leader, self.marks.leader_end(isolation)),
            (Role::Follower, self.marks.replica_end(isolation)),
        ];
        let of = (self.generation, self.position_generation);
        for (with, end) in ends {
            if let Some(end) = end.filter(|end| self.fetch_end >= *end)
                && self.caught_up.reach(with, of)
            {
                self.emit(Output::Event(Event::CaughtUp { with, end }));
            }
        }
    }

    fn on_progress(&mut self, stamp: &Stamp, context: Context<'_>) {
        self.raise_starving(false);
        self.retry.limit = self.settings.partition_bytes;
        self.retry.inside = 0;
        self.retry.omit_epoch = false;
        match stamp.role {
            Role::Leader => {
                self.retry.corrupt = false;
                self.retry.suspect = None;
            }
            Role::Follower => {}
        }
        self.ledger
            .position_reached(self.fetch_end, &self.settings, context.now);
        self.end_lifted_hold(context);
    }

    /// A cooldown may end with the position, not with the clock.
    fn end_lifted_hold(&mut self, context: Context<'_>) {
        match self.state {
            State::Forced {
                why: Why::Cooldown(broker),
                until: Until::At(_),
                ..
            } => {
                if !self.ledger.is_cooling(broker, context.now) {
                    self.on_hold_ended(context);
                }
            }
            State::Forced { .. } | State::Parked | State::Leader | State::Follower { .. } => {}
        }
    }

    /// Code 2, or a batch that fails its checks here. Only the leader's copy is the truth.
    pub(in crate::routing) fn on_corrupt(&mut self, stamp: &Stamp, context: Context<'_>) {
        match stamp.role {
            Role::Follower => {
                self.retry.suspect = Some(stamp.broker);
                self.cool_and_leave(stamp.broker, Fault::Corruption, context);
            }
            Role::Leader if self.retry.corrupt => {
                if let Some(suspect) = self.retry.suspect.take() {
                    self.ledger.absolve(suspect, Fault::Corruption);
                }
                self.emit(Output::Event(Event::CorruptBatch {
                    offset: stamp.offset,
                }));
                self.back_off_error(context);
            }
            Role::Leader => self.retry.corrupt = true,
        }
    }

    /// R41: nothing of this assignment may reach the next one.
    pub(in crate::routing) fn forget_everything(&mut self) {
        self.cluster.lost = false;
        self.raise_unreachable(false);
        self.raise_starving(false);
        self.candidate = None;
        self.absence = None;
        self.watch = Watch::default();
        self.pending = None;
        self.hints = Hints::default();
        self.ledger = Ledger::default();
        self.permit = None;
        self.drop_probe();
        self.probe = Probe::None;
        self.retry = Retry::new(self.settings.partition_bytes);
        self.timers = Timers::new();
        self.marks = Watermarks::default();
    }
}

/// Pause before the third fetch of an offset the leader both refuses and holds.
const INSIDE_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
