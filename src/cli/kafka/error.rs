//! Why a real cluster could not be started or steered.

use std::fmt;

/// An error of the local Kafka cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KafkaError {
    /// This machine cannot run Kafka: no Java, or no Maven to fetch it with.
    Unavailable(String),
    /// Something that should have worked did not.
    Failed(String),
}

impl KafkaError {
    /// A failure described by `text`, one lowercase line without a full stop.
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// For `map_err`: a failure that says what was being done and what came of it.
    pub(super) fn doing<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self::Failed(format!("{what}: {error}"))
    }
}

impl fmt::Display for KafkaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for KafkaError {}
