//! Waiting for other processes: the one place of this module that reads the clock.

use std::thread;
use std::time::{Duration, Instant};

use super::KafkaError;

/// Polls until `probe` answers, at most for `limit`.
///
/// # Errors
///
/// [`KafkaError::Failed`] naming `what` and the last thing seen, when the limit passes.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Result<T, String>,
) -> Result<T, KafkaError> {
    let end = now() + limit;
    loop {
        let seen = match probe() {
            Ok(answer) => return Ok(answer),
            Err(seen) => seen,
        };
        if now() >= end {
            return Err(KafkaError::failed(format!(
                "{what} did not come about within {limit:?}: {seen}"
            )));
        }
        thread::sleep(POLL);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes live by the real clock, and no machine is fed from here"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Short beside every event that is waited for, long beside the cost of looking.
const POLL: Duration = Duration::from_millis(50);
