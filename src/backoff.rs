//! Exponential backoff with jitter. The sample is passed in: nothing here is random.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Draw;

/// A backoff schedule: `base` doubling per step up to `cap`, then spread by `jitter`.
///
/// The jitter applies after the cap: a fleet whose delays all reached the cap would otherwise dial
/// in step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Backoff {
    /// Delay of step 0.
    pub base: Duration,
    /// Largest delay before jitter.
    pub cap: Duration,
    /// Half-width of the spread as a fraction: 0.2 gives 80 % to 120 %.
    pub jitter: f64,
}

impl Backoff {
    /// A schedule with the usual spread of 20 %.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            jitter: 0.2,
        }
    }

    /// The same, in milliseconds.
    pub const fn from_ms(base_ms: u64, cap_ms: u64) -> Self {
        Self::new(
            Duration::from_millis(base_ms),
            Duration::from_millis(cap_ms),
        )
    }

    /// The delay of step `step` (0 is the first) without jitter.
    pub fn plain(&self, step: u32) -> Duration {
        let factor = 2_u32.saturating_pow(step.min(31));
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// The delay of step `step` (0 is the first), spread by `draw`.
    pub fn delay(&self, step: u32, draw: Draw) -> Duration {
        self.plain(step)
            .mul_f64(draw.uniform(1.0 - self.jitter, 1.0 + self.jitter))
    }

    /// Full jitter: anywhere between zero and the plain delay of `step`.
    pub fn full_jitter(&self, step: u32, draw: Draw) -> Duration {
        self.plain(step).mul_f64(draw.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap() {
        let backoff = Backoff::from_ms(50, 1_000);
        let delays: Vec<_> = (0..7).map(|step| backoff.plain(step).as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(backoff.plain(u32::MAX), Duration::from_secs(1));
    }

    #[test]
    fn jitter_is_applied_after_the_cap() {
        let backoff = Backoff::from_ms(50, 1_000);
        assert_eq!(backoff.delay(9, Draw(0)).as_millis(), 800);
        assert!(backoff.delay(9, Draw(u64::MAX)).as_millis() >= 1_199);
    }
}
