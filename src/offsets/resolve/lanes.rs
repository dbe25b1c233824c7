//! Questions gathered per broker and API (runtime.md X3).

use std::collections::{BTreeMap, BTreeSet};

use super::job::Ask;
use crate::ids::{BrokerId, Moment, TopicPartition};
use crate::wire::api::Isolation;
use crate::wire::api::list_offsets::At;

/// A question's place: a partition may ask for its position and for the end of its log at once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) partition: TopicPartition,
    pub(super) slot: Slot,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Slot {
    Position,
    End,
}

/// Who is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Target {
    Coordinator,
    Leader(BrokerId),
}

/// By which API; requests of one lane differ in their rows only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Api {
    OffsetFetch,
    ListOffsets { committed: bool },
    OffsetForLeaderEpoch,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Lane {
    pub(super) target: Target,
    pub(super) api: Api,
}

/// The questions that wait for their request.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    waiting: BTreeMap<Lane, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    keys: BTreeSet<Key>,
    opens_at: Moment,
}

impl Api {
    pub(super) fn of(ask: Ask) -> Self {
        match ask {
            Ask::Commit => Self::OffsetFetch,
            Ask::List(At::Latest, Isolation::ReadCommitted) => {
                Self::ListOffsets { committed: true }
            }
            // Only the end depends on the isolation level: all other questions share one request.
            Ask::List(At::Earliest | At::MaxTimestamp | At::Timestamp(_) | At::Latest, _) => {
                Self::ListOffsets { committed: false }
            }
            Ask::EpochEnd(_) => Self::OffsetForLeaderEpoch,
        }
    }
}

impl Lane {
    /// Whether requests of the two take turns: one request per broker and API.
    pub(super) fn excludes(self, other: Self) -> bool {
        let same_api = matches!(
            (self.api, other.api),
            (Api::OffsetFetch, Api::OffsetFetch)
                | (Api::ListOffsets { .. }, Api::ListOffsets { .. })
                | (Api::OffsetForLeaderEpoch, Api::OffsetForLeaderEpoch)
        );
        self.target == other.target && same_api
    }
}

impl Lanes {
    /// Adds a question; the first one of a lane opens its window.
    pub(super) fn put(&mut self, lane: Lane, key: Key, opens_at: Moment) {
        let waiting = self.waiting.entry(lane).or_insert_with(|| Waiting {
            keys: BTreeSet::new(),
            opens_at,
        });
        waiting.keys.insert(key);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        for waiting in self.waiting.values_mut() {
            waiting.keys.remove(key);
        }
        self.waiting.retain(|_, waiting| !waiting.keys.is_empty());
    }

    /// When the first of the lanes that `may` send opens.
    pub(super) fn next_open(&self, may: impl Fn(Lane) -> bool) -> Option<Moment> {
        let open = self.waiting.iter().filter(|(lane, _)| may(**lane));
        open.map(|(_, waiting)| waiting.opens_at).min()
    }

    /// Takes at most `rows_max` questions of an open lane that `may` send, one per partition.
    pub(super) fn take(
        &mut self,
        may: impl Fn(Lane) -> bool,
        rows_max: usize,
        now: Moment,
    ) -> Option<(Lane, Vec<Key>)> {
        let (lane, waiting) = self
            .waiting
            .iter_mut()
            .find(|(lane, waiting)| waiting.opens_at <= now && may(**lane))?;
        let lane = *lane;
        let mut taken: Vec<Key> = Vec::new();
        // A broker refuses a request that names a partition twice; the second question waits for
        // its turn.
        waiting.keys.retain(|key| {
            let full = taken.len() >= rows_max;
            if full
                || taken
                    .last()
                    .is_some_and(|last| last.partition == key.partition)
            {
                return true;
            }
            taken.push(key.clone());
            false
        });
        if waiting.keys.is_empty() {
            self.waiting.remove(&lane);
        }
        Some((lane, taken))
    }
}
