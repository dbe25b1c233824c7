//! What a fleet consumes and how: topics, codec, handler, ordering, limits and failure policy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;

use crate::error::{Error, ErrorKind};
use crate::handler::erased::{ErasedHandler, IntoHandler};
use crate::handler::{Classify, Codec, Exhausted, Handling, Ordering, Raw, Retry};
use crate::ids::TopicName;

/// Topics, or one pattern, with everything needed to handle their records.
///
/// Made by [`Subscription::topics`] or [`Subscription::pattern`]; what is not set follows the
/// fleet's configuration.
///
/// ```
/// use nearside::handler::{Outcome, Raw, Message, Context, Subscription, handler_fn};
/// use std::time::Duration;
///
/// let orders = Subscription::topics(["orders"])
///     .deadline(Duration::from_secs(20))
///     .handler(handler_fn(|order: Message<Raw>, _: Context| async move {
///         if order.key().is_none() {
///             return Ok(Outcome::stop("an order without a key"));
///         }
///         Ok(Outcome::Done)
///     }));
/// assert_eq!(orders.selection().to_string(), "orders");
/// ```
#[derive(Clone)]
pub struct Subscription {
    topics: Topics,
    policy: Policy,
    handler: Arc<dyn ErasedHandler>,
}

impl Subscription {
    /// Subscribes to topics by name.
    pub fn topics<I>(topics: I) -> SubscriptionBuilder
    where
        I: IntoIterator,
        I::Item: Into<TopicName>,
    {
        let mut names: Vec<TopicName> = topics.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        SubscriptionBuilder::new(Topics::Names(names))
    }

    /// Subscribes to every topic whose whole name matches `pattern`, also to those created later.
    /// Syntax is that of the `regex` crate, which is linear in time like RE2; a bad pattern is
    /// reported when the fleet starts.
    pub fn pattern(pattern: impl Into<String>) -> SubscriptionBuilder {
        SubscriptionBuilder::new(Topics::Pattern(pattern.into()))
    }

    /// What is subscribed to.
    pub fn selection(&self) -> &Topics {
        &self.topics
    }

    /// How records are handled, as far as set on this subscription.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The handler, its type erased.
    pub fn handler(&self) -> &Arc<dyn ErasedHandler> {
        &self.handler
    }

    /// Checks what the types could not.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for an empty topic list, a bad pattern, or a concurrency that the
    /// ordering does not allow.
    pub fn check(&self) -> Result<(), Error> {
        self.topics.matcher()?;
        match (
            self.policy.ordering.unwrap_or_default(),
            self.policy.concurrency,
        ) {
            (Ordering::Partition, Some(concurrency)) if concurrency != 1 => Err(Error::new(
                ErrorKind::Config,
                format!(
                    "concurrency={concurrency} clashes with ordering=partition, where one unit of \
                     a partition runs at a time; set concurrency=1"
                ),
            )),
            (Ordering::Partition, _) => Ok(()),
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("topics", &self.topics)
            .field("policy", &self.policy)
            .field("handler", &self.handler)
            .finish()
    }
}

/// The topics of a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topics {
    /// By name, sorted, without duplicates.
    Names(Vec<TopicName>),
    /// By a pattern that must match the whole name.
    Pattern(String),
}

impl Topics {
    /// The test whether a topic is meant.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for an empty list, a name that no topic can have, or a pattern that
    /// does not compile.
    pub fn matcher(&self) -> Result<TopicMatcher, Error> {
        match self {
            Self::Names(names) if names.is_empty() => Err(Error::new(
                ErrorKind::Config,
                "a subscription names no topic",
            )),
            Self::Names(names) => match names.iter().find(|name| !name.is_legal()) {
                Some(name) => Err(Error::new(ErrorKind::Config, not_a_topic(name))),
                None => Ok(TopicMatcher(Matcher::Names(names.clone()))),
            },
            Self::Pattern(pattern) => Regex::new(&format!("^(?:{pattern})$"))
                .map(|regex| TopicMatcher(Matcher::Pattern(regex)))
                .map_err(|error| {
                    let reason = error.to_string();
                    let last_line = reason.lines().last().unwrap_or_default().trim();
                    Error::new(
                        ErrorKind::Config,
                        format!("topic pattern {pattern:?} does not compile: {last_line}"),
                    )
                }),
        }
    }
}

/// Says what is wrong with a name; of a long one, only its beginning.
pub(crate) fn not_a_topic(name: &TopicName) -> String {
    let shown: String = name.as_str().chars().take(NAME_SHOWN).collect();
    format!(
        "{shown:?} ({} bytes) names no topic: 1 to 249 letters, digits, dots, underscores and \
         hyphens do",
        name.as_str().len()
    )
}

