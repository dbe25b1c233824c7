//! What has come: slices of one frame, which stays in memory as long as any of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::rows::{Frame, KeptRow, LARGE_BYTES};
use super::{Budget, Permit};

/// An answer's frame. All that is kept of it shares its permit, which is given back with the last
/// slice: one that is small keeps the whole frame.
#[derive(Clone, Debug)]
pub struct Arrival(Arc<Kept>);

/// Counts its bytes as held until it is dropped.
#[derive(Debug)]
struct Kept {
    permit: Arc<Permit>,
    bytes: usize,
    frame: Arc<Frame>,
}

/// Bytes that keep an arrival.
struct Slice {
    bytes: Bytes,
    of: Arrival,
}

impl Arrival {
    /// What has come under `permit`, which is settled to that.
    pub fn new(permit: Arc<Permit>) -> Self {
        let bytes = permit.bytes();
        permit.pool.held.fetch_add(bytes, Ordering::AcqRel);
        let frame = Frame::new(bytes);
        Self(Arc::new(Kept {
            permit,
            bytes,
            frame,
        }))
    }

    /// `bytes`, a slice of the frame, charged until the last slice of it is dropped.
    ///
    /// While more than half of the budget is held, what is less than half of a large frame is
    /// copied: else those who are slow with a part would keep the rest from all others.
    pub fn keep(&self, bytes: Bytes) -> Bytes {
        let Kept {
            permit, bytes: all, ..
        } = &*self.0;
        if *all > LARGE_BYTES && bytes.len() < *all / PART && permit.pool.is_tight() {
            return Budget(Arc::clone(&permit.pool)).keep_copy(&bytes);
        }
        Bytes::from_owner(Slice::new(bytes, self.clone()))
    }
}

impl Slice {
    fn new(bytes: Bytes, of: Arrival) -> Self {
        let Kept { permit, frame, .. } = &*of.0;
        permit.pool.rows.list(&bytes, frame);
        Self { bytes, of }
    }
}

impl Budget {
    /// A copy of `bytes`, charged until the last slice of it is dropped.
    pub fn keep_copy(&self, bytes: &[u8]) -> Bytes {
        let permit = self.charge(bytes.len());
        let bytes = Bytes::copy_from_slice(bytes);
        let arrival = Arrival::new(Arc::new(permit));
        Bytes::from_owner(Slice::new(bytes, arrival))
    }

    /// The row in which `slice` lies, if it came under this budget and is kept.
    pub fn row_around(&self, slice: &[u8]) -> Option<KeptRow> {
        self.0.rows.around(slice)
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.of.0.permit.pool.rows.strike(&self.bytes);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.permit
            .pool
            .held
            .fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What is below this part of it is copied when bytes are scarce.
const PART: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    /// Two rows of a frame of 160 KiB, the first of `first` bytes.
    fn rows(budget: &Budget, first: usize) -> (Bytes, Bytes) {
        let frame = Bytes::from(vec![7; 160 * KIB]);
        let arrival = Arrival::new(Arc::new(budget.charge(frame.len())));
        let rows = [frame.slice(..first), frame.slice(first..)];
        let [first, rest] = rows.map(|row| arrival.keep(row));
        (first, rest)
    }

    /// wire.md 4.2
    #[test]
    fn the_last_slice_of_a_frame_gives_its_permit_back_and_none_before() {
        let budget = Budget::new(1_000 * KIB);
        let (first, rest) = rows(&budget, 10);
        let slice = first.slice(3..4);
        drop((first, rest));
        assert_eq!(budget.charged(), 160 * KIB);
        assert_eq!(slice[..], [7]);
        drop(slice);
        assert_eq!(budget.charged(), 0);
    }

    /// runtime.md 11 B2
    #[test]
    fn a_frame_is_waste_once_less_than_a_quarter_of_it_is_wanted_by_all_who_keep_it() {
        let budget = Budget::new(1_000 * KIB);
        let (first, rest) = rows(&budget, 40 * KIB);
        let row = budget.row_around(&first[KIB..]).unwrap();
        assert_eq!(Some(&row), budget.row_around(&first).as_ref());
        let other = budget.row_around(&rest).unwrap();
        assert_ne!(row, other);
        row.want(30 * KIB);
        other.want(10 * KIB);
        assert!(!row.is_waste() && !other.is_waste());
        other.want(10 * KIB - 1);
        assert!(row.is_waste() && other.is_waste());
        row.want(40 * KIB);
        drop(rest);
        assert!(!row.is_waste(), "a quarter");
        row.want(40 * KIB - 1);
        assert!(row.is_waste());
        drop(first);
        assert_eq!(budget.row_around(&[0; 10]), None);
        let small = budget.keep_copy(&[0; 1_000]);
        let row = budget.row_around(&small).unwrap();
        row.want(1);
        assert!(!row.is_waste(), "not worth it");
    }

    #[test]
    fn with_half_of_the_budget_held_less_than_half_of_a_large_frame_is_copied() {
        let budget = Budget::new(1_000 * KIB);
        let _asked = budget.charge(900 * KIB);
        let (kept, rest) = rows(&budget, 10 * KIB);
        drop(rest);
        assert_eq!(
            budget.charged(),
            1_060 * KIB,
            "what is asked for is not held"
        );
        let stuck = budget.keep_copy(&vec![0; 400 * KIB]);
        let (part, rest) = rows(&budget, 80 * KIB - 1);
        drop(rest);
        assert_eq!(budget.charged(), 1_540 * KIB - 1, "its copy");
        assert_eq!(part.len(), 80 * KIB - 1);
        drop(part);
        let (half, rest) = rows(&budget, 80 * KIB);
        drop(rest);
        assert_eq!(budget.charged(), 1_620 * KIB, "half of it");
        drop((kept, stuck, half));
        let (part, rest) = rows(&budget, 1);
        drop(rest);
        assert_eq!(budget.charged(), 1_060 * KIB, "there is room again");
        drop(part);
        assert_eq!(budget.charged(), 900 * KIB);
    }
}
