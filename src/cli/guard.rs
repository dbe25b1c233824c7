//! When a command gives up: at its start only, while nothing was read or written yet.

use std::time::Duration;

use crate::cli::exit::{Exit, Failure};
use crate::error::{Error, ErrorKind};

/// What can be seen of a client that has not read or written anything yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Signs {
    /// Time since the start.
    pub(super) elapsed: Duration,
    /// Whether any broker has answered.
    pub(super) connected: bool,
    /// The latest failure to reach a broker.
    pub(super) connection_error: Option<Error>,
    /// A topic that cannot be read or written, and why, as told last.
    pub(super) topic_error: Option<String>,
    /// Whether that is for want of a permission.
    pub(super) topic_denied: bool,
    /// Answers in which that topic was missing.
    pub(super) topic_answers: u32,
}

/// Judges the signs: the failure to give up with, if they say that waiting is pointless.
pub(super) fn judge(signs: &Signs, connect_timeout: Duration) -> Option<Failure> {
    if let Some(error) = signs.connection_error.as_ref().filter(|_| !signs.connected) {
        let lost_cause = matches!(
            error.kind(),
            ErrorKind::WrongPort | ErrorKind::Authentication | ErrorKind::Authorization
        );
        let hopeless = lost_cause || signs.elapsed >= connect_timeout;
        if hopeless {
            let failure = Failure::from(error.clone());
            // Whatever kept us from connecting, the cluster was not reached.
            let exit = if failure.exit == Exit::Denied {
                Exit::Denied
            } else {
                Exit::Unreachable
            };
            return Some(Failure { exit, ..failure });
        }
    }
    if !signs.connected && signs.elapsed >= connect_timeout {
        let seconds = connect_timeout.as_secs();
        let message = format!(
            "no broker answered within {seconds} s; check --bootstrap-server, \
             or raise --connect-timeout"
        );
        return Some(Failure {
            exit: Exit::Unreachable,
            message,
        });
    }
    let message = signs.topic_error.clone()?;
    if signs.topic_denied {
        let exit = Exit::Denied;
        return Some(Failure { exit, message });
    }
    let sure = signs.elapsed >= TOPIC_PATIENCE && signs.topic_answers >= TOPIC_ANSWERS;
    sure.then(|| Failure::running(message))
}

/// A topic just created may not be known everywhere yet.
const TOPIC_PATIENCE: Duration = Duration::from_secs(10);
/// One broker may not know what another one knows.
pub(super) const TOPIC_ANSWERS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn exit(signs: &Signs) -> Option<Exit> {
        judge(signs, TIMEOUT).map(|failure| failure.exit)
    }

    fn failing(kind: ErrorKind, seconds: u64) -> Signs {
        Signs {
            elapsed: Duration::from_secs(seconds),
            connection_error: Some(Error::new(kind, "kafka-1:9092 does not answer")),
            ..Signs::default()
        }
    }

    #[test]
    fn a_port_mix_up_and_refused_credentials_end_it_at_once() {
        assert_eq!(
            exit(&failing(ErrorKind::WrongPort, 0)),
            Some(Exit::Unreachable)
        );
        assert_eq!(
            exit(&failing(ErrorKind::Authentication, 0)),
            Some(Exit::Denied)
        );
    }

    #[test]
    fn unreachable_brokers_get_the_time_they_were_given() {
        assert_eq!(exit(&failing(ErrorKind::Unreachable, 9)), None);
        assert_eq!(
            exit(&failing(ErrorKind::Unreachable, 10)),
            Some(Exit::Unreachable)
        );
        let silent = Signs {
            elapsed: TIMEOUT,
            ..Signs::default()
        };
        assert_eq!(exit(&silent), Some(Exit::Unreachable));
    }

    #[test]
    fn a_cluster_that_was_reached_is_not_given_up_for_a_lost_connection() {
        let lost = Signs {
            connected: true,
            ..failing(ErrorKind::Unreachable, 60)
        };
        assert_eq!(exit(&lost), None);
    }

    #[test]
    fn a_missing_permission_ends_it_at_once() {
        let signs = Signs {
            connected: true,
            topic_error: Some("topic `orders`: TOPIC_AUTHORIZATION_FAILED (29)".into()),
            topic_denied: true,
            ..Signs::default()
        };
        assert_eq!(exit(&signs), Some(Exit::Denied));
    }

    #[test]
    fn a_missing_topic_needs_ten_seconds_and_two_answers() {
        let signs = |seconds, answers| Signs {
            elapsed: Duration::from_secs(seconds),
            connected: true,
            topic_error: Some("topic `orders` does not exist".into()),
            topic_answers: answers,
            ..Signs::default()
        };
        assert_eq!(exit(&signs(9, 5)), None);
        assert_eq!(exit(&signs(10, 1)), None);
        assert_eq!(exit(&signs(10, 2)), Some(Exit::Failure));
    }
}
