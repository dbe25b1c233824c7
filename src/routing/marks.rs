//! Watermarks and lag (routing.md 14.1).

use super::stamp::Role;
use crate::ids::{Moment, Offset, PositionGeneration, RouteGeneration};
use crate::wire::api::Isolation;
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
    /// Offsets between the fetch end and the highest end known.
    pub offsets: u64,
    /// When that end was told.
    pub told_at: Moment,
}

/// Which ends the fetch end has reached under the present route and position; each is told once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CaughtUp {
    of: (RouteGeneration, PositionGeneration),
    leader: bool,
    replica: bool,
}

impl CaughtUp {
    /// Notes that `with`'s end is reached; true the first time under these generations.
    pub(super) fn reach(&mut self, with: Role, of: (RouteGeneration, PositionGeneration)) -> bool {
        if self.of != of {
            *self = Self {
                of,
                ..Self::default()
            };
        }
        let reached = match with {
            Role::Leader => &mut self.leader,
            Role::Follower => &mut self.replica,
        };
        !std::mem::replace(reached, true)
    }
}

impl Watermarks {
    /// Where the leader's log ends for a reader of this isolation.
    pub fn leader_end(&self, isolation: Isolation) -> Option<Offset> {
        match isolation {
            Isolation::ReadUncommitted => self.leader_hw,
            Isolation::ReadCommitted => self.leader_lso,
        }
    }

    /// Where the log of the follower being read ends for a reader of this isolation.
    pub fn replica_end(&self, isolation: Isolation) -> Option<Offset> {
        match isolation {
            Isolation::ReadUncommitted => self.replica_hw,
            Isolation::ReadCommitted => self.replica_lso,
        }
    }

    /// The highest end anybody told.
    pub fn end(&self, isolation: Isolation) -> Option<Offset> {
        self.leader_end(isolation).max(self.replica_end(isolation))
    }

    /// Lag of `fetch_end`; `None` before the first answer.
    pub fn lag(&self, fetch_end: Offset, isolation: Isolation) -> Option<Lag> {
        let offsets = self
            .end(isolation)?
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

    /// ListOffsets told the leader's end for a reader of `isolation`.
    pub(super) fn leader_sampled(&mut self, end: Offset, isolation: Isolation, now: Moment) {
        let mark = match isolation {
            Isolation::ReadUncommitted => &mut self.leader_hw,
            Isolation::ReadCommitted => &mut self.leader_lso,
        };
        *mark = (*mark).max(Some(end));
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
