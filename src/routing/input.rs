//! What can happen to a route.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::facts::{Class, Link};
use super::stamp::{Role, Stamp};
use super::trace;
use crate::cluster::Snapshot;
use crate::ids::{
    AssignmentEpoch, BrokerId, LeaderEpoch, MetadataVersion, Moment, Offset, PositionGeneration,
    TopicId, TopicIncarnation, TopicPartition,
};
use crate::wire::api::fetch::Row;
use crate::wire::{ErrorCode, Reason, StateName};

/// An input of the route machine. Everything about brokers travels in the facts argument; the
/// inputs that name a broker only say that its facts changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// R1: the partition is ours from now on.
    Assigned(Assigned),
    /// R2, R3: a higher leader epoch, or a leader known (again) or addressable at the same one.
    LeaderChanged(Leadership),
    /// R4: the row of the present epoch names no leader.
    LeaderLost,
    /// R5, R6: the in-sync replicas, from a row of epoch `epoch`.
    IsrChanged {
        /// The members.
        #[serde(with = "trace::brokers")]
        isr: Arc<[BrokerId]>,
        /// Leader epoch of the row they came with.
        epoch: Option<LeaderEpoch>,
    },
    /// R6, R7: replica list or offline list changed.
    ReplicasChanged {
        /// All replicas.
        #[serde(with = "trace::brokers")]
        replicas: Arc<[BrokerId]>,
        /// Those listed offline.
        #[serde(with = "trace::brokers")]
        offline: Arc<[BrokerId]>,
    },
    /// R8: a Metadata response was applied. Needed only while [`Route::watches_versions`] says so.
    ///
    /// [`Route::watches_versions`]: super::Route::watches_versions
    MetadataVersion(MetadataVersion),
    /// R9 to R16, R22 to R27: the row of a reading fetch.
    Row {
        /// Stamp the fetch was sent with.
        stamp: Stamp,
        /// The row.
        #[serde(with = "trace::row")]
        row: Row,
        /// Whether its emptiness says nothing: the answer was throttled, or full of other rows.
        inconclusive: bool,
    },
    /// The row of a probe: R17 to R20, R22.
    ProbeRow {
        /// Stamp the probe was sent with.
        stamp: Stamp,
        /// The row.
        #[serde(with = "trace::row")]
        row: Row,
    },
    /// R21: the probe got no answer.
    ProbeFailed {
        /// Stamp the probe was sent with.
        stamp: Stamp,
    },
    /// Answer to [`Output::Drain`]: no reading fetch of this partition is in flight there any more.
    ///
    /// [`Output::Drain`]: super::Output::Drain
    Drained {
        /// Stamp of the fetch that ended without a row, or of the demand that was never sent.
        stamp: Stamp,
    },
    /// What became of the records of the last [`Output::Deliver`]. Owed before any other row is
    /// handed in.
    ///
    /// [`Output::Deliver`]: super::Output::Deliver
    Indexed(Indexed),
    /// R28, H12: a link of `broker` changed.
    LinkChanged {
        /// Whose link.
        broker: BrokerId,
        /// Which connection.
        class: Class,
        /// How.
        change: LinkChange,
    },
    /// R28: the host of `broker`'s link started again: nothing asked of it before is remembered
    /// there, and its breaker is closed.
    LinkRestarted {
        /// Whose link.
        broker: BrokerId,
    },
    /// R30: the breaker of `broker` opened.
    BreakerOpened {
        /// Whose breaker.
        broker: BrokerId,
    },
    /// R43, R45: the breaker of `broker` closed, so that it may be a refuge again.
    BreakerClosed {
        /// Whose breaker.
        broker: BrokerId,
    },
    /// R31: the breaker of `broker` readmits this partition.
    Readmitted {
        /// Whose breaker.
        broker: BrokerId,
    },
    /// Answer to [`Output::Resolve`]. Dropped if its generation is not current.
    ///
    /// [`Output::Resolve`]: super::Output::Resolve
    Resolved {
        /// Generation of the question.
        generation: PositionGeneration,
        /// What was found.
        found: Found,
    },
    /// Answer to [`Output::Validate`]. Dropped if its generation is not current.
    ///
    /// [`Output::Validate`]: super::Output::Validate
    Validated {
        /// Generation of the question.
        generation: PositionGeneration,
        /// What the leader said.
        verdict: Verdict,
    },
    /// R37: read from here on.
    Seek {
        /// Offset to fetch next.
        offset: Offset,
        /// Epoch of the record before it, if known.
        epoch: Option<LeaderEpoch>,
    },
    /// R38: no fetch and no probe until [`Input::Resume`].
    Pause,
    /// R39.
    Resume,
    /// R38, R39 for back-pressure: whether the buffer has room for a further row.
    Room(bool),
    /// R40: `broker` is muted until then; what waits for it waits longer.
    Throttled {
        /// The muted broker.
        broker: BrokerId,
        /// End of the mute.
        until: Moment,
    },
    /// R41: the partition is no longer ours.
    Revoked,
    /// R42: the topic has a new id.
    TopicRecreated {
        /// The new life of its name.
        incarnation: TopicIncarnation,
        /// The new id.
        id: TopicId,
    },
    /// R42: the topic is gone.
    TopicGone,
    /// R46: the no-rack lane of `broker` went to v10.
    LaneDropped {
        /// Whose lane.
        broker: BrokerId,
    },
    /// R46: the no-rack lane of `broker` is back at the negotiated version.
    LaneRestored {
        /// Whose lane.
        broker: BrokerId,
    },
    /// R29, R43: the lane of `broker` went silent. Its Fetch missed the hedge deadline, or its
    /// connection has not been Ready for `route.refuge.ms` while partitions waited for it. The
    /// facts say so until its next answer.
    Silent {
        /// Who owes the answer.
        broker: BrokerId,
        /// On which lane.
        class: Class,
    },
    /// routing.md 8.4: no byte came from that lane for `fetch.max.wait.ms` + 500 ms. Links to
    /// possible refuges are dialled now, so that they are Ready when they are needed.
    Quiet {
        /// Who owes the answer.
        broker: BrokerId,
        /// On which lane.
        class: Class,
    },
    /// R29: the row of a hedge.
    HedgeRow {
        /// Stamp the hedge was sent with.
        stamp: Stamp,
        /// The row.
        #[serde(with = "trace::row")]
        row: Row,
    },
    /// R29: the hedge got no answer.
    HedgeFailed {
        /// Stamp the hedge was sent with.
        stamp: Stamp,
    },
    /// R36: answer to [`Output::Sample`]. Dropped if its generation is not current.
    ///
    /// [`Output::Sample`]: super::Output::Sample
    Sampled {
        /// Generation of the question.
        generation: PositionGeneration,
        /// The leader's end of the log, at the consumer's isolation level.
        leader_end: Offset,
    },
    /// The leader owes the answer about the position for longer than it may take. Dropped if its
    /// generation is not current.
    Unanswered {
        /// Generation of the question.
        generation: PositionGeneration,
    },
    /// A deadline passed.
    Tick,
}

