//! Which rows of which frames are kept, and how much of them somebody still wants
//! (runtime.md 11 B2).
//!
//! Whoever has a slice cannot tell what it keeps in memory. So the rows of all frames are listed
//! by where they lie.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rows that are kept, by the address of their first byte.
#[derive(Default)]
pub(super) struct Rows(Mutex<BTreeMap<usize, KeptRow>>);

/// A row of a frame: the slice that one partition got of it. Equal if it is the same one.
#[derive(Clone, Debug)]
pub struct KeptRow(Arc<Row>);

#[derive(Debug)]
struct Row {
    bytes: usize,
    wanted: AtomicUsize,
    frame: Arc<Frame>,
}

/// What there is to know of a frame, without keeping it.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: usize,
    /// Of all its rows that are kept.
    wanted: AtomicUsize,
}

impl Frame {
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        let wanted = AtomicUsize::new(0);
        Arc::new(Self { bytes, wanted })
    }
}

impl KeptRow {
    /// Notes that only so many bytes of the row are wanted any more.
    pub fn want(&self, bytes: usize) {
        let Row { wanted, frame, .. } = &*self.0;
        frame.wanted.fetch_add(bytes, Ordering::AcqRel);
        let before = wanted.swap(bytes, Ordering::AcqRel);
        frame.wanted.fetch_sub(before, Ordering::AcqRel);
    }

    /// Whether the frame is large, and so little of it is wanted that copies of that are better.
    pub fn is_waste(&self) -> bool {
        let Frame { bytes, wanted } = &*self.0.frame;
        *bytes > LARGE_BYTES && wanted.load(Ordering::Acquire) < *bytes / LITTLE
    }
}

impl PartialEq for KeptRow {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Rows {
    /// Lists a row, all of which is wanted.
    pub(super) fn list(&self, row: &[u8], frame: &Arc<Frame>) {
        if row.is_empty() {
            return;
        }
        frame.wanted.fetch_add(row.len(), Ordering::AcqRel);
        let listed = KeptRow(Arc::new(Row {
            bytes: row.len(),
            wanted: AtomicUsize::new(row.len()),
            frame: Arc::clone(frame),
        }));
        self.rows().insert(row.as_ptr().addr(), listed);
    }

    /// Strikes a row that is about to be dropped.
    pub(super) fn strike(&self, row: &[u8]) {
        if row.is_empty() {
            return;
        }
        let struck = self.rows().remove(&row.as_ptr().addr());
        if let Some(row) = struck {
            row.want(0);
        }
    }

    /// The row in which `slice` lies.
    pub(super) fn around(&self, slice: &[u8]) -> Option<KeptRow> {
        let address = slice.as_ptr().addr();
        let rows = self.rows();
        let (start, row) = rows.range(..=address).next_back()?;
        (address - start < row.0.bytes).then(|| row.clone())
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<usize, KeptRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A frame above this is not kept for a part (runtime.md 11 B2).
pub(super) const LARGE_BYTES: usize = 64 << 10;
/// What is below this part of it is little: copies take less than they free.
const LITTLE: usize = 4;
