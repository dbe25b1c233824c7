//! What an error code means for a question (runtime.md X6, 5.3).

use crate::wire::ErrorCode;

/// The consequence for one row of ListOffsets or OffsetForLeaderEpoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeaderVerdict {
    Good,
    /// Refresh, then ask the new leader.
    Moved,
    /// The same again after a backoff.
    Backoff,
    /// The same again after a backoff, and a refresh with it.
    BackoffRefresh,
    /// The leader knows older epochs only: a backoff; a refresh with every third.
    Behind,
    /// Refreshed for a while, then the topic is gone.
    Unknown,
    /// A long backoff, unhealthy meanwhile.
    Forbidden,
    /// The broker cannot tell.
    Unsupported,
}

impl LeaderVerdict {
    pub(super) fn of(error: ErrorCode) -> Self {
        match error {
            ErrorCode::NONE => Self::Good,
            ErrorCode::NOT_LEADER_OR_FOLLOWER
            | ErrorCode::FENCED_LEADER_EPOCH
            | ErrorCode::BROKER_NOT_AVAILABLE
            | ErrorCode::REPLICA_NOT_AVAILABLE => Self::Moved,
            ErrorCode::UNKNOWN_LEADER_EPOCH => Self::Behind,
            ErrorCode::KAFKA_STORAGE_ERROR => Self::BackoffRefresh,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => Self::Unknown,
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => Self::Forbidden,
            ErrorCode::UNSUPPORTED_VERSION => Self::Unsupported,
            // LEADER_NOT_AVAILABLE, OFFSET_NOT_AVAILABLE, and numbers outside the table.
            ErrorCode(_) => Self::Backoff,
        }
    }
}

/// The consequence for an OffsetFetch, whole or by row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FetchVerdict {
    Good,
    /// Find the coordinator, then again.
    Find,
    /// The same again after a backoff. Never the reset policy: only "none" leads there (X2).
    Backoff,
    /// Refreshed for a while, then the topic is gone.
    Unknown,
    /// A long backoff, unhealthy meanwhile.
    Forbidden,
    /// The group is refused for good.
    Fatal,
}

impl FetchVerdict {
    pub(super) fn of(error: ErrorCode) -> Self {
        match error {
            ErrorCode::NONE => Self::Good,
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => Self::Find,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Self::Unknown,
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => Self::Forbidden,
            ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_GROUP_ID
            | ErrorCode::UNSUPPORTED_VERSION => Self::Fatal,
            ErrorCode(_) => Self::Backoff,
        }
    }
}
