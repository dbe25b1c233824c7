//! The demo's records: lines of a file, over and over, at a steady rate.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::cli::exit::Failure;
use crate::embedded::Record;

/// Scans of parcels, made up.
const SAMPLE: &str = include_str!("parcels.jsonl");

/// Lines to write and how many were written.
#[derive(Debug)]
pub(super) struct Feed {
    lines: Vec<Bytes>,
    per_second: u32,
    /// Lines taken so far.
    taken: u64,
    /// Lines that a leader accepted.
    written: u64,
}

impl Feed {
    /// Takes the lines of `file`, or the bundled sample.
    pub(super) fn open(file: Option<&Path>, per_second: u32) -> Result<Self, Failure> {
        let Some(path) = file else {
            return Self::of(SAMPLE, per_second, "the bundled sample");
        };
        let name = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
        Self::of(&text, per_second, &name)
    }

    fn of(text: &str, per_second: u32, name: &str) -> Result<Self, Failure> {
        let lines: Vec<Bytes> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| Bytes::copy_from_slice(line.as_bytes()))
            .collect();
        if lines.is_empty() {
            return Err(Failure::usage(format!("{name} has no lines to write")));
        }
        Ok(Self {
            lines,
            per_second,
            taken: 0,
            written: 0,
        })
    }

    /// The records due `elapsed` after the start, spread over `partitions`.
    pub(super) fn due(&mut self, elapsed: Duration, partitions: usize) -> Vec<Vec<Record>> {
        let due = u128::from(self.per_second) * elapsed.as_millis() / 1_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        let mut batches = vec![Vec::new(); partitions];
        while self.taken < due {
            let line = self.line(self.taken);
            let turn = usize::try_from(self.taken).unwrap_or_default() % partitions.max(1);
            if let Some(batch) = batches.get_mut(turn) {
                batch.push(Record::of(line));
            }
            self.taken += 1;
        }
        batches
    }

    /// Notes that a leader accepted `records`.
    pub(super) fn accepted(&mut self, records: usize) {
        self.written += u64::try_from(records).unwrap_or_default();
    }

    /// Records that leaders accepted.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    fn line(&self, number: u64) -> Bytes {
        let index = usize::try_from(number).unwrap_or_default() % self.lines.len().max(1);
        self.lines.get(index).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(feed: &mut Feed, ms: u64) -> Vec<usize> {
        feed.due(Duration::from_millis(ms), 3)
            .iter()
            .map(Vec::len)
            .collect()
    }

    #[test]
    fn records_come_at_their_rate_and_in_turn() {
        let mut feed = Feed::of("a\nb\n\n", 10, "x").unwrap();
        assert_eq!(sizes(&mut feed, 400), [2, 1, 1]);
        assert_eq!(sizes(&mut feed, 400), [0, 0, 0]);
        assert_eq!(sizes(&mut feed, 1_000), [2, 2, 2]);
        assert_eq!(feed.written(), 0, "nobody accepted them yet");
    }

    #[test]
    fn a_file_without_lines_is_a_usage_error() {
        assert!(
            Feed::of("\n \n", 1, "empty.txt")
                .unwrap_err()
                .message
                .contains("empty.txt")
        );
        assert!(Feed::open(None, 1).is_ok());
    }
}
