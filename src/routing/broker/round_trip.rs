//! The smoothed round trip to one broker, by which refuges are told from one another (routing.md
//! 8.4).

use std::time::Duration;

/// A moving average, and what of it was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    told: Option<Duration>,
}

impl RoundTrip {
    /// Takes a measurement. Returns the average if it differs by much from the one told last: every
    /// thread hears of it.
    pub(super) fn measured(&mut self, time: Duration) -> Option<Duration> {
        let smoothed = match self.smoothed {
            Some(smoothed) => (smoothed * (WEIGHT - 1) + time) / WEIGHT,
            None => time,
        };
        self.smoothed = Some(smoothed);
        let news = self
            .told
            .is_none_or(|told| smoothed.abs_diff(told) > (told / 4).max(TRIFLE));
        if news {
            self.told = Some(smoothed);
        }
        self.told.filter(|_| news)
    }
}

/// A measurement counts for one part in so many.
const WEIGHT: u32 = 8;
/// A change that nobody needs to hear of, however small the round trip is.
const TRIFLE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_first_measurement_is_told_and_small_changes_are_not() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.measured(ms(10)), Some(ms(10)));
        for time in [9, 11, 12, 8, 14] {
            assert_eq!(round_trip.measured(ms(time)), None);
        }
    }

    #[test]
    fn one_slow_answer_is_smoothed_and_a_slow_path_is_told_step_by_step() {
        let mut round_trip = RoundTrip::default();
        round_trip.measured(ms(8));
        assert_eq!(round_trip.measured(ms(24)), None, "8 + 16/8 is no news");
        let told: Vec<_> = (0..100)
            .filter_map(|_| round_trip.measured(ms(80)))
            .collect();
        assert!(told.len() < 12, "{told:?}");
        assert!(told.is_sorted());
        assert!(told.last().is_some_and(|last| *last > ms(60)), "{told:?}");
    }
}
