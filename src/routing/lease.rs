//! Leases: how long a follower is read before the leader is asked again (routing.md 8.1, 8.3).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::ids::{Draw, Moment};

/// The right to read from one follower. Its deadlines are absolute and only an accepted hint or a
/// probe renews them: the follower's own "stay" never does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// When it was granted.
    pub granted: Moment,
    /// When the leader is asked again.
    pub ask_at: Moment,
    /// When the route ends if no probe was answered by then.
    pub stop_at: Moment,
}

/// Why a follower is read, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// The leader hinted it.
    Full(Lease),
    /// Nothing better is known: asked again soon.
    Trial(Lease),
    /// The leader is out of reach (routing.md 8.4).
    Refuge,
}

impl Lease {
    /// A full lease: the cap applies before the jitter, so that partitions hinted in one second ask
    /// apart.
    pub fn full(settings: &Settings, draw: Draw, now: Moment) -> Self {
        let jitter = settings.lease_jitter;
        let length = settings.lease_cap();
        Self::of(
            length.mul_f64(draw.uniform(1.0 - jitter, 1.0 + jitter)),
            settings,
            now,
        )
    }

    /// A trial lease.
    pub fn trial(settings: &Settings, now: Moment) -> Self {
        Self::of(settings.lease_trial, settings, now)
    }

    fn of(length: Duration, settings: &Settings, now: Moment) -> Self {
        Self {
            granted: now,
            ask_at: now + length,
            stop_at: now + length.saturating_mul(settings.lease_stop_factor),
        }
    }
}

impl Hold {
    /// Its lease; a refuge has none.
    pub fn lease(&self) -> Option<Lease> {
        match self {
            Self::Full(lease) | Self::Trial(lease) => Some(*lease),
            Self::Refuge => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_lease_lies_within_ten_percent_of_five_minutes() {
        let settings = Settings::default();
        for sample in [0, u64::MAX / 3, u64::MAX] {
            let lease = Lease::full(&settings, Draw(sample), Moment::ZERO);
            assert!(
                (270_000..=330_000).contains(&lease.ask_at.as_ms()),
                "{lease:?}"
            );
            assert_eq!(lease.stop_at.0, lease.ask_at.0 * 2);
        }
    }

    #[test]
    fn metadata_age_caps_the_lease_before_the_jitter() {
        let settings = Settings {
            metadata_max_age: Duration::from_secs(100),
            ..Settings::default()
        };
        let lease = Lease::full(&settings, Draw(u64::MAX), Moment::ZERO);
        assert!(
            (109_000..=110_000).contains(&lease.ask_at.as_ms()),
            "{lease:?}"
        );
    }
}
