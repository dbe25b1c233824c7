//! Walks the record section of one partition's fetch answer, batch by batch (wire.md 8.1).

use bytes::Bytes;
use crc_fast::CrcAlgorithm;

use crate::budget::InflationSeat;
use crate::ids::Offset;

use super::aborted::{AbortedFilter, AbortedTransaction, Marker};
use super::error::{BatchError, Corruption, InflateError, Place, PoisonReason};
use super::header::{BatchHeader, HEADER_BYTES, RawHeader};
use super::legacy;
use super::view::BatchView;

/// How record sets are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadSettings {
    /// Compare checksums (`check.crcs`; default true). Without it no damaged batch can be skipped.
    pub check_crcs: bool,
    /// Largest batch any fetch may bring, in bytes (`receive.message.max.bytes`; default 104 857
    /// 600).
    pub batch_bytes_max: usize,
    /// Largest output of the one kind of batch that is inflated while the set is walked
    /// (`wire.batch.inflated.max.bytes`; default 67 108 864): a compressed message of version 1 at
    /// offset 0, whose own offset does not say how far it reaches.
    pub inflated_bytes_max: usize,
    /// Refuse what is else tolerated and counted: attribute bits without a meaning, lengths below
    /// -1 (`wire.strict`; default false).
    pub strict: bool,
}

impl Default for ReadSettings {
    fn default() -> Self {
        Self {
            check_crcs: true,
            batch_bytes_max: 104_857_600,
            inflated_bytes_max: 67_108_864,
            strict: false,
        }
    }
}

/// What was passed over or tolerated while reading one set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCounts {
    /// Batches wholly before the fetch offset (B8).
    pub before_position: u32,
    /// Batches of aborted transactions.
    pub aborted: u32,
    /// Control batches.
    pub control: u32,
    /// Batches that compaction left empty.
    pub empty: u32,
    /// Batches with attribute bits that have no meaning (B6).
    pub unknown_attributes: u32,
    /// Control batches of a kind that is not known (E7).
    pub unknown_markers: u32,
}

/// Iterator over the batches of one fetched record set that hold records to deliver.
///
/// Empty, control and aborted batches and those before the fetch offset are passed over, but they
/// move [`BatchSet::position`], which is where the partition reads on once everything yielded is
/// done with. A cut last batch ends the set without an error. After an error nothing follows.
#[derive(Debug)]
pub struct BatchSet {
    rest: Bytes,
    asked: Offset,
    position: Offset,
    settings: ReadSettings,
    seat: Option<InflationSeat>,
    filter: AbortedFilter,
    last_offset: Option<Offset>,
    received: usize,
    /// Bytes left when the batch looked at last was at the front.
    front: usize,
    counts: ReadCounts,
    done: bool,
}

impl BatchSet {
    /// Reads `records`, the answer to a fetch at `asked`, delivering whatever is in the log
    /// (read_uncommitted).
    pub fn new(records: Bytes, asked: Offset, settings: ReadSettings) -> Self {
        Self::read_committed(records, asked, [], settings)
    }

    /// Reads `records` without those of the `aborted` transactions the same answer listed (8.3).
    /// The caller has asked the broker for committed data, so that nothing beyond the last stable
    /// offset is in `records`.
    pub fn read_committed(
        records: Bytes,
        asked: Offset,
        aborted: impl IntoIterator<Item = AbortedTransaction>,
        settings: ReadSettings,
    ) -> Self {
        Self {
            received: records.len(),
            front: records.len(),
            rest: records,
            asked,
            position: asked,
            settings,
            seat: None,
            filter: AbortedFilter::new(aborted),
            last_offset: None,
            counts: ReadCounts::default(),
            done: false,
        }
    }

    /// Charges what is inflated while the set is walked. Without room the set ends early, with
    /// [`BatchError::NoMemory`].
    #[must_use]
    pub fn charged_to(mut self, seat: &InflationSeat) -> Self {
        self.seat = Some(seat.clone());
        self
    }

    /// Where the next fetch reads on: behind everything walked so far.
    pub fn position(&self) -> Offset {
        self.position
    }

    /// What was passed over or tolerated so far.
    pub fn counts(&self) -> ReadCounts {
        self.counts
    }

    /// Where in the records the batch began that was yielded last, or that ended the set.
    pub(super) fn last_at(&self) -> usize {
        self.received - self.front
    }

