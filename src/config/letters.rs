//! Where dead letters go, and how they are written (runtime.md 10).

use std::time::Duration;

use super::Config;
use super::lint::{Finding, error};
use crate::ids::GroupId;
use crate::producer::letters::{self, TopicRule};
use crate::records::BatchPolicy;
use crate::{producer, wire};

impl Config {
    /// Where dead letters of `group` go; `None` if it never writes any.
    pub fn letter_settings(&self, group: GroupId) -> Option<letters::Settings> {
        match self.wire.batch_policy {
            BatchPolicy::DeadLetterRaw => Some(letters::Settings {
                topic: self.letter_topic(),
                ..letters::Settings::new(group, &*self.connection.client_id)
            }),
            BatchPolicy::Halt | BatchPolicy::Skip => None,
        }
    }

    /// How dead letters are produced (runtime.md 10 Q2): every in-sync replica, in sequence, and
    /// without waiting for company.
    pub fn letter_producer_settings(&self) -> producer::Settings {
        producer::Settings {
            kind: producer::Kind::DeadLetter,
            acks: wire::api::produce::Acks::All,
            idempotent: true,
            linger: Duration::ZERO,
            ..self.producer_settings()
        }
    }

    fn letter_topic(&self) -> TopicRule {
        let set = self.handling.dead_letter_topic.as_deref();
        set.map(TopicRule::new).unwrap_or_default()
    }
}

/// A name that no topic can have takes no letter.
pub(super) fn dead_letters_go_to_a_topic(config: &Config) -> Option<Finding> {
    const KEY: &str = "dead.letter.topic";
    let topic = config.letter_topic().topic_for(&"t".into());
    error(!topic.is_legal(), KEY, || {
        format!(
            "`{KEY}` is `{}`, which names no topic; `{KEY}={}` works, or one name for all",
            config.show(KEY).unwrap_or_default(),
            letters::DEFAULT_TOPIC,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Option<letters::Settings> {
        let config = Config::from_pairs(pairs.iter().copied()).unwrap();
        config.letter_settings("g".into())
    }

    #[test]
    fn letters_are_written_only_where_a_policy_asks_for_them() {
        assert_eq!(settings(&[]), None);
        assert_eq!(settings(&[("dead.letter.topic", "dead")]), None);
        let policy = ("wire.batch.policy", "dead_letter_raw");
        let topic = |pairs: &[_]| settings(pairs).unwrap().topic.topic_for(&"orders".into());
        assert_eq!(topic(&[policy]), "orders.dead-letter".into());
        let other = ("dead.letter.topic", "dead.<topic>");
        assert_eq!(topic(&[policy, other]), "dead.orders".into());
    }

    #[test]
    fn a_leader_alone_is_never_enough_for_a_letter() {
        let config = Config::from_pairs([("acks", "1")]).unwrap();
        assert!(!config.producer_settings().idempotent);
        assert!(config.letter_producer_settings().idempotent);
    }
}
