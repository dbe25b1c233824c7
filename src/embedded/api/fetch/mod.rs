//! Fetch (1), versions 4-18.
//!
//! - 7 sessions (KIP-227); 9 leader epochs (KIP-320); 11 rack and preferred replica (KIP-392); 12
//!   diverging epochs; 13 topic ids; 15 replica id as a tagged field; 16 current leader and
//!   endpoints on codes 6 and 74 (KIP-951); 17 and 18 add fields for followers only.
//! - Below 11 a consumer is served by the leader alone (routing.md F5).
//! - Only consumers fetch over the wire; followers replicate inside the cluster.

mod answer;
mod evaluate;
mod select;
mod session;

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::super::ConnectionId;
use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::connection::State;
use super::super::history::{FetchSeen, FetchSeenRow};
use super::super::topics::PartitionKey;
use crate::ids::{BrokerId, LeaderEpoch, Moment, Offset, Rack, TopicPartition};

use evaluate::Evaluation;
pub(in super::super) use session::Sessions;
use session::{Rows, Source, TopicRef};

/// What one Fetch asks for besides its partitions.
#[derive(Clone, Debug)]
struct Terms {
    version: i16,
    rack: Option<Rack>,
    /// Whether the consumer reads committed records only.
    committed: bool,
    bytes_min: u64,
    bytes_max: u64,
    /// Whether unchanged rows may be left out of the answer.
    incremental: bool,
}

/// A Fetch that waits for records.
#[derive(Debug)]
pub(in super::super) struct Waiting {
    pub(in super::super) due: Moment,
    call: Call,
    terms: Terms,
    source: Source,
    /// Bytes that each partition has ready.
    ready: BTreeMap<PartitionKey, u64>,
}

/// Why parked fetches look at a partition again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Wake {
    /// Consumers can read further.
    Records,
    /// Leader, epoch or replicas changed.
    Leadership,
}

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &FetchRequest) -> Reply {
    let rack = (!request.rack_id.is_empty()).then(|| Rack::from(request.rack_id.as_str()));
    if cluster.history.keeps() {
        let seen = see(cluster, request, rack.clone());
        let seen = super::super::Seen {
            fetch: Some(seen),
            ..call.seen(cluster.now)
        };
        cluster.history.push(seen);
    }
    if let Some(code) = cluster.faults.error(call, rack.is_some()) {
        return refuse(call, code);
    }
    let (now, slots) = (cluster.now, cluster.settings.fetch_session_slots);
    let Some(broker) = cluster.brokers.get_mut(&call.broker) else {
        return Reply::Close;
    };
    let throttled = !call.throttle.is_zero();
    let context = match broker.sessions.open(request, call.version, throttled, now) {
        Ok(context) => context,
        Err(error) => return refuse(call, error.code()),
    };
    debug_assert!(
        broker.sessions.len() <= slots,
        "sessions are bounded by their slots"
    );
    if throttled {
        return call.answer(
            &FetchResponse::default()
                .with_throttle_time_ms(call.throttle_ms())
                .with_session_id(if context.incremental {
                    request.session_id
                } else {
                    0
                }),
        );
    }
    let bytes = |wanted: i32| u64::try_from(wanted).unwrap_or(0);
    let cap = u64::try_from(cluster.settings.fetch_bytes_max).unwrap_or(u64::MAX);
    let terms = Terms {
        version: call.version,
        rack,
        committed: request.isolation_level == 1,
        bytes_min: bytes(request.min_bytes),
        bytes_max: bytes(request.max_bytes).min(cap),
        incremental: context.incremental,
    };
    let wait = Duration::from_millis(bytes(request.max_wait_ms));
    serve_or_park(cluster, call, terms, context.source, wait)
}

fn serve_or_park(
    cluster: &mut Cluster,
    call: &Call,
    terms: Terms,
    mut source: Source,
    wait: Duration,
) -> Reply {
    let checkpoint = cluster.faults.checkpoint();
    let found = with_rows(cluster, call.broker, &mut source, |cluster, rows| {
        evaluate::evaluate(cluster, call, &terms, rows)
    });
    let Some(evaluation) = found else {
        return refuse(call, ResponseError::FetchSessionIdNotFound.code());
    };
    if evaluation.at_once || wait.is_zero() || evaluation.bytes >= terms.bytes_min {
        return answer(cluster, call, &terms, source, evaluation);
    }
    cluster.faults.restore(&checkpoint);
    let (due, ready) = (cluster.now + wait, evaluation.ready);
    let waiting = Waiting {
        due,
        call: call.clone(),
        terms,
        source,
        ready,
    };
    cluster.set_state(call.connection, State::Fetching(Box::new(waiting)));
    if let Some(broker) = cluster.brokers.get_mut(&call.broker) {
        broker.fetching.insert(call.connection);
    }
    Reply::Parked
}

/// The wait of a parked fetch is over: it answers what there is.
pub(in super::super) fn expire(cluster: &mut Cluster, connection: ConnectionId, waiting: Waiting) {
    let Waiting {
        call,
        terms,
        mut source,
        ..
    } = waiting;
    if let Some(broker) = cluster.brokers.get_mut(&call.broker) {
        broker.fetching.remove(&connection);
    }
    let found = with_rows(cluster, call.broker, &mut source, |cluster, rows| {
        evaluate::evaluate(cluster, &call, &terms, rows)
    });
    let reply = match found {
        Some(evaluation) => answer(cluster, &call, &terms, source, evaluation),
        None => refuse(&call, ResponseError::FetchSessionIdNotFound.code()),
    };
    cluster.complete(&call, reply);
}

