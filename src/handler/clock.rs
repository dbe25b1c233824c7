//! The time source that attempts read. The core itself never reads one; attempts run outside it.

use std::fmt;

use crate::ids::Moment;

/// Where an attempt reads the time. Implemented by the runtime over the monotonic clock and by
/// tests over a counter; both must count from the same start as the moments given to the machines.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Moment;
}
