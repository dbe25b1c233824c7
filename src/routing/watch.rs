//! What the watchdogs of routing.md 14 remember.

use std::time::Duration;

use crate::ids::{Moment, Offset};

/// Memory of the watchdogs over the serving broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Watch {
    /// When the serving broker last sent a row, or began to serve.
    pub(super) heard_at: Moment,
    /// Since when rows are missed.
    pub(super) missed_since: Moment,
    /// Whether a probe was spent on the present silence of the leader's rows.
    pub(super) asked: bool,
    /// Step of the hold of a starved partition.
    pub(super) starves: u32,
    /// When the end of the follower being read last moved.
    pub(super) moved_at: Moment,
    /// Whether a probe was spent on a fetch end beyond that end.
    pub(super) ahead_asked: bool,
    /// When the leader's end was last sampled.
    pub(super) sampled_at: Option<Moment>,
    /// The end that was sampled, and that the follower is to reach.
    pub(super) target: Option<Offset>,
}

impl Watch {
    /// Another broker or lane serves.
    pub(super) fn route_changed(&mut self, now: Moment) {
        *self = Self {
            heard_at: now,
            moved_at: now,
            starves: self.starves,
            ..Self::default()
        };
    }

    /// The broker is muted: nothing is missed meanwhile.
    pub(super) fn postpone(&mut self, by: Duration) {
        self.heard_at = self.heard_at + by;
        self.missed_since = self.missed_since + by;
        self.moved_at = self.moved_at + by;
    }

    /// A row came.
    pub(super) fn heard(&mut self, now: Moment) {
        self.heard_at = now;
        self.missed_since = now;
        self.asked = false;
    }
}
