//! Retention passes a reader that is too slow.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::cli::chaos::crew::number;
use crate::cli::chaos::stage::Stage;
use crate::cli::kafka::{Cluster, KafkaError, ProduceLoad, until};
use crate::config::Config;
use crate::fleet::{Event, Fleet, FleetHandle, Stopped};
use crate::handler::{Context, Message, Outcome, Raw, Subscription, handler_fn};

const SLOW_TOPIC: &str = "chaos-retention";
const RECORDS: u64 = 60_000;
/// Retention goes up to here.
const KEPT_FROM: u64 = 50_000;

/// What the slow reader got, and whether it may hurry.
#[derive(Debug, Default)]
struct Slow {
    numbers: Mutex<Vec<u64>>,
    hurry: watch::Sender<bool>,
}

/// A reader of a topic of its own stands at a low offset when everything below a high one is
/// deleted: one reset, to the first record there is, and exactly the deleted ones missing.
pub(super) fn passing_a_slow_reader(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    stage.cluster.create_topic(SLOW_TOPIC, 1)?;
    stage
        .cluster
        .produce(&ProduceLoad::numbered(SLOW_TOPIC, RECORDS))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| KafkaError::Failed(format!("no thread for the slow reader: {error}")))?;
    let slow = Arc::new(Slow::default());
    let fleet = start(&stage.cluster, &runtime, &slow)?;
    until("the slow reader at work", LIMIT, || match slow.count() {
        0 => Err("no record".to_owned()),
        _ => Ok(()),
    })?;
    let mut step = stage.begin("retention passes a slow reader");
    let kept_from = i64::try_from(KEPT_FROM).unwrap_or(i64::MAX);
    stage.cluster.delete_records(SLOW_TOPIC, 0, kept_from)?;
    step.healed = stage.book.now();
    slow.hurry.send_replace(true);
    let read = until("the end of the topic", LIMIT, || {
        let numbers = slow.numbers();
        match numbers.last() {
            Some(last) if *last == RECORDS - 1 => Ok(numbers),
            last => Err(format!("{last:?} is the last of {}", numbers.len())),
        }
    })?;
    let resets: Vec<(u64, u64)> = fleet
        .recent_events()
        .iter()
        .filter_map(|event| reset(&event.event))
        .collect();
    let stopped = runtime.block_on(fleet.stop(LIMIT));
    Stopped::clone(&stopped)
        .into_result()
        .map_err(|error| KafkaError::Failed(format!("the slow reader: {error}")))?;
    step.resets = true;
    step.notes.push(judge(&read, &resets)?);
    stage.finish(step)
}

fn start(
    cluster: &Cluster,
    runtime: &Runtime,
    slow: &Arc<Slow>,
) -> Result<FleetHandle, KafkaError> {
    let config = Config::from_pairs([
        ("bootstrap.servers", cluster.bootstrap().as_str()),
        ("client.rack", "b"),
        ("auto.offset.reset", "earliest"),
        // A small buffer: what is in it already is delivered in spite of the retention.
        ("max.partition.fetch.bytes", "16384"),
        ("data.arbiters", "1"),
    ])
    .map_err(|error| KafkaError::Failed(error.to_string()))?;
    let noting = Arc::clone(slow);
    let handler = handler_fn(move |message: Message<Raw>, _: Context| {
        let noting = Arc::clone(&noting);
        async move {
            noting.lock().extend(number(&message));
            // It fails only without a sender, and that one is ours.
            drop(noting.hurry.subscribe().wait_for(|hurry| *hurry).await);
            Ok(Outcome::Done)
        }
    });
    let subscription = Subscription::topics([SLOW_TOPIC]).handler(handler);
    let fleet = Fleet::builder("chaos-slow").config(config);
    runtime
        .block_on(fleet.subscribe(subscription).start())
        .map_err(|error| KafkaError::Failed(format!("the slow reader: {error}")))
}

fn reset(event: &Event) -> Option<(u64, u64)> {
    let Event::PositionReset { from, to, .. } = event else {
        return None;
    };
    let from = u64::try_from((*from)?.0).ok()?;
    Some((from, u64::try_from(to.0).ok()?))
}

/// One reset, and its gap is all that is missing.
fn judge(read: &[u64], resets: &[(u64, u64)]) -> Result<String, KafkaError> {
    let [(from, to)] = resets else {
        return Err(KafkaError::Failed(format!(
            "resets instead of one: {resets:?}"
        )));
    };
    let expected = (0..*from).chain(KEPT_FROM..RECORDS);
    if *to != KEPT_FROM || !read.iter().copied().eq(expected) {
        let count = read.len();
        let text = format!("reset from {from} to {to}, {count} records read, not those around it");
        return Err(KafkaError::Failed(text));
    }
    Ok(format!(
        "one reset from {from} to {to}, told as such; every record outside that gap was delivered \
         once, in order"
    ))
}

impl Slow {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> Vec<u64> {
        self.lock().clone()
    }

    fn count(&self) -> usize {
        self.lock().len()
    }
}

const LIMIT: Duration = Duration::from_secs(60);
