//! Ordering, retry schedule and the action of last resort.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::ids::Draw;

/// Which records may be in work side by side (runtime.md P2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Ordering {
    /// One unit of a partition at a time, in offset order.
    #[default]
    Partition,
}

/// The retry schedule of a subscription (runtime.md Q1): full jitter over a doubling delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    initial: Duration,
    cap: Duration,
    ceiling: u32,
}

impl Retry {
    /// A schedule whose n-th delay lies between zero and `initial` x 2^(n-1), never above `cap`.
    pub const fn exponential(initial: Duration, cap: Duration) -> Self {
        Self {
            initial,
            cap,
            ceiling: 0,
        }
    }

    /// Number of attempts after which the exhausted action is taken. 0, the default, means none. A
    /// panic counts twice.
    #[must_use]
    pub const fn ceiling(self, attempts: u32) -> Self {
        Self {
            ceiling: attempts,
            ..self
        }
    }

    /// Whether `strikes` attempts use the schedule up.
    pub const fn is_exhausted(&self, strikes: u32) -> bool {
        self.ceiling > 0 && strikes >= self.ceiling
    }

    /// Delay after failed attempt number `attempt` (from 1); `after` replaces the scheduled one,
    /// cut to the cap.
    pub fn delay(&self, attempt: u32, after: Option<Duration>, draw: Draw) -> Duration {
        match after {
            Some(after) => after.min(self.cap),
            None => {
                Backoff::new(self.initial, self.cap).full_jitter(attempt.saturating_sub(1), draw)
            }
        }
    }
}

impl Default for Retry {
    /// 100 ms doubling to 30 s, without a ceiling.
    fn default() -> Self {
        Self::exponential(Duration::from_millis(100), Duration::from_secs(30))
    }
}

/// What happens to a record whose attempts are used up, or which fails for good.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Exhausted {
    /// Stop the fleet in order; the record stays unfinished.
    #[default]
    Stop,
}

/// How the records of a subscription are handled, every part decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handling {
    /// Which records may be in work side by side (`ordering`).
    pub ordering: Ordering,
    /// Time an attempt may take; `None` is any (`handler.deadline.ms`; default 60 s, 0 = none).
    pub deadline: Option<Duration>,
    /// The retry schedule (`retry.initial.ms`, `retry.cap.ms`, `retry.ceiling`).
    pub retry: Retry,
    /// What happens when retrying ends (`exhausted`).
    pub exhausted: Exhausted,
}

impl Default for Handling {
    fn default() -> Self {
        Self {
            ordering: Ordering::default(),
            deadline: Some(Duration::from_secs(60)),
            retry: Retry::default(),
            exhausted: Exhausted::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_with_full_jitter_and_end_at_the_cap() {
        let retry = Retry::exponential(Duration::from_millis(100), Duration::from_secs(1));
        let longest = Draw(u64::MAX);
        assert_eq!(retry.delay(1, None, Draw(0)), Duration::ZERO);
        assert!(retry.delay(1, None, longest) > Duration::from_millis(99));
        assert!(retry.delay(3, None, longest) > Duration::from_millis(399));
        assert!(retry.delay(30, None, longest) <= Duration::from_secs(1));
    }

    #[test]
    fn a_wished_delay_is_cut_to_the_cap() {
        let retry = Retry::default();
        let draw = Draw(7);
        assert_eq!(
            retry.delay(9, Some(Duration::from_secs(5)), draw),
            Duration::from_secs(5)
        );
        assert_eq!(
            retry.delay(1, Some(Duration::from_secs(90)), draw),
            Duration::from_secs(30)
        );
    }

    #[test]
    fn no_ceiling_never_exhausts() {
        assert!(!Retry::default().is_exhausted(u32::MAX));
        assert!(Retry::default().ceiling(3).is_exhausted(3));
        assert!(!Retry::default().ceiling(3).is_exhausted(2));
    }
}
