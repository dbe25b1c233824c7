//! When each numbered record was acknowledged or delivered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first moment of each number.
#[derive(Debug, Default)]
pub struct Times {
    moments: Mutex<Vec<Option<Instant>>>,
}

impl Times {
    /// Notes that the record came now; only the first time counts.
    pub fn note(&self, number: usize) {
        let now = Instant::now();
        let mut moments = self.lock();
        if moments.len() <= number {
            moments.resize(number + 1, None);
        }
        moments[number].get_or_insert(now);
    }

    /// How many records came.
    pub fn count(&self) -> usize {
        self.lock().iter().flatten().count()
    }

    /// How many of these records are not in `delivered`.
    pub fn missing(&self, delivered: &Times) -> usize {
        let delivered = delivered.lock().clone();
        let came = |number: usize| delivered.get(number).copied().flatten().is_some();
        let acked = self.lock();
        let numbers = (0..acked.len()).filter(|number| acked[*number].is_some());
        numbers.filter(|number| !came(*number)).count()
    }

    /// The longest time from here to `delivered`, of what was delivered after `from`.
    pub fn worst(&self, delivered: &Times, from: Instant) -> Duration {
        let delivered = delivered.lock().clone();
        let acked = self.lock();
        let late = acked
            .iter()
            .zip(&delivered)
            .filter_map(|(acked, delivered)| {
                let (acked, delivered) = ((*acked)?, (*delivered)?);
                (delivered >= from).then(|| delivered.saturating_duration_since(acked))
            });
        late.max().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Instant>>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