impl Input {
    /// Whether it shows that the leader of `epoch` serves the partition: a hint that named it was
    /// right (metadata.md 4).
    pub fn is_served_at(&self, epoch: LeaderEpoch) -> bool {
        matches!(
            self,
            Self::Row { stamp, row, .. }
                if stamp.role == Role::Leader
                    && stamp.epoch == Some(epoch)
                    && row.error == ErrorCode::NONE
        )
    }
}

/// The fields of [`Input::Assigned`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Assigned {
    /// Which partition: refuges are spread by it.
    pub partition: TopicPartition,
    /// This assignment.
    pub assignment: AssignmentEpoch,
    /// The present life of the topic name.
    pub incarnation: TopicIncarnation,
    /// The topic's id, if the cluster has ids.
    pub topic_id: Option<TopicId>,
    /// Who leads, as far as known.
    pub leadership: Leadership,
    /// In-sync replicas.
    #[serde(with = "trace::brokers")]
    pub isr: Arc<[BrokerId]>,
    /// Leader epoch of the row that brought `isr`.
    pub isr_epoch: Option<LeaderEpoch>,
    /// All replicas.
    #[serde(with = "trace::brokers")]
    pub replicas: Arc<[BrokerId]>,
    /// Metadata version of that row.
    pub version: MetadataVersion,
    /// Offset and epoch to start from, if the caller knows them; otherwise the machine asks.
    pub position: Option<(Offset, Option<LeaderEpoch>)>,
    /// Whether the partition starts paused.
    pub paused: bool,
}

