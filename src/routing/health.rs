//! What a route is short of, for gauges and diagnostics (routing.md 18).

use super::route::Route;
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
    pub fn health(&self) -> Health {
        Health {
            lease_overdue: self.gauges.overdue,
            starving: self.gauges.starving,
            leader_unreachable: self.gauges.unreachable,
            confirmed_at: self.marks.confirmed_at,
            end_told_at: self.marks.told_at,
        }
    }
}
