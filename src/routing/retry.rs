//! What a route remembers of refusals, so that the next fetch waits long enough (routing.md 16).

use crate::ids::{BrokerId, Moment};
use crate::wire::ErrorCode;

/// Runs of refusals and empty answers of the serving broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Retry {
    /// Refusals in a row: the step of the backoff.
    pub(super) failures: u32,
    /// 75 in a row at the leader.
    pub(super) behind: u8,
    /// Refreshes asked for since an epoch was fenced and no newer one was known.
    pub(super) fenced: u8,
    /// First of the unknown server errors of the last ten seconds, and how many.
    pub(super) server_errors: Option<(Moment, u8)>,
    /// First 75 or 78 of a follower since it last served.
    pub(super) not_yet_since: Option<Moment>,
    /// Start of the second in which retries without backoff are counted, and how many.
    pub(super) free: Option<(Moment, u8)>,
    /// "Inside the log" answers in a row to an offset the leader refused.
    pub(super) inside: u8,
    /// Omit `last_fetched_epoch` once: the broker's epoch cache may not know it (F11).
    pub(super) omit_epoch: bool,
    /// Empty answers in a row below the known end, and the first of them.
    pub(super) empty: Option<(Moment, u8)>,
    /// Byte limit of the row, raised for one batch that is larger.
    pub(super) limit: i32,
    /// A code told to the user that still stands.
    pub(super) told: Option<ErrorCode>,
    /// The leader served a corrupt batch once; the second time it is told.
    pub(super) corrupt: bool,
    /// The follower whose copy or refusal the leader is to judge.
    pub(super) suspect: Option<BrokerId>,
}

impl Retry {
    pub(super) const fn new(limit: i32) -> Self {
        Self {
            failures: 0,
            behind: 0,
            fenced: 0,
            server_errors: None,
            not_yet_since: None,
            free: None,
            inside: 0,
            omit_epoch: false,
            empty: None,
            limit,
            told: None,
            corrupt: false,
            suspect: None,
        }
    }

    /// The serving broker changed: what the last one did counts no more.
    pub(super) fn moved(&mut self) {
        self.failures = 0;
        self.behind = 0;
        self.server_errors = None;
        self.not_yet_since = None;
        self.empty = None;
    }

    /// The serving broker answered without an error.
    pub(super) fn served(&mut self) {
        self.failures = 0;
        self.behind = 0;
        self.fenced = 0;
        self.not_yet_since = None;
    }
}
