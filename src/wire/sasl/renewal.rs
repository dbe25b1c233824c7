//! When a token is to be renewed (`sasl.login.refresh.*`).

use std::time::Duration;

use crate::ids::Draw;

/// The numbers of the schedule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Renewal {
    /// Part of its life after which a token is renewed.
    pub factor: f64,
    /// Largest random part of its life that is added to that.
    pub jitter: f64,
    /// Least time between two renewals.
    pub period_min: Duration,
    /// How long before its end a token is renewed at the latest.
    pub buffer: Duration,
}

impl Renewal {
    /// How long after it was given a token of `lifetime` is to be renewed. Where bounds and
    /// lifetime cannot be met together the bounds are dropped, as in the Java client.
    pub fn after(&self, lifetime: Duration, draw: Draw) -> Duration {
        let share = (self.factor + draw.uniform(0.0, self.jitter)).clamp(0.0, 1.0);
        let wish = lifetime.mul_f64(share);
        if self.period_min + self.buffer > lifetime {
            return wish;
        }
        wish.min(lifetime - self.buffer).max(self.period_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Renewal = Renewal {
        factor: 0.8,
        jitter: 0.05,
        period_min: Duration::from_secs(60),
        buffer: Duration::from_secs(300),
    };

    fn after(lifetime: u64, draw: Draw) -> u64 {
        USUAL.after(Duration::from_secs(lifetime), draw).as_secs()
    }

    #[test]
    fn a_token_is_renewed_late_in_its_life_and_well_before_its_end() {
        assert_eq!(after(3_600, Draw(0)), 2_880);
        assert_eq!(after(3_600, Draw(u64::MAX)), 3_060);
        assert_eq!(after(1_000, Draw(0)), 700, "five minutes are kept");
        assert_eq!(after(361, Draw(0)), 61, "a minute at least");
        assert_eq!(after(100, Draw(0)), 80, "a short life has no such bounds");
    }
}
