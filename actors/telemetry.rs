//! What several threads write and anybody may read without asking an actor: counters, partition
//! status, events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dashmap::DashMap;
use tokio::sync::broadcast;
use tracing::Level;

use super::clock::unix_ms;
use super::status::{PartitionStatus, Told};
use crate::budget::{Budget, Inflation};
use crate::cluster::Endpoint;
use crate::error::{Error, ErrorKind};
use crate::fleet::{
    BudgetReport, DiagnosticReport, Event, FetchedBytes, FleetReport, LaneName, NumberedEvent,
    PartitionReport, Totals, Unfinished, Zone,
};
use crate::ids::{BrokerId, Generation, MemberId, Offset, TopicName, TopicPartition};
use crate::routing::diagnostics::BrokerSeen;
use crate::wire::Reason;

/// The shared blackboard of a fleet.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// One entry per assigned partition; lives and dies with the assignment.
    pub(crate) partitions: DashMap<TopicPartition, Arc<PartitionStatus>>,
    fetched: DashMap<(BrokerId, Zone, LaneName), u64>,
    /// What the links know of their brokers; racks are metadata's affair.
    links: DashMap<BrokerId, Link>,
    hints: AtomicU64,
    /// Attempts by outcome, records handled, commits.
    pub(crate) counts: Counts,
    events: EventLog,
    /// What the links and the partitions share; set when they are made.
    budgets: OnceLock<(Budget, Inflation)>,
    state: Mutex<State>,
}

/// What is written rarely.
#[derive(Debug, Default)]
struct State {
    member: Option<(MemberId, Generation)>,
    connected: bool,
    connection_error: Option<Error>,
    /// Topics that brokers have shown us.
    topics: BTreeSet<TopicName>,
    unfinished: Vec<Unfinished>,
    last_report: Option<FleetReport>,
    diagnostics: Vec<DiagnosticReport>,
    /// What is wrong by name and by what it is about, but for what `diagnostics` tells.
    faults: BTreeMap<(&'static str, String), DiagnosticReport>,
}

/// What a link knows of its broker.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    fetch_version: Option<i16>,
    serves_v10: bool,
    v10: bool,
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
    pub(crate) inflated_bytes: AtomicU64,
    pub(crate) mismatched: AtomicU64,
}

