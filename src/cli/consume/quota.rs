//! How many records are still wanted (`consume -c`).

use std::sync::atomic::{AtomicU64, Ordering};

/// A number of records that several threads use up together.
#[derive(Debug)]
pub(super) struct Quota(Option<AtomicU64>);

/// A share of a [`Quota`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    /// Records granted.
    pub(super) records: usize,
    /// Whether nothing is left behind it.
    pub(super) last: bool,
}

impl Quota {
    /// A quota of `count` records; `None` is without limit.
    pub(super) fn new(count: Option<u64>) -> Self {
        Self(count.map(AtomicU64::new))
    }

    /// Takes up to `records` of what is left.
    pub(super) fn take(&self, records: usize) -> Share {
        let Some(left) = &self.0 else {
            return Share {
                records,
                last: false,
            };
        };
        let wanted = u64::try_from(records).unwrap_or(u64::MAX);
        let take = |before: u64| Some(before - before.min(wanted));
        // The function never declines, so both arms hold what was left before.
        let (Ok(before) | Err(before)) =
            left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        let taken = before.min(wanted);
        Share {
            records: usize::try_from(taken).unwrap_or(records),
            last: taken == before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_used_up_exactly() {
        let quota = Quota::new(Some(5));
        assert_eq!(
            quota.take(3),
            Share {
                records: 3,
                last: false
            }
        );
        assert_eq!(
            quota.take(3),
            Share {
                records: 2,
                last: true
            }
        );
        assert_eq!(
            quota.take(3),
            Share {
                records: 0,
                last: true
            }
        );
    }

    #[test]
    fn without_a_count_everything_is_wanted() {
        assert_eq!(
            Quota::new(None).take(7),
            Share {
                records: 7,
                last: false
            }
        );
    }
}
