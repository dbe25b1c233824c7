//! One step of the protocol: what was done when, and what must hold for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::book::Span;
use crate::ids::Moment;

/// A step that has been run.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: String,
    /// When the fault began.
    pub(super) fault: Moment,
    /// When its cause was undone.
    pub(super) healed: Moment,
    /// When everything was back to normal, or was no longer waited for.
    pub(super) ended: Moment,
    /// From the end of the fault until every partition was read in its reader's rack; `None` if
    /// that was not waited out.
    pub(super) home: Option<Duration>,
    pub(super) promises: Vec<Promise>,
    /// What may come twice: partitions, and the offset committed when their reader died.
    pub(super) repeats_from: BTreeMap<usize, u64>,
    /// Whether the reset policy may move positions.
    pub(super) resets: bool,
    /// Worth telling and judged by nobody.
    pub(super) notes: Vec<String>,
}

/// How soon records must flow again, for some partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Promise {
    /// For whom, in words.
    pub(super) what: &'static str,
    pub(super) partitions: BTreeSet<usize>,
    /// When the clock starts for records acknowledged before, by partition; those not listed are
    /// counted from the fault on.
    pub(super) since: BTreeMap<usize, Moment>,
    /// By then a record is delivered, counted from its acknowledgement if that is later.
    pub(super) within: Duration,
    /// Whether the clock starts at the first acknowledgement only: a new leader hands out what the
    /// former one had acknowledged once its followers have agreed with it, as they must before it
    /// acknowledges anything.
    pub(super) under_new_leader: bool,
}

impl Step {
    pub(super) fn new(name: impl Into<String>, fault: Moment) -> Self {
        Self {
            name: name.into(),
            fault,
            healed: fault,
            ended: fault,
            home: None,
            promises: Vec::new(),
            repeats_from: BTreeMap::new(),
            resets: false,
            notes: Vec::new(),
        }
    }

    pub(super) fn span(&self) -> Span {
        Span {
            from: self.fault,
            to: self.ended,
        }
    }

    /// Adds a promise unless it is for nobody.
    pub(super) fn promise(&mut self, promise: Promise) {
        if !promise.partitions.is_empty() {
            self.promises.push(promise);
        }
    }
}

impl Promise {
    /// Counted from `since` for all.
    pub(super) fn new(
        what: &'static str,
        partitions: BTreeSet<usize>,
        since: Moment,
        within: Duration,
    ) -> Self {
        Self {
            what,
            since: partitions.iter().map(|it| (*it, since)).collect(),
            partitions,
            within,
            under_new_leader: false,
        }
    }

    /// The same for partitions that lost their leader to another one.
    pub(super) fn under_new_leader(mut self) -> Self {
        self.under_new_leader = true;
        self
    }
}
