//! Rules of refuge, hedge and watchdogs: explicit arms that keep the state and show in
//! `route_not_yet{rule}`.

use crate::routing::route::Route;
use crate::routing::state::State;

impl Route {
    /// R29, and R43 at the leader.
    pub(in crate::routing) fn on_silent(&mut self) {
        match self.state {
            State::Parked => {}
            State::Leader | State::Forced { .. } => self.not_yet("R43"),
            State::Follower { .. } if self.on_refuge() => self.not_yet("R45"),
            State::Follower { .. } => self.not_yet("R29"),
        }
    }

    /// R36.
    pub(in crate::routing) fn on_sampled(&mut self) {
        match self.state {
            State::Parked | State::Leader | State::Forced { .. } => {}
            State::Follower { .. } if self.on_refuge() => self.not_yet("R45"),
            State::Follower { .. } => self.not_yet("R36"),
        }
    }
}
