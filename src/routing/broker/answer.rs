//! Answers of the broker: split into rows, each under the stamp it was asked with.

use std::sync::Arc;

use super::asked::Flight;
use super::lane::Landing;
use super::machine::Broker;
use super::members::Claim;
use super::output::{Count, Output, Ticket, Traffic};
use crate::budget::Arrival;
use crate::cluster::{Hint, HintLot, Reason};
use crate::ids::{TopicIncarnation, TopicPartition};
use crate::routing::facts::Class;
use crate::routing::stamp::{Gate, Role};
use crate::wire::ErrorCode;
use crate::wire::api::TopicRef;
use crate::wire::api::fetch::{Response, Row};

impl Broker {
    /// An answer belongs to one of the lanes, to the probes or to the hedges, or came too late for
    /// any.
    pub(super) fn on_answered(&mut self, ticket: Ticket, response: &Response) {
        if self.rack.flies(ticket) {
            self.on_lane_answered(Class::Rack, ticket, response);
        } else if self.no_rack.flies(ticket) {
            self.on_lane_answered(Class::NoRack, ticket, response);
        } else if let Some(flight) = self.probes.asking.answered(ticket) {
            self.on_questions_answered(Traffic::Probe, flight, response);
        } else if let Some(flight) = self.hedges.asking.answered(ticket) {
            self.on_questions_answered(Traffic::Hedge, flight, response);
        }
    }

    fn on_lane_answered(&mut self, class: Class, ticket: Ticket, response: &Response) {
        let (settings, now) = (Arc::clone(&self.settings), self.now());
        let alert = self.fetch_lane(class).vigil.answered();
        self.alert(class, alert);
        let landing = self.fetch_lane(class).answered(ticket, response, now);
        match landing {
            Landing::Rows => self.split(class, ticket, response),
            Landing::Nothing(cause) => self.on_session_reset(class, cause, response.error),
            Landing::Unknown => return,
        }
        let counted = landing == Landing::Rows;
        let drained = self.fetch_lane(class).close_flight(counted, &settings, now);
        self.drained(drained);
    }

    fn on_session_reset(&mut self, class: Class, cause: &'static str, code: ErrorCode) {
        self.emit(Output::Count(Count::SessionReset(cause)));
        if code == ErrorCode::UNSUPPORTED_VERSION {
            // The broker was rolled back: its versions are asked for again.
            self.emit(Output::Hangup(class));
        }
        if cause == "topic_ids" {
            let partitions = self.fetch_lane(class).members.wanted();
            self.emit(Output::Refresh {
                partitions,
                reason: Reason::NotHosted,
            });
        }
    }

    /// Hands every row to the route that asked for it. Nothing of a record is copied.
    fn split(&mut self, class: Class, ticket: Ticket, response: &Response) {
        let mut hints = Vec::new();
        let mut unasked = false;
        let (mut rolled, mut confused) = (false, false);
        let mut bytes = 0_usize;
        let throttled = !response.throttle.is_zero();
        let total: usize = response.rows().map(|row| row.records.len()).sum();
        let settled = self.fetch_lane(class).settle(total);
        let full = settled.as_ref().is_some_and(|it| total >= it.granted);
        let now = self.now();
        if !throttled && !full && self.fetch_lane(class).tells_answer(now) {
            self.emit(Output::Answered(class));
        }
        for mut row in response.rows() {
            bytes += row.records.len();
            let Some(topic) = self.fetch_lane(class).members.name(&row.topic) else {
                unasked = true;
                continue;
            };
            let partition = TopicPartition {
                topic,
                partition: row.partition,
            };
            let filled = !row.records.is_empty();
            match self.fetch_lane(class).claim(&partition, ticket, filled) {
                Claim::Wanted(stamp) => {
                    let version = row.error == ErrorCode::UNSUPPORTED_VERSION;
                    rolled |= version && stamp.role == Role::Leader;
                    confused |= row.error == ErrorCode::INCONSISTENT_TOPIC_ID;
                    hints.extend(leadership(&partition, stamp.topic, &row));
                    let inconclusive = throttled || full;
                    if filled && let Some(settled) = &settled {
                        row.records = settled.arrival.keep(row.records);
                    }
                    self.emit(Output::Row {
                        partition,
                        stamp,
                        row,
                        inconclusive,
                    });
                }
                Claim::Withdrawn(incarnation) => {
                    hints.extend(leadership(&partition, incarnation, &row));
                    self.waste(&row);
                }
                Claim::Unasked => {
                    unasked = true;
                    self.waste(&row);
                }
            }
        }
        if unasked {
            self.emit(Output::Count(Count::UnaskedRow));
        }
        if unasked || confused {
            self.fetch_lane(class).distrust();
        }
        if rolled {
            self.emit(Output::Hangup(class));
        }
        let traffic = Traffic::Lane(self.fetch_lane(class).name());
        self.finish(hints, response, traffic, bytes);
    }

    /// Splits the answer to probes or hedges. Who asked and got no row has failed.
    fn on_questions_answered(&mut self, traffic: Traffic, flight: Flight, response: &Response) {
        let mut flight = flight;
        let mut hints = Vec::new();
        let mut bytes = 0_usize;
        if response.error == ErrorCode::NONE {
            let total = response.rows().map(|row| row.records.len()).sum();
            // Asked for in need, whatever the budget has: charged on arrival.
            let arrival = Arrival::new(Arc::new(self.settings.budget.charge(total)));
            for mut row in response.rows() {
                bytes += row.records.len();
                let Some((partition, stamp, waits)) = flight.take(&row) else {
                    self.waste(&row);
                    continue;
                };
                hints.extend(leadership(&partition, stamp.topic, &row));
                if !waits {
                    self.waste(&row);
                    continue;
                }
                row.records = arrival.keep(row.records);
                self.emit(match traffic {
                    Traffic::Hedge => Output::HedgeRow {
                        partition,
                        stamp,
                        row,
                    },
                    Traffic::Probe | Traffic::Lane(_) => Output::ProbeRow {
                        partition,
                        stamp,
                        row,
                    },
                });
            }
        }
        match traffic {
            Traffic::Hedge => self.hedges_failed(flight.rest()),
            Traffic::Probe | Traffic::Lane(_) => self.probes_failed(flight.rest()),
        }
        self.finish(hints, response, traffic, bytes);
    }

    /// A row whose route has moved on: paid for, and of no use.
    fn waste(&mut self, row: &Row) {
        let bytes = row.records.len();
        if bytes > 0 {
            self.emit(Output::Count(Count::Wasted {
                gate: Gate::G3,
                bytes,
            }));
        }
    }

    fn finish(&mut self, hints: Vec<Hint>, response: &Response, traffic: Traffic, bytes: usize) {
        if bytes > 0 {
            self.emit(Output::Count(Count::Bytes { traffic, bytes }));
        }
        if !hints.is_empty() {
            let endpoints = response.endpoints.clone();
            self.emit(Output::Leadership(HintLot {
                from: self.id(),
                hints,
                endpoints,
            }));
        }
    }
}

/// KIP-951 leadership of an error row, judged by the metadata machine whatever became of the row
/// (gate G0).
fn leadership(
    partition: &TopicPartition,
    incarnation: TopicIncarnation,
    row: &Row,
) -> Option<Hint> {
    let told = row.current_leader?;
    Some(Hint {
        partition: partition.clone(),
        topic_id: match &row.topic {
            TopicRef::Id(id) => Some(*id),
            TopicRef::Name(_) => None,
        },
        incarnation,
        code: row.error,
        leader: told.leader,
        epoch: told.epoch,
    })
}
