//! What an answer to a batch means (wire.md 10.2).

use crate::wire::ErrorCode;

/// What to do about a batch that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Written now.
    Written,
    /// Written before; the offset is not told.
    Duplicate,
    /// Not written: the partition is led by somebody else.
    Moved,
    /// Not written: the view is stale.
    Stale,
    /// Not written: wait.
    Wait,
    /// Appended, or perhaps; the same bytes will tell.
    Doubt {
        /// Whether the view may be stale, too.
        refresh: bool,
    },
    /// Not written: too large.
    TooLarge,
    /// Not written: the bytes arrived damaged.
    Damaged,
    /// Not written, and never will be.
    Refused,
    /// Not written: the broker expects another sequence.
    OutOfOrder,
    /// Not written: the broker knows a newer epoch.
    OldEpoch,
    /// Not written: the broker has forgotten this producer.
    Forgotten,
}

impl Verdict {
    /// The meaning of one row's error.
    pub(super) fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::NONE => Self::Written,
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Self::Duplicate,
            ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH => Self::Moved,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::LEADER_NOT_AVAILABLE
            | ErrorCode::LISTENER_NOT_FOUND
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::INCONSISTENT_TOPIC_ID
            // The connection drops its version table; the request had no effect.
            | ErrorCode::UNSUPPORTED_VERSION => Self::Stale,
            ErrorCode::NOT_ENOUGH_REPLICAS => Self::Wait,
            ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND => {
                Self::Doubt { refresh: false }
            }
            ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => Self::TooLarge,
            ErrorCode::CORRUPT_MESSAGE => Self::Damaged,
            ErrorCode::INVALID_TOPIC_EXCEPTION
            | ErrorCode::INVALID_REQUIRED_ACKS
            | ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
            | ErrorCode::INVALID_RECORD => Self::Refused,
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => Self::OutOfOrder,
            ErrorCode::INVALID_PRODUCER_EPOCH => Self::OldEpoch,
            ErrorCode::UNKNOWN_PRODUCER_ID => Self::Forgotten,
            // Every other number, storage errors and codes of later releases included.
            _ => Self::Doubt { refresh: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_a_later_release_leaves_doubt() {
        for code in [-1, 56, 999] {
            assert_eq!(
                Verdict::of(ErrorCode(code)),
                Verdict::Doubt { refresh: true }
            );
        }
    }
}