/// Characters of a wrong name that are shown.
const NAME_SHOWN: usize = 60;

impl fmt::Display for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(names) => {
                for (index, name) in names.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{name}")?;
                }
                Ok(())
            }
            Self::Pattern(pattern) => write!(f, "/{pattern}/"),
        }
    }
}

/// Tells whether a topic belongs to a subscription.
#[derive(Clone, Debug)]
pub struct TopicMatcher(Matcher);

#[derive(Clone, Debug)]
enum Matcher {
    Names(Vec<TopicName>),
    Pattern(Regex),
}

impl TopicMatcher {
    /// Whether `topic` is meant.
    pub fn matches(&self, topic: &TopicName) -> bool {
        match &self.0 {
            Matcher::Names(names) => names.binary_search(topic).is_ok(),
            Matcher::Pattern(regex) => regex.is_match(topic.as_str()),
        }
    }
}

/// What a subscription sets; `None` follows the fleet's configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// Which records may be in work side by side.
    pub ordering: Option<Ordering>,
    /// Units of one partition in hand at a time.
    pub concurrency: Option<u32>,
    /// Time an attempt may take; zero means any.
    pub deadline: Option<Duration>,
    /// The retry schedule.
    pub retry: Option<Retry>,
    /// What happens when retrying ends.
    pub exhausted: Option<Exhausted>,
}

impl Policy {
    /// This policy, with everything it leaves open taken from `defaults`.
    pub fn over(&self, defaults: &Handling) -> Handling {
        Handling {
            ordering: self.ordering.unwrap_or(defaults.ordering),
            deadline: match self.deadline {
                Some(deadline) => Some(deadline).filter(|deadline| !deadline.is_zero()),
                None => defaults.deadline,
            },
            retry: self.retry.unwrap_or(defaults.retry),
            exhausted: self
                .exhausted
                .clone()
                .unwrap_or_else(|| defaults.exhausted.clone()),
        }
    }
}

/// A subscription without its handler. `C` decodes its records.
pub struct SubscriptionBuilder<C = Raw> {
    topics: Topics,
    policy: Policy,
    codec: C,
    classify: Option<Arc<dyn Classify>>,
}

impl SubscriptionBuilder {
    fn new(topics: Topics) -> Self {
        Self {
            topics,
            policy: Policy::default(),
            codec: Raw,
            classify: None,
        }
    }
}

impl<C: Codec> SubscriptionBuilder<C> {
    /// Sets the codec; without one handlers get [`Raw`] records.
    #[must_use]
    pub fn decode<D: Codec>(self, codec: D) -> SubscriptionBuilder<D> {
        let Self {
            topics,
            policy,
            codec: _,
            classify,
        } = self;
        SubscriptionBuilder {
            topics,
            policy,
            codec,
            classify,
        }
    }

    /// Sets the ordering. Default: [`Ordering::Partition`].
    #[must_use]
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.policy.ordering = Some(ordering);
        self
    }

    /// Sets how many units of one partition may be in hand. Default, and the only value that goes
    /// with [`Ordering::Partition`]: 1.
    #[must_use]
    pub fn concurrency(mut self, units: u32) -> Self {
        self.policy.concurrency = Some(units);
        self
    }

    /// Sets how long an attempt may take before it is cancelled. Default: 60 s. Zero means any
    /// time.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.policy.deadline = Some(deadline);
        self
    }

    /// Sets the retry schedule. Default: 100 ms doubling to 30 s, no ceiling.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.policy.retry = Some(retry);
        self
    }

    /// Sets what happens when the retry ceiling is reached, or an error is permanent. Default:
    /// [`Exhausted::Stop`].
    #[must_use]
    pub fn exhausted(mut self, action: Exhausted) -> Self {
        self.policy.exhausted = Some(action);
        self
    }

    /// Replaces the default rules by which errors become outcomes.
    #[must_use]
    pub fn classify(mut self, classify: impl Classify) -> Self {
        self.classify = Some(Arc::new(classify));
        self
    }

    /// Sets the handler, of any of the three kinds, and completes the subscription.
    pub fn handler<H, K>(self, handler: H) -> Subscription
    where
        H: IntoHandler<C, K>,
    {
        let Self {
            topics,
            policy,
            codec,
            classify,
        } = self;
        Subscription {
            topics,
            policy,
            handler: handler.into_handler(codec, classify),
        }
    }
}

impl<C> fmt::Debug for SubscriptionBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionBuilder")
            .field("topics", &self.topics)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
