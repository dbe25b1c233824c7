//! Typed configuration under Kafka's property names, checked before any socket opens.
//!
//! Keys that Kafka knows keep its meaning; our own may carry the prefix `nearside.`. An unknown key
//! is an error, a bad value names what would be accepted, and [`Config::lint`] finds values that
//! contradict each other. Sources: routing.md 17, metadata.md 14, wire.md 15, runtime.md 16.
//!
//! ```
//! use nearside::config::Config;
//!
//! let text = "bootstrap.servers = kafka-1:9092\ngroup.id = billing\n";
//! let config = Config::from_properties(text, "client.properties")?;
//! assert_eq!(config.fetch.max_wait.as_millis(), 500);
//!
//! let error = Config::from_pairs([("gruop.id", "billing")]).unwrap_err();
//! assert_eq!(error.to_string(), "unknown property `gruop.id`, did you mean `group.id`?");
//! # Ok::<(), nearside::config::ConfigError>(())
//! ```

mod choices;
mod connection;
mod consuming;
mod error;
mod handling;
mod keys;
mod letters;
mod lint;
mod lint_security;
mod producing;
mod properties;
mod property;
mod routes;
mod section;
mod security;
mod settings;
mod shares;

use std::collections::BTreeSet;

use section::Section;

pub use crate::secret::Secret;
pub use choices::{Acks, AssignmentRack, Compression, DnsLookup};
pub use connection::{ClusterChange, Connection, HintEndpoints, Metadata, Recovery, Wire};
pub use consuming::{Fetch, Group, Offsets};
pub use error::{ConfigError, Problem};
pub use handling::{Handling, Lifecycle, Retry};
pub use lint::{Finding, Severity};
pub use producing::{InFlight, Produce};
pub use property::{Share, SocketBuffer};
pub use routes::{Cooldown, Routing};
pub use security::{NameCheck, Pem, Protocol, Seconds, Security, TlsVersion, TokenFile};

/// Everything that can be set. The default is that of the specification; fields may be set directly
/// or through [`set`](Self::set) under their property names.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Config {
    /// Who we are, whom we dial, and how patiently.
    pub connection: Connection,
    /// How connections are encrypted and authenticated.
    pub security: Security,
    /// Limits of frames and batches.
    pub wire: Wire,
    /// The view of the cluster.
    pub metadata: Metadata,
    /// How much is fetched, and how eagerly.
    pub fetch: Fetch,
    /// Which replica is read.
    pub routing: Routing,
    /// How long replicas that failed are left alone.
    pub cooldown: Cooldown,
    /// Membership in the consumer group.
    pub group: Group,
    /// Where reading starts and how completions are committed.
    pub offsets: Offsets,
    /// How records reach the handler.
    pub handling: Handling,
    /// When a failed record is tried again.
    pub retry: Retry,
    /// How partitions are given up and the process stops.
    pub lifecycle: Lifecycle,
    /// How records are written.
    pub produce: Produce,
    given: BTreeSet<&'static str>,
}

impl Config {
    /// Reads a properties file. `name` is what messages call it.
    ///
    /// # Errors
    ///
    /// The first line that is no property, or sets one to something it does not accept.
    pub fn from_properties(text: &str, name: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.set_properties(text, name)?;
        Ok(config)
    }

