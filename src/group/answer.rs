//! Answers: of the API asked, or none.

use std::fmt;

use crate::wire::{RequestError, RequestFailure};

/// Why a request has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoAnswer {
    /// The broker serves no version of the API that could carry the request; nothing was sent.
    Unsupported,
    /// Timed out, not sent, cut off, or unreadable: it may or may not have been carried out.
    Lost(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("the broker does not serve this request"),
            Self::Lost(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NoAnswer {}

impl From<RequestError> for NoAnswer {
    fn from(error: RequestError) -> Self {
        if matches!(error.reason, RequestFailure::Unsupported(_)) {
            Self::Unsupported
        } else {
            Self::Lost(error.to_string())
        }
    }
}

/// Unwraps an answer of the API asked; an error is the text of what came instead.
macro_rules! open {
    ($result:expr, $api:ident) => {
        match $result {
            Ok(crate::wire::Response::$api(answer)) => Ok(answer),
            Ok(other) => Err(format!("a {} answer came instead", other.api())),
            Err(error) => Err(error.to_string()),
        }
    };
}
pub(crate) use open;
