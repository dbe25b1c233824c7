//! What an error code means for a membership (runtime.md 5.3).

use crate::error::ErrorKind;
use crate::wire::ErrorCode;

/// The consequence of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Success.
    Good,
    /// Find the coordinator, then the same again.
    Find,
    /// The same again after a backoff.
    Backoff,
    /// Join again with the same id.
    Rejoin,
    /// Use the member id of the answer and join at once (KIP-394).
    TakeId,
    /// Everything is lost; join with the same id.
    LoseGeneration,
    /// Everything is lost; join with a new id.
    LoseId,
    /// Over for good.
    Fatal(ErrorKind, &'static str),
    /// Not in the table: again after a backoff for a while, then surfaced with its number.
    Unexpected,
}

impl Verdict {
    /// Judges the answer to a JoinGroup, SyncGroup, Heartbeat, FindCoordinator or OffsetCommit.
    pub(super) fn of(error: ErrorCode) -> Self {
        match error {
            ErrorCode::NONE => Self::Good,
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => Self::Find,
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => Self::Backoff,
            ErrorCode::REBALANCE_IN_PROGRESS => Self::Rejoin,
            ErrorCode::MEMBER_ID_REQUIRED => Self::TakeId,
            ErrorCode::ILLEGAL_GENERATION => Self::LoseGeneration,
            ErrorCode::UNKNOWN_MEMBER_ID => Self::LoseId,
            ErrorCode(_) => Self::fatal(error),
        }
    }

    fn fatal(error: ErrorCode) -> Self {
        match error {
            ErrorCode::FENCED_INSTANCE_ID => Self::Fatal(
                ErrorKind::Group,
                "another member uses the same group.instance.id; give each member its own",
            ),
            ErrorCode::GROUP_AUTHORIZATION_FAILED => Self::Fatal(
                ErrorKind::Authorization,
                "no permission to read with this group.id; allow READ on the group",
            ),
            ErrorCode::INVALID_GROUP_ID => Self::Fatal(
                ErrorKind::Group,
                "group.id is refused; give a non-empty one",
            ),
            ErrorCode::UNSUPPORTED_VERSION => Self::Fatal(
                ErrorKind::UnsupportedVersion,
                "the coordinator does not serve the group requests needed; upgrade the broker",
            ),
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL => Self::Fatal(
                ErrorKind::Group,
                "partition.assignment.strategy has no assignor in common with the group",
            ),
            ErrorCode::INVALID_SESSION_TIMEOUT => Self::Fatal(
                ErrorKind::Group,
                "session.timeout.ms is outside the broker's group.{min,max}.session.timeout.ms",
            ),
            ErrorCode::GROUP_MAX_SIZE_REACHED => Self::Fatal(
                ErrorKind::Group,
                "the group is full; raise the broker's group.max.size or run fewer members",
            ),
            ErrorCode::INVALID_REQUEST => Self::Fatal(
                ErrorKind::Group,
                "the coordinator refused group.instance.id or another group setting as invalid",
            ),
            ErrorCode(_) => Self::Unexpected,
        }
    }
}
