//! What several threads write and anybody may read without asking an actor: counters, partition
//! status, events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use tokio::sync::broadcast;

use super::clock::unix_ms;
use super::partition::Progress;
use crate::cluster::Endpoint;
use crate::error::{Error, ErrorKind};
use crate::fleet::{
    Event, FetchedBytes, FleetReport, LaneName, NumberedEvent, PartitionReport, Totals, Unfinished,
    Zone,
};
use crate::ids::{BrokerId, Generation, MemberId, Offset, TopicPartition};
use crate::routing::Route;
use crate::wire::Reason;

/// The shared blackboard of a fleet.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// One entry per assigned partition; lives and dies with the assignment.
    pub(crate) partitions: DashMap<TopicPartition, Arc<PartitionStatus>>,
    fetched: DashMap<(BrokerId, Zone, LaneName), u64>,
    /// Attempts by outcome, records handled, commits.
    pub(crate) counts: Counts,
    events: EventLog,
    state: Mutex<State>,
}

/// What is written rarely.
#[derive(Debug, Default)]
struct State {
    member: Option<(MemberId, Generation)>,
    connected: bool,
    connection_error: Option<Error>,
    unfinished: Vec<Unfinished>,
    last_report: Option<FleetReport>,
}

/// Plain totals since the fleet started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) records_finished: AtomicU64,
    pub(crate) attempts_done: AtomicU64,
    pub(crate) attempts_retry: AtomicU64,
    pub(crate) attempts_panicked: AtomicU64,
    pub(crate) late_results: AtomicU64,
    pub(crate) commits_accepted: AtomicU64,
    pub(crate) commits_refused: AtomicU64,
    pub(crate) rebalances: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) mismatched: AtomicU64,
}

/// The latest facts of one partition. Written by its thread only.
#[derive(Debug)]
pub(crate) struct PartitionStatus {
    state: AtomicUsize,
    broker: AtomicI64,
    position: AtomicI64,
    leader_end: AtomicI64,
    replica_end: AtomicI64,
    committed: AtomicI64,
    progress: Arc<Progress>,
}

impl PartitionStatus {
    /// A partition that is starting.
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        let unknown = || AtomicI64::new(UNKNOWN);
        Self {
            state: AtomicUsize::new(0),
            broker: unknown(),
            position: unknown(),
            leader_end: unknown(),
            replica_end: unknown(),
            committed: unknown(),
            progress,
        }
    }

    /// Publishes where the route stands. A failed partition stays failed.
    pub(crate) fn publish(&self, route: &Route) {
        let index = STATES
            .iter()
            .position(|name| *name == route.state().name())
            .unwrap_or(0);
        if self.state.load(Ordering::Relaxed) != FAILED {
            self.state.store(index, Ordering::Relaxed);
        }
        let broker = route
            .served()
            .map_or(UNKNOWN, |(broker, _)| i64::from(broker.0));
        self.broker.store(broker, Ordering::Relaxed);
        self.position.store(route.fetch_end().0, Ordering::Relaxed);
        let marks = route.watermarks();
        let number = |offset: Option<Offset>| offset.map_or(UNKNOWN, |offset| offset.0);
        self.leader_end
            .store(number(marks.leader_hw), Ordering::Relaxed);
        self.replica_end
            .store(number(marks.replica_hw), Ordering::Relaxed);
    }

    /// Marks the partition failed for good.
    pub(crate) fn fail(&self) {
        self.state.store(FAILED, Ordering::Relaxed);
    }

    fn report(&self, partition: TopicPartition) -> PartitionReport {
        let number = |slot: &AtomicI64| Some(slot.load(Ordering::Relaxed)).filter(|n| *n >= 0);
        let watermark = self.progress.read().map(|state| state.offset);
        let end = number(&self.leader_end)
            .max(number(&self.replica_end))
            .map(Offset);
        let lag = end
            .zip(watermark)
            .map(|(end, at)| end.0.saturating_sub(at.0));
        PartitionReport {
            partition,
            state: STATES
                .get(self.state.load(Ordering::Relaxed))
                .copied()
                .unwrap_or("starting"),
            broker: number(&self.broker)
                .and_then(|id| i32::try_from(id).ok())
                .map(BrokerId),
            position: watermark.and(number(&self.position)).map(Offset),
            watermark,
            committed: number(&self.committed).map(Offset),
            end,
            lag: lag.map(|lag| u64::try_from(lag).unwrap_or(0)),
        }
    }
}

