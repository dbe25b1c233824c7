//! Errors of user code, and what becomes of them (runtime.md H1).

use std::error::Error as StdError;
use std::fmt;

use crate::handler::Outcome;

/// What an error says about trying again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Hint {
    /// The cause may pass: retry by the schedule. The default.
    #[default]
    Retryable,
    /// The same record would fail again: take the exhausted action at once.
    Permanent,
}

/// An error of a handler. Any error converts into it with `?`, as [`Hint::Retryable`].
///
/// It does not itself implement [`std::error::Error`], so that the conversion from every error can
/// exist.
pub struct HandlerError {
    source: Box<dyn StdError + Send + Sync>,
    hint: Hint,
}

impl HandlerError {
    /// A retryable error from a text or another error.
    pub fn retryable(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
            hint: Hint::Retryable,
        }
    }

    /// An error that the same record would meet again.
    pub fn permanent(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
            hint: Hint::Permanent,
        }
    }

    /// What it says about trying again.
    pub fn hint(&self) -> Hint {
        self.hint
    }

    /// The error behind it.
    pub fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(source: E) -> Self {
        Self {
            source: Box::new(source),
            hint: Hint::default(),
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?}", self.hint, self.source)
    }
}

/// Turns a handler's error into an outcome, replacing the default rules of runtime.md H1.
///
/// Runs on the handler pool as part of the attempt: a panic in it is a panic of the handler.
pub trait Classify: Send + Sync + 'static {
    /// The outcome for `error`, met in attempt number `attempt` (from 1).
    fn classify(&self, error: &HandlerError, attempt: u32) -> Outcome;
}

impl<F> Classify for F
where
    F: Fn(&HandlerError, u32) -> Outcome + Send + Sync + 'static,
{
    fn classify(&self, error: &HandlerError, attempt: u32) -> Outcome {
        self(error, attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_converts_and_is_retryable() {
        fn parse(text: &str) -> Result<i32, HandlerError> {
            Ok(text.parse::<i32>()?)
        }
        let error = parse("x").unwrap_err();
        assert_eq!(error.hint(), Hint::Retryable);
        assert!(error.as_error().is::<std::num::ParseIntError>());
        assert_eq!(
            HandlerError::permanent("no such account").to_string(),
            "no such account"
        );
    }
}
