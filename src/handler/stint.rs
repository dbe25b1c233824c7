//! A stint: consecutive records of one partition that one task works through, unit by unit.
//!
//! Starting a task per record would cost more than most handlers do. So a task is given what is
//! queued, and begins the next unit itself as long as units end in `Done`. Each unit is an attempt
//! of its own, with its own outcome, deadline and panic; the first that does not end well ends the
//! stint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::handler::Assignment;
use crate::handler::message::Origin;
use crate::handler::tether::Tether;
use crate::records::{BatchError, BatchView, RecordCursor};

/// Work for one task. Made by the [`Host`](crate::handler::Host), consumed by
/// [`ErasedHandler::start`](crate::handler::ErasedHandler::start).
pub struct Stint {
    pub(crate) tether: Arc<Tether>,
    /// The batches to work through, in offset order.
    pub(crate) origins: Vec<Arc<Origin>>,
    /// Where to begin in the first of them; `None` is its start.
    pub(crate) start: Option<RecordCursor>,
    /// Attempt number of the first unit; later units are at their first.
    pub(crate) attempt: u32,
    pub(crate) limits: Limits,
}

/// Bounds on a stint and its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// Records per batch unit.
    pub(crate) unit_records: usize,
    /// Payload bytes per batch unit; one record may exceed it.
    pub(crate) unit_bytes: usize,
    /// Time per attempt.
    pub(crate) deadline: Option<Duration>,
    /// No further unit begins after this long, so that waiting partitions get their turn.
    pub(crate) stint_time: Duration,
}

impl Stint {
    /// The assignment it works under.
    pub fn assignment(&self) -> &Assignment {
        self.tether.assignment()
    }

    /// The place `records` records behind `place`.
    pub(crate) fn advance(&self, place: Place, records: usize) -> Place {
        advance(
            self.origins.iter().map(|origin| &origin.view),
            place,
            records,
        )
    }
}

impl fmt::Debug for Stint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stint")
            .field("partition", &self.assignment().partition)
            .field("batches", &self.origins.len())
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// How a stint ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StintEnd {
    /// Where work goes on: the first record that is not finished.
    pub(crate) place: Place,
    /// What ended it.
    pub(crate) verdict: Verdict,
    pub(crate) odd_nulls: u32,
}

impl StintEnd {
    /// Key and value lengths below -1 that were read as null on the way (wire.md 8.2 E3).
    pub fn odd_nulls(&self) -> u32 {
        self.odd_nulls
    }
}

/// A place in the batches of a stint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Number of batches that lie behind.
    pub(crate) batches: usize,
    /// Place in the next one; `None` is its start.
    pub(crate) cursor: Option<RecordCursor>,
}

/// The place `records` records behind `place` in `views`, found by reading them.
pub(crate) fn advance<'a>(
    views: impl Iterator<Item = &'a BatchView>,
    place: Place,
    records: usize,
) -> Place {
    let mut left = records;
    let mut cursor = place.cursor;
    for (batches, view) in views.enumerate().skip(place.batches) {
        let mut reader = match cursor.take() {
            Some(cursor) => view.records_from(cursor),
            None => view.records(),
        };
        while left > 0 && matches!(reader.next(), Some(Ok(_))) {
            left -= 1;
        }
        if left == 0 {
            return Place {
                batches,
                cursor: Some(reader.cursor()),
            };
        }
    }
    place
}

/// What ended a stint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing failed: all was handled, or the time or the host asked for an end.
    Well,
    /// The unit at the place failed.
    Failed(Failure),
    /// The handler of the unit at the place asked the fleet to stop.
    Stop(String),
    /// The batch at the place cannot be read on.
    Unreadable(BatchError),
    /// The host had given the stint up before it ended; nothing it did after that counts.
    Late,
}

/// A failed attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// Delay the handler asked for, in place of the scheduled one.
    pub(crate) after: Option<Duration>,
    /// Error or panic text, cut to a sane length.
    pub(crate) text: String,
}

/// Why an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The handler answered `Retry`.
    Asked,
    /// The handler answered with an error.
    Error,
    /// The handler answered with an error it calls permanent, or broke the batch contract.
    Permanent,
    /// The record does not decode, and never will.
    Malformed,
    /// The record cannot be decoded for the time being.
    Transient,
    /// The handler, codec or classifier panicked.
    Panic,
    /// The deadline passed.
    Deadline,
}

impl Cause {
    /// Whether trying the same record again is pointless.
    pub fn is_final(self) -> bool {
        match self {
            Self::Permanent | Self::Malformed => true,
            Self::Asked | Self::Error | Self::Transient | Self::Panic | Self::Deadline => false,
        }
    }

    /// A short stable name, used in metrics, events and stop reasons.
    pub fn label(self) -> &'static str {
        match self {
            Self::Asked => "retry",
            Self::Error => "error",
            Self::Permanent => "permanent",
            Self::Malformed => "decode",
            Self::Transient => "transient",
            Self::Panic => "panic",
            Self::Deadline => "deadline",
        }
    }
}
