//! Carries out what the broker machine decided.

use super::exchange::Waiting;
use super::{BrokerLink, BudgetWake, broker};
use crate::actors::metadata::Need;
use crate::actors::partition::{BrokerNews, Lot};
use crate::fleet::{Event, LaneName};
use crate::routing::{self, Lane};
use crate::wire::{Class, Completion, Request, Response};

impl BrokerLink {
    /// Feeds the machine and performs what it asks for. What that brings about at once, as a
    /// request that is refused, waits for its turn.
    pub(super) fn feed(&mut self, input: broker::Input) {
        self.to_machine.push_back(input);
        if std::mem::replace(&mut self.feeding, true) {
            return;
        }
        while let Some(input) = self.to_machine.pop_front() {
            let (draw, now) = (self.entropy.draw(), self.net.clock.now());
            if let Some(machine) = self.machine.as_mut() {
                machine.handle(input, draw, now);
            }
            while let Some(output) = self.machine.as_mut().and_then(broker::Broker::poll_output) {
                self.carry_out(output);
            }
        }
        self.feeding = false;
    }

    /// A Fetch ended. One that failed with its connection is answered by the loss of that
    /// connection.
    pub(super) fn fetched(&mut self, ticket: broker::Ticket, completion: Completion) {
        let input = match completion.result {
            Ok(Response::Fetch(response)) => broker::Input::Answered { ticket, response },
            Ok(_) | Err(_) => broker::Input::Failed { ticket },
        };
        self.feed(input);
        self.telemetry.note_budgets();
    }

    fn carry_out(&mut self, output: broker::Output) {
        use broker::Output;
        match output {
            Output::Send {
                class,
                request,
                ticket,
            } => {
                let request = Request::Fetch(request);
                self.send(wire_class(class), request, Waiting::Fetch(ticket));
            }
            Output::Hangup(class) => self.hang_up(wire_class(class)),
            Output::Dial(class) => self.dial(wire_class(class)),
            Output::AwaitBudget { class, bytes } => self.await_budget(class, bytes),
            Output::Row { .. }
            | Output::Drained { .. }
            | Output::ProbeRow { .. }
            | Output::ProbeFailed { .. }
            | Output::HedgeRow { .. }
            | Output::HedgeFailed { .. }
            | Output::Permit(_) => {
                let broker = self.broker_id();
                self.to_routes
                    .extend(broker.and_then(|id| output.for_route(id)));
            }
            Output::Silence { class, silent } => {
                self.note_silence(class, silent);
                self.broadcast(BrokerNews::Silence { class, silent });
            }
            Output::Answered(class) => {
                let at = self.net.clock.now();
                self.broadcast(BrokerNews::Answered { class, at });
            }
            Output::RoundTrip(time) => self.broadcast(BrokerNews::RoundTrip(time)),
            Output::Quiet(class) => self.broadcast(BrokerNews::Quiet(class)),
            Output::Leadership(hints) => {
                self.to_metadata.post(Need::Hints(hints));
            }
            Output::Refresh { partitions, reason } => {
                self.to_metadata.post(Need::Refresh { partitions, reason });
            }
            Output::Breaker(breaker) => {
                self.note_breaker(breaker);
                self.broadcast(BrokerNews::Breaker(breaker));
            }
            Output::Probing(need) => {
                if let Some(broker) = self.broker_id() {
                    self.to_metadata.post(Need::Probing(broker, need));
                }
            }
            Output::V10(dropped) => {
                if let Some(broker) = self.broker_id() {
                    self.telemetry.note_v10(broker, dropped);
                }
                self.broadcast(BrokerNews::V10(dropped));
            }
            Output::Count(count) => self.count(count),
        }
    }

    fn await_budget(&mut self, class: routing::Class, bytes: usize) {
        let (wakes, clock) = (self.budget_wakes.clone(), self.net.clock);
        let since = clock.now();
        let place = self.budget.when_free(bytes, move || {
            let waited = clock.now().since(since);
            metrics::histogram!("nearside_budget_wait_seconds").record(waited);
            // A link that is gone wants no bytes.
            drop(wakes.send(BudgetWake(class)));
        });
        self.budget_places.insert(class, place);
    }

    fn note_breaker(&self, breaker: routing::Breaker) {
        let Some(broker) = self.broker_id() else {
            return;
        };
        let (state, value) = match breaker {
            routing::Breaker::Closed => ("closed", 0.0),
            routing::Breaker::Open(_) => ("open", 1.0),
            routing::Breaker::Readmitting => ("readmitting", 2.0),
        };
        metrics::gauge!("nearside_route_breaker_state", "broker" => broker.to_string()).set(value);
        self.telemetry.emit(Event::BreakerChanged { broker, state });
    }

    fn broadcast(&mut self, news: BrokerNews) {
        if let Some(broker) = self.broker_id() {
            self.threads.post_all(|| Lot::Broker(broker, news));
        }
    }

    fn count(&self, count: broker::Count) {
        use broker::Count;
        match count {
            Count::Bytes { traffic, bytes } => {
                let lane = lane_name(traffic);
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                if let Some(broker) = self.broker_id() {
                    self.telemetry.count_fetched(broker, self.zone, lane, bytes);
                }
            }
            Count::Wasted { gate, bytes } => {
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                metrics::counter!("nearside_route_wasted_bytes_total", "gate" => gate.name())
                    .increment(bytes);
            }
            Count::SessionReset(cause) => {
                metrics::counter!("nearside_fetch_session_resets_total", "cause" => cause)
                    .increment(1);
            }
            Count::UnaskedRow => {
                metrics::counter!("nearside_fetch_unasked_rows_total").increment(1);
            }
            Count::HoldEnded => metrics::counter!("nearside_fetch_hold_ended_total").increment(1),
        }
    }
}

fn lane_name(traffic: broker::Traffic) -> LaneName {
    match traffic {
        broker::Traffic::Lane(Lane::Rack) => LaneName::Rack,
        broker::Traffic::Lane(Lane::NoRack) => LaneName::NoRack,
        broker::Traffic::Lane(Lane::V10) => LaneName::V10,
        broker::Traffic::Probe => LaneName::Probe,
        broker::Traffic::Hedge => LaneName::Hedge,
    }
}

fn wire_class(class: routing::Class) -> Class {
    match class {
        routing::Class::Rack => Class::FetchRack,
        routing::Class::NoRack => Class::FetchNoRack,
        routing::Class::Control => Class::Control,
    }
}
