//! A batch as it lies in the log, readable or not.

use bytes::Bytes;

use crate::ids::{LeaderEpoch, Offset};

use super::header::RawHeader;
use super::set::{BatchSet, ReadSettings};

/// The bytes of one batch whose checksum held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawBatch {
    /// All of it: a slice of the frame it came in.
    pub bytes: Bytes,
    /// The offset behind it.
    pub next: Offset,
}

impl RawBatch {
    /// Leader epoch at which it was appended; `None` if it has none, or is a message of version 0
    /// or 1.
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        let magic = self.bytes.get(MAGIC_AT)?;
        let header = RawHeader::of(&self.bytes).filter(|_| *magic == 2)?;
        header.parse()?.leader_epoch
    }
}

/// The batch that holds `offset`, or the first behind it, in `records`, the answer to a fetch at
/// `offset`. `None` if it did not come whole or if its checksum does not vouch for where it ends.
pub fn raw_batch(records: &Bytes, offset: Offset, settings: ReadSettings) -> Option<RawBatch> {
    let mut set = BatchSet::new(records.clone(), offset, settings);
    let (size, next) = match set.next()? {
        Ok(view) => (view.size(), view.next_offset()),
        Err(error) => (error.place()?.size, error.skip_to()?),
    };
    let from = set.last_at();
    let to = from.checked_add(size).filter(|to| *to <= records.len())?;
    settings.check_crcs.then(|| RawBatch {
        bytes: records.slice(from..to),
        next,
    })
}

const MAGIC_AT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{BatchWriter, Compression, NewRecord, Sealer, reseal};

    /// Two records from `base` on.
    fn batch(base: i64) -> Vec<u8> {
        let mut writer = BatchWriter::new(Compression::None);
        for value in [b"a", b"b"] {
            let record = NewRecord {
                value: Some(value),
                ..NewRecord::default()
            };
            writer.push(&record).unwrap();
        }
        let mut bytes = writer.seal().unwrap().to_vec();
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes
    }

    /// Another codec, under a checksum that holds.
    fn poisoned(bytes: Vec<u8>) -> Vec<u8> {
        let mut bytes = bytes;
        bytes[22] |= 5;
        let unsealed = Sealer {
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
        };
        reseal(&bytes.into(), unsealed).to_vec()
    }

    fn raw(records: Vec<u8>, at: i64) -> Option<RawBatch> {
        raw_batch(&records.into(), Offset(at), ReadSettings::default())
    }

    #[test]
    fn a_batch_is_given_as_it_lies_readable_or_not() {
        let (first, second) = (batch(4), poisoned(batch(6)));
        let both = [first.clone(), second.clone()].concat();
        for at in [4, 5] {
            let found = raw(both.clone(), at).unwrap();
            assert_eq!((&*found.bytes, found.next), (&*first, Offset(6)));
        }
        let found = raw(both, 7).unwrap();
        assert_eq!((&*found.bytes, found.next), (&*second, Offset(8)));
    }

    #[test]
    fn what_is_cut_or_damaged_is_not_given() {
        let mut whole = batch(4);
        let cut = whole[..whole.len() - 1].to_vec();
        assert_eq!(raw(cut, 4), None);
        *whole.last_mut().unwrap() ^= 1;
        assert_eq!(raw(whole, 4), None);
    }
}
