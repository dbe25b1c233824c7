//! A partition's log: raw batches as they were produced, an index, and reads without copying.
//!
//! Batches lie in chunks of shared bytes. A read inside one chunk is a slice; a read across small
//! chunks joins them once, for good, so that each byte is copied a bounded number of times.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::batch::Header;

/// The log of one partition.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// By position of their first byte.
    chunks: BTreeMap<u64, Bytes>,
    batches: VecDeque<Entry>,
    start: i64,
    end: i64,
    bytes: u64,
}

/// One batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) base_offset: i64,
    pub(super) last_offset: i64,
    pub(super) max_timestamp: i64,
    pub(super) position: u64,
}

impl Log {
    /// Chunks below this size are joined when a read spans them.
    const CHUNK_BYTES: u64 = 1024 * 1024;

    pub(super) fn start(&self) -> i64 {
        self.start
    }

    pub(super) fn end(&self) -> i64 {
        self.end
    }

    /// Appends `chunk`, whose batches already carry their offsets and lie back to back from `end`.
    pub(super) fn append(&mut self, chunk: Bytes, headers: &[Header]) {
        let mut position = self.bytes;
        for header in headers {
            let last_offset = header
                .base_offset
                .saturating_add(i64::from(header.last_delta));
            self.batches.push_back(Entry {
                base_offset: header.base_offset,
                last_offset,
                max_timestamp: header.max_timestamp,
                position,
            });
            self.end = last_offset.saturating_add(1);
            position = position.saturating_add(length(header.size));
        }
        self.chunks.insert(self.bytes, chunk);
        self.bytes = position;
    }

    /// Bytes of the batches from the one that holds `offset` up to the one that ends at `limit`.
    pub(super) fn available(&self, offset: i64, limit: i64) -> u64 {
        self.span(offset, limit).map_or(0, |(from, to)| to - from)
    }

    /// At most `bytes_max` bytes from the batch that holds `offset`, ending before offset `limit`.
    /// The tail may be a cut batch, as a broker sends it; a first batch that does not fit comes
    /// whole with `first_whole` (KIP-74), or else nothing comes.
    pub(super) fn read(
        &mut self,
        offset: i64,
        limit: i64,
        bytes_max: u64,
        first_whole: bool,
    ) -> Bytes {
        let Some((from, to)) = self.span(offset, limit) else {
            return Bytes::new();
        };
        let first_end = self
            .batches
            .get(self.index_of(offset).saturating_add(1))
            .map_or(self.bytes, |next| next.position);
        let first_bytes = first_end - from;
        let size = match (first_bytes <= bytes_max, first_whole) {
            (true, _) => (to - from).min(bytes_max),
            (false, true) => first_bytes,
            (false, false) => return Bytes::new(),
        };
        self.slice(from, from + size)
    }

    /// The first batch with a record at or after `timestamp`.
    pub(super) fn at_timestamp(&self, timestamp: i64) -> Option<Entry> {
        self.retained()
            .find(|entry| entry.max_timestamp >= timestamp)
            .copied()
    }

    /// The batch with the highest timestamp, the earliest of equals.
    pub(super) fn max_timestamp(&self) -> Option<Entry> {
        self.retained()
            .rev()
            .max_by_key(|entry| entry.max_timestamp)
            .copied()
    }

    /// Moves the log start up to `offset` and lets go of batches wholly below it.
    pub(super) fn delete_before(&mut self, offset: i64) {
        self.start = offset.clamp(self.start, self.end);
        while self
            .batches
            .front()
            .is_some_and(|entry| entry.last_offset < self.start)
        {
            self.batches.pop_front();
        }
        let keep = self
            .batches
            .front()
            .map_or(self.bytes, |entry| entry.position);
        while let Some((&position, chunk)) = self.chunks.first_key_value() {
            if position + length(chunk.len()) > keep {
                break;
            }
            self.chunks.remove(&position);
        }
    }

    /// Drops every batch from the one that holds `offset` on: the new leader never had them.
    pub(super) fn truncate(&mut self, offset: i64) {
        while self
            .batches
            .back()
            .is_some_and(|entry| entry.last_offset >= offset)
        {
            if let Some(entry) = self.batches.pop_back() {
                self.bytes = entry.position;
                self.end = entry.base_offset;
            }
        }
        self.start = self.start.min(self.end);
        let _gone = self.chunks.split_off(&self.bytes);
        if let Some((&position, chunk)) = self.chunks.last_key_value() {
            let keep = usize::try_from(self.bytes - position).unwrap_or(usize::MAX);
            let kept = chunk.slice(..keep.min(chunk.len()));
            self.chunks.insert(position, kept);
        }
    }

    fn retained(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.batches
            .iter()
            .filter(|entry| entry.last_offset >= self.start)
    }

    /// Index of the first batch whose last offset is at or above `offset`.
    fn index_of(&self, offset: i64) -> usize {
        self.batches
            .partition_point(|entry| entry.last_offset < offset)
    }

    fn span(&self, offset: i64, limit: i64) -> Option<(u64, u64)> {
        let from = self.batches.get(self.index_of(offset))?.position;
        let to = self
            .batches
            .get(self.index_of(limit))
            .map_or(self.bytes, |entry| entry.position);
        (to > from).then_some((from, to))
    }

