//! Watermarks and lag (routing.md 14.1).

use crate::ids::{Moment, Offset};
use crate::wire::api::fetch::Row;

/// Ends of the log as leader and replica told them. Error rows never reach here (F10).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watermarks {
    /// High watermark of the leader; never falls within an epoch.
    pub leader_hw: Option<Offset>,
    /// Last stable offset of the leader; never falls within an epoch.
    pub leader_lso: Option<Offset>,
    /// Log start of the leader; never falls within an epoch.
    pub leader_start: Option<Offset>,
    /// High watermark of the follower being read.
    pub replica_hw: Option<Offset>,
    /// Last stable offset of the follower being read.
    pub replica_lso: Option<Offset>,
    /// When either was last told.
    pub told_at: Option<Moment>,
    /// When the leader last confirmed the role being read, by a hint or a probe.
    pub confirmed_at: Option<Moment>,
}

/// How far a partition is behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lag {
    /// Offsets between the fetch end and the highest high watermark known.
    pub offsets: u64,
    /// When that high watermark was told.
    pub told_at: Moment,
}

impl Watermarks {
    /// The highest end anybody told.
    pub fn end(&self) -> Option<Offset> {
        self.leader_hw.max(self.replica_hw)
    }

    /// Lag of `fetch_end`; `None` before the first answer.
    pub fn lag(&self, fetch_end: Offset) -> Option<Lag> {
        let offsets = self
            .end()?
            .0
            .saturating_sub(fetch_end.0)
            .max(0)
            .unsigned_abs();
        Some(Lag {
            offsets,
            told_at: self.told_at?,
        })
    }

    pub(super) fn leader_told(&mut self, row: &Row, now: Moment) {
        self.leader_hw = self.leader_hw.max(row.high_watermark);
        self.leader_lso = self.leader_lso.max(row.last_stable_offset);
        self.leader_start = self.leader_start.max(row.log_start);
        self.told_at = Some(now);
    }

    pub(super) fn replica_told(&mut self, row: &Row, now: Moment) {
        self.replica_hw = row.high_watermark;
        self.replica_lso = row.last_stable_offset;
        self.told_at = Some(now);
    }

    /// The route changed: what another replica told means nothing for the next one.
    pub(super) fn route_changed(&mut self) {
        self.replica_hw = None;
        self.replica_lso = None;
    }

    /// The leader epoch rose: its watermarks start over.
    pub(super) fn epoch_rose(&mut self) {
        self.leader_hw = None;
        self.leader_lso = None;
        self.leader_start = None;
    }
}