impl Telemetry {
    /// An empty blackboard.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            partitions: DashMap::new(),
            fetched: DashMap::new(),
            counts: Counts::default(),
            events: EventLog::new(),
            state: Mutex::default(),
        })
    }

    /// The fleet at this moment.
    pub(crate) fn report(&self) -> FleetReport {
        let mut partitions: Vec<_> = self
            .partitions
            .iter()
            .map(|row| row.value().report(row.key().clone()))
            .collect();
        partitions.sort_unstable_by(|one, two| one.partition.cmp(&two.partition));
        let fetched = self.fetched();
        let fetched = fetched
            .into_iter()
            .map(|((broker, zone, lane), bytes)| FetchedBytes {
                broker,
                zone,
                lane,
                bytes,
            });
        FleetReport {
            version: env!("CARGO_PKG_VERSION"),
            member: self.state().member.clone(),
            partitions,
            fetched: fetched.collect(),
            totals: self.counts.totals(),
        }
    }

    /// Who we are in the group.
    pub(crate) fn set_member(&self, member: Option<(MemberId, Generation)>) {
        self.state().member = member;
    }

    /// The coordinator accepted a commit.
    pub(crate) fn committed(&self, partition: &TopicPartition, offset: Offset) {
        if let Some(status) = self.partitions.get(partition) {
            status.committed.store(offset.0, Ordering::Relaxed);
        }
    }

    /// A broker answered.
    pub(crate) fn note_connected(&self) {
        self.state().connected = true;
    }

    /// A broker could not be reached.
    pub(crate) fn note_failure(&self, endpoint: &Endpoint, reason: &Reason) {
        let kind = match reason {
            Reason::Mixup(_) => ErrorKind::WrongPort,
            Reason::Trust(_) => ErrorKind::Authentication,
            Reason::Unsupported(_) | Reason::VersionsRefused(_) => ErrorKind::UnsupportedVersion,
            Reason::Requested
            | Reason::Progress
            | Reason::SetUp
            | Reason::WaitOver
            | Reason::Unused
            | Reason::Drain(_)
            | Reason::Reauthentication
            | Reason::Resolve(_)
            | Reason::Dial(_)
            | Reason::Lost(_)
            | Reason::SetupTimeout
            | Reason::RequestTimeout(_)
            | Reason::Frame(_)
            | Reason::Desynchronised
            | Reason::Malformed(_)
            | Reason::RolledBack(_) => ErrorKind::Unreachable,
        };
        self.state().connection_error = Some(Error::new(kind, format!("{endpoint}: {reason}")));
    }

    /// Whether any broker has ever answered.
    pub(crate) fn has_connected(&self) -> bool {
        self.state().connected
    }

    /// The latest failure to reach a broker, while none has answered.
    pub(crate) fn connection_error(&self) -> Option<Error> {
        let state = self.state();
        state.connection_error.clone().filter(|_| !state.connected)
    }

    /// Work that missed a deadline.
    pub(crate) fn unfinished(&self, unfinished: Unfinished) {
        let mut state = self.state();
        state
            .unfinished
            .retain(|known| known.partition != unfinished.partition);
        state.unfinished.push(unfinished);
    }

    /// Takes what missed a deadline since the stop began.
    ///
    /// A partition that is still assigned was never drained.
    pub(crate) fn take_unfinished(&self) -> Vec<Unfinished> {
        for PartitionReport {
            partition,
            watermark,
            ..
        } in self.report().partitions
        {
            if let Some(offset) = watermark {
                self.unfinished(Unfinished { partition, offset });
            }
        }
        std::mem::take(&mut self.state().unfinished)
    }

    /// Keeps the report of this moment for the end: afterwards nothing is assigned any more.
    pub(crate) fn keep_last_report(&self) {
        let report = self.report();
        let mut state = self.state();
        state.unfinished.clear();
        state.last_report = Some(report);
    }

    /// The report kept, with the totals of now.
    pub(crate) fn last_report(&self) -> FleetReport {
        let kept = self.state().last_report.clone();
        let now = self.report();
        kept.map_or(now.clone(), |kept| FleetReport {
            totals: now.totals,
            fetched: now.fetched,
            ..kept
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an event. Never blocks; the oldest is dropped when a reader is slow.
    pub(crate) fn emit(&self, event: Event) {
        tracing::debug!(?event, "event");
        self.events.push(event);
    }

    /// A reader of the events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<NumberedEvent>> {
        self.events.live.subscribe()
    }

    /// The newest events, oldest first.
    pub(crate) fn recent_events(&self) -> Vec<Arc<NumberedEvent>> {
        let ring = self
            .events
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        ring.recent.iter().cloned().collect()
    }

    /// Counts record-set bytes received from a broker.
    pub(crate) fn count_fetched(&self, broker: BrokerId, zone: Zone, lane: LaneName, bytes: u64) {
        *self.fetched.entry((broker, zone, lane)).or_default() += bytes;
        metrics::counter!(
            "nearside_route_fetch_bytes_total",
            "broker" => broker.to_string(),
            "zone" => zone.as_str(),
            "lane" => lane.as_str(),
        )
        .increment(bytes);
    }

    /// All byte counters, ordered by broker.
    pub(crate) fn fetched(&self) -> Vec<((BrokerId, Zone, LaneName), u64)> {
        let mut rows: Vec<_> = self
            .fetched
            .iter()
            .map(|row| (*row.key(), *row.value()))
            .collect();
        rows.sort_unstable();
        rows
    }
}

impl Counts {
    fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            records_finished: read(&self.records_finished),
            attempts_done: read(&self.attempts_done),
            attempts_retry: read(&self.attempts_retry),
            attempts_panicked: read(&self.attempts_panicked),
            late_results: read(&self.late_results),
            commits_accepted: read(&self.commits_accepted),
            commits_refused: read(&self.commits_refused),
            rebalances: read(&self.rebalances),
            restarts: read(&self.restarts),
        }
    }
}