    fn slice(&mut self, from: u64, to: u64) -> Bytes {
        let Some((&first, chunk)) = self.chunks.range(..=from).next_back() else {
            return Bytes::new();
        };
        if to <= first + length(chunk.len()) {
            return cut(chunk, from - first, to - first);
        }
        // A chunk that is large enough is left alone: only the bytes asked for are copied.
        if length(chunk.len()) >= Self::CHUNK_BYTES {
            return self.gather(from, to);
        }
        let covered: Vec<u64> = self.chunks.range(first..to).map(|(&at, _)| at).collect();
        let end = self.chunks.range(..to).next_back();
        let end = end.map_or(to, |(&at, chunk)| at + length(chunk.len()));
        let joined = self.gather(first, end);
        let slice = cut(&joined, from - first, to - first);
        for position in covered {
            self.chunks.remove(&position);
        }
        self.chunks.insert(first, joined);
        slice
    }

    /// One buffer of the bytes from `from` to `to`.
    fn gather(&self, from: u64, to: u64) -> Bytes {
        let size = usize::try_from(to - from).unwrap_or(0);
        let mut gathered = BytesMut::with_capacity(size);
        let first = self
            .chunks
            .range(..=from)
            .next_back()
            .map_or(from, |(&at, _)| at);
        for (&at, chunk) in self.chunks.range(first..to) {
            gathered.extend_from_slice(&cut(chunk, from.saturating_sub(at), to - at));
        }
        gathered.freeze()
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn cut(chunk: &Bytes, from: u64, to: u64) -> Bytes {
    let index = |position: u64| {
        usize::try_from(position)
            .unwrap_or(usize::MAX)
            .min(chunk.len())
    };
    chunk.slice(index(from)..index(to))
}

#[cfg(test)]
mod tests {
    use super::super::batch::{Record, encode_batch};
    use super::*;

    fn log_of(batches: &[usize]) -> Log {
        let mut log = Log::default();
        for &count in batches {
            let records: Vec<Record> = (0..count).map(|n| Record::of(format!("v{n}"))).collect();
            let mut bytes = encode_batch(&records).to_vec();
            Header::assign(&mut bytes, log.end(), 0);
            let header = Header::read(&bytes).unwrap();
            log.append(bytes.into(), &[header]);
        }
        log
    }

    #[test]
    fn a_read_starts_at_the_batch_that_holds_the_offset() {
        let mut log = log_of(&[3, 2, 4]);
        let bytes = log.read(4, 9, u64::MAX, false);
        assert_eq!(Header::read(&bytes).unwrap().base_offset, 3);
        assert_eq!(length(bytes.len()), log.available(4, 9));
    }

    #[test]
    fn a_read_stops_before_its_limit() {
        let mut log = log_of(&[3, 2, 4]);
        let bytes = log.read(0, 5, u64::MAX, false);
        assert_eq!(
            length(bytes.len()),
            log.available(0, 3) + log.available(3, 5)
        );
        assert!(log.read(5, 5, u64::MAX, true).is_empty());
    }

    #[test]
    fn a_first_batch_that_does_not_fit_comes_whole_or_not_at_all() {
        let mut log = log_of(&[3, 2]);
        let whole = log.available(0, 3);
        assert_eq!(length(log.read(0, 5, 10, true).len()), whole);
        assert!(log.read(0, 5, 10, false).is_empty());
        assert_eq!(length(log.read(0, 5, whole + 7, false).len()), whole + 7);
    }

    #[test]
    fn joined_chunks_read_the_same_twice() {
        let mut log = log_of(&[1; 50]);
        let first = log.read(0, 50, u64::MAX, false);
        assert_eq!(log.chunks.len(), 1);
        assert_eq!(log.read(0, 50, u64::MAX, false), first);
        assert_eq!(
            log.read(10, 20, u64::MAX, false),
            first.slice(first.len() / 5..first.len() / 5 * 2)
        );
    }

    #[test]
    fn a_read_across_a_large_chunk_leaves_it_alone() {
        let mut log = Log::default();
        for size in [Log::CHUNK_BYTES, 10, 10] {
            let value = vec![7; usize::try_from(size).unwrap()];
            let mut bytes = encode_batch(&[Record::of(value)]).to_vec();
            Header::assign(&mut bytes, log.end(), 0);
            let header = Header::read(&bytes).unwrap();
            log.append(bytes.into(), &[header]);
        }
        let bytes = log.read(0, 3, u64::MAX, false);
        assert_eq!(
            (length(bytes.len()), log.chunks.len()),
            (log.available(0, 3), 3)
        );
        let tail = usize::try_from(log.available(1, 3)).unwrap();
        let expected = bytes.slice(bytes.len() - tail..);
        assert_eq!(log.read(1, 3, u64::MAX, false), expected);
    }

    #[test]
    fn deletion_lets_go_of_whole_batches_only() {
        let mut log = log_of(&[3, 2, 4]);
        log.delete_before(4);
        assert_eq!((log.start(), log.batches.len()), (4, 2));
        assert_eq!(
            Header::read(&log.read(4, 9, u64::MAX, false))
                .unwrap()
                .base_offset,
            3
        );
    }

    #[test]
    fn truncation_ends_at_a_batch_boundary_and_the_log_goes_on_from_there() {
        let mut log = log_of(&[3, 2, 4]);
        let _join = log.read(0, 9, u64::MAX, false);
        log.truncate(4);
        assert_eq!(log.end(), 3);
        let mut bytes = encode_batch(&[Record::of("new")]).to_vec();
        Header::assign(&mut bytes, 3, 1);
        let header = Header::read(&bytes).unwrap();
        log.append(bytes.clone().into(), &[header]);
        assert_eq!(log.read(3, 4, u64::MAX, false), bytes);
    }
}
