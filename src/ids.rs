//! Identifiers, offsets, epochs and the two values every machine takes as arguments: time and
//! chance.
//!
//! Each is a newtype, so that an offset can never stand where an epoch is meant. Protocol sentinels
//! (-1) end at the wire: inside, "unknown" is `Option::None`.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Declares an integer newtype with the derives and conversions all of ours share.
macro_rules! integer_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

/// Declares a cheap-to-clone text newtype.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self(value.into())
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                Self(value.into())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0.as_ref().to_owned()
            }
        }
    };
}

integer_id! {
    /// A broker's node id. Never negative: the wire's -1 is `None`.
    BrokerId(i32)
}
integer_id! {
    /// Index of a partition inside its topic, from 0.
    PartitionIndex(i32)
}
integer_id! {
    /// Position of a record in a partition log, in records.
    Offset(i64)
}
integer_id! {
    /// Leader epoch of a partition (KIP-101, KIP-320). Unknown is `None`.
    LeaderEpoch(i32)
}
integer_id! {
    /// Generation of a classic group, or member epoch under KIP-848.
    Generation(i32)
}
integer_id! {
    /// Raised at each new assignment of a partition to this process; kept while a cooperative
    /// rebalance retains it.
    AssignmentEpoch(u64)
}
integer_id! {
    /// Raised by seek, reset, truncation and start of validation (routing.md 2).
    PositionGeneration(u64)
}
integer_id! {
    /// Raised on every change of (serving broker, lane) of a partition (routing.md 2).
    RouteGeneration(u64)
}
integer_id! {
    /// Local counter of the lives of a topic name: +1 per new topic id (KIP-516).
    TopicIncarnation(u64)
}
integer_id! {
    /// +1 per applied Metadata response.
    MetadataVersion(u64)
}
integer_id! {
    /// Number of the living instance of an actor, raised at each restart.
    Incarnation(u64)
}

text_id! {
    /// A topic's name.
    TopicName
}
text_id! {
    /// A rack, that is an availability zone (`broker.rack`, `client.rack`).
    Rack
}
text_id! {
    /// A consumer group's id.
    GroupId
}
text_id! {
    /// A group member's id as its coordinator knows it.
    MemberId
}

/// A topic's unique id (KIP-516). The all-zero id of the wire is `None` inside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicId(pub uuid::Uuid);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicId({})", self.0)
    }
}

impl TopicName {
    /// Whether a broker lets a topic have this name: 1 to 249 letters, digits, dots, underscores
    /// and hyphens, and neither `.` nor `..`.
    pub fn is_legal(&self) -> bool {
        let name = self.as_str();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        !name.is_empty()
            && name.len() <= TOPIC_BYTES_MAX
            && name.chars().all(legal)
            && !matches!(name, "." | "..")
    }
}

/// Longest topic name a broker takes.
const TOPIC_BYTES_MAX: usize = 249;

/// One partition of one topic; prints as `topic-3`. Cloning copies a pointer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition inside it.
    pub partition: PartitionIndex,
}

impl TopicPartition {
    /// Pairs a topic with one of its partitions.
    pub fn new(topic: impl Into<TopicName>, partition: impl Into<PartitionIndex>) -> Self {
        Self {
            topic: topic.into(),
            partition: partition.into(),
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Offset {
    /// The offset after this one; saturates at the end of the number range.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A point of monotonic time in microseconds since an arbitrary start. The core never reads a
/// clock: each machine is handed the moment at which its input happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// The start of time.
    pub const ZERO: Self = Self(0);

    /// The moment `ms` milliseconds after the start.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    /// Whole milliseconds since the start.
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000
    }

    /// Time passed since `earlier`; zero if `earlier` lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(rhs.as_micros()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(rhs.as_micros()).unwrap_or(u64::MAX)),
        )
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}ms", self.0 / 1_000, self.0 % 1_000)
    }
}

/// One random sample, drawn outside and handed in, so that a machine's outputs depend on its
/// arguments alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Draw(pub u64);

impl Draw {
    /// The sample as a fraction in `0.0..1.0`.
    pub fn unit(self) -> f64 {
        // 53 bits are all that an f64 holds exactly.
        const SCALE: f64 = 1.0 / 9_007_199_254_740_992.0;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
        let numerator = (self.0 >> 11) as f64;
        numerator * SCALE
    }

    /// The sample scaled into `low..high`.
    pub fn uniform(self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// A further, independent-looking sample derived from this one (splitmix64).
    pub const fn split(self) -> Self {
        let mut z = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self(z ^ (z >> 31))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_scales_into_its_range() {
        assert!((Draw(0).uniform(0.9, 1.1) - 0.9).abs() < 1e-12);
        assert!(Draw(u64::MAX).unit() < 1.0);
        assert_ne!(Draw(1).split(), Draw(2).split());
    }

    #[test]
    fn moments_never_go_below_the_start() {
        assert_eq!(Moment::from_ms(1) - Duration::from_secs(1), Moment::ZERO);
        assert_eq!(Moment::from_ms(5).since(Moment::from_ms(9)), Duration::ZERO);
    }

    #[test]
    fn a_topic_partition_prints_as_kafka_prints_it() {
        assert_eq!(TopicPartition::new("orders", 3).to_string(), "orders-3");
    }
}
