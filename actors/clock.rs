//! The one source of time for every machine.

use std::time::Duration;

use tokio::time::Instant;

use crate::ids::Moment;

/// Reads the runtime's clock as [`Moment`]s since the fleet started. Follows paused time in tests,
/// because it is tokio's clock and not the system's. Copies share one start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now, one hour in, so that "an hour ago" can be written.
    pub(crate) fn start() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the clock")]
        let now = Instant::now();
        Self { start: now }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Moment {
        Moment::ZERO + HEAD_START + self.start.elapsed()
    }
}

impl crate::handler::Clock for Clock {
    fn now(&self) -> Moment {
        Self::now(self)
    }
}

/// Milliseconds since 1970, for record timestamps and `by_duration` resets.
pub(crate) fn unix_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |passed| {
            i64::try_from(passed.as_millis()).unwrap_or(i64::MAX)
        })
}

/// Moments never start at zero: "an hour ago" must be expressible.
const HEAD_START: Duration = Duration::from_secs(3_600);
