//! How many requests of one partition may be out (routing.md I2).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an invariant names the few inputs and outputs it binds"
)]

use crate::ids::BrokerId;
use crate::routing::{Input, Kind, Lane, Output};

/// The requests that one route has out, by what it said and heard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Requests {
    reading: Option<(BrokerId, Lane)>,
    probe: Option<Kind>,
    hedge: Option<Kind>,
}

impl Requests {
    /// Notes an output; false if it asks for a second request of a kind.
    pub fn said(&mut self, output: &Output) -> bool {
        match output {
            Output::Want(demand) => {
                let place = Some((demand.stamp.broker, demand.stamp.lane));
                let alone = self.reading.is_none() || self.reading == place;
                self.reading = place;
                alone
            }
            Output::Withdraw { .. } => {
                self.reading = None;
                true
            }
            Output::Probe { question, .. } => self.probe.replace(question.stamp.kind).is_none(),
            Output::Hedge { question } => self.hedge.replace(question.stamp.kind).is_none(),
            Output::CancelProbe { .. } => {
                self.probe = None;
                true
            }
            Output::CancelHedge { .. } => {
                self.hedge = None;
                true
            }
            _ => true,
        }
    }

    /// Notes an input: what is answered is not out any more.
    pub fn heard(&mut self, input: &Input) {
        match input {
            Input::ProbeRow { stamp, .. } | Input::ProbeFailed { stamp } => {
                self.probe.take_if(|kind| *kind == stamp.kind);
            }
            Input::HedgeRow { stamp, .. } | Input::HedgeFailed { stamp } => {
                self.hedge.take_if(|kind| *kind == stamp.kind);
            }
            // Nothing that was asked of a link before is remembered there.
            Input::LinkRestarted { .. } => *self = Self::default(),
            Input::Drained { .. } => self.reading = None,
            _ => {}
        }
    }
}
