//! How the command ends: an exit code, and one line that says what, where and what to try.

use std::fmt;
use std::process::ExitCode;

use crate::config::ConfigError;
use crate::error::{Error, ErrorKind};

/// Exit codes of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// It did what was asked for.
    Done = 0,
    /// It failed while running.
    Failure = 1,
    /// It was called wrongly.
    Usage = 2,
    /// No broker could be reached.
    Unreachable = 3,
    /// The cluster refused us.
    Denied = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    /// The code to exit with.
    pub(super) exit: Exit,
    /// One line, lowercase, without a full stop.
    pub(super) message: String,
}

impl Failure {
    /// A failure while running.
    pub(super) fn running(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failure,
            message: message.into(),
        }
    }

    /// A wrong call.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::Config => Exit::Usage,
            ErrorKind::Unreachable | ErrorKind::WrongPort => Exit::Unreachable,
            ErrorKind::Authentication | ErrorKind::Authorization => Exit::Denied,
            ErrorKind::UnknownTopic
            | ErrorKind::Group
            | ErrorKind::Protocol
            | ErrorKind::CorruptBatch
            | ErrorKind::UnsupportedVersion
            | ErrorKind::Produce
            | ErrorKind::Stopped
            | ErrorKind::Timeout
            | ErrorKind::Io
            | ErrorKind::Internal => Exit::Failure,
        };
        Self {
            exit,
            message: error.to_string(),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::running(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_exit_code() {
        let exit = |kind| Failure::from(Error::new(kind, "x")).exit;
        assert_eq!(exit(ErrorKind::WrongPort), Exit::Unreachable);
        assert_eq!(exit(ErrorKind::Authorization), Exit::Denied);
        assert_eq!(exit(ErrorKind::Config), Exit::Usage);
        assert_eq!(exit(ErrorKind::UnknownTopic), Exit::Failure);
    }
}
