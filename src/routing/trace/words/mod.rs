//! Decisions in words.

mod came;
mod decided;
mod follows;
mod rules;
mod which;

use crate::ids::{BrokerId, Moment};
use crate::routing::facts::Brokers;
use crate::routing::input::Input;
use crate::routing::lease::Hold;
use crate::routing::output::Output;
use crate::routing::route::Route;
use crate::routing::state::State;

/// One step of one machine, seen from outside.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) before: &'a Route,
    pub(super) after: &'a Route,
    pub(super) input: &'a Input,
    pub(super) outputs: &'a [Output],
    pub(super) brokers: &'a Brokers,
    pub(super) now: Moment,
}

/// A step in words.
pub(super) struct Told {
    pub(super) came: String,
    pub(super) decided: String,
    pub(super) rules: Vec<&'static str>,
    pub(super) why: Vec<&'static str>,
    pub(super) follows: Vec<String>,
    pub(super) quiet: bool,
}

/// Puts a step into words.
pub(super) fn tell(seen: Seen<'_>) -> Told {
    let rules = which::rules(seen);
    let decided = decided::decided(seen);
    Told {
        came: came::came(seen.input),
        quiet: decided.is_none(),
        decided: decided.unwrap_or_else(|| "nothing changes".to_owned()),
        why: rules
            .iter()
            .filter_map(|rule| rules::sentence(rule))
            .collect(),
        rules,
        follows: follows::follows(seen),
    }
}

impl Seen<'_> {
    fn moved(&self) -> bool {
        self.before.generation() != self.after.generation()
    }

    fn broker(&self, id: BrokerId) -> String {
        match self.brokers.rack(id) {
            Some(rack) => format!("{id} in {rack}"),
            None => id.to_string(),
        }
    }

    /// Whom a route reads from.
    fn reader(&self, route: &Route, state: &State) -> String {
        let leader = route.leadership().leader.map_or_else(
            || "the leader".to_owned(),
            |id| format!("leader {}", self.broker(id)),
        );
        match state {
            State::Parked => "nobody".to_owned(),
            State::Leader => leader,
            State::Follower {
                broker,
                hold: Hold::Full(_) | Hold::Trial(_),
            } => format!("follower {}", self.broker(*broker)),
            State::Follower {
                broker,
                hold: Hold::Refuge,
            } => format!("refuge {}", self.broker(*broker)),
            State::Forced { .. } => format!("{leader} without naming our rack"),
        }
    }
}

/// A time ahead of `now`, in seconds.
fn ahead(at: Moment, now: Moment) -> String {
    format!("{:.1} s", at.since(now).as_secs_f64())
}
