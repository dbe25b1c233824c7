//! How a fleet ended.

use std::fmt;

use serde::Serialize;

use super::report::FleetReport;
use crate::error::{Error, ErrorKind};
use crate::ids::{Offset, TopicPartition};

/// Why a fleet stopped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StopReason {
    /// [`FleetHandle::stop`](super::FleetHandle::stop) was called, or the last handle was dropped.
    Requested,
    /// The process got a signal; its name.
    Signal(&'static str),
    /// A handler answered `Stop`, or a retry ceiling was reached.
    Handler {
        /// The partition of the record.
        partition: TopicPartition,
        /// Its offset; it stays uncommitted.
        offset: Offset,
        /// The handler's words.
        reason: String,
    },
    /// The group refused the member for good.
    GroupFatal(Error),
    /// Something else that no retry mends.
    Fatal(Error),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => f.write_str("requested"),
            Self::Signal(name) => write!(f, "got {name}"),
            Self::Handler {
                partition,
                offset,
                reason,
            } => {
                write!(
                    f,
                    "handler stopped at {partition} offset {offset}: {reason}"
                )
            }
            Self::GroupFatal(error) | Self::Fatal(error) => fmt::Display::fmt(error, f),
        }
    }
}

/// A partition whose work did not finish before the stop deadline. Its records come again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// The partition.
    pub partition: TopicPartition,
    /// Lowest offset that is not committed as finished.
    pub offset: Offset,
}

/// The end of a fleet: why, what was left, and its last report.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Why it ended.
    pub reason: StopReason,
    /// What missed the deadline; empty after a clean stop.
    pub unfinished: Vec<Unfinished>,
    /// The state right before the partitions were released.
    pub report: FleetReport,
}

impl Stopped {
    /// `Ok` after a stop that was asked for and left nothing unfinished.
    ///
    /// # Errors
    ///
    /// The fatal error; [`ErrorKind::Stopped`] if a handler stopped the fleet;
    /// [`ErrorKind::Timeout`] naming the first partition and offset that missed the stop deadline.
    pub fn into_result(self) -> Result<(), Error> {
        match self.reason {
            StopReason::GroupFatal(error) | StopReason::Fatal(error) => return Err(error),
            StopReason::Handler {
                partition,
                offset,
                reason,
            } => {
                let error = Error::new(ErrorKind::Stopped, format!("handler stopped: {reason}"));
                return Err(error.at(partition).at_offset(offset));
            }
            StopReason::Requested | StopReason::Signal(_) => {}
        }
        match self.unfinished.first() {
            None => Ok(()),
            Some(first) => {
                let text = format!(
                    "{} partitions missed the stop deadline",
                    self.unfinished.len()
                );
                let error = Error::new(ErrorKind::Timeout, text);
                Err(error.at(first.partition.clone()).at_offset(first.offset))
            }
        }
    }
}
