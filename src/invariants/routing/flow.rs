//! When records must come (routing.md I9).

use std::time::Duration;

use crate::ids::{Moment, Offset};
use crate::routing::{Position, Route, Settings, State};

/// What is true of a partition besides what its route knows.
#[derive(Clone, Copy, Debug)]
pub struct Supply {
    /// The link to the leader is Ready, the leader answers over it, and no mute holds anything up.
    pub leader_answers: bool,
    /// End of what the leader hands out.
    pub leader_end: Offset,
    /// When records came last.
    pub fed_at: Moment,
    /// Of the network.
    pub round_trip: Duration,
}

/// Since when records of one route are owed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flow {
    owed: Option<(Moment, Source)>,
}

/// Who owes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Leader,
    Follower,
}

impl Flow {
    /// I9, looked at from time to time: false once records that could be had are overdue.
    pub fn holds(&mut self, route: &Route, supply: Supply, now: Moment) -> bool {
        let Some(source) = source(route).filter(|_| is_owed(route, &supply)) else {
            self.owed = None;
            return true;
        };
        let known = self.owed.filter(|(_, of)| *of == source);
        let (since, _) = *self.owed.insert(known.unwrap_or((now, source)));
        let bound = source.patience(route.settings()) + 2 * supply.round_trip;
        now.since(since.max(supply.fed_at)) <= bound
    }
}

impl Source {
    fn patience(self, settings: &Settings) -> Duration {
        settings.max_wait
            + match self {
                Self::Leader => settings.starve + settings.connect_grace,
                Self::Follower => settings.stuck + settings.stuck_probe + settings.stuck_grace,
            }
    }
}

/// A refuge owes nothing: it may trail as far as its leader is gone.
fn source(route: &Route) -> Option<Source> {
    match route.state() {
        State::Parked => None,
        State::Leader | State::Forced { .. } => Some(Source::Leader),
        State::Follower { .. } if route.on_refuge() => None,
        State::Follower { .. } => Some(Source::Follower),
    }
}

/// Error rows are no records and have backoffs of their own (routing.md 16).
fn is_owed(route: &Route, supply: &Supply) -> bool {
    route.position() == Position::Ready
        && route.is_readable()
        && !route.backs_off()
        && supply.leader_answers
        && supply.leader_end > route.fetch_end()
}
