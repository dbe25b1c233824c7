//! The bytes members write to each other: subscription and assignment of the `consumer` protocol
//! type.
//!
//! They pass through the coordinator unread, so their schema is the clients' own:
//! ConsumerProtocolSubscription and ConsumerProtocolAssignment, versions 0 to 3 (KIP-429 owned
//! partitions, KIP-792 generation, KIP-881 rack), and the user data of the sticky assignors.

use bytes::{BufMut, Bytes, BytesMut};
use indexmap::IndexMap;

use crate::assign::Assignor;
use crate::ids::{Generation, PartitionIndex, Rack, TopicName, TopicPartition};
use crate::wire::cursor::{Cursor, HOST_MAX, Read, TOPIC_MAX};

/// The protocol type of all consumers.
pub const PROTOCOL_TYPE: &str = "consumer";

/// What one member tells the leader.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemberSubscription {
    /// Topics it wants.
    pub topics: Vec<TopicName>,
    /// Data of its assignor.
    pub user_data: Option<Bytes>,
    /// What it owns, from version 1 on.
    pub owned: Vec<TopicPartition>,
    /// In which generation it owned that, from version 2 on.
    pub generation: Option<Generation>,
    /// Its rack, from version 3 on.
    pub rack: Option<Rack>,
}

impl MemberSubscription {
    /// The bytes at version 3, which readers of older versions read as far as they know it.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(SUBSCRIPTION_VERSION);
        put_count(&mut out, self.topics.len());
        for topic in &self.topics {
            put_text(&mut out, topic.as_str());
        }
        put_bytes(&mut out, self.user_data.as_ref());
        put_partitions(&mut out, &self.owned);
        out.put_i32(
            self.generation
                .map_or(NO_GENERATION, |generation| generation.0),
        );
        match &self.rack {
            Some(rack) => put_text(&mut out, rack.as_str()),
            None => out.put_i16(-1),
        }
        out.freeze()
    }

    /// Reads the bytes of any version; of later ones what version 3 has.
    ///
    /// # Errors
    /// Names the field that breaks the schema.
    pub fn decode(bytes: &Bytes) -> Result<Self, &'static str> {
        read_subscription(&mut Cursor::new(bytes, false)).map_err(|flaw| flaw.field)
    }

    /// What the member owned, and when, as `assignor` sees it: the sticky ones tell it in their
    /// user data.
    pub fn claim(&self, assignor: Assignor) -> (Vec<TopicPartition>, Option<Generation>) {
        let user_data = self.user_data.as_ref();
        match assignor {
            Assignor::Range | Assignor::RoundRobin => (self.owned.clone(), self.generation),
            Assignor::CooperativeSticky => {
                let told = user_data.and_then(|data| {
                    let generation = Cursor::new(data, false).i32("generation").ok()?;
                    known_generation(generation)
                });
                (self.owned.clone(), self.generation.or(told))
            }
            Assignor::Sticky => {
                match user_data.map(|data| read_sticky(&mut Cursor::new(data, false))) {
                    Some(Ok(claim)) => claim,
                    Some(Err(_)) | None => (self.owned.clone(), self.generation),
                }
            }
        }
    }
}

/// The user data `assignor` writes for a member that owned `owned` in `generation`.
pub fn user_data(
    assignor: Assignor,
    owned: &[TopicPartition],
    generation: Option<Generation>,
) -> Option<Bytes> {
    let generation = generation.map_or(NO_GENERATION, |generation| generation.0);
    let mut out = BytesMut::new();
    match assignor {
        Assignor::Range | Assignor::RoundRobin => return None,
        Assignor::CooperativeSticky => out.put_i32(generation),
        Assignor::Sticky => {
            put_partitions(&mut out, owned);
            out.put_i32(generation);
        }
    }
    Some(out.freeze())
}

/// The bytes of one member's assignment.
pub fn encode_assignment(partitions: &[TopicPartition]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(ASSIGNMENT_VERSION);
    put_partitions(&mut out, partitions);
    put_bytes(&mut out, None);
    out.freeze()
}

/// Reads an assignment. No bytes at all are an empty one: so the coordinator answers a member
/// without any.
///
/// # Errors
/// Names the field that breaks the schema.
pub fn decode_assignment(bytes: &Bytes) -> Result<Vec<TopicPartition>, &'static str> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut cursor = Cursor::new(bytes, false);
    let read = cursor
        .i16("assignment version")
        .and_then(|_| read_partitions(&mut cursor));
    read.map_err(|flaw| flaw.field)
}

fn read_subscription(cursor: &mut Cursor<'_>) -> Read<MemberSubscription> {
    let version = cursor.i16("subscription version")?;
    let topics = cursor.array("topics", 2, read_topic)?;
    let user_data = cursor.nullable_bytes("user data")?;
    let owned = if version >= 1 {
        read_partitions(cursor)?
    } else {
        Vec::new()
    };
    let generation = if version >= 2 {
        known_generation(cursor.i32("generation")?)
    } else {
        None
    };
    let rack = if version >= 3 {
        cursor.nullable_text("rack", HOST_MAX)?
    } else {
        None
    };
    let rack = rack.filter(|rack| !rack.is_empty()).map(Rack::from);
    Ok(MemberSubscription {
        topics,
        user_data,
        owned,
        generation,
        rack,
    })
}

