//! Which partition a record goes to.

use std::collections::BTreeMap;

use crate::ids::{Draw, PartitionIndex, TopicName};

/// Kafka's murmur2 of `data`, as the Java client computes it.
pub fn murmur2(data: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    // The hash takes the length modulo 2^32.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the hash is defined on 32 bits"
    )]
    let mut hash = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    if !tail.is_empty() {
        for (byte, shift) in tail.iter().zip([0, 8, 16]) {
            hash ^= u32::from(*byte) << shift;
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    (hash ^ (hash >> 15)).cast_signed()
}

/// The partition of `key` among `count`, as the Java client's default partitioner places it; `None`
/// if the topic has no partitions.
pub fn partition_of_key(key: &[u8], count: i32) -> Option<PartitionIndex> {
    let hash = murmur2(key) & i32::MAX;
    hash.checked_rem(count)
        .filter(|_| count > 0)
        .map(PartitionIndex)
}

/// Records without a key stay with one partition per topic until its batch is full or sent
/// (KIP-480): full batches cost less than even spreading.
#[derive(Debug, Default)]
pub(super) struct Sticky {
    current: BTreeMap<TopicName, PartitionIndex>,
    /// The sample used last. What is placed at one moment comes with one draw.
    last: Draw,
}

impl Sticky {
    /// The partition that records without a key went to last, if it is among `count`.
    pub(super) fn current(&self, topic: &TopicName, count: i32) -> Option<PartitionIndex> {
        let current = self.current.get(topic).copied();
        current.filter(|index| index.0 < count)
    }

    /// Goes on to another partition, if there are several: to one that is available, if any is.
    /// `None` if there are none at all.
    pub(super) fn advance(
        &mut self,
        topic: &TopicName,
        count: i32,
        draw: Draw,
        is_available: impl Fn(PartitionIndex) -> bool,
    ) -> Option<PartitionIndex> {
        self.last = Draw(self.last.0 ^ draw.0).split();
        let partitions = u64::try_from(count).ok().filter(|count| *count > 0)?;
        let current = self.current(topic, count);
        let start = current.and_then(|index| u64::try_from(index.0).ok());
        let first = start.map_or(self.last.0, |start| {
            start + 1 + self.last.0 % partitions.saturating_sub(1).max(1)
        });
        let first = i32::try_from(first % partitions).ok()?;
        // From one of them chosen at random on, so that most of the time only one is looked at.
        let others = || {
            let all = (first..count).chain(0..first).map(PartitionIndex);
            all.filter(|index| Some(*index) != current)
        };
        let available = others().find(|index| is_available(*index));
        let stay = || current.filter(|index| is_available(*index));
        let next = available
            .or_else(stay)
            .or_else(|| others().next())
            .or(current)?;
        self.current.insert(topic.clone(), next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_agrees_with_the_java_client() {
        // The vectors of the Java client's own test.
        let vectors: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
        ];
        for (data, hash) in vectors {
            assert_eq!(murmur2(data), hash, "{}", String::from_utf8_lossy(data));
        }
    }

    #[test]
    fn a_negative_hash_is_masked_and_not_negated() {
        assert_eq!(partition_of_key(b"foobar", 10), Some(PartitionIndex(6)));
        assert_eq!((murmur2(b"foobar") & i32::MAX) % 10, 6);
        assert_eq!(
            partition_of_key(b"", 3),
            Some(PartitionIndex((murmur2(b"") & i32::MAX) % 3))
        );
        assert_eq!(partition_of_key(b"foobar", 0), None);
        assert_eq!(partition_of_key(b"foobar", -3), None);
    }

    #[test]
    fn records_without_a_key_move_on_to_another_partition_that_is_available() {
        let (mut sticky, topic) = (Sticky::default(), TopicName::from("orders"));
        let mut next = |count, available: &[i32]| {
            let before = sticky.current(&topic, count);
            let is_available = |index: PartitionIndex| available.contains(&index.0);
            let next = sticky.advance(&topic, count, Draw(1), is_available);
            assert_eq!(sticky.current(&topic, count), next);
            (before, next)
        };
        for _ in 0..100 {
            let (before, after) = next(4, &[0, 1, 2, 3]);
            assert_ne!(before, after);
        }
        assert_eq!(next(4, &[2]).1, Some(PartitionIndex(2)));
        assert_eq!(next(4, &[2]).1, Some(PartitionIndex(2)), "the only one");
        assert_ne!(next(4, &[]).1, Some(PartitionIndex(2)));
        assert_eq!(next(1, &[]).1, Some(PartitionIndex(0)));
        assert_eq!(next(1, &[]).1, Some(PartitionIndex(0)));
        assert_eq!(next(0, &[]).1, None);
    }
}