    /// Walks one batch: a view if it is to be delivered, `None` if it only moved the position.
    fn step(&mut self, front: Front) -> Result<Option<BatchView>, BatchError> {
        if front.magic != 2 {
            return self.legacy_step(front.size);
        }
        let batch = self.rest.split_to(front.size);
        let header = self.checked_header(&batch)?;
        let behind = self.is_behind(&header);
        // Even there a marker ends its transaction: what follows of its producer is another one's.
        if behind && !header.control {
            return Ok(None);
        }
        let wanted = self.position.max(header.base_offset);
        let view = BatchView::new(batch, header, wanted, self.settings.check_crcs)?
            .reading(self.settings.strict);
        let marker = if header.control {
            Marker::of(&view)?
        } else {
            None
        };
        let aborted = self.filter.drops(&header, marker);
        if behind {
            return Ok(None);
        }
        self.position = header.next_offset();
        let emptied = header.count == 0 && !view.is_compressed();
        self.counts.control += u32::from(header.control);
        self.counts.unknown_markers += u32::from(matches!(marker, Some(Marker::Other(_))));
        self.counts.aborted += u32::from(aborted && !header.control);
        self.counts.empty += u32::from(emptied);
        Ok((!header.control && !aborted && !emptied).then_some(view))
    }

    /// The same for messages of versions 0 and 1, of which those that share a header are walked at
    /// once. They know neither transactions nor markers.
    fn legacy_step(&mut self, size: usize) -> Result<Option<BatchView>, BatchError> {
        let checks = self.settings.check_crcs;
        let strict = self.settings.strict;
        let run = match legacy::run(&self.rest, size, self.position, checks) {
            Ok(run) => run,
            Err(reason) => return Err(self.corrupt_message(size, reason)),
        };
        let header = run.header;
        if strict && header.unknown_attributes {
            return Err(self.corrupt_message(size, Corruption::Attributes));
        }
        if self.overlaps(run.first) {
            return Err(self.corrupt_message(size, Corruption::Offsets));
        }
        let messages = self.rest.split_to(run.size);
        let wanted = self.position.max(header.base_offset);
        let view =
            BatchView::legacy(messages, header, wanted, checks).map(|view| view.reading(strict));
        if !run.unplaced {
            if self.is_behind(&header) {
                return Ok(None);
            }
            let view = view?;
            self.position = view.next_offset();
            return Ok(Some(view));
        }
        let view = self.placed(&view?)?;
        if self.is_behind(view.header()) {
            return Ok(None);
        }
        self.position = view.next_offset();
        Ok(Some(view))
    }

    /// Inflates a message to learn how far it reaches.
    fn placed(&self, view: &BatchView) -> Result<BatchView, BatchError> {
        let limit = self.settings.inflated_bytes_max;
        let Some(seat) = &self.seat else {
            return view.inflate(limit);
        };
        // This is rare, and a row that is refused is fetched again: it stands behind nobody.
        let charge = seat.charge_next().in_turn();
        view.inflate_charged(limit, charge)
            .map_err(|error| match error {
                InflateError::Batch(error) => error,
                InflateError::NoRoom { .. } => BatchError::NoMemory {
                    offset: self.position,
                },
            })
    }

    /// Notes a batch that is sound; true if it lies wholly before the position (B8).
    fn is_behind(&mut self, header: &BatchHeader) -> bool {
        self.last_offset = Some(header.last_offset());
        self.counts.unknown_attributes += u32::from(header.unknown_attributes);
        let behind = header.next_offset() <= self.position;
        self.counts.before_position += u32::from(behind);
        behind
    }

    /// Whether something that reaches up to `offset` cannot follow the batch before (B5).
    fn overlaps(&self, offset: Offset) -> bool {
        self.last_offset.is_some_and(|last| offset <= last)
    }

    /// Checks of a whole batch that need no record: B3 to B5 and the count's sign.
    fn checked_header(&self, batch: &Bytes) -> Result<BatchHeader, BatchError> {
        let Some(raw) = RawHeader::of(batch) else {
            // `front` lets only version 2 batches through that hold a header.
            return Err(self.corrupt(batch, None, Corruption::Length(0)));
        };
        if self.settings.check_crcs && checksum(batch) != raw.checksum() {
            return Err(self.corrupt(batch, None, Corruption::Checksum));
        }
        let Some(header) = raw.parse() else {
            let reason = if raw.count() < 0 {
                Corruption::Count(raw.count())
            } else {
                Corruption::Offsets
            };
            return Err(self.corrupt(batch, raw.next_offset(), reason));
        };
        if self.overlaps(header.base_offset) {
            return Err(self.corrupt(batch, None, Corruption::Offsets));
        }
        if self.settings.strict && header.unknown_attributes {
            return Err(self.corrupt(batch, raw.next_offset(), Corruption::Attributes));
        }
        Ok(header)
    }

