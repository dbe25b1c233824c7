//! A map whose copies share everything that did not change.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ids::{PartitionIndex, TopicId, TopicName};

/// A key that names the part of a [`Shared`] map it lives in.
pub trait Shard {
    /// Number of the part. Keys that change together should share one; a part should stay small.
    fn shard(&self) -> u32;
}

impl Shard for PartitionIndex {
    fn shard(&self) -> u32 {
        // Bits, not value: a negative index lands in a part of its own instead of failing.
        u32::from_ne_bytes(self.0.to_ne_bytes()) / PARTITIONS_PER_PART
    }
}

impl Shard for TopicName {
    fn shard(&self) -> u32 {
        // FNV-1a: the same on every run, so that replays see the same order.
        let hash = self.as_str().bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        hash % PARTS
    }
}

impl Shard for TopicId {
    fn shard(&self) -> u32 {
        let [.., low] = self.0.as_bytes();
        u32::from(*low) % PARTS
    }
}

/// A map in parts behind shared pointers. Cloning copies the pointers; changing an entry copies its
/// part only if a clone still holds it. Iteration goes part by part, so it is in key order only
/// where parts are ranges.
#[derive(Clone, PartialEq, Eq)]
pub struct Shared<K, V> {
    parts: BTreeMap<u32, Arc<BTreeMap<K, V>>>,
    len: usize,
}

impl<K: Shard + Ord + Clone, V: Clone> Shared<K, V> {
    /// An empty map.
    pub const fn new() -> Self {
        Self {
            parts: BTreeMap::new(),
            len: 0,
        }
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of `key`.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Shard + Ord + ?Sized,
    {
        self.parts.get(&key.shard())?.get(key)
    }

    /// The value of `key` for change; its part is copied first if another map shares it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let part = self.parts.get_mut(&key.shard())?;
        if !part.contains_key(key) {
            return None;
        }
        Arc::make_mut(part).get_mut(key)
    }

    /// Sets `key` to `value` and returns what it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let part = self.parts.entry(key.shard()).or_default();
        let old = Arc::make_mut(part).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes `key` and returns what it had.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let shard = key.shard();
        let part = self.parts.get_mut(&shard)?;
        if !part.contains_key(key) {
            return None;
        }
        let old = Arc::make_mut(part).remove(key);
        if part.is_empty() {
            self.parts.remove(&shard);
        }
        self.len -= usize::from(old.is_some());
        old
    }

    /// All entries, part by part.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.values().flat_map(|part| part.iter())
    }

    /// All values, part by part.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The greatest key; looks at one key of each part.
    pub fn last_key(&self) -> Option<&K> {
        let parts = self.parts.values();
        parts.filter_map(|part| part.keys().next_back()).max()
    }

    /// All keys, part by part.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }
}

impl<K: Shard + Ord + Clone, V: Clone> Default for Shared<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Shared<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.parts.values().flat_map(|part| part.iter()))
            .finish()
    }
}

/// Parts of a map keyed by topic: 100 000 topics make parts of about 400.
const PARTS: u32 = 256;
/// Partitions of one topic that share a part.
const PARTITIONS_PER_PART: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_copies_only_its_own_part() {
        let mut rows = Shared::new();
        for index in 0..200 {
            rows.insert(PartitionIndex(index), index);
        }
        let before = rows.clone();
        *rows.get_mut(&PartitionIndex(70)).unwrap() = -1;
        assert_eq!(before.get(&PartitionIndex(70)), Some(&70));
        assert_eq!(rows.get(&PartitionIndex(70)), Some(&-1));
        let shared: Vec<_> = rows
            .parts
            .iter()
            .map(|(part, rows)| Arc::ptr_eq(rows, &before.parts[part]))
            .collect();
        assert_eq!(shared, [true, false, true, true]);
    }

    #[test]
    fn the_last_key_is_the_greatest_of_all_parts() {
        let mut rows = Shared::new();
        assert_eq!(rows.last_key(), None);
        for index in [-1, 3, 200, 70] {
            rows.insert(PartitionIndex(index), ());
        }
        assert_eq!(rows.last_key(), Some(&PartitionIndex(200)));
    }

    #[test]
    fn removing_the_last_entry_of_a_part_drops_the_part() {
        let mut rows = Shared::new();
        rows.insert(PartitionIndex(-1), 'a');
        rows.insert(PartitionIndex(3), 'b');
        assert_eq!(rows.remove(&PartitionIndex(3)), Some('b'));
        assert_eq!(rows.remove(&PartitionIndex(3)), None);
        assert_eq!((rows.len(), rows.parts.len()), (1, 1));
    }
}