impl Assigned {
    /// What `snapshot` says of a partition at its assignment; nothing, if it does not know it yet.
    /// Not paused.
    pub fn by(
        snapshot: &Snapshot,
        partition: &TopicPartition,
        assignment: AssignmentEpoch,
        position: Option<(Offset, Option<LeaderEpoch>)>,
    ) -> Self {
        let topic = snapshot.topic(&partition.topic);
        let row = snapshot.partition(partition);
        let leadership = row.map_or_else(Leadership::default, |row| Leadership {
            leader: row.leader(),
            epoch: row.floor,
            addressable: row.addressable,
        });
        Self {
            partition: partition.clone(),
            assignment,
            incarnation: topic.map(|topic| topic.incarnation).unwrap_or_default(),
            topic_id: topic.and_then(|topic| topic.id),
            leadership,
            isr: row.map_or_else(|| Arc::from([]), |row| Arc::clone(&row.isr)),
            isr_epoch: row.and_then(|row| row.isr_epoch),
            replicas: row.map_or_else(|| Arc::from([]), |row| Arc::clone(&row.replicas)),
            version: snapshot.version(),
            position,
            paused: false,
        }
    }
}

/// Who leads a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Leadership {
    /// The leader, if there is one.
    pub leader: Option<BrokerId>,
    /// Highest epoch accepted; `None` on clusters without epochs.
    pub epoch: Option<LeaderEpoch>,
    /// Whether the leader's address is known.
    pub addressable: bool,
}

/// How a link changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkChange {
    /// It is Ready.
    Ready,
    /// It was Ready and ended, other than by being idle.
    Lost,
    /// A dial failed.
    Failed,
}

impl LinkChange {
    /// What a step of a connection means to routes; `None` for steps that none waits for, and for
    /// an idle close.
    pub fn between(from: StateName, to: StateName, reason: &Reason) -> Option<Self> {
        let idle = matches!(reason, Reason::Unused | Reason::Drain(_));
        match (Link::of(from), Link::of(to)) {
            (Link::Dialling | Link::Down, Link::Ready) => Some(Self::Ready),
            // A connection lost while nothing was in flight rests in Idle, as an unused one does.
            (Link::Ready, Link::Down) => (!idle).then_some(Self::Lost),
            (Link::Dialling, Link::Down) => Some(Self::Failed),
            (Link::Ready, _) | (Link::Down | Link::Dialling, _) => None,
        }
    }
}

/// What indexing found in the records of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Indexed {
    /// Whole batches.
    Advanced {
        /// Next offset to request: past the last whole batch, empty or control ones included.
        fetch_end: Offset,
        /// Leader epoch of the last batch.
        epoch: Option<LeaderEpoch>,
    },
    /// Nothing but a cut tail.
    TooLarge {
        /// Bytes the first batch needs.
        needed: i32,
    },
    /// The first batch fails its checksum or its bounds.
    Corrupt,
    /// The checksum of the first batch holds, and yet it cannot be read: the leader will not
    /// have it better the next time (wire.md 8.1 B10).
    Poison,
}

/// What the leader-side resolution found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// The offset to read from.
    Offset {
        /// Offset to fetch next.
        offset: Offset,
        /// Epoch of the record before it, if known.
        epoch: Option<LeaderEpoch>,
        /// Where it comes from.
        source: Source,
    },
    /// Nothing, and the reset policy is `none`, or the topic is refused.
    Nothing,
}

/// Where a resolved offset comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The group's commit; validated before the first fetch if it has an epoch.
    Committed,
    /// The group's commit, validated by the resolver already.
    Validated,
    /// The reset policy, on a fresh start or past a bound of the leader's log.
    Reset,
    /// Out of range because our history is not the leader's: it ends here (routing.md 12).
    Diverged,
    /// Out of range it was not: the leader's bounds hold the offset asked about.
    Inside,
}

/// What the leader said of our history (routing.md 12).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It agrees with ours.
    Agrees,
    /// It cannot say: no epochs, an undefined answer, or an API too old. Counted.
    Unknown,
    /// It ends earlier, twice in a row.
    Truncated {
        /// The end offset answered.
        to: Offset,
        /// The epoch answered.
        epoch: Option<LeaderEpoch>,
    },
    /// It ends earlier, and the reset policy is `none`.
    Halt,
}
