//! read_committed against an oracle that sees the whole log.

use bytes::Bytes;
use nearside::ids::Offset;
use nearside::records::{AbortedTransaction, BatchSet, ReadSettings};
use proptest::prelude::*;

use crate::forge::{CONTROL, Forge, TRANSACTIONAL, drain};

/// What happens next in a log shared by a few producers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Transactional { producer: i64, records: i32 },
    Plain { producer: i64, records: i32 },
    End { producer: i64, commit: bool },
    Compact,
}

/// How much a broker sends at once.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Batches wholly before the offset that was asked for, which come along.
    early: usize,
    /// Batches from that offset on, at most.
    batches_max: usize,
}

/// A log as its leader knows it: batches, aborted transactions, last stable offset.
#[derive(Default)]
struct Log {
    batches: Vec<Forge>,
    aborted: Vec<(AbortedTransaction, i64)>,
    end: i64,
    stable: i64,
    /// What read_committed must deliver, in order.
    expected: Vec<i64>,
}

impl Log {
    fn play(steps: &[Step]) -> Self {
        let mut log = Self::default();
        // Per producer the first offset and all offsets of its open transaction.
        let mut transactions: Vec<Vec<i64>> = vec![Vec::new(); 3];
        for step in steps {
            match *step {
                Step::Transactional { producer, records } => {
                    let offsets = log.append(producer, records, TRANSACTIONAL);
                    transactions[producer as usize].extend(offsets);
                }
                Step::Plain { producer, records } => {
                    let offsets = log.append(producer - 1, records, 0);
                    log.expected.extend(offsets);
                }
                Step::End { producer, commit } => {
                    let offsets = std::mem::take(&mut transactions[producer as usize]);
                    let marker = log.mark(producer, commit);
                    if commit {
                        log.expected.extend(offsets);
                    } else if let Some(&first) = offsets.first() {
                        let first_offset = Offset(first);
                        let entry = AbortedTransaction {
                            first_offset,
                            producer_id: producer,
                        };
                        log.aborted.push((entry, marker));
                    }
                }
                Step::Compact => log.compact(),
            }
        }
        let open = transactions
            .iter()
            .filter_map(|offsets| offsets.first().copied());
        log.stable = open.min().unwrap_or(log.end);
        let (stable, batches) = (log.stable, &log.batches);
        log.expected
            .retain(|offset| *offset < stable && present(batches, *offset));
        log.expected.sort_unstable();
        log.batches.retain(|batch| batch.base < stable);
        log
    }

    fn append(&mut self, producer: i64, records: i32, attributes: i16) -> std::ops::Range<i64> {
        let mut batch = Forge::filled(self.end, records);
        (batch.producer_id, batch.attributes) = (producer, attributes);
        self.batches.push(batch);
        let first = self.end;
        self.end += i64::from(records);
        first..self.end
    }

    fn mark(&mut self, producer: i64, commit: bool) -> i64 {
        let key = [0, 0, 0, u8::from(commit)];
        let mut batch = Forge::at(self.end).full(0, 0, Some(&key), Some(&[0; 6]), &[0]);
        (batch.producer_id, batch.attributes) = (producer, TRANSACTIONAL | CONTROL);
        self.batches.push(batch);
        self.end += 1;
        self.end - 1
    }

    /// Compaction empties the last data batch but keeps its header.
    fn compact(&mut self) {
        let data = |batch: &&mut Forge| batch.attributes & CONTROL == 0;
        if let Some(batch) = self.batches.iter_mut().rev().find(data) {
            batch.body.clear();
            batch.count = 0;
        }
    }

    /// Answers a fetch at `offset` as a broker does.
    fn fetch(&self, offset: i64, answer: Answer) -> (Bytes, Vec<AbortedTransaction>) {
        let last = |batch: &Forge| batch.base + i64::from(batch.last_delta);
        let before = self.batches.iter().take_while(|batch| last(batch) < offset);
        let skipped = before.count().saturating_sub(answer.early);
        let sent: Vec<_> = self
            .batches
            .iter()
            .skip(skipped)
            .take(answer.early.saturating_add(answer.batches_max))
            .collect();
        let lower = sent.first().map_or(offset, |batch| offset.min(batch.base));
        let upper = sent.last().map_or(offset, |batch| last(batch) + 1);
        let bytes = sent
            .iter()
            .flat_map(|batch| batch.bytes())
            .collect::<Vec<_>>();
        let overlaps =
            |entry: &&(AbortedTransaction, i64)| entry.1 >= lower && entry.0.first_offset.0 < upper;
        // Latest first: order must not matter.
        let aborted = self
            .aborted
            .iter()
            .rev()
            .filter(overlaps)
            .map(|entry| entry.0)
            .collect();
        (bytes.into(), aborted)
    }

