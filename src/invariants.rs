//! Predicates that must always hold, shared by tests, simulation and debug assertions.

pub mod routing;

use crate::offsets::Ledger;
use crate::offsets::commit::Observed;

/// The watermark is the lowest offset that is not finished (runtime.md 17, 1).
pub fn watermark_is_lowest_incomplete(ledger: &Ledger) -> bool {
    ledger
        .runs()
        .all(|run| run.from > ledger.watermark() && run.from < run.to)
        && in_hand_is_unfinished(ledger)
}

/// No offset is finished and in hand at once (runtime.md 17, 3).
pub fn in_hand_is_unfinished(ledger: &Ledger) -> bool {
    ledger
        .first_in_hand()
        .is_none_or(|first| first >= ledger.watermark())
        && ledger.hands().all(|hand| {
            ledger
                .runs()
                .all(|run| run.to <= hand.from || hand.to <= run.from)
        })
}

/// Commits of one assignment and position generation never fall (runtime.md 17, 2). `accepted` is
/// the last stored state, `next` the one about to leave.
pub fn commit_may_follow(accepted: &Observed, next: &Observed) -> bool {
    accepted.assignment_epoch == next.assignment_epoch
        && (accepted.generation < next.generation
            || (accepted.generation == next.generation && accepted.offset <= next.offset))
}
