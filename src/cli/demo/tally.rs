//! The demo's proof: which records were handled, and whether any was lost, skipped or out of order.

use std::collections::BTreeMap;

use crate::ids::{Offset, PartitionIndex};

/// Counts handled records per partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    partitions: BTreeMap<PartitionIndex, Account>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Account {
    /// The next offset that was never handled.
    next: i64,
    handled: u64,
    again: u64,
    skipped: u64,
}

/// The sums that the summary shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Totals {
    /// Distinct records handled.
    pub(super) records: u64,
    /// Records handled more than once: at-least-once delivery at work.
    pub(super) again: u64,
    /// Records that were jumped over.
    pub(super) skipped: u64,
}

impl Tally {
    /// A record was handled. Partitions begin at offset 0 and have no holes.
    pub(super) fn handled(&mut self, partition: PartitionIndex, offset: Offset) {
        let account = self.partitions.entry(partition).or_default();
        if offset.0 < account.next {
            account.again += 1;
            return;
        }
        account.skipped += u64::try_from(offset.0 - account.next).unwrap_or_default();
        account.next = offset.0 + 1;
        account.handled += 1;
    }

    /// Records handled of one partition.
    pub(super) fn records(&self, partition: PartitionIndex) -> u64 {
        self.partitions
            .get(&partition)
            .map_or(0, |account| account.handled)
    }

    pub(super) fn totals(&self) -> Totals {
        self.partitions
            .values()
            .fold(Totals::default(), |sum, account| Totals {
                records: sum.records + account.handled,
                again: sum.again + account.again,
                skipped: sum.skipped + account.skipped,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_as_skipped_and_a_step_back_as_again() {
        let mut tally = Tally::default();
        for offset in [0, 1, 4, 3, 5] {
            tally.handled(PartitionIndex(2), Offset(offset));
        }
        assert_eq!(
            tally.totals(),
            Totals {
                records: 4,
                again: 1,
                skipped: 2
            }
        );
        assert_eq!(tally.records(PartitionIndex(2)), 4);
        assert_eq!(tally.records(PartitionIndex(0)), 0);
    }
}
