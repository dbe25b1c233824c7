//! One partition of the rig: its route, what came out of it, and the invariants that must hold all
//! the while.

use nearside::cluster;
use nearside::ids::{Draw, LeaderEpoch, Moment, Offset, PositionGeneration, RouteGeneration};
use nearside::invariants::routing as invariants;
use nearside::records::{BatchSet, ReadSettings};
use nearside::routing::{
    Brokers, Count, Delivery, Demand, Event, Indexed, Input, Output, Route, RoutingChange,
};

use super::step;

/// A route and everything it said.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) route: Route,
    /// Offsets delivered, in order of delivery.
    pub(crate) delivered: Vec<i64>,
    /// When something was delivered last.
    pub(crate) delivered_at: Vec<Moment>,
    /// Route changes.
    pub(crate) changes: Vec<RoutingChange>,
    /// Other events.
    pub(crate) events: Vec<Event>,
    /// Counters raised.
    pub(crate) counts: Vec<Count>,
    /// Refreshes asked for.
    pub(crate) refreshes: Vec<(Moment, cluster::Reason)>,
    /// Demands made, in order.
    pub(crate) wants: Vec<(Moment, Demand)>,
    /// Probes asked for.
    pub(crate) probes: Vec<(Moment, Demand)>,
    /// Where undelivered records are to be dropped.
    pub(crate) truncations: Vec<(Offset, Offset)>,
    /// Resolutions asked for.
    pub(crate) resolves: Vec<Output>,
    requests: invariants::Requests,
    generation: RouteGeneration,
    last: Option<(PositionGeneration, Offset)>,
}

impl Reader {
    pub(crate) fn new(route: Route) -> Self {
        Self {
            generation: route.generation(),
            route,
            delivered: Vec::new(),
            delivered_at: Vec::new(),
            changes: Vec::new(),
            events: Vec::new(),
            counts: Vec::new(),
            refreshes: Vec::new(),
            wants: Vec::new(),
            probes: Vec::new(),
            truncations: Vec::new(),
            resolves: Vec::new(),
            requests: invariants::Requests::default(),
            last: None,
        }
    }

    /// Hands the route an input and checks what it makes of it.
    pub(crate) fn handle(
        &mut self,
        input: &Input,
        brokers: &Brokers,
        draw: Draw,
        now: Moment,
    ) -> Vec<Output> {
        let watched = (&mut self.route, &mut self.requests);
        step::take(watched, input, brokers, draw, now)
    }

    /// Notes an output; the answer of a delivery is the input to hand in next.
    pub(crate) fn note(&mut self, output: &Output, now: Moment) -> Option<Input> {
        match output {
            Output::Want(demand) => self.wants.push((now, *demand)),
            Output::Probe { question, .. } => self.probes.push((now, *question)),
            Output::Refresh(reason) => self.refreshes.push((now, *reason)),
            Output::Count(count) => self.counts.push(*count),
            Output::Truncate { from, to } => self.truncations.push((*from, *to)),
            Output::Resolve { .. } => self.resolves.push(output.clone()),
            Output::Event(Event::RoutingChange(change)) => {
                // I15
                assert!(invariants::generation_follows(
                    self.generation,
                    change.generation
                ));
                self.generation = change.generation;
                self.changes.push((**change).clone());
            }
            Output::Event(event) => self.events.push(event.clone()),
            Output::Deliver(delivery) => return Some(self.index(delivery, now)),
            Output::Withdraw { .. }
            | Output::Drain { .. }
            | Output::CancelProbe { .. }
            | Output::Hedge { .. }
            | Output::CancelHedge { .. }
            | Output::Sample { .. }
            | Output::Dial { .. }
            | Output::DropLane { .. }
            | Output::Validate { .. }
            | Output::Cooling { .. } => {}
        }
        None
    }

    /// Checks what must hold between two inputs.
    pub(crate) fn check(&self, now: Moment) {
        // I15: a generation nobody announced.
        assert_eq!(self.generation, self.route.generation());
        assert!(
            invariants::demand_is_lawful(&self.route, now),
            "{:#?}",
            self.route
        );
    }

    /// Names of the reasons of all route changes.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.changes
            .iter()
            .map(|change| change.reason.name())
            .collect()
    }

    /// The longest time without a delivery between two moments.
    pub(crate) fn longest_gap(&self, from: Moment, to: Moment) -> std::time::Duration {
        let within = |at: &&Moment| **at > from && **at < to;
        let mut last = from;
        let mut longest = std::time::Duration::ZERO;
        for at in self.delivered_at.iter().filter(within).chain([&to]) {
            longest = longest.max(at.since(last));
            last = *at;
        }
        longest
    }

    fn index(&mut self, delivery: &Delivery, now: Moment) -> Input {
        let generation = delivery.stamp.position;
        let records = delivery.records.clone();
        let mut set = BatchSet::new(records, delivery.stamp.offset, ReadSettings::default());
        let mut epoch: Option<LeaderEpoch> = None;
        let mut damaged = false;
        for view in &mut set {
            let Ok(view) = view else {
                damaged = true;
                break;
            };
            epoch = view.leader_epoch().or(epoch);
            for record in view.records() {
                self.deliver(generation, record.unwrap().offset, now);
            }
        }
        if damaged && set.position() == delivery.stamp.offset {
            return Input::Indexed(Indexed::Corrupt);
        }
        Input::Indexed(Indexed::Advanced {
            fetch_end: set.position(),
            epoch,
        })
    }

    fn deliver(&mut self, generation: PositionGeneration, offset: Offset, now: Moment) {
        // I13
        let last = self
            .last
            .filter(|(of, _)| *of == generation)
            .map(|(_, offset)| offset);
        assert!(
            invariants::delivery_advances(last, offset),
            "{last:?} then {offset}"
        );
        self.last = Some((generation, offset));
        self.delivered.push(offset.0);
        self.delivered_at.push(now);
    }
}