    /// The next whole batch or message of the set; `None` at the end or at a cut tail (B1).
    fn front(&self) -> Result<Option<Front>, BatchError> {
        let Some(prefix) = self.rest.first_chunk::<MAGIC_END>() else {
            return Ok(None);
        };
        let [b0, b1, b2, b3, b4, b5, b6, b7, l0, l1, l2, l3, .., magic] = *prefix;
        let base = Offset(i64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]));
        let length = i32::from_be_bytes([l0, l1, l2, l3]);
        let magic = i8::from_be_bytes([magic]);
        let size = usize::try_from(length)
            .unwrap_or(0)
            .saturating_add(LENGTH_END);
        let at = Place {
            position: self.position,
            base,
            next: None,
            size,
        };
        if length < LENGTH_MIN || (magic == 2 && size < HEADER_BYTES) {
            return Err(BatchError::Corrupt {
                at,
                reason: Corruption::Length(length),
            });
        }
        if size > self.rest.len() {
            return Ok(None);
        }
        if !(0..=2).contains(&magic) {
            return Err(BatchError::Poison {
                at,
                reason: PoisonReason::Magic(magic),
            });
        }
        Ok(Some(Front { size, magic }))
    }

    /// Judges a set that ended, cleanly or with a cut tail, without moving the position (B2, B9).
    fn end(&self) -> Option<BatchError> {
        if self.received == 0 || self.position > self.asked {
            return None;
        }
        let offset = self.asked;
        if self.rest.is_empty() {
            return Some(BatchError::NoProgress {
                offset,
                bytes: self.received,
            });
        }
        let needed = self.received - self.rest.len() + tail_size(&self.rest);
        let limit = self.settings.batch_bytes_max;
        if needed <= limit {
            return Some(BatchError::RecordTooLarge { offset, needed });
        }
        let at = Place {
            position: offset,
            base: offset,
            next: None,
            size: needed,
        };
        Some(BatchError::Poison {
            at,
            reason: PoisonReason::TooLarge { needed, limit },
        })
    }

    fn corrupt(&self, batch: &[u8], next: Option<Offset>, reason: Corruption) -> BatchError {
        let base = RawHeader::of(batch).map_or(self.position, |raw| Offset(raw.base_offset()));
        let next = next.filter(|next| self.settings.check_crcs && *next > self.position);
        let at = Place {
            position: self.position,
            base,
            next,
            size: batch.len(),
        };
        BatchError::Corrupt { at, reason }
    }

    /// Damage in the message of version 0 or 1 at the front, which has `size` bytes.
    fn corrupt_message(&self, size: usize, reason: Corruption) -> BatchError {
        let base = self
            .rest
            .first_chunk::<8>()
            .map(|it| i64::from_be_bytes(*it));
        let base = Offset(base.unwrap_or(self.position.0));
        let vouched = self.settings.check_crcs && reason != Corruption::Checksum;
        let next = (base.0 >= 0).then(|| Offset(base.0.saturating_add(1)));
        let at = Place {
            position: self.position,
            base,
            next: next.filter(|next| vouched && *next > self.position),
            size,
        };
        BatchError::Corrupt { at, reason }
    }
}

/// A whole batch of version 2, or message of versions 0 and 1, at the front of a set.
#[derive(Clone, Copy)]
struct Front {
    size: usize,
    magic: i8,
}

impl Iterator for BatchSet {
    type Item = Result<BatchView, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            self.front = self.rest.len();
            let stepped = match self.front() {
                Ok(Some(front)) => self.step(front),
                Ok(None) => {
                    self.done = true;
                    return self.end().map(Err);
                }
                Err(error) => Err(error),
            };
            match stepped {
                Ok(Some(view)) => return Some(Ok(view)),
                Ok(None) => {}
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Size of the cut batch at the front of `tail`, as far as it can be told.
fn tail_size(tail: &[u8]) -> usize {
    let length = tail
        .first_chunk::<LENGTH_END>()
        .map(|[.., l0, l1, l2, l3]| i32::from_be_bytes([*l0, *l1, *l2, *l3]))
        .and_then(|length| usize::try_from(length).ok());
    length.map_or(HEADER_BYTES, |length| length.saturating_add(LENGTH_END))
}

/// CRC-32C over attributes to end.
pub(super) fn checksum(batch: &[u8]) -> u32 {
    let covered = batch.get(CHECKSUM_END..).unwrap_or_default();
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, covered);
    u32::try_from(sum).unwrap_or_default()
}

/// End of the length field: what the length counts begins here.
const LENGTH_END: usize = 12;
/// End of the magic byte.
const MAGIC_END: usize = 17;
/// End of the checksum field: what the checksum covers begins here.
const CHECKSUM_END: usize = 21;
/// Smallest length of any version: a message without key and value (B1).
const LENGTH_MIN: i32 = 14;
