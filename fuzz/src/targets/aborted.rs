//! read_committed over random transaction logs, beside an oracle that sees the whole log.

use bytes::Bytes;
use nearside::ids::Offset;
use nearside::records::{AbortedTransaction, BatchSet, ReadSettings};

use crate::forge::{Batch, CONTROL, TRANSACTIONAL};

const PRODUCERS: usize = 3;
const STEPS_MAX: usize = 40;

#[derive(Default)]
struct Log {
    batches: Vec<Batch>,
    /// Aborted transactions and the offset of their marker.
    aborted: Vec<(AbortedTransaction, i64)>,
    open: [Vec<i64>; PRODUCERS],
    end: i64,
    expected: Vec<i64>,
}

/// Each byte is a step: what happens, to whom, and to how many records.
pub(super) fn run(data: &[u8]) {
    let mut log = Log::default();
    for step in data.iter().take(STEPS_MAX) {
        log.play(*step);
    }
    let open = log
        .open
        .iter()
        .filter_map(|offsets| offsets.first().copied());
    let stable = open.min().unwrap_or(log.end);
    log.batches.retain(|batch| batch.base < stable);
    let batches = std::mem::take(&mut log.batches);
    log.expected
        .retain(|offset| *offset < stable && present(&batches, *offset));
    log.expected.sort_unstable();
    log.batches = batches;
    for start in 0..stable {
        let expected: Vec<_> = log
            .expected
            .iter()
            .copied()
            .filter(|it| *it >= start)
            .collect();
        for batches_max in [1, usize::MAX] {
            assert_eq!(
                log.read(start, stable, batches_max),
                expected,
                "from {start}"
            );
        }
    }
}

fn present(batches: &[Batch], offset: i64) -> bool {
    let covers = |batch: &&Batch| (batch.base..=last(batch)).contains(&offset);
    batches
        .iter()
        .find(covers)
        .is_some_and(|batch| batch.count > 0)
}

fn last(batch: &Batch) -> i64 {
    batch.base + i64::from(batch.last_delta)
}

impl Log {
    fn play(&mut self, step: u8) {
        let producer = usize::from(step >> 3) % PRODUCERS;
        let records = i32::from(step >> 6) + 1;
        match step & 7 {
            0..=2 => {
                let offsets = self.append(producer as i64, records, TRANSACTIONAL);
                self.open[producer].extend(offsets);
            }
            3 => {
                let offsets = self.append(producer as i64 - 1, records, 0);
                self.expected.extend(offsets);
            }
            4 | 5 => self.finish(producer, true),
            6 => self.finish(producer, false),
            _ => {
                let data = |batch: &&mut Batch| batch.attributes & CONTROL == 0;
                if let Some(batch) = self.batches.iter_mut().rev().find(data) {
                    (batch.count, batch.body) = (0, Vec::new());
                }
            }
        }
    }

    fn append(&mut self, producer: i64, records: i32, attributes: i16) -> std::ops::Range<i64> {
        let first = self.end;
        self.batches.push(Batch {
            attributes,
            producer,
            ..Batch::filled(first, records)
        });
        self.end += i64::from(records);
        first..self.end
    }

    fn finish(&mut self, producer: usize, commit: bool) {
        let offsets = std::mem::take(&mut self.open[producer]);
        let marker = Batch::marker(self.end, producer as i64, commit);
        self.batches.push(marker);
        if commit {
            self.expected.extend(offsets);
        } else if let Some(first) = offsets.first() {
            let entry = AbortedTransaction {
                first_offset: Offset(*first),
                producer_id: producer as i64,
            };
            self.aborted.push((entry, self.end));
        }
        self.end += 1;
    }

    /// Reads from `start` as a broker would serve it, `batches_max` batches a fetch.
    fn read(&self, start: i64, stable: i64, batches_max: usize) -> Vec<i64> {
        let (mut position, mut delivered) = (start, Vec::new());
        while position < stable {
            let behind = self
                .batches
                .iter()
                .skip_while(|batch| last(batch) < position);
            let sent: Vec<_> = behind.take(batches_max).collect();
            let upper = sent.last().map_or(position, |batch| last(batch) + 1);
            let bytes: Vec<u8> = sent.iter().flat_map(|batch| batch.bytes()).collect();
            let listed = self.aborted.iter().rev();
            let listed = listed.filter(|it| it.1 >= position && it.0.first_offset.0 < upper);
            let aborted: Vec<_> = listed.map(|it| it.0).collect();
            let settings = ReadSettings::default();
            let at = Offset(position);
            let mut set = BatchSet::read_committed(Bytes::from(bytes), at, aborted, settings);
            for view in &mut set {
                let view = view.expect("sound");
                delivered.extend(view.records().map(|record| record.expect("sound").offset.0));
            }
            assert!(set.position().0 > position, "stuck at {position}");
            position = set.position().0;
        }
        delivered
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0x40, 0x04, 0x40, 0x06, 0x03],
        vec![0x10, 0x0e, 0x10, 0x16, 0x08, 0x0c],
        vec![0x00, 0x06, 0x0c, 0x16],
        vec![0x40, 0x48, 0x50, 0x06, 0x0c, 0x16, 0x07, 0x43],
    ]
}
