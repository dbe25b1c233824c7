//! What of a partition is finished, and what is in hand.

use super::runs::{Run, Runs};
use crate::ids::{LeaderEpoch, Offset, PositionGeneration};
use crate::invariants;

/// The account of one partition: the watermark, the finished offsets above it, and those in hand
/// (runtime.md 7).
///
/// Only completions move it; fetch positions and queues never do (L1). All ranges are `from..to`,
/// end exclusive. A record's range may reach to the next record of its batch, so that the offsets
/// compaction took away are finished with it; what lies before the first record of a batch, a
/// control or aborted record, and the tail up to the batch's last offset delta are finished by a
/// call of their own when the batch was read (L2).
///
/// Operations allocate nothing while work is in order, and the memory is bounded by the records in
/// hand, in backoff and parked (L5).
///
/// ```
/// use nearside::ids::{LeaderEpoch, Offset};
/// use nearside::offsets::Ledger;
///
/// let mut ledger = Ledger::new(Offset(10), None);
/// ledger.start(Offset(10), Offset(13));
/// ledger.finish(Offset(11), Offset(12), Some(LeaderEpoch(4)));
/// assert_eq!(ledger.watermark(), Offset(10));
/// ledger.finish(Offset(10), Offset(11), Some(LeaderEpoch(4)));
/// assert_eq!((ledger.watermark(), ledger.leader_epoch()), (Offset(12), Some(LeaderEpoch(4))));
/// assert_eq!(ledger.in_hand(), 1);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ledger {
    generation: PositionGeneration,
    watermark: Offset,
    leader_epoch: Option<LeaderEpoch>,
    finished: Runs,
    in_hand: Runs,
    started: Offset,
}

impl Ledger {
    /// An account that starts at `at`; `epoch` is that of the last record below, if it is known.
    pub fn new(at: Offset, epoch: Option<LeaderEpoch>) -> Self {
        Self {
            generation: PositionGeneration::default(),
            watermark: at,
            leader_epoch: epoch,
            finished: Runs::new(),
            in_hand: Runs::new(),
            started: at,
        }
    }

    /// The lowest offset that is not finished: the offset to commit.
    pub fn watermark(&self) -> Offset {
        self.watermark
    }

    /// Leader epoch of the last finished record below the watermark; committed with it (KIP-320).
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        self.leader_epoch
    }

    /// Raised whenever the watermark may fall: truncation, restart. A commit must not fall within
    /// one (L3).
    pub fn generation(&self) -> PositionGeneration {
        self.generation
    }

    /// Takes `from..to` in hand. What is finished already is not taken.
    pub fn start(&mut self, from: Offset, to: Offset) {
        let from = from.max(self.watermark);
        self.in_hand.insert(from, to, None);
        for run in self.finished.iter() {
            self.in_hand.remove(run.from, run.to);
        }
        self.started = self.started.max(to);
        debug_assert!(invariants::in_hand_is_unfinished(self), "{self:?}");
    }

    /// Gives `from..to` back unfinished: retry, slow down, cancelled.
    pub fn release(&mut self, from: Offset, to: Offset) {
        self.in_hand.remove(from, to);
    }

    /// Finishes `from..to`; `epoch` is the leader epoch of its last record. Offsets finished before
    /// count once.
    pub fn finish(&mut self, from: Offset, to: Offset, epoch: Option<LeaderEpoch>) {
        if to <= self.watermark {
            return;
        }
        self.in_hand.remove(from, to);
        self.started = self.started.max(to);
        if from > self.watermark {
            self.finished.insert(from, to, epoch);
        } else {
            self.advance(to, epoch);
        }
        debug_assert!(invariants::watermark_is_lowest_incomplete(self), "{self:?}");
    }

    /// Whether `offset` is finished.
    pub fn is_finished(&self, offset: Offset) -> bool {
        offset < self.watermark || self.finished.contains(offset)
    }

    /// Cuts the account at a confirmed divergence (KIP-320): what lies at or past `at` goes, and
    /// the next commit may be lower than the last. `epoch` is that of the last record below.
    pub fn truncate(&mut self, at: Offset, epoch: Option<LeaderEpoch>) {
        self.finished.cut(at, epoch);
        self.in_hand.cut(at, None);
        self.started = self.started.min(at);
        if self.watermark > at {
            self.watermark = at;
            self.leader_epoch = epoch;
        }
        self.raise();
    }

    /// Finishes all below `to`: expired by retention, or a gap that the reset policy jumps (L2).
    pub fn jump(&mut self, to: Offset) {
        self.finish(self.watermark, to, None);
        self.raise();
    }

    /// Empties the account and starts it at `at`: a seek, or a reset downwards. Attempts in hand
    /// are fenced by the caller.
    pub fn restart(&mut self, at: Offset, epoch: Option<LeaderEpoch>) {
        let generation = self.generation;
        *self = Self::new(at, epoch);
        self.generation = generation;
        self.raise();
    }

    /// Number of offsets in hand.
    pub fn in_hand(&self) -> u64 {
        self.in_hand.count()
    }

    /// The lowest offset in hand.
    pub fn first_in_hand(&self) -> Option<Offset> {
        self.in_hand.first()
    }

    /// The ranges in hand, ascending.
    pub fn hands(&self) -> impl DoubleEndedIterator<Item = Run> + '_ {
        self.in_hand.iter()
    }

    /// The finished ranges above the watermark, ascending.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = Run> + '_ {
        self.finished.iter()
    }

    /// Highest started offset minus the watermark, in offsets: what a restart now would see again
    /// at most (L4).
    pub fn span(&self) -> u64 {
        u64::try_from(self.started.0.saturating_sub(self.watermark.0)).unwrap_or(0)
    }

    fn advance(&mut self, to: Offset, epoch: Option<LeaderEpoch>) {
        self.watermark = to;
        self.leader_epoch = epoch.or(self.leader_epoch);
        while let Some(run) = self.finished.take_reaching(self.watermark) {
            if run.to > self.watermark {
                self.watermark = run.to;
                self.leader_epoch = run.epoch.or(self.leader_epoch);
            }
        }
    }

    fn raise(&mut self) {
        self.generation = PositionGeneration(self.generation.0 + 1);
    }
}
