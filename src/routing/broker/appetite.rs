//! A lane's dealings with the byte budget (wire.md 4.2, runtime.md 11).

use std::sync::Arc;
use std::time::Duration;

use crate::budget::{Budget, CRUMB, Permit, Seat};
use crate::ids::Moment;

/// What a lane has of the budget, and waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Appetite {
    /// Its part, while there is something to fetch.
    seat: Option<Arc<Seat>>,
    /// Since when the budget has had too little.
    hungry: Option<Moment>,
    /// The host was told to wait, and no wake has come yet.
    waits: bool,
    /// A wake has come.
    in_turn: bool,
    /// What the host is to wait for, until it is told.
    wanted: Option<usize>,
}

impl Appetite {
    /// The right to be answered with up to `want` bytes.
    ///
    /// Nobody starves: where handlers are stuck for good on as much as there may be, a lane that
    /// has waited for [`PATIENCE`] overdraws by a crumb, so that other partitions get on.
    pub(super) fn permit(&mut self, want: usize, budget: &Budget, now: Moment) -> Option<Permit> {
        self.seat.get_or_insert_with(|| Arc::new(budget.seat()));
        let in_turn = std::mem::take(&mut self.in_turn);
        let permit = if in_turn {
            budget.take_in_turn(want)
        } else if self.hungry.is_none() {
            budget.take(want)
        } else {
            None
        };
        let since = *self.hungry.get_or_insert(now);
        let permit = match permit {
            None if since + PATIENCE <= now => Some(budget.charge(want.min(CRUMB))),
            granted => granted,
        };
        if permit.is_some() {
            self.hungry = None;
        } else if !std::mem::replace(&mut self.waits, true) {
            self.wanted = Some(want);
        }
        permit
    }

    /// What the host is to wait for.
    pub(super) fn take_wanted(&mut self) -> Option<usize> {
        self.wanted.take()
    }

    /// The budget has more.
    pub(super) fn woken(&mut self) {
        self.waits = false;
        self.in_turn = self.hungry.is_some();
    }

    /// Nothing is to be fetched.
    pub(super) fn rest(&mut self) {
        self.seat = None;
        self.hungry = None;
        self.in_turn = false;
    }

    /// When patience ends.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.hungry.map(|since| since + PATIENCE)
    }
}

/// How long a lane waits for others to give bytes back.
const PATIENCE: Duration = Duration::from_secs(1);
