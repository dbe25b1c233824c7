//! What handlers did, and the two promises judged from it: nothing skipped, everything in order.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtest_mimic::Failed;
use nearside::handler::Message;

/// Every record the members of one group finished, in the order they finished it.
#[derive(Default)]
pub(crate) struct Journal {
    partitions: Mutex<BTreeMap<i32, Log>>,
}

/// One partition, whose offsets have no holes: nothing in these topics is transactional.
#[derive(Clone, Default)]
pub(crate) struct Log {
    /// The lowest offset not handled yet.
    pub(crate) next: i64,
    /// The numbers in the records, those of repeats left out.
    numbers: Vec<u64>,
    /// Offsets that were handled again, each time.
    pub(crate) repeats: Vec<i64>,
    /// Offsets that came while a lower one had not been handled.
    skipping: Vec<i64>,
}

impl Journal {
    /// Notes that a handler is about to finish a record.
    pub(crate) fn note<T>(&self, message: &Message<T>) {
        let offset = message.offset().0;
        let mut partitions = self.lock();
        let log = partitions.entry(message.partition().0).or_default();
        if offset < log.next {
            log.repeats.push(offset);
            return;
        }
        if offset > log.next {
            log.skipping.push(offset);
        }
        log.next = offset + 1;
        log.numbers.extend(number(message));
    }

    /// Distinct records handled.
    pub(crate) fn handled(&self) -> u64 {
        self.lock()
            .values()
            .map(|log| log.numbers.len() as u64)
            .sum()
    }

    /// The partitions at this moment.
    pub(crate) fn logs(&self) -> BTreeMap<i32, Log> {
        self.lock().clone()
    }

    /// Each number from 0 to `records` came, in the order of its partition, without a gap.
    pub(crate) fn judge(&self, records: u64) -> Result<(), Failed> {
        let mut numbers: Vec<u64> = Vec::new();
        for (partition, log) in self.lock().iter() {
            if let Some(offset) = log.skipping.first() {
                return Err(format!("partition {partition}: {offset} came too early").into());
            }
            if !log.numbers.is_sorted() {
                return Err(format!("partition {partition}: numbers out of order").into());
            }
            numbers.extend(&log.numbers);
        }
        numbers.sort_unstable();
        if !numbers.iter().copied().eq(0..records) {
            let text = format!(
                "{} numbers handled, not each of {records} once",
                numbers.len()
            );
            return Err(text.into());
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Log>> {
        // A handler that panics on purpose does so outside the lock.
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number in a record of the performance producer.
pub(crate) fn number<T>(message: &Message<T>) -> Option<u64> {
    std::str::from_utf8(message.payload()?).ok()?.parse().ok()
}