/// Something happened to the replica of `key` on `broker`: parked fetches that have enough now, or
/// must learn of a new leader, are answered.
pub(in super::super) fn wake(
    cluster: &mut Cluster,
    key: PartitionKey,
    broker: BrokerId,
    why: Wake,
) {
    let Some(state) = cluster.brokers.get(&broker) else {
        return;
    };
    if state.fetching.is_empty() || !state.runs() {
        return;
    }
    let parked: Vec<ConnectionId> = state.fetching.iter().copied().collect();
    for connection in parked {
        if has_enough(cluster, connection, key, broker, why) {
            finish(cluster, connection);
        }
    }
}

fn finish(cluster: &mut Cluster, connection: ConnectionId) {
    let Some(open) = cluster.connections.get(&connection) else {
        return;
    };
    if !matches!(open.state, State::Fetching(_)) {
        return;
    }
    if let Some(State::Fetching(waiting)) = cluster.replace_state(connection, State::Idle) {
        expire(cluster, connection, *waiting);
    }
}

fn has_enough(
    cluster: &mut Cluster,
    connection: ConnectionId,
    key: PartitionKey,
    broker: BrokerId,
    why: Wake,
) -> bool {
    let Some(open) = cluster.connections.get_mut(&connection) else {
        return false;
    };
    let State::Fetching(waiting) = &mut open.state else {
        return false;
    };
    let Some(sessions) = cluster.brokers.get(&broker).map(|broker| &broker.sessions) else {
        return false;
    };
    let Some(asked) = waiting
        .source
        .rows(sessions)
        .and_then(|rows| rows.asked(key))
    else {
        return false;
    };
    if why == Wake::Leadership {
        return true;
    }
    let Some(partition) = cluster.topics.partition(key) else {
        return false;
    };
    let committed = waiting.terms.committed;
    let limit = partition
        .bounds(broker)
        .map_or(0, |(high_watermark, _)| match committed {
            true => partition.stable_below(high_watermark),
            false => high_watermark,
        });
    let bytes_max = u64::try_from(asked.bytes_max).unwrap_or(0);
    let bytes = partition.log.available(asked.offset, limit).min(bytes_max);
    waiting.ready.insert(key, bytes);
    waiting.ready.values().sum::<u64>() >= waiting.terms.bytes_min.max(1)
}

/// Lends the rows of a session, or of the request itself, to `work`; `None` if the session is gone.
fn with_rows<T>(
    cluster: &mut Cluster,
    broker: BrokerId,
    source: &mut Source,
    work: impl FnOnce(&mut Cluster, &mut Rows) -> T,
) -> Option<T> {
    match source {
        Source::Request(rows) => Some(work(cluster, rows)),
        Source::Session(id) => {
            let mut rows = cluster.brokers.get_mut(&broker)?.sessions.take_rows(*id)?;
            let result = work(cluster, &mut rows);
            cluster
                .brokers
                .get_mut(&broker)?
                .sessions
                .return_rows(*id, rows);
            Some(result)
        }
    }
}

fn answer(
    cluster: &mut Cluster,
    call: &Call,
    terms: &Terms,
    mut source: Source,
    evaluation: Evaluation,
) -> Reply {
    let session_id = source.id();
    let bytes = evaluation.bytes;
    let response = with_rows(cluster, call.broker, &mut source, |cluster, rows| {
        answer::build(cluster, call, terms, rows, evaluation)
    });
    cluster
        .history
        .served(call.broker, usize::try_from(bytes).unwrap_or(0));
    cluster.faults.drop_spent();
    call.answer(&response.unwrap_or_default().with_session_id(session_id))
}

fn refuse(call: &Call, code: i16) -> Reply {
    let response = FetchResponse::default().with_error_code(code);
    call.answer(&response.with_throttle_time_ms(call.throttle_ms()))
}

fn see(cluster: &Cluster, request: &FetchRequest, rack: Option<Rack>) -> FetchSeen {
    let name = |topic: &TopicRef| topic.name(&cluster.topics);
    let mut rows = Vec::new();
    for topic in &request.topics {
        let name = name(&TopicRef::of(&topic.topic, topic.topic_id));
        rows.extend(topic.partitions.iter().map(|row| FetchSeenRow {
            partition: TopicPartition::new(name.clone(), row.partition),
            offset: Offset(row.fetch_offset),
            current_epoch: epoch(row.current_leader_epoch),
            last_fetched_epoch: epoch(row.last_fetched_epoch),
            bytes_max: row.partition_max_bytes,
        }));
    }
    let mut forgotten = Vec::new();
    for topic in &request.forgotten_topics_data {
        let name = name(&TopicRef::of(&topic.topic, topic.topic_id));
        let gone = |&index: &i32| TopicPartition::new(name.clone(), index);
        forgotten.extend(topic.partitions.iter().map(gone));
    }
    FetchSeen {
        rack,
        session_id: request.session_id,
        session_epoch: request.session_epoch,
        wait_max: Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)),
        bytes_min: request.min_bytes,
        bytes_max: request.max_bytes,
        rows,
        forgotten,
    }
}

fn epoch(wire: i32) -> Option<LeaderEpoch> {
    (wire >= 0).then_some(LeaderEpoch(wire))
}
