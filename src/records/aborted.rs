//! Control batches and the aborted-transaction filter of read_committed (wire.md 8.3).

use std::collections::BTreeSet;

use crate::ids::Offset;

use super::error::{BatchError, Corruption};
use super::header::BatchHeader;
use super::view::BatchView;

/// A control batch is one marker; whoever compressed it has no need for more than this.
const MARKER_BYTES_MAX: usize = 64 * 1024;

/// An entry of a Fetch answer's list of aborted transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AbortedTransaction {
    /// First offset of the transaction.
    pub first_offset: Offset,
    /// Producer id that wrote it.
    pub producer_id: i64,
}

/// What a control batch says (E7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// The producer's open transaction is aborted.
    Abort,
    /// The producer's open transaction is committed.
    Commit,
    /// A control record of another kind, passed over.
    Other(i16),
}

impl Marker {
    /// The marker of a control batch; `None` if compaction emptied it.
    pub(super) fn of(view: &BatchView) -> Result<Option<Self>, BatchError> {
        let open = view.inflate(MARKER_BYTES_MAX)?;
        let Some(record) = open.records().first() else {
            return Ok(None);
        };
        let key = record?.key.unwrap_or_default();
        let Some([_, _, kind @ ..]) = key.first_chunk::<4>() else {
            return Err(view.corrupt(Corruption::ControlKey));
        };
        Ok(Some(match i16::from_be_bytes(*kind) {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        }))
    }
}

/// Which batches of one response belong to aborted transactions. Nothing is carried over to the
/// next response.
#[derive(Debug, Default)]
pub(super) struct AbortedFilter {
    /// Entries not reached yet, the earliest last.
    pending: Vec<AbortedTransaction>,
    /// Producer ids inside an aborted transaction.
    live: BTreeSet<i64>,
}

impl AbortedFilter {
    /// A filter over the entries of a response, in any order, duplicates allowed.
    pub(super) fn new(aborted: impl IntoIterator<Item = AbortedTransaction>) -> Self {
        let mut pending: Vec<_> = aborted.into_iter().collect();
        pending.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            pending,
            live: BTreeSet::new(),
        }
    }

    /// Takes the next batch of the log; true if its records were aborted.
    pub(super) fn drops(&mut self, header: &BatchHeader, marker: Option<Marker>) -> bool {
        let Some(producer_id) = header.producer_id else {
            return false;
        };
        // The batch's last offset counts: a transaction may begin inside what this batch covers.
        let last = header.last_offset();
        while let Some(entry) = self.pending.pop_if(|entry| entry.first_offset <= last) {
            self.live.insert(entry.producer_id);
        }
        // A commit clears nothing: the entry may be that of a later transaction.
        if header.control && marker == Some(Marker::Abort) {
            self.live.remove(&producer_id);
            return false;
        }
        header.transactional && self.live.contains(&producer_id)
    }
}
