//! What can be wrong with a configuration, each in one line that says what would work.

use std::fmt;

use crate::error::{Error, ErrorKind};

/// Why a configuration was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// Where it stood, such as `client.properties:12`, if that is known.
    pub origin: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with one property.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// No such key.
    UnknownKey {
        /// As it was written; `None` if it does not look like a key: it may be part of a secret
        /// that was pasted over several lines.
        key: Option<String>,
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
    },
    /// The key exists, the value does not fit.
    BadValue {
        /// The key.
        key: &'static str,
        /// As it was written; secrets are masked.
        value: String,
        /// What the key accepts.
        accepts: String,
    },
    /// The key is known, but what it asks for is not part of this release.
    NotBuilt {
        /// The key.
        key: &'static str,
        /// As it was written; secrets are masked.
        value: String,
        /// What is missing.
        feature: &'static str,
        /// The one value that works, if there is one.
        works: Option<&'static str>,
    },
    /// The key of another client that has no meaning here.
    Foreign {
        /// The key.
        key: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// A key without which nothing can start.
    Missing {
        /// The key.
        key: &'static str,
        /// An example of a value.
        example: &'static str,
    },
    /// Text that is not a property at all.
    Syntax {
        /// What is wrong with it.
        what: String,
    },
}

impl ConfigError {
    /// A problem of unknown origin.
    pub const fn new(problem: Problem) -> Self {
        Self {
            origin: None,
            problem,
        }
    }

    /// The same problem, found at `origin`.
    #[must_use]
    pub fn at(self, origin: impl Into<String>) -> Self {
        Self {
            origin: Some(origin.into()),
            ..self
        }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self::new(problem)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        write!(f, "{}", self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { key, nearest } => {
                match key {
                    Some(key) => write!(f, "unknown property `{key}`")?,
                    None => f.write_str("not a property: what stands there is no key")?,
                }
                match nearest {
                    Some(nearest) => write!(f, ", did you mean `{nearest}`?"),
                    None => Ok(()),
                }
            }
            Self::BadValue {
                key,
                value,
                accepts,
            } => {
                write!(f, "`{key}` is `{value}`, but takes {accepts}")
            }
            Self::NotBuilt {
                key,
                value,
                feature,
                works: Some(works),
            } => {
                write!(
                    f,
                    "`{key}={value}` needs {feature}, which this release lacks; "
                )?;
                write!(f, "only `{works}` works")
            }
            Self::NotBuilt {
                key,
                value,
                feature,
                works: None,
            } => {
                write!(
                    f,
                    "`{key}={value}` needs {feature}, which this release lacks; leave it out"
                )
            }
            Self::Foreign { key, instead } => write!(f, "`{key}` has no meaning here: {instead}"),
            Self::Missing { key, example } => {
                write!(f, "`{key}` is required, for example `{key}={example}`")
            }
            Self::Syntax { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::new(ErrorKind::Config, error.to_string())
    }
}
