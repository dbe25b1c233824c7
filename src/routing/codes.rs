//! The code table of routing.md 10: what an error row of a leader or a follower means.

use super::cooldown::Fault;
use crate::cluster::Reason;
use crate::wire::ErrorCode;

/// What an error of the leader calls for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeaderAnswer {
    /// 1: resolve (routing.md 11).
    OutOfRange,
    /// 2: fetch once more, then the batch policy.
    Corrupt,
    /// 3, 5, 6, 8, 9, 56, 100, 103: refresh and retry with backoff.
    Stale(Reason),
    /// 29: told once, retried slowly.
    Refused,
    /// 35: the broker was rolled back; its link reconnects.
    Rolled,
    /// 76: this client cannot read the partition.
    Unreadable,
    /// 70, 71, 106: the session's affair, never a route event.
    Session,
    /// 74: our epoch is old.
    Fenced,
    /// 75: the leader's epoch is old.
    Behind,
    /// 78: not yet.
    NotYet,
    /// -1.
    ServerError,
    /// Anything else.
    Unknown,
}

/// What an error of a follower calls for. It is never authority for reset, topic existence,
/// authorization, truncation or corruption: the leader is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FollowerAnswer {
    /// 1: cool, the leader decides; never a reset.
    OutOfRange,
    /// 2: the leader's copy decides.
    Corrupt,
    /// A fault: cool and go to the leader, some with a refresh.
    Cool(Fault, Option<Reason>),
    /// 29: the leader decides.
    Refused,
    /// 70, 71, 106: the session's affair.
    Session,
    /// 74: the follower knows a newer leader than we do.
    Fenced,
    /// 75, 78: it lags for a moment.
    NotYet,
    /// -1: cool the third time.
    ServerError,
}

/// The middle column.
pub(super) fn leader_answer(code: ErrorCode) -> LeaderAnswer {
    match code {
        ErrorCode::OFFSET_OUT_OF_RANGE => LeaderAnswer::OutOfRange,
        ErrorCode::CORRUPT_MESSAGE => LeaderAnswer::Corrupt,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => LeaderAnswer::Refused,
        ErrorCode::UNSUPPORTED_VERSION => LeaderAnswer::Rolled,
        ErrorCode::UNSUPPORTED_COMPRESSION_TYPE => LeaderAnswer::Unreadable,
        ErrorCode::FENCED_LEADER_EPOCH => LeaderAnswer::Fenced,
        ErrorCode::UNKNOWN_LEADER_EPOCH => LeaderAnswer::Behind,
        ErrorCode::OFFSET_NOT_AVAILABLE => LeaderAnswer::NotYet,
        ErrorCode::UNKNOWN_SERVER_ERROR => LeaderAnswer::ServerError,
        code if is_session(code) => LeaderAnswer::Session,
        code => stale_metadata(code).map_or(LeaderAnswer::Unknown, LeaderAnswer::Stale),
    }
}

/// The right-hand column.
pub(super) fn follower_answer(code: ErrorCode) -> FollowerAnswer {
    match code {
        ErrorCode::OFFSET_OUT_OF_RANGE => FollowerAnswer::OutOfRange,
        ErrorCode::CORRUPT_MESSAGE => FollowerAnswer::Corrupt,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => FollowerAnswer::Refused,
        ErrorCode::UNSUPPORTED_VERSION | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE => {
            FollowerAnswer::Cool(Fault::Version, None)
        }
        ErrorCode::KAFKA_STORAGE_ERROR => FollowerAnswer::Cool(Fault::Storage, None),
        ErrorCode::FENCED_LEADER_EPOCH => FollowerAnswer::Fenced,
        ErrorCode::UNKNOWN_LEADER_EPOCH | ErrorCode::OFFSET_NOT_AVAILABLE => FollowerAnswer::NotYet,
        ErrorCode::UNKNOWN_SERVER_ERROR => FollowerAnswer::ServerError,
        code if is_session(code) => FollowerAnswer::Session,
        code => match stale_metadata(code) {
            Some(reason) => FollowerAnswer::Cool(Fault::NotReplica, Some(reason)),
            None => FollowerAnswer::Cool(Fault::UnknownCode, None),
        },
    }
}

fn is_session(code: ErrorCode) -> bool {
    [
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    ]
    .contains(&code)
}

/// Codes that speak of metadata older than the broker's.
fn stale_metadata(code: ErrorCode) -> Option<Reason> {
    match code {
        ErrorCode::LEADER_NOT_AVAILABLE
        | ErrorCode::NOT_LEADER_OR_FOLLOWER
        | ErrorCode::BROKER_NOT_AVAILABLE
        | ErrorCode::REPLICA_NOT_AVAILABLE => Some(Reason::NotLeader),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::KAFKA_STORAGE_ERROR
        | ErrorCode::UNKNOWN_TOPIC_ID
        | ErrorCode::INCONSISTENT_TOPIC_ID => Some(Reason::NotHosted),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_is_never_authority_for_anything_that_moves_a_position() {
        for code in -2..=140 {
            let answer = follower_answer(ErrorCode(code));
            let moves = answer == FollowerAnswer::OutOfRange;
            assert_eq!(moves, code == 1, "{code}");
        }
    }

    #[test]
    fn every_code_of_the_table_has_its_row() {
        let expected = [
            (3, LeaderAnswer::Stale(Reason::NotHosted)),
            (5, LeaderAnswer::Stale(Reason::NotLeader)),
            (6, LeaderAnswer::Stale(Reason::NotLeader)),
            (8, LeaderAnswer::Stale(Reason::NotLeader)),
            (9, LeaderAnswer::Stale(Reason::NotLeader)),
            (56, LeaderAnswer::Stale(Reason::NotHosted)),
            (70, LeaderAnswer::Session),
            (71, LeaderAnswer::Session),
            (100, LeaderAnswer::Stale(Reason::NotHosted)),
            (103, LeaderAnswer::Stale(Reason::NotHosted)),
            (106, LeaderAnswer::Session),
            (4711, LeaderAnswer::Unknown),
        ];
        for (code, answer) in expected {
            assert_eq!(leader_answer(ErrorCode(code)), answer, "{code}");
        }
    }

    #[test]
    fn a_follower_that_is_no_replica_cools_as_such() {
        for code in [3, 5, 6, 8, 9, 100, 103] {
            let answer = follower_answer(ErrorCode(code));
            assert!(
                matches!(answer, FollowerAnswer::Cool(Fault::NotReplica, Some(_))),
                "{code}"
            );
        }
        let unknown = follower_answer(ErrorCode(4711));
        assert_eq!(unknown, FollowerAnswer::Cool(Fault::UnknownCode, None));
    }
}
