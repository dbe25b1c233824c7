//! Options that several subcommands share.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::cli::exit::Failure;
use crate::config::{Config, Severity};

/// How to reach the cluster, and any property.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct ConnectionOptions {
    /// Brokers to ask first: host:port, comma separated.
    #[arg(short, long, value_name = "HOST:PORT")]
    pub(super) bootstrap_server: Option<String>,
    /// A property by its Kafka name; may be repeated and wins over the file.
    #[arg(short = 'X', long = "property", value_name = "KEY=VALUE")]
    pub(super) properties: Vec<Pair>,
    /// A file of properties.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Seconds to wait for a first broker.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(super) connect_timeout: u64,
}

/// `key=value` as it was given. The value may be a password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair(String);

impl From<String> for Pair {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_once('=') {
            Some((key, _)) => write!(f, "{key}=[redacted]"),
            None => f.write_str("[redacted]"),
        }
    }
}

impl ConnectionOptions {
    /// The configuration they amount to: the file, then the properties, then `defaults` for what
    /// nobody set.
    ///
    /// # Errors
    /// A usage [`Failure`] for a file that cannot be read, an unknown key (with the nearest one) or
    /// a value that does not fit.
    pub(super) fn config(&self, defaults: &[(&str, &str)]) -> Result<Config, Failure> {
        let mut config = Config::default();
        if let Some(path) = &self.config {
            let name = path.display().to_string();
            let text = fs::read_to_string(path)
                .map(Zeroizing::new)
                .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
            config.set_properties(&text, &name)?;
        }
        for pair in &self.properties {
            config.set_pair(&pair.0)?;
        }
        if let Some(bootstrap) = &self.bootstrap_server {
            config.set("bootstrap.servers", bootstrap)?;
        }
        for (key, value) in defaults {
            if !config.is_given(key) {
                config.set(key, value)?;
            }
        }
        Ok(config)
    }
}

/// Refuses values that contradict each other; says of those that are legal and hardly meant.
///
/// # Errors
/// A usage [`Failure`] with the first contradiction.
pub(super) fn refuse_contradictions(config: &Config) -> Result<(), Failure> {
    // Errors come first, so nothing is warned of that will not run.
    for finding in config.lint() {
        match finding.severity {
            Severity::Error => return Err(Failure::usage(finding.message)),
            // Without a standard error there is nobody to tell.
            Severity::Warning => drop(writeln!(io::stderr(), "{finding}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(properties: &[&str]) -> ConnectionOptions {
        let properties = properties
            .iter()
            .map(|&pair| Pair(pair.to_owned()))
            .collect();
        ConnectionOptions {
            properties,
            ..ConnectionOptions::default()
        }
    }

    #[test]
    fn an_unknown_property_names_the_nearest_one() {
        let failure = options(&["gruop.id=x"]).config(&[]).unwrap_err();
        assert_eq!(failure.exit, crate::cli::exit::Exit::Usage);
        assert_eq!(
            failure.message,
            "unknown property `gruop.id`, did you mean `group.id`?"
        );
    }

    /// wire.md A28
    #[test]
    fn properties_given_as_words_are_not_shown() {
        let shown = format!("{:?}", options(&["sasl.password=hunter2", "hunter2"]));
        assert!(shown.contains("sasl.password=[redacted]"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn what_is_given_wins_over_defaults() {
        let defaults = [
            ("group.id", "of-the-command"),
            ("client.id", "of-the-command"),
        ];
        let config = options(&["group.id=billing"]).config(&defaults).unwrap();
        assert_eq!(config.show("group.id").as_deref(), Some("billing"));
        assert_eq!(config.show("client.id").as_deref(), Some("of-the-command"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let missing = ConnectionOptions {
            config: Some("no/such".into()),
            ..options(&[])
        };
        assert!(
            missing
                .config(&[])
                .unwrap_err()
                .message
                .starts_with("cannot read no/such: ")
        );
    }
}