impl Telemetry {
    /// An empty blackboard.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            partitions: DashMap::new(),
            fetched: DashMap::new(),
            links: DashMap::new(),
            hints: AtomicU64::new(0),
            counts: Counts::default(),
            events: EventLog::new(),
            budgets: OnceLock::new(),
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
        // One lock for both: a second one in the same expression would wait for the first.
        let (member, diagnostics) = {
            let state = self.state();
            let raised = state.diagnostics.iter().chain(state.faults.values());
            (state.member.clone(), raised.cloned().collect())
        };
        let (budget, inflation) = self.budgets();
        FleetReport {
            version: env!("CARGO_PKG_VERSION"),
            member,
            partitions,
            fetched: fetched.collect(),
            budget,
            inflation,
            diagnostics,
            totals: self.counts.totals(),
        }
    }

    /// The links of the fleet share this budget, its partitions this share for inflation.
    pub(crate) fn set_budgets(&self, budget: &Budget, inflation: &Inflation) {
        // Set once, by the wiring of the fleet.
        drop(self.budgets.set((budget.clone(), inflation.clone())));
        let (fetching, inflating) = self.budgets();
        budget_gauge("limit", fetching.limit);
        budget_gauge("inflate_limit", inflating.limit);
    }

    /// Publishes what the budgets hold at this moment.
    pub(crate) fn note_budgets(&self) {
        let (fetching, inflating) = self.budgets();
        budget_gauge("charged", fetching.charged);
        budget_gauge("inflated", inflating.charged);
        budget_gauge("inflated_beyond", inflating.overdrawn);
    }

    /// Batches were inflated, unless it is nothing.
    pub(crate) fn note_inflated(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        bump(&self.counts.inflated_bytes, bytes);
        metrics::counter!("nearside_wire_inflated_bytes_total").increment(bytes);
    }

    /// What fetching and inflation hold.
    fn budgets(&self) -> (BudgetReport, BudgetReport) {
        let Some((budget, inflation)) = self.budgets.get() else {
            return Default::default();
        };
        (
            BudgetReport::fetching(budget),
            BudgetReport::inflating(inflation),
        )
    }

    /// A partition is no longer assigned.
    pub(crate) fn ended(&self, partition: &TopicPartition) {
        self.partitions.remove(partition);
        super::diagnostics::forget(partition);
    }

    /// What the gauges of a partition are measured from; `None` if it is not assigned.
    pub(crate) fn told(&self, partition: &TopicPartition) -> Option<Told> {
        self.partitions.get(partition).map(|status| status.told())
    }

    /// A link negotiated versions: the highest Fetch both sides speak, and whether it serves v10.
    pub(crate) fn note_fetch(&self, broker: BrokerId, version: i16, serves_v10: bool) {
        let mut link = self.links.entry(broker).or_default();
        (link.fetch_version, link.serves_v10) = (Some(version), serves_v10);
    }

    /// The no-rack lane of a broker went to v10 or back.
    pub(crate) fn note_v10(&self, broker: BrokerId, v10: bool) {
        self.links.entry(broker).or_default().v10 = v10;
    }

    /// A broker, but for its rack; `starves` if it holds records of some partition back.
    pub(crate) fn link(&self, broker: BrokerId, starves: bool) -> BrokerSeen {
        let link = self
            .links
            .get(&broker)
            .map(|link| *link)
            .unwrap_or_default();
        BrokerSeen {
            rack: None,
            fetch_version: link.fetch_version,
            v10: link.v10,
            v10_unavailable: starves && !link.serves_v10,
        }
    }

    /// A leader recommended a replica.
    pub(crate) fn note_hint(&self) {
        bump(&self.hints, 1);
    }

    /// Hints received so far.
    pub(crate) fn hints(&self) -> u64 {
        self.hints.load(Ordering::Relaxed)
    }

    /// What is wrong with the set-up at present.
    pub(crate) fn set_diagnostics(&self, diagnostics: Vec<DiagnosticReport>) {
        self.state().diagnostics = diagnostics;
    }

    /// Files of TLS have changed: they are used from now on, or for this reason they are not.
    pub(crate) fn note_tls_files(&self, refused: Option<String>) {
        let outcome = refused.as_ref().map_or("taken", |_| "refused");
        metrics::counter!("nearside_wire_tls_reload_total", "outcome" => outcome).increment(1);
        match &refused {
            Some(detail) => {
                tracing::warn!(detail, "certificates or keys that changed are not used")
            }
            None => tracing::info!("certificates and keys were read again"),
        }
        self.note_fault("tls_reload", String::new(), refused);
    }

    /// Raises a diagnostic about one thing, or clears it.
    pub(crate) fn note_fault(&self, name: &'static str, about: String, detail: Option<String>) {
        let report = detail
            .clone()
            .map(|detail| DiagnosticReport { name, detail });
        let before = match report {
            Some(report) => self.state().faults.insert((name, about), report),
            None => self.state().faults.remove(&(name, about)),
        };
        if detail.is_some() || before.is_some() {
            self.emit(Event::Diagnostic {
                name,
                cleared: detail.is_none(),
                detail: detail.unwrap_or_default(),
            });
        }
    }

    /// Clears every diagnostic of that name.
    pub(crate) fn clear_faults(&self, name: &'static str) {
        let raised = self.state().faults.keys().cloned().collect::<Vec<_>>();
        for (_, about) in raised.into_iter().filter(|(own, _)| *own == name) {
            self.note_fault(name, about, None);
        }
    }

    /// Who we are in the group.
    pub(crate) fn set_member(&self, member: Option<(MemberId, Generation)>) {
        self.state().member = member;
    }

    /// The coordinator accepted a commit.
    pub(crate) fn committed(&self, partition: &TopicPartition, offset: Offset) {
        if let Some(status) = self.partitions.get(partition) {
            status.committed(offset);
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

    /// A broker has shown us the partitions of a topic.
    pub(crate) fn note_topic(&self, topic: &TopicName) {
        self.state().topics.insert(topic.clone());
    }

    /// Whether any broker has ever shown us this topic.
    #[cfg(feature = "cli")]
    pub(crate) fn has_seen(&self, topic: &TopicName) -> bool {
        self.state().topics.contains(topic)
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
        match event.level() {
            Level::ERROR => tracing::error!(?event, "event"),
            Level::WARN => tracing::warn!(?event, "event"),
            Level::INFO => tracing::info!(?event, "event"),
            Level::DEBUG | Level::TRACE => tracing::debug!(?event, "event"),
        }
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
            inflated_bytes: read(&self.inflated_bytes),
        }
    }
}

fn budget_gauge(state: &'static str, bytes: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    let bytes = bytes as f64;
    metrics::gauge!("nearside_budget_bytes", "state" => state).set(bytes);
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

/// Events kept for late readers (runtime.md V7).
const EVENTS_MAX: usize = 4_096;
