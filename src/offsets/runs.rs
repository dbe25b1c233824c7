//! A set of offsets kept as sorted, disjoint, non-touching runs.

use std::collections::VecDeque;

use crate::ids::{LeaderEpoch, Offset};

/// One run of consecutive offsets, end exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First offset of the run.
    pub from: Offset,
    /// Offset after the last one of the run.
    pub to: Offset,
    /// Leader epoch of the last record in the run, if it is known.
    pub epoch: Option<LeaderEpoch>,
}

/// Offsets as runs: memory follows the number of gaps, not of offsets (runtime.md L5).
///
/// A deque of runs beats a tree here: a partition in order holds at most one run, and a busy one as
/// many as it has records in hand, in backoff or parked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Runs {
    runs: VecDeque<Run>,
}

impl Runs {
    /// The empty set.
    pub const fn new() -> Self {
        Self {
            runs: VecDeque::new(),
        }
    }

    /// Adds `from..to`, merging it with the runs it overlaps or touches. An empty range adds
    /// nothing.
    pub fn insert(&mut self, from: Offset, to: Offset, epoch: Option<LeaderEpoch>) {
        if from >= to {
            return;
        }
        let first = self.runs.partition_point(|run| run.to < from);
        let mut merged = Run { from, to, epoch };
        let mut last = first;
        while let Some(run) = self.runs.get(last).filter(|run| run.from <= to) {
            merged.from = merged.from.min(run.from);
            if run.to > merged.to {
                merged.to = run.to;
                merged.epoch = run.epoch.or(merged.epoch);
            } else {
                merged.epoch = merged.epoch.or(run.epoch);
            }
            last += 1;
        }
        self.replace(first, last, [Some(merged), None]);
    }

    /// Takes `from..to` out, cutting the runs it overlaps.
    pub fn remove(&mut self, from: Offset, to: Offset) {
        if from >= to {
            return;
        }
        let first = self.runs.partition_point(|run| run.to <= from);
        let mut rest = [None, None];
        let mut last = first;
        while let Some(run) = self.runs.get(last).filter(|run| run.from < to) {
            if run.from < from {
                rest[0] = Some(Run { to: from, ..*run });
            }
            if run.to > to {
                rest[1] = Some(Run { from: to, ..*run });
            }
            last += 1;
        }
        self.replace(first, last, rest);
    }

    /// Takes all at or past `at` out. A run that is cut ends with a record of `epoch` then.
    pub fn cut(&mut self, at: Offset, epoch: Option<LeaderEpoch>) {
        self.runs
            .truncate(self.runs.partition_point(|run| run.from < at));
        if let Some(last) = self.runs.back_mut().filter(|last| last.to > at) {
            last.to = at;
            last.epoch = epoch;
        }
    }

    /// Takes the first run if it starts at or below `offset`.
    pub fn take_reaching(&mut self, offset: Offset) -> Option<Run> {
        self.runs.front().filter(|run| run.from <= offset)?;
        self.runs.pop_front()
    }

    /// Whether `offset` is in the set.
    pub fn contains(&self, offset: Offset) -> bool {
        let index = self.runs.partition_point(|run| run.to <= offset);
        self.runs.get(index).is_some_and(|run| run.from <= offset)
    }

    /// The runs in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Run> + '_ {
        self.runs.iter().copied()
    }

    /// The lowest offset of the set.
    pub fn first(&self) -> Option<Offset> {
        self.runs.front().map(|run| run.from)
    }

    /// The offset after the highest one of the set.
    pub fn end(&self) -> Option<Offset> {
        self.runs.back().map(|run| run.to)
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether the set has no offset.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of offsets in the set.
    pub fn count(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| run.to.0.abs_diff(run.from.0))
            .sum()
    }

    /// Empties the set and gives its memory back.
    pub fn clear(&mut self) {
        self.runs = VecDeque::new();
    }

    fn replace(&mut self, first: usize, last: usize, with: [Option<Run>; 2]) {
        let mut fresh = with.into_iter().flatten();
        let mut at = first;
        while at < last {
            match (self.runs.get_mut(at), fresh.next()) {
                (Some(slot), Some(run)) => *slot = run,
                (None, _) | (_, None) => {
                    self.runs.drain(at..last);
                    return;
                }
            }
            at += 1;
        }
        for run in fresh {
            self.runs.insert(at, run);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(runs: &Runs) -> Vec<(i64, i64)> {
        runs.iter().map(|run| (run.from.0, run.to.0)).collect()
    }

    #[test]
    fn touching_runs_become_one_and_the_right_epoch_wins() {
        let mut runs = Runs::new();
        runs.insert(Offset(5), Offset(9), Some(LeaderEpoch(2)));
        runs.insert(Offset(0), Offset(3), Some(LeaderEpoch(1)));
        runs.insert(Offset(3), Offset(5), Some(LeaderEpoch(1)));
        assert_eq!(ranges(&runs), [(0, 9)]);
        assert_eq!(runs.iter().next().unwrap().epoch, Some(LeaderEpoch(2)));
    }

    #[test]
    fn removing_the_middle_leaves_both_ends() {
        let mut runs = Runs::new();
        runs.insert(Offset(0), Offset(10), None);
        runs.remove(Offset(3), Offset(6));
        assert_eq!(ranges(&runs), [(0, 3), (6, 10)]);
        runs.remove(Offset(0), Offset(7));
        assert_eq!(ranges(&runs), [(7, 10)]);
        assert!(runs.contains(Offset(9)) && !runs.contains(Offset(10)));
    }
}
