//! The lines of a trace file.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use crate::ids::{BrokerId, Draw, Moment, TopicPartition};
use crate::routing::facts::BrokerFacts;
use crate::routing::input::Input;
use crate::routing::settings::Settings;

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first line of every trace.
    #[serde(rename = "nearside_route_trace")]
    Header(Box<Header>),
    /// A route machine began to work.
    Route {
        /// Its number, unique in the trace.
        route: u64,
        /// The data thread it works on, whose facts it sees.
        thread: u32,
        /// Its partition.
        partition: TopicPartition,
    },
    /// What a data thread knows of a broker from here on; `None` if it forgot it.
    Facts {
        /// The thread.
        thread: u32,
        /// The broker.
        broker: BrokerId,
        /// All of it.
        facts: Option<BrokerFacts>,
    },
    /// A route machine took an input.
    Step(Box<Step>),
    /// So many steps are missing here, because the writer could not keep up.
    Dropped(u64),
    /// The last line of a trace that was closed in order.
    End {
        /// Steps in the file.
        steps: u64,
        /// Steps that are not.
        dropped: u64,
    },
}

/// What a trace says of itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format, [`FORMAT`].
    pub format: u32,
    /// Version of the crate that wrote it.
    pub nearside: String,
    /// When the recording began, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The same on the clock of the steps.
    pub at: Moment,
    /// What the machines were told to do.
    pub settings: Settings,
}

/// One input of one machine, and what came of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The machine.
    pub route: u64,
    /// Counts the inputs of this machine, from 0.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// The random sample handed in.
    pub draw: Draw,
    /// The input.
    pub input: Input,
    /// How it left the machine.
    pub after: Outcome,
}

impl Line {
    /// The line as JSON, without an end of line.
    ///
    /// # Errors
    /// Never for a line that a machine took part in; JSON has no place for a jitter that is not a
    /// number.
    pub fn encode(&self) -> Result<String, LineError> {
        serde_json::to_string(self).map_err(|error| LineError::of(&error))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// If it is no line of a trace of this version, or was cut.
    pub fn decode(text: &str) -> Result<Self, LineError> {
        serde_json::from_str(text).map_err(|error| LineError::of(&error))
    }
}

/// Why a line is none of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LineError {
    /// It ends too early: the file is cut off here.
    Cut,
    /// It is no JSON, or other JSON than a trace has.
    Foreign(String),
}

impl LineError {
    fn of(error: &serde_json::Error) -> Self {
        if error.is_eof() {
            Self::Cut
        } else {
            Self::Foreign(error.to_string())
        }
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("the trace is cut off in the middle of this line"),
            Self::Foreign(error) => write!(f, "not a line of a route trace: {error}"),
        }
    }
}

impl std::error::Error for LineError {}

/// The version of the format that this crate writes and reads.
pub const FORMAT: u32 = 1;
