//! What one input may do to a route: the invariants that compare before and after.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an invariant names the few inputs and outputs it binds"
)]

use crate::ids::{Draw, Moment};
use crate::routing::{
    Brokers, Event, Gate, Input, Output, Reason, Role, Route, RoutingChange, Stamp,
};
use crate::wire::ErrorCode;

/// One call of a route machine.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The machine before it.
    pub before: &'a Route,
    /// What was handed in.
    pub input: &'a Input,
    /// The facts it saw.
    pub brokers: &'a Brokers,
    /// The sample it was given.
    pub draw: Draw,
    /// When.
    pub now: Moment,
    /// What it answered.
    pub outputs: &'a [Output],
    /// The machine after it.
    pub after: &'a Route,
}

impl Step<'_> {
    /// The first invariant of routing.md 19 that the step breaks, by its number.
    pub fn broken(&self) -> Option<&'static str> {
        let checks = [
            ("I1", self.says_the_same_again()),
            ("I3", self.keeps_out_what_is_late()),
            ("I7", self.keeps_the_lease()),
            ("I8", self.stays_when_told_to_stay()),
            ("I10", self.keeps_the_position()),
            ("I14", self.keeps_the_watermarks()),
            ("I15", self.announces_each_generation()),
            ("I16", self.bounds_cooldowns()),
            ("I17", self.follows_the_leader_alone()),
        ];
        let broken = checks.into_iter().find(|(_, holds)| !holds);
        broken.map(|(name, _)| name)
    }

    /// I1: nothing but the arguments has a say.
    fn says_the_same_again(&self) -> bool {
        let mut again = self.before.clone();
        again.handle(self.input.clone(), self.brokers, self.draw, self.now);
        let outputs = std::iter::from_fn(|| again.poll_output());
        outputs.eq(self.outputs.iter().cloned())
    }

    /// I3: an answer that fails G1 to G3 is counted and changes nothing.
    fn keeps_out_what_is_late(&self) -> bool {
        let Some(stamp) = answered(self.input) else {
            return true;
        };
        match stamp.check(&self.before.current()) {
            None | Some(Gate::G4) => true,
            Some(Gate::G1 | Gate::G2 | Gate::G3) => {
                // A late row still uses up the demand it answers, which may then be withdrawn.
                let upkeep = |output: &Output| {
                    matches!(
                        output,
                        Output::Count(_)
                            | Output::Want(_)
                            | Output::Withdraw { .. }
                            | Output::Drain { .. }
                    )
                };
                self.outputs.iter().all(upkeep) && self.is_same()
            }
        }
    }

    fn is_same(&self) -> bool {
        let view = |route: &Route| {
            let marks = *route.watermarks();
            let generations = (route.generation(), route.position_generation());
            let position = (route.position(), route.fetch_end(), route.fetched_epoch());
            (
                *route.state(),
                route.served(),
                generations,
                position,
                marks,
                route.probe(),
            )
        };
        view(self.before) == view(self.after)
    }

    /// I7: only the word of the leader moves the deadline of a lease; what is merely carried out
    /// late was granted before.
    fn keeps_the_lease(&self) -> bool {
        let leases = (self.before.state().lease(), self.after.state().lease());
        let same_broker = self.before.state().follower() == self.after.state().follower();
        let (Some(before), Some(after)) = leases else {
            return true;
        };
        if !same_broker || after.ask_at <= before.ask_at || self.before.is_leaving() {
            return true;
        }
        match self.input {
            Input::Row { stamp, .. } | Input::HedgeRow { stamp, .. } => stamp.role == Role::Leader,
            // The end of an earlier hint of the leader: its link, its place in the ISR, its time.
            Input::ProbeRow { .. }
            | Input::LinkChanged { .. }
            | Input::LinkRestarted { .. }
            | Input::IsrChanged { .. }
            | Input::ReplicasChanged { .. }
            | Input::Assigned(_)
            | Input::Tick => true,
            _ => false,
        }
    }

    /// I8: records of the follower being read, and throttling, change no route.
    fn stays_when_told_to_stay(&self) -> bool {
        let moved = self.before.served() != self.after.served();
        match self.input {
            Input::Row { stamp, row, .. } => {
                let plain = row.error == ErrorCode::NONE
                    && row.diverging_epoch.is_none()
                    && row.preferred_read_replica.is_none()
                    && !row.records.is_empty();
                let read = self.before.state().follower() == Some(stamp.broker);
                !(moved && plain && read && !self.before.is_leaving())
            }
            Input::Throttled { .. } => !moved,
            _ => true,
        }
    }

    /// I10: the position moves by delivery, seek, the leader's word, or not at all.
    fn keeps_the_position(&self) -> bool {
        let moved = self.before.fetch_end() != self.after.fetch_end();
        let may = matches!(
            self.input,
            Input::Assigned(_)
                | Input::Indexed(_)
                | Input::Seek { .. }
                | Input::Resolved { .. }
                | Input::Validated { .. }
        );
        !moved || may
    }

    /// I14: within an epoch the leader's watermarks rise, and error rows leave them alone.
    fn keeps_the_watermarks(&self) -> bool {
        let (before, after) = (self.before.watermarks(), self.after.watermarks());
        if matches!(
            self.input,
            Input::Assigned(_) | Input::Revoked | Input::TopicRecreated { .. }
        ) || self.before.leadership() != self.after.leadership()
        {
            return true;
        }
        let ends = |marks: &crate::routing::Watermarks| {
            (marks.leader_hw, marks.leader_lso, marks.leader_start)
        };
        let ((hw, lso, start), (hw_now, lso_now, start_now)) = (ends(before), ends(after));
        let rises = hw_now >= hw && lso_now >= lso && start_now >= start;
        match self.input {
            Input::Row { row, .. } | Input::ProbeRow { row, .. } | Input::HedgeRow { row, .. }
                if row.error != ErrorCode::NONE =>
            {
                ends(before) == ends(after)
            }
            _ => rises,
        }
    }

    /// I15: one event for each generation, in order.
    fn announces_each_generation(&self) -> bool {
        let mut last = self.before.generation();
        for change in self.changes() {
            if !super::generation_follows(last, change.generation) {
                return false;
            }
            last = change.generation;
        }
        last == self.after.generation()
    }

    /// I16.
    fn bounds_cooldowns(&self) -> bool {
        let longest = self.now + self.after.settings().cooldown_max;
        self.after
            .cools_until()
            .is_none_or(|until| until <= longest)
    }

    /// I17: a row makes us follow only if the leader of the present epoch sent it.
    fn follows_the_leader_alone(&self) -> bool {
        let Input::Row { stamp, .. } = self.input else {
            return true;
        };
        let epoch = self.before.leadership().epoch;
        let adopts = |change: &RoutingChange| {
            matches!(change.reason, Reason::HintAdopted | Reason::HintMoved)
        };
        self.before.is_leaving()
            || !self.changes().any(adopts)
            || (stamp.role == Role::Leader && stamp.epoch == epoch)
    }

    fn changes(&self) -> impl Iterator<Item = &RoutingChange> {
        self.outputs.iter().filter_map(|output| match output {
            Output::Event(Event::RoutingChange(change)) => Some(&**change),
            _ => None,
        })
    }
}

/// The stamp that an answer came back with, if the input is one that the gate judges.
fn answered(input: &Input) -> Option<&Stamp> {
    match input {
        Input::Row { stamp, .. }
        | Input::ProbeRow { stamp, .. }
        | Input::ProbeFailed { stamp }
        | Input::HedgeRow { stamp, .. }
        | Input::HedgeFailed { stamp } => Some(stamp),
        _ => None,
    }
}
