//! A fleet at one moment (runtime.md 13 V8).

use serde::Serialize;

use crate::budget::{Budget, Inflation};
use crate::ids::{BrokerId, Generation, MemberId, Offset, TopicPartition};
use crate::routing::Lane;

/// Everything a fleet knows about itself at one moment. Serialises to JSON.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FleetReport {
    /// Version of the crate.
    pub version: &'static str,
    /// The member's id and generation, while it is part of the group.
    pub member: Option<(MemberId, Generation)>,
    /// Every assigned partition, in order.
    pub partitions: Vec<PartitionReport>,
    /// Record-set bytes received, by broker, zone and lane.
    pub fetched: Vec<FetchedBytes>,
    /// Fetched bytes asked for, on their way, queued or in hand.
    pub budget: BudgetReport,
    /// Inflated bytes that are queued or in hand. A batch opened although the share was used up
    /// (runtime.md B4) counts as fetched bytes.
    pub inflation: BudgetReport,
    /// What is wrong with the set-up as a whole, by name.
    pub diagnostics: Vec<DiagnosticReport>,
    /// Totals since the start.
    pub totals: Totals,
}

/// A part of `memory.budget.bytes` (wire.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct BudgetReport {
    /// Bytes that may be held at a time.
    pub limit: usize,
    /// Bytes held. Fetched ones may be above the limit: by one answer, and by what was inflated
    /// beyond the share for that.
    pub charged: usize,
    /// Bytes held beyond the limit. Inflated ones are charged to fetching.
    pub overdrawn: usize,
}

impl BudgetReport {
    pub(crate) fn fetching(budget: &Budget) -> Self {
        let (limit, charged) = (budget.limit(), budget.charged());
        Self {
            limit,
            charged,
            overdrawn: charged.saturating_sub(limit),
        }
    }

    pub(crate) fn inflating(inflation: &Inflation) -> Self {
        Self {
            limit: inflation.limit(),
            charged: inflation.charged(),
            overdrawn: inflation.beyond(),
        }
    }
}

/// Something about the set-up that an operator would want to know (routing.md 18).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiagnosticReport {
    /// Its fixed name, such as `rack_absent`.
    pub name: &'static str,
    /// What is wrong and what to try, in a sentence.
    pub detail: String,
}

/// One assigned partition at one moment.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PartitionReport {
    /// Which.
    pub partition: TopicPartition,
    /// `starting`, `parked`, `leader`, `follower`, `forced` or `failed`.
    pub state: &'static str,
    /// The broker it is read from.
    pub broker: Option<BrokerId>,
    /// Next offset to fetch.
    pub position: Option<Offset>,
    /// Lowest offset not finished; this is what gets committed.
    pub watermark: Option<Offset>,
    /// The last commit the coordinator accepted in this assignment.
    pub committed: Option<Offset>,
    /// The highest high watermark seen, the leader's or that of the replica being read.
    pub end: Option<Offset>,
    /// Records between the watermark and the end known.
    pub lag: Option<u64>,
    /// Why it is `forced`, such as `cooldown`.
    pub why: Option<&'static str>,
    /// Its lease ended and the leader cannot be asked; what it reads is still right.
    pub lease_overdue: bool,
    /// Its leader holds records back on every lane.
    pub starving: bool,
    /// Its leader is out of reach, and no replica stands in.
    pub leader_unreachable: bool,
}

/// Record-set bytes received from one broker over one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FetchedBytes {
    /// The broker that sent them.
    pub broker: BrokerId,
    /// Whether the broker's rack is ours.
    pub zone: Zone,
    /// The lane they came over.
    pub lane: LaneName,
    /// How many.
    pub bytes: u64,
}

/// Totals since the start of a fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Offsets finished by handlers, holes included.
    pub records_finished: u64,
    /// Attempts that ended in `Done`.
    pub attempts_done: u64,
    /// Attempts that ended in a retry, panics and deadlines included.
    pub attempts_retry: u64,
    /// Attempts that panicked.
    pub attempts_panicked: u64,
    /// Results that came after their assignment had ended, and were dropped.
    pub late_results: u64,
    /// Partition rows of commits that the coordinator accepted.
    pub commits_accepted: u64,
    /// Partition rows of commits that it refused.
    pub commits_refused: u64,
    /// Rebalances gone through.
    pub rebalances: u64,
    /// Actors started again after a crash.
    pub restarts: u64,
    /// Bytes that batches came to when inflated.
    pub inflated_bytes: u64,
}

/// How a broker's rack relates to `client.rack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Zone {
    /// The racks are equal.
    SameZone,
    /// They differ.
    CrossZone,
    /// One of the two is not set.
    Unknown,
}

impl Zone {
    /// The name used in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SameZone => "same_zone",
            Self::CrossZone => "cross_zone",
            Self::Unknown => "unknown",
        }
    }
}

/// The lane that carried a fetch (routing.md 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneName {
    /// With `client.rack`.
    Rack,
    /// With an empty rack: the leader serves whatever its selector says.
    #[serde(rename = "norack")]
    NoRack,
    /// Fetch version 10, which knows no hints.
    V10,
    /// One batch at most, to ask the leader where to read.
    Probe,
    /// A second fetch at the leader, because the first stays away.
    Hedge,
}

impl From<Lane> for LaneName {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Rack => Self::Rack,
            Lane::NoRack => Self::NoRack,
            Lane::V10 => Self::V10,
        }
    }
}

impl LaneName {
    /// The name used in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rack => "rack",
            Self::NoRack => "norack",
            Self::V10 => "v10",
            Self::Probe => "probe",
            Self::Hedge => "hedge",
        }
    }
}