fn read_sticky(cursor: &mut Cursor<'_>) -> Read<(Vec<TopicPartition>, Option<Generation>)> {
    let owned = read_partitions(cursor)?;
    // The first version of the sticky assignor wrote no generation.
    let generation = cursor.i32("generation").ok().and_then(known_generation);
    Ok((owned, generation))
}

fn read_topic(cursor: &mut Cursor<'_>) -> Read<TopicName> {
    cursor.text("topic name", TOPIC_MAX).map(TopicName::from)
}

fn read_partitions(cursor: &mut Cursor<'_>) -> Read<Vec<TopicPartition>> {
    let topics = cursor.array("partitions by topic", 6, |cursor| {
        let topic = read_topic(cursor)?;
        cursor.array("partition indexes", 4, |cursor| {
            let partition = PartitionIndex(cursor.i32("partition index")?);
            Ok(TopicPartition {
                topic: topic.clone(),
                partition,
            })
        })
    })?;
    Ok(topics
        .into_iter()
        .flatten()
        .filter(|row| row.partition.0 >= 0)
        .collect())
}

fn known_generation(generation: i32) -> Option<Generation> {
    (generation >= 0).then_some(Generation(generation))
}

fn put_partitions(out: &mut BytesMut, partitions: &[TopicPartition]) {
    let mut topics: IndexMap<&TopicName, Vec<PartitionIndex>> = IndexMap::new();
    for row in partitions {
        topics.entry(&row.topic).or_default().push(row.partition);
    }
    put_count(out, topics.len());
    for (topic, indexes) in topics {
        put_text(out, topic.as_str());
        put_count(out, indexes.len());
        for index in indexes {
            out.put_i32(index.0);
        }
    }
}

fn put_count(out: &mut BytesMut, count: usize) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
    out.put_slice(text.as_bytes());
}

fn put_bytes(out: &mut BytesMut, bytes: Option<&Bytes>) {
    match bytes {
        Some(bytes) => {
            put_count(out, bytes.len());
            out.put_slice(bytes);
        }
        None => out.put_i32(-1),
    }
}

const SUBSCRIPTION_VERSION: i16 = 3;
const ASSIGNMENT_VERSION: i16 = 3;
const NO_GENERATION: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    fn subscription() -> MemberSubscription {
        MemberSubscription {
            topics: vec!["a".into(), "b".into()],
            user_data: Some(Bytes::from_static(b"x")),
            owned: vec![
                TopicPartition::new("a", 0),
                TopicPartition::new("a", 2),
                TopicPartition::new("b", 1),
            ],
            generation: Some(Generation(7)),
            rack: Some("r1".into()),
        }
    }

    #[test]
    fn the_protocol_library_reads_our_subscription() {
        let mut bytes = subscription().encode();
        assert_eq!(&bytes[..2], [0, 3]);
        let read = ConsumerProtocolSubscription::decode(&mut bytes.split_off(2), 3).unwrap();
        assert_eq!(read.topics, ["a", "b"].map(StrBytes::from_static_str));
        assert_eq!(read.owned_partitions[0].partitions, [0, 2]);
        assert_eq!(
            (read.generation_id, read.rack_id.as_deref()),
            (7, Some("r1"))
        );
    }

    #[test]
    fn we_read_every_version_the_library_writes() {
        let full = subscription();
        for version in 0..=3 {
            let theirs = ConsumerProtocolSubscription::default()
                .with_topics(["a", "b"].map(StrBytes::from_static_str).to_vec())
                .with_user_data(full.user_data.clone());
            let mut out = BytesMut::new();
            out.put_i16(version);
            theirs.encode(&mut out, version).unwrap();
            let read = MemberSubscription::decode(&out.freeze()).unwrap();
            assert_eq!(
                (&read.topics, &read.user_data),
                (&full.topics, &full.user_data)
            );
            assert_eq!((read.generation, read.rack), (None, None));
        }
        assert_eq!(MemberSubscription::decode(&full.encode()).unwrap(), full);
    }

    #[test]
    fn an_assignment_survives_the_way_there_and_back() {
        let owned = subscription().owned;
        let mut bytes = encode_assignment(&owned);
        assert_eq!(decode_assignment(&bytes).unwrap(), owned);
        let read = ConsumerProtocolAssignment::decode(&mut bytes.split_off(2), 3).unwrap();
        assert_eq!(read.assigned_partitions[1].partitions, [1]);
        assert_eq!(decode_assignment(&Bytes::new()), Ok(vec![]));
    }

    #[test]
    fn cut_bytes_are_refused_with_the_field_named() {
        let bytes = subscription().encode();
        for length in 0..bytes.len() {
            assert!(
                MemberSubscription::decode(&bytes.slice(..length)).is_err(),
                "{length} bytes"
            );
        }
        let huge = Bytes::from_static(&[0, 3, 0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(MemberSubscription::decode(&huge), Err("topics"));
    }

    #[test]
    fn the_sticky_assignors_find_their_claims() {
        let owned = vec![TopicPartition::new("a", 1)];
        let mut told = MemberSubscription {
            user_data: user_data(Assignor::Sticky, &owned, Some(Generation(3))),
            ..MemberSubscription::default()
        };
        assert_eq!(
            told.claim(Assignor::Sticky),
            (owned.clone(), Some(Generation(3)))
        );
        told.user_data = user_data(Assignor::CooperativeSticky, &owned, Some(Generation(4)));
        told.owned = owned.clone();
        assert_eq!(
            told.claim(Assignor::CooperativeSticky),
            (owned, Some(Generation(4)))
        );
    }
}
