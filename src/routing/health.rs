//! What a route is short of, for gauges and diagnostics (routing.md 18).

use super::facts::{Brokers, Class};
use super::route::Route;
use super::stamp::Lane;
use super::state::{Position, State, Why};
use crate::ids::Moment;

/// The condition of one route. Nothing is decided by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// The lease is past its hard stop and the leader out of reach (routing.md 8.3).
    pub lease_overdue: bool,
    /// The leader holds records back on every lane there is (routing.md 6, R13).
    pub starving: bool,
    /// The leader is silent and nobody stands in, or the position waits for it.
    pub leader_unreachable: bool,
    /// When the leader last confirmed the role being read, by a hint or a probe.
    pub confirmed_at: Option<Moment>,
    /// When the end of the log was last told.
    pub end_told_at: Option<Moment>,
}

impl Route {
    /// Its condition at this moment.
    pub fn health(&self, brokers: &Brokers) -> Health {
        Health {
            lease_overdue: self.hints.overdue,
            starving: self.is_starving(),
            leader_unreachable: self.is_cut_off(brokers),
            confirmed_at: self.marks.confirmed_at,
            end_told_at: self.marks.told_at,
        }
    }

    /// Starved on the lane without a rack as well: nothing is left to try.
    fn is_starving(&self) -> bool {
        let starved = self.state.why() == Some(Why::Starved);
        starved && self.served.is_some_and(|(_, lane)| lane == Lane::V10)
    }

    fn is_cut_off(&self, brokers: &Brokers) -> bool {
        let Some(leader) = self.leader() else {
            return false;
        };
        let waits = match self.position {
            Position::Resolving | Position::Validating => !brokers.is_reachable(leader),
            Position::Unset | Position::Ready | Position::Halted => false,
        };
        let silent = match self.state {
            State::Leader => brokers.is_silent(leader, Class::Rack),
            State::Forced { .. } => brokers.is_silent(leader, Class::NoRack),
            State::Parked => !brokers.is_reachable(leader),
            State::Follower { .. } => false,
        };
        silent || waits
    }
}
