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

/// Records without a key stay with one partition per topic until a batch of it is full (KIP-480):
/// full batches cost less than even spreading.
#[derive(Debug, Default)]
pub(super) struct Sticky {
    current: BTreeMap<TopicName, PartitionIndex>,
}

impl Sticky {
    /// The partition that records without a key go to for now.
    pub(super) fn partition(
        &mut self,
        topic: &TopicName,
        count: i32,
        draw: Draw,
    ) -> Option<PartitionIndex> {
        if let Some(index) = self.current.get(topic).filter(|index| index.0 < count) {
            return Some(*index);
        }
        let count = u64::try_from(count).ok().filter(|count| *count > 0)?;
        let index = PartitionIndex(i32::try_from(draw.split().0 % count).ok()?);
        self.current.insert(topic.clone(), index);
        Some(index)
    }

    /// Leaves the current partition of `topic`: its batch is full.
    pub(super) fn leave(&mut self, topic: &TopicName) {
        self.current.remove(topic);
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
    fn records_without_a_key_stay_until_the_batch_is_full() {
        let (mut sticky, topic) = (Sticky::default(), TopicName::from("orders"));
        let first = sticky.partition(&topic, 64, Draw(1)).unwrap();
        assert_eq!(sticky.partition(&topic, 64, Draw(2)), Some(first));
        sticky.leave(&topic);
        assert_ne!(sticky.partition(&topic, 64, Draw(2)), Some(first));
        assert_eq!(sticky.partition(&"empty".into(), 0, Draw(2)), None);
    }
}