    /// Reads pairs of key and value; a later pair replaces an earlier one.
    ///
    /// # Errors
    ///
    /// The first pair that is refused, as [`set`](Self::set) tells.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for (key, value) in pairs {
            config.set(key, value)?;
        }
        Ok(config)
    }

    /// Sets every property of a properties file on top of what is set.
    ///
    /// # Errors
    ///
    /// The first line that is no property, or sets one to something it does not accept.
    pub fn set_properties(&mut self, text: &str, name: &str) -> Result<(), ConfigError> {
        for entry in properties::parse(text, name)? {
            self.set(&entry.key, &entry.value)
                .map_err(|error| error.at(format!("{name}:{}", entry.line)))?;
        }
        Ok(())
    }

    /// Sets one property given as `key=value`, the form of a command line.
    ///
    /// # Errors
    ///
    /// A pair without `=`, or one that is refused, as [`set`](Self::set) tells.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), ConfigError> {
        let Some((key, value)) = pair.split_once('=') else {
            // It may be a value alone, and a secret.
            let what = "a property is set by key=value, and here is no `=`".to_owned();
            return Err(Problem::Syntax { what }.into());
        };
        self.set(key, value)
    }

    /// Sets one property. Blanks around key and value are dropped.
    ///
    /// # Errors
    ///
    /// An unknown key, a value the key does not accept, or a feature this release lacks.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let (written, value) = (key.trim(), value.trim());
        let bare = written.strip_prefix(PREFIX).unwrap_or(written);
        let alias = keys::ALIASES.iter().find(|(spelling, _)| *spelling == bare);
        let key = alias.map_or(bare, |(_, key)| *key);
        let outcome = self
            .sections_mut()
            .into_iter()
            .find_map(|section| section.set(key, value));
        if let (Some(result), Some(key)) = (outcome, known_key(key)) {
            result.map_err(|accepts| Problem::BadValue {
                key,
                value: told(key, value),
                accepts,
            })?;
            self.given.insert(key);
            return Ok(());
        }
        refuse(written, key, value).map_or(Ok(()), |problem| Err(problem.into()))
    }

    /// The value of `key` as text, if it is a property with a field.
    pub fn show(&self, key: &str) -> Option<String> {
        self.sections()
            .into_iter()
            .find_map(|section| section.show(key))
    }

    /// Whether `key` was set by name, not left at its default.
    pub fn is_given(&self, key: &str) -> bool {
        self.given.contains(key)
    }

    /// All keys with a field.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        SECTION_KEYS.iter().flat_map(|keys| keys()).copied()
    }

    /// What must be set for a consumer to start.
    ///
    /// # Errors
    ///
    /// The first required key that is missing.
    pub fn require_consumer(&self) -> Result<(), ConfigError> {
        self.require_bootstrap()?;
        let missing = Problem::Missing {
            key: "group.id",
            example: "billing",
        };
        self.group
            .id
            .as_ref()
            .map(drop)
            .ok_or_else(|| missing.into())
    }

    /// What must be set for anything to connect.
    ///
    /// # Errors
    ///
    /// `bootstrap.servers` is missing.
    pub fn require_bootstrap(&self) -> Result<(), ConfigError> {
        if self.connection.bootstrap.is_empty() {
            let example = "kafka-1:9092,kafka-2:9092";
            return Err(Problem::Missing {
                key: "bootstrap.servers",
                example,
            }
            .into());
        }
        Ok(())
    }

    fn sections(&self) -> [&dyn Section; 13] {
        [
            &self.connection,
            &self.security,
            &self.wire,
            &self.metadata,
            &self.fetch,
            &self.routing,
            &self.cooldown,
            &self.group,
            &self.offsets,
            &self.handling,
            &self.retry,
            &self.lifecycle,
            &self.produce,
        ]
    }

    fn sections_mut(&mut self) -> [&mut dyn Section; 13] {
        [
            &mut self.connection,
            &mut self.security,
            &mut self.wire,
            &mut self.metadata,
            &mut self.fetch,
            &mut self.routing,
            &mut self.cooldown,
            &mut self.group,
            &mut self.offsets,
            &mut self.handling,
            &mut self.retry,
            &mut self.lifecycle,
            &mut self.produce,
        ]
    }
}

/// Why a key without a field is refused; `None` if its value asks for nothing that is missing.
fn refuse(written: &str, key: &str, value: &str) -> Option<Problem> {
    if let Some(unbuilt) = keys::UNBUILT.iter().find(|unbuilt| unbuilt.key == key) {
        if value.is_empty()
            || unbuilt
                .works
                .iter()
                .any(|works| works.eq_ignore_ascii_case(value))
        {
            return None;
        }
        let value = if unbuilt.secret { "[redacted]" } else { value };
        return Some(Problem::NotBuilt {
            key: unbuilt.key,
            value: value.into(),
            feature: unbuilt.feature,
            works: unbuilt.works.first().copied(),
        });
    }
    if let Some((key, instead)) = keys::FOREIGN.iter().find(|(name, _)| *name == key) {
        return Some(Problem::Foreign { key, instead });
    }
    let known = Config::keys()
        .chain(keys::UNBUILT.iter().map(|unbuilt| unbuilt.key))
        .chain(keys::ALIASES.iter().map(|(spelling, _)| *spelling));
    let shown = may_be_shown(written);
    Some(Problem::UnknownKey {
        key: shown.then(|| written.into()),
        nearest: shown.then(|| keys::nearest(key, known)).flatten(),
    })
}

/// A value as a message tells it. The address of an endpoint that gives tokens may hold what gets
/// them, and what stands in its place may be a token.
fn told(key: &str, value: &str) -> String {
    if key != lint_security::TOKEN_FILE {
        return value.into();
    }
    match value.split_once(':') {
        Some((scheme, _)) => format!("{scheme}:[redacted]"),
        None => "[redacted]".into(),
    }
}

/// Whether an unknown key may stand in a message. A private key whose lines lack their backslashes
/// is read as one property per line, and no line of it may be told: what is long and without a dot
/// may be such a line, and no key is.
fn may_be_shown(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let limit = if key.contains('.') { 64 } else { 32 };
    key.len() <= limit && key.bytes().all(fits)
}

fn known_key(key: &str) -> Option<&'static str> {
    Config::keys().find(|known| *known == key)
}

/// What our own keys may carry in property form.
const PREFIX: &str = "nearside.";

const SECTION_KEYS: [fn() -> &'static [&'static str]; 13] = [
    Connection::keys,
    Security::keys,
    Wire::keys,
    Metadata::keys,
    Fetch::keys,
    Routing::keys,
    Cooldown::keys,
    Group::keys,
    Offsets::keys,
    Handling::keys,
    Retry::keys,
    Lifecycle::keys,
    Produce::keys,
];