/// Adds to a counter nobody orders anything by.
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

#[derive(Debug)]
struct EventLog {
    ring: Mutex<Ring>,
    live: broadcast::Sender<Arc<NumberedEvent>>,
}

#[derive(Debug)]
struct Ring {
    last_number: u64,
    recent: VecDeque<Arc<NumberedEvent>>,
}

impl EventLog {
    fn new() -> Self {
        let (live, _) = broadcast::channel(EVENTS_MAX);
        Self {
            ring: Mutex::new(Ring {
                last_number: 0,
                recent: VecDeque::new(),
            }),
            live,
        }
    }

    fn push(&self, event: Event) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.last_number += 1;
        let event = Arc::new(NumberedEvent {
            number: ring.last_number,
            at_ms: unix_ms(),
            event,
        });
        if ring.recent.len() == EVENTS_MAX {
            ring.recent.pop_front();
        }
        ring.recent.push_back(Arc::clone(&event));
        // Sent under the lock, so that readers see the numbers in order. No reader is no error.
        drop(self.live.send(event));
    }
}

/// What a partition can be, as reports name it.
const STATES: [&str; 6] = [
    "starting", "parked", "leader", "follower", "forced", "failed",
];
/// Index of the last of [`STATES`].
const FAILED: usize = 5;
/// The value of an atomic that holds nothing.
const UNKNOWN: i64 = -1;
/// Events kept for late readers (runtime.md V7).
const EVENTS_MAX: usize = 4_096;
