//! What an error code means for a committed row (runtime.md 5.3, OffsetCommit).

use crate::wire::ErrorCode;

/// The consequence for one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Stored.
    Stored,
    /// Find the coordinator, then again.
    Find,
    /// Again after a backoff.
    Backoff,
    /// Hold until the next SyncGroup.
    Hold,
    /// The membership is concerned: the member judges; held until it stands anew.
    Member,
    /// The request was too large: again in halves.
    Split,
    /// Again after a backoff; final while the partition is being released.
    Deleted,
    /// Again after a long backoff; final while the partition is being released.
    Forbidden,
}

impl Verdict {
    pub(super) fn of(error: ErrorCode) -> Self {
        match error {
            ErrorCode::NONE => Self::Stored,
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => Self::Find,
            ErrorCode::REBALANCE_IN_PROGRESS => Self::Hold,
            ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_GROUP_ID
            | ErrorCode::UNSUPPORTED_VERSION => Self::Member,
            // A coordinator whose one batch grows too large answers with any of these (kafka.md
            // 4.1).
            ErrorCode::UNKNOWN_SERVER_ERROR
            | ErrorCode::MESSAGE_TOO_LARGE
            | ErrorCode::RECORD_LIST_TOO_LARGE
            | ErrorCode::INVALID_COMMIT_OFFSET_SIZE => Self::Split,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Self::Deleted,
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => Self::Forbidden,
            // COORDINATOR_LOAD_IN_PROGRESS, UNSTABLE_OFFSET_COMMIT, and numbers outside the table.
            ErrorCode(_) => Self::Backoff,
        }
    }
}
