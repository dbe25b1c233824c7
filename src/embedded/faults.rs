//! The fault plan: rules of plain data that bend what brokers answer.
//!
//! A [`Rule`] says when it applies and what it does. Rules are tried in the order in which they
//! were injected; every rule that matches has its effect. A rule with a count withdraws itself
//! after it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::Api;
use crate::ids::{BrokerId, LeaderEpoch, Offset, Rack, TopicPartition};

/// Names an injected rule, so that it can be withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleId(pub(super) u64);

/// One deviation from default behaviour, built by chaining:
/// `Rule::error(6).on(Api::Fetch).at(2).times(3)`.
#[derive(Debug)]
pub struct Rule {
    pub(super) when: When,
    pub(super) effect: Effect,
    pub(super) left: Option<u32>,
}

impl Rule {
    /// A rule that applies `effect` to everything, for ever.
    pub fn new(effect: Effect) -> Self {
        Self {
            when: When::default(),
            effect,
            left: None,
        }
    }

    /// Every matching request or row is answered with this error code.
    pub fn error(code: i16) -> Self {
        Self::new(Effect::Error(code))
    }

    /// Every matching Fetch row is edited.
    pub fn row(edit: RowEdit) -> Self {
        Self::new(Effect::Row(RowPlan::Always(edit))).on(Api::Fetch)
    }

    /// Fetch rows are edited as `decide` says, per row.
    pub fn rows_by(decide: impl FnMut(&RowFacts<'_>) -> Option<RowEdit> + Send + 'static) -> Self {
        Self::new(Effect::Row(RowPlan::Decided(Box::new(decide)))).on(Api::Fetch)
    }

    /// What matching Metadata answers say of a partition is edited.
    pub fn metadata(edit: MetadataEdit) -> Self {
        Self::new(Effect::Metadata(edit)).on(Api::Metadata)
    }

    /// Only at this broker.
    #[must_use]
    pub fn at(mut self, broker: impl Into<BrokerId>) -> Self {
        self.when.broker = Some(broker.into());
        self
    }

    /// Only for this API.
    #[must_use]
    pub fn on(mut self, api: Api) -> Self {
        self.when.api = Some(api);
        self
    }

    /// Only for rows of this partition.
    #[must_use]
    pub fn of(mut self, partition: TopicPartition) -> Self {
        self.when.partition = Some(partition);
        self
    }

    /// Only for requests that name a rack (`true`), or only for those that do not.
    #[must_use]
    pub fn with_rack(mut self, present: bool) -> Self {
        self.when.rack_present = Some(present);
        self
    }

    /// Only for Fetches that open or continue a session (`true`), or only for those without one:
    /// probes and hedges. For effects on whole requests.
    #[must_use]
    pub fn in_session(mut self, session: bool) -> Self {
        self.when.in_session = Some(session);
        self
    }

    /// Only the next `count` times; a whole-request effect counts requests, others count rows.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.left = Some(count);
        self
    }
}

/// Which requests, or rows of an answer, a rule touches. What is `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct When {
    pub(super) broker: Option<BrokerId>,
    pub(super) api: Option<Api>,
    pub(super) partition: Option<TopicPartition>,
    pub(super) rack_present: Option<bool>,
    pub(super) in_session: Option<bool>,
}

/// What a rule does.
#[derive(Debug)]
pub enum Effect {
    /// The connection is closed instead of answering.
    Close,
    /// The request is never answered; the connection stays open and stuck, as behind a dead peer.
    Swallow,
    /// The answer comes this much later.
    Delay(Duration),
    /// The answer breaks off behind its correlation id: nobody can decode it.
    Garble,
    /// KIP-219: `throttle_time_ms` is set, a Fetch answer is empty, and the connection is muted for
    /// that long.
    Throttle(Duration),
    /// The whole answer, or each row of a matching partition, fails with this code.
    Error(i16),
    /// Rows of Fetch answers are edited.
    Row(RowPlan),
    /// Rows of Metadata answers are edited.
    Metadata(MetadataEdit),
    /// OffsetForLeaderEpoch says that the epoch asked about ends at this offset.
    EpochEnd(Offset),
}

/// The same edit for every row, or one decided row by row.
pub enum RowPlan {
    /// The same for all.
    Always(RowEdit),
    /// Asked for each row; `None` leaves the row alone.
    Decided(Box<DecideRow>),
}

/// A closure that edits Fetch rows one by one.
pub type DecideRow = dyn FnMut(&RowFacts<'_>) -> Option<RowEdit> + Send;

impl fmt::Debug for RowPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always(edit) => f.debug_tuple("Always").field(edit).finish(),
            Self::Decided(_) => f.write_str("Decided(..)"),
        }
    }
}

/// What is known of a Fetch row before it is edited.
#[derive(Clone, Debug)]
pub struct RowFacts<'a> {
    /// The broker answering.
    pub broker: BrokerId,
    /// The row's partition.
    pub partition: &'a TopicPartition,
    /// The offset asked for.
    pub offset: Offset,
    /// The rack the request named.
    pub rack: Option<&'a Rack>,
    /// Version of the request.
    pub version: i16,
    /// Whether the broker leads the partition.
    pub leader: bool,
    /// Whether the answer is one of a session that may leave rows out.
    pub incremental: bool,
}

/// Changes to one Fetch row. What is `None` stays as the broker would have answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowEdit {
    /// Error code; a code other than 0 also empties the row and sets its bounds to -1, unless the
    /// edit gives them.
    pub error: Option<i16>,
    /// Preferred read replica; `Some(None)` takes a hint away, `Some(Some(b))` makes one without
    /// touching the records.
    pub hint: Option<Option<BrokerId>>,
    /// High watermark as the row reports it.
    pub high_watermark: Option<i64>,
    /// Last stable offset as the row reports it.
    pub last_stable_offset: Option<i64>,
    /// Log start as the row reports it.
    pub log_start: Option<i64>,
    /// Leader and epoch of the CurrentLeader tag (v12+).
    pub current_leader: Option<(i32, i32)>,
    /// Diverging epoch and its end offset (v12+).
    pub diverging_epoch: Option<(i32, i64)>,
    /// Record bytes instead of those in the log; empty for none.
    pub records: Option<Bytes>,
    /// Flips one bit of the record bytes, behind the batch header.
    pub corrupt: bool,
    /// Leaves the row out of an incremental answer, whatever changed.
    pub omit: bool,
    /// Answers without waiting, even if there is nothing to say.
    pub at_once: bool,
}

/// Changes to what Metadata says of one partition. What is `None` stays true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataEdit {
    /// Error code of the partition row.
    pub error: Option<i16>,
    /// The leader; `Some(None)` says there is none.
    pub leader: Option<Option<BrokerId>>,
    /// The leader epoch.
    pub epoch: Option<LeaderEpoch>,
    /// The in-sync replicas.
    pub isr: Option<Vec<BrokerId>>,
    /// The replicas.
    pub replicas: Option<Vec<BrokerId>>,
    /// The offline replicas.
    pub offline: Option<Vec<BrokerId>>,
    /// Brokers left out of the answer's broker list.
    pub hide_brokers: Vec<BrokerId>,
}
