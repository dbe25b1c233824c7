//! How an input left a route machine.

use serde::{Deserialize, Serialize};

use super::outputs;
use crate::ids::{BrokerId, Offset, PositionGeneration, RouteGeneration};
use crate::routing::output::Output;
use crate::routing::route::Route;
use crate::routing::stamp::Lane;
use crate::routing::state::{Position, State};

/// What is compared when a trace is played again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// From whom the partition is read.
    pub state: State,
    /// The broker and lane that serve.
    pub served: Option<(BrokerId, Lane)>,
    /// Counts the changes of (broker, lane).
    pub generation: RouteGeneration,
    /// Whether there is an offset to fetch from.
    pub position: Position,
    /// Counts the changes of position.
    pub position_generation: PositionGeneration,
    /// Next offset to request.
    pub fetch_end: Offset,
    /// What the machine asked for, in order.
    pub outputs: Vec<String>,
}

impl Outcome {
    /// The outcome of an input after which the machine gave these outputs.
    pub fn of(route: &Route, given: &[Output]) -> Self {
        Self {
            state: *route.state(),
            served: route.served(),
            generation: route.generation(),
            position: route.position(),
            position_generation: route.position_generation(),
            fetch_end: route.fetch_end(),
            outputs: given.iter().map(outputs::describe).collect(),
        }
    }

    /// The first respect in which `other` differs, with both values.
    pub fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let pair = |name, one: &dyn std::fmt::Debug, two: &dyn std::fmt::Debug| {
            Some((name, format!("{one:?}"), format!("{two:?}")))
        };
        if self.generation != other.generation {
            return pair("route generation", &self.generation, &other.generation);
        }
        if self.state != other.state {
            return pair("state", &self.state, &other.state);
        }
        if self.served != other.served {
            return pair("serving broker and lane", &self.served, &other.served);
        }
        if self.position != other.position {
            return pair("position facet", &self.position, &other.position);
        }
        if self.position_generation != other.position_generation {
            let (one, two) = (&self.position_generation, &other.position_generation);
            return pair("position generation", one, two);
        }
        if self.fetch_end != other.fetch_end {
            return pair("fetch end", &self.fetch_end, &other.fetch_end);
        }
        if self.outputs != other.outputs {
            return pair("outputs", &self.outputs, &other.outputs);
        }
        None
    }
}
