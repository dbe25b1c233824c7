//! One dead letter, and how it looks as a record (runtime.md 10 Q3).

use bytes::Bytes;

use crate::ids::{LeaderEpoch, Offset, PartitionIndex, TopicId, TopicName, TopicPartition};
use crate::producer::{Record, partition_of_key};

use super::machine::Settings;

/// Bytes of the error text that a letter carries at most.
pub const ERROR_BYTES_MAX: usize = 1_024;

/// Where dead letters go unless told otherwise.
pub const DEFAULT_TOPIC: &str = "<topic>.dead-letter";

/// What could not be handled, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    /// Where it lay.
    pub origin: TopicPartition,
    /// Id of that topic, if known.
    pub topic_id: Option<TopicId>,
    /// Leader epoch the batch was appended at, if known.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Its offset: of a batch, the base offset.
    pub offset: Offset,
    /// The first offset that was not delivered. Of a batch it may lie above the base offset.
    pub first_undelivered: Offset,
    /// The offset behind it, where reading goes on.
    pub next: Offset,
    /// Why, as a fixed word.
    pub reason: Reason,
    /// Why, in words; longer ones than [`ERROR_BYTES_MAX`] are cut.
    pub error: String,
    /// What is kept: of a batch, its bytes as they lay in the log.
    pub value: Bytes,
}

/// Why something became a dead letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Reason {
    /// A batch that nobody can read (wire.md 8.6).
    Poison,
}

impl Reason {
    /// The value of `nearside.reason`, and a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poison => "poison",
        }
    }
}

/// The names of dead letter topics: `<topic>` in it stands for the topic of origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicRule(String);

impl TopicRule {
    /// A rule from its text, such as [`DEFAULT_TOPIC`].
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Where the dead letters of `topic` go.
    pub fn topic_for(&self, topic: &TopicName) -> TopicName {
        self.0.replace(PLACE, topic.as_str()).into()
    }

    /// A pattern for where the dead letters of the topics go whose whole names match `topics`.
    pub fn pattern_for(&self, topics: &str) -> String {
        regex::escape(&self.0).replace(&regex::escape(PLACE), &format!("(?:{topics})"))
    }
}

impl Default for TopicRule {
    fn default() -> Self {
        Self::new(DEFAULT_TOPIC)
    }
}

impl Letter {
    /// The record for a dead letter topic with `partitions` partitions, written at `unix_ms`.
    ///
    /// It goes to the partition of the same number, or to one that is always the same for its
    /// origin. Its time is now, lest retention delete what is old already.
    pub(super) fn into_record(self, settings: &Settings, partitions: i32, unix_ms: i64) -> Record {
        let headers = self.headers(settings, unix_ms);
        Record {
            topic: settings.topic.topic_for(&self.origin.topic),
            partition: self.partition_among(partitions),
            timestamp: unix_ms.max(0),
            key: None,
            value: Some(self.value),
            headers,
        }
    }

    fn partition_among(&self, count: i32) -> Option<PartitionIndex> {
        let same = Some(self.origin.partition).filter(|index| index.0 < count);
        same.or_else(|| partition_of_key(self.origin.to_string().as_bytes(), count))
    }

    fn headers(&self, settings: &Settings, unix_ms: i64) -> Vec<(String, Option<Bytes>)> {
        let header = |name: &str, value: String| {
            let name = format!("{PREFIX}{name}");
            (name, Some(Bytes::from(value.into_bytes())))
        };
        let known = [
            header("origin.topic", self.origin.topic.to_string()),
            header("origin.partition", self.origin.partition.to_string()),
            header("origin.offset", self.offset.to_string()),
            header(
                "origin.first_undelivered",
                self.first_undelivered.to_string(),
            ),
            header("origin.next_offset", self.next.to_string()),
        ];
        let maybe = [
            self.topic_id
                .map(|id| header("origin.topic_id", id.to_string())),
            self.leader_epoch
                .map(|epoch| header("origin.leader_epoch", epoch.to_string())),
        ];
        let rest = [
            header("group", settings.group.to_string()),
            header("client", settings.client.clone()),
            header("reason", self.reason.name().to_owned()),
            header("error", cut(&self.error).to_owned()),
            header("dead_lettered_ms", unix_ms.to_string()),
        ];
        known
            .into_iter()
            .chain(maybe.into_iter().flatten())
            .chain(rest)
            .collect()
    }
}

/// The text as far as it may go, never within a character.
fn cut(text: &str) -> &str {
    let mut end = ERROR_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

/// Beginning of our header names.
const PREFIX: &str = "nearside.";
/// What stands for the topic of origin.
const PLACE: &str = "<topic>";

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new("billing", "app-1")
    }

    fn letter(partition: i32) -> Letter {
        Letter {
            origin: TopicPartition::new("orders", partition),
            topic_id: None,
            leader_epoch: Some(LeaderEpoch(4)),
            offset: Offset(10),
            first_undelivered: Offset(12),
            next: Offset(20),
            reason: Reason::Poison,
            error: "ß".repeat(1_000),
            value: Bytes::from_static(b"raw"),
        }
    }

    fn text(record: &Record, name: &str) -> Option<String> {
        let name = format!("nearside.{name}");
        let value = record.headers.iter().find(|it| it.0 == name)?.1.as_ref();
        value.map(|it| String::from_utf8(it.to_vec()).unwrap())
    }

    #[test]
    fn a_letter_keeps_the_bytes_and_says_where_they_lay() {
        let record = letter(3).into_record(&settings(), 6, 77);
        assert_eq!(record.topic.as_str(), "orders.dead-letter");
        assert_eq!(record.partition, Some(PartitionIndex(3)));
        assert_eq!((record.key.as_ref(), record.timestamp), (None, 77));
        assert_eq!(record.value.as_deref(), Some(b"raw".as_slice()));
        let expected = [
            ("origin.topic", "orders"),
            ("origin.partition", "3"),
            ("origin.offset", "10"),
            ("origin.first_undelivered", "12"),
            ("origin.next_offset", "20"),
            ("origin.leader_epoch", "4"),
            ("group", "billing"),
            ("client", "app-1"),
            ("reason", "poison"),
            ("dead_lettered_ms", "77"),
        ];
        for (name, value) in expected {
            assert_eq!(text(&record, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(text(&record, "origin.topic_id"), None, "not known");
        assert_eq!(text(&record, "error"), Some("ß".repeat(512)), "1 KiB");
    }

    #[test]
    fn with_fewer_partitions_the_origin_always_chooses_the_same_one() {
        let of = |count| letter(7).into_record(&settings(), count, 0).partition;
        assert_eq!(of(8), Some(PartitionIndex(7)));
        let expected = partition_of_key(b"orders-7", 3);
        assert_eq!((of(3), of(3)), (expected, expected));
    }

    #[test]
    fn one_topic_may_take_the_letters_of_all() {
        let topic = |rule: &str| TopicRule::new(rule).topic_for(&"orders".into());
        assert_eq!(topic("dead"), "dead".into());
        assert_eq!(topic("dead.<topic>"), "dead.orders".into());
        let pattern = |rule: &str| TopicRule::new(rule).pattern_for("a|b");
        assert_eq!(pattern(DEFAULT_TOPIC), r"(?:a|b)\.dead\-letter");
        assert_eq!(pattern("dead"), "dead");
    }
}