    /// Reads from `offset` to the last stable offset.
    fn read(&self, offset: i64, answer: Answer) -> Vec<i64> {
        let mut position = offset;
        let mut delivered = Vec::new();
        while position < self.stable {
            let (bytes, aborted) = self.fetch(position, answer);
            let settings = ReadSettings::default();
            let read = drain(BatchSet::read_committed(
                bytes,
                Offset(position),
                aborted,
                settings,
            ));
            assert_eq!(read.error, None);
            assert!(read.position > position, "stuck at {position}");
            delivered.extend(read.records.iter().map(|record| record.0));
            position = read.position;
        }
        assert_eq!(position, self.stable);
        delivered
    }

    fn check(&self) {
        for start in 0..=self.stable {
            let expected: Vec<_> = self
                .expected
                .iter()
                .copied()
                .filter(|o| *o >= start)
                .collect();
            for (early, batches_max) in [(0, 1), (0, 2), (0, usize::MAX), (1, 1), (3, 2)] {
                let answer = Answer { early, batches_max };
                assert_eq!(self.read(start, answer), expected, "{start}, {answer:?}");
            }
        }
    }
}

fn present(batches: &[Forge], offset: i64) -> bool {
    let covers =
        |batch: &&Forge| (batch.base..=batch.base + i64::from(batch.last_delta)).contains(&offset);
    batches
        .iter()
        .find(covers)
        .is_some_and(|batch| batch.count > 0)
}

fn step() -> impl Strategy<Value = Step> {
    let (producer, records) = (0..3_i64, 1..4_i32);
    prop_oneof![
        4 => (producer.clone(), records.clone())
            .prop_map(|(producer, records)| Step::Transactional { producer, records }),
        1 => (producer.clone(), records)
            .prop_map(|(producer, records)| Step::Plain { producer, records }),
        3 => (producer, any::<bool>())
            .prop_map(|(producer, commit)| Step::End { producer, commit }),
        1 => Just(Step::Compact),
    ]
}

proptest! {
    /// wire.md A34, A35
    #[test]
    fn what_is_delivered_equals_the_oracle_from_every_start(
        steps in prop::collection::vec(step(), 0..40),
    ) {
        Log::play(&steps).check();
    }
}

/// wire.md A34
#[test]
fn a_commit_marker_spares_the_entry_of_a_later_aborted_transaction() {
    let steps = [
        Step::Transactional {
            producer: 1,
            records: 2,
        },
        Step::End {
            producer: 1,
            commit: true,
        },
        Step::Transactional {
            producer: 1,
            records: 2,
        },
        Step::End {
            producer: 1,
            commit: false,
        },
        Step::Plain {
            producer: 0,
            records: 1,
        },
    ];
    let log = Log::play(&steps);
    assert_eq!(log.expected, [0, 1, 6]);
    log.check();
}

/// wire.md A34
#[test]
fn an_empty_aborted_transaction_does_not_use_up_the_entry_of_another() {
    let steps = [
        Step::Transactional {
            producer: 2,
            records: 1,
        },
        Step::End {
            producer: 1,
            commit: false,
        },
        Step::Transactional {
            producer: 2,
            records: 1,
        },
        Step::End {
            producer: 2,
            commit: false,
        },
        Step::Transactional {
            producer: 1,
            records: 1,
        },
        Step::End {
            producer: 1,
            commit: true,
        },
    ];
    let log = Log::play(&steps);
    assert_eq!(log.expected, [4]);
    log.check();
}

/// wire.md A34
#[test]
fn a_marker_before_the_fetch_offset_ends_its_transaction_all_the_same() {
    let transaction = |commit| {
        [
            Step::Transactional {
                producer: 1,
                records: 2,
            },
            Step::End {
                producer: 1,
                commit,
            },
        ]
    };
    let log = Log::play(&[transaction(false), transaction(true)].concat());
    assert_eq!(log.expected, [3, 4]);
    let answer = Answer {
        early: 2,
        batches_max: 2,
    };
    assert_eq!(log.read(3, answer), [3, 4]);
}

/// wire.md A35
#[test]
fn a_log_that_ends_in_markers_is_read_to_its_last_stable_offset() {
    let steps = [
        Step::Transactional {
            producer: 0,
            records: 1,
        },
        Step::End {
            producer: 0,
            commit: false,
        },
        Step::End {
            producer: 1,
            commit: true,
        },
        Step::End {
            producer: 2,
            commit: false,
        },
    ];
    let log = Log::play(&steps);
    assert_eq!((log.stable, log.expected.len()), (4, 0));
    log.check();
}
