//! One assigned partition: its route, its account, and what must hold of them all the while.

use std::sync::Arc;

use nearside::ids::{AssignmentEpoch, Draw, Moment, Offset, PositionGeneration, RouteGeneration};
use nearside::invariants::routing as invariants;
use nearside::routing::{self, Brokers, Input, Output, Position, Route, RoutingChange};

use super::account::Account;
use crate::step;

/// A partition as its process holds it.
pub(crate) struct Slot {
    pub(crate) epoch: AssignmentEpoch,
    pub(crate) route: Route,
    /// Ledger and cursor, once the position is known.
    pub(crate) account: Option<Account>,
    /// When records came last, or the position became known.
    pub(crate) fed_at: Moment,
    /// A revoke began: nothing is fetched any more.
    pub(crate) draining: bool,
    /// Its end was asked for.
    pub(crate) ending: bool,
    /// Whether the handler's queue has room.
    pub(crate) room: bool,
    /// When the route is to be woken.
    pub(super) due: Option<Moment>,
    /// Given to us again before its former assignment had ended here (runtime.md G4).
    pub(crate) successor: Option<AssignmentEpoch>,
    requests: invariants::Requests,
    generation: RouteGeneration,
    last: Option<(PositionGeneration, Offset)>,
}

impl Slot {
    pub(crate) fn new(
        epoch: AssignmentEpoch,
        settings: &Arc<routing::Settings>,
        now: Moment,
    ) -> Self {
        let route = Route::new(Arc::clone(settings));
        Self {
            epoch,
            generation: route.generation(),
            route,
            account: None,
            fed_at: now,
            draining: false,
            ending: false,
            room: true,
            due: None,
            successor: None,
            requests: invariants::Requests::default(),
            last: None,
        }
    }

    /// Hands the route an input and checks what it makes of it.
    pub(super) fn handle(
        &mut self,
        input: &Input,
        brokers: &Brokers,
        draw: Draw,
        now: Moment,
    ) -> Vec<Output> {
        let watched = (&mut self.route, &mut self.requests);
        step::take(watched, input, brokers, draw, now)
    }

    /// Whether records could be expected of it.
    pub(crate) fn wants_records(&self) -> bool {
        self.route.position() == Position::Ready && !self.draining && !self.ending && self.room
    }

    /// I15: a route change is announced once, under the next generation.
    pub(crate) fn changed(&mut self, change: &RoutingChange) {
        let (last, next) = (self.generation, change.generation);
        assert!(
            invariants::generation_follows(last, next),
            "I15: {last:?} then {next:?}"
        );
        self.generation = next;
    }

    /// I13: delivered offsets rise within a position generation.
    pub(crate) fn delivered(&mut self, generation: PositionGeneration, offset: Offset) {
        let last = self.last.filter(|(of, _)| *of == generation);
        let last = last.map(|(_, offset)| offset);
        assert!(
            invariants::delivery_advances(last, offset),
            "I13: {last:?} then {offset:?}"
        );
        self.last = Some((generation, offset));
    }

    /// What must hold between two inputs.
    pub(crate) fn check(&self, now: Moment) {
        assert_eq!(
            self.generation,
            self.route.generation(),
            "I15: a generation nobody announced"
        );
        assert!(
            invariants::demand_is_lawful(&self.route, now),
            "I4, I5, I6 or I12: {:#?}",
            self.route
        );
        if let Some(account) = &self.account {
            let ledger = &account.ledger;
            assert!(
                nearside::invariants::watermark_is_lowest_incomplete(ledger),
                "{ledger:?}"
            );
        }
    }
}
