//! What is due to leave for the broker: good-byes, fetches, probes, hedges, dials.

use std::sync::Arc;

use super::machine::{Broker, LinkState};
use super::output::Output;
use super::settings::Settings;
use crate::routing::facts::Class;

impl Broker {
    /// Everything that is due to leave: good-byes, fetches, probes, dials.
    pub(super) fn fill(&mut self) {
        if self.now() < self.muted_until() {
            return;
        }
        let settings = Arc::clone(&self.settings);
        for class in [Class::Rack, Class::NoRack] {
            self.fill_lane(class, &settings);
        }
        self.fill_probes(&settings);
        self.fill_hedges(&settings);
    }

    fn fill_lane(&mut self, class: Class, settings: &Settings) {
        let (now, ticket) = (self.now(), self.next_ticket());
        let lane = self.fetch_lane(class);
        let (has_work, owes) = (lane.has_work(), lane.is_flying());
        if !has_work && !owes {
            lane.rest();
            let alert = lane.vigil.rest();
            self.alert(class, alert);
        }
        if self.link(class) != LinkState::Ready {
            if has_work {
                self.fetch_lane(class).vigil.await_connection(settings, now);
                self.dial(class);
            }
            return;
        }
        let lane = self.fetch_lane(class);
        let request = if lane.is_abandoned(settings, now) {
            lane.good_bye(settings)
        } else {
            lane.next_request(ticket, settings, now)
        };
        let wanted = lane.take_wanted_bytes();
        if let Some(request) = request {
            self.send(class, request);
        }
        if let Some(bytes) = wanted {
            self.emit(Output::AwaitBudget { class, bytes });
        }
    }

    fn fill_probes(&mut self, settings: &Settings) {
        if !self.probes.is_waiting() {
            return;
        }
        let (now, ticket) = (self.now(), self.next_ticket());
        if self.link(Class::Control) != LinkState::Ready {
            if self.probes.asking.is_out_of_patience(settings, now) {
                let failed = self.probes.fail_all();
                self.probes_failed(failed);
            } else {
                self.dial(Class::Control);
            }
            return;
        }
        if let Some(request) = self.probes.next_request(ticket, settings, now) {
            self.send(Class::Control, request);
        }
    }

    fn fill_hedges(&mut self, settings: &Settings) {
        if !self.hedges.is_waiting() {
            return;
        }
        let (now, ticket) = (self.now(), self.next_ticket());
        if self.link(Class::Control) != LinkState::Ready {
            if self.hedges.asking.is_out_of_patience(settings, now) {
                let failed = self.hedges.fail_all();
                self.hedges_failed(failed);
            } else {
                self.dial(Class::Control);
            }
            return;
        }
        let limit = self.no_rack.version_limit();
        if let Some(request) = self.hedges.next_request(ticket, limit, settings, now) {
            self.send(Class::Control, request);
        }
    }

    pub(super) fn close(&mut self) {
        let settings = Arc::clone(&self.settings);
        for class in [Class::Rack, Class::NoRack] {
            if self.link(class) != LinkState::Ready || self.fetch_lane(class).is_flying() {
                continue;
            }
            if let Some(request) = self.fetch_lane(class).good_bye(&settings) {
                self.send(class, request);
            }
        }
    }
}
