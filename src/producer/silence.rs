//! Produce requests that stay unanswered on a connection that stays open.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ids::Moment;

/// Since when each produce request has been out. A leader that stands still refuses nothing and
/// hints at nobody: only metadata can tell that another broker leads by now.
#[derive(Debug, Default)]
pub struct Silence {
    out: BTreeMap<u64, Moment>,
    asked: Option<Moment>,
}

impl Silence {
    /// A request was sent.
    pub fn sent(&mut self, token: u64, now: Moment) {
        self.out.insert(token, now);
    }

    /// A request ended, however it did.
    pub fn ended(&mut self, token: u64) {
        self.out.remove(&token);
    }

    /// When to ask for metadata: tokens grow, so the first is the oldest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let (_, oldest) = self.out.first_key_value()?;
        Some(self.asked.map_or(*oldest, |asked| asked.max(*oldest)) + LIMIT)
    }

    /// Whether to ask now; not again before the limit has passed once more.
    pub fn take_due(&mut self, now: Moment) -> bool {
        let due = self.next_deadline().is_some_and(|at| at <= now);
        if due {
            self.asked = Some(now);
        }
        due
    }
}

/// Far above any answer of a healthy broker, far below `request.timeout.ms`.
const LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unanswered_request_asks_again_and_again_until_it_ends() {
        let mut silence = Silence::default();
        silence.sent(1, Moment::from_ms(0));
        silence.sent(2, Moment::from_ms(500));
        assert!(!silence.take_due(Moment::from_ms(1_999)));
        assert!(silence.take_due(Moment::from_ms(2_000)));
        assert!(!silence.take_due(Moment::from_ms(2_001)));
        assert_eq!(silence.next_deadline(), Some(Moment::from_ms(4_000)));
        silence.ended(1);
        assert!(silence.take_due(Moment::from_ms(4_000)));
        silence.ended(2);
        assert_eq!(silence.next_deadline(), None);
        silence.sent(3, Moment::from_ms(9_000));
        assert_eq!(silence.next_deadline(), Some(Moment::from_ms(11_000)));
    }
}
