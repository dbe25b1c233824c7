//! What `consume` watches in its fleet: a hopeless start, a partition that failed, the end.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::cli::exit::Failure;
use crate::cli::guard::{Signs, TOPIC_ANSWERS, judge};
use crate::fleet::{Event, FleetHandle};
use crate::ids::TopicName;

/// Resolves with a failure if the start proves hopeless. Once every one of `topics` was seen and
/// something was read or an end was reached it waits for ever: from then on the fleet retries
/// whatever happens.
pub(super) async fn hopeless_start(
    fleet: &FleetHandle,
    topics: &[TopicName],
    patience: Duration,
) -> Failure {
    let mut ticks = looks_at_the_fleet();
    let mut looks = 0_u32;
    loop {
        ticks.tick().await;
        let report = fleet.report();
        let began = report.totals.records_finished > 0
            || report
                .partitions
                .iter()
                .any(|partition| partition.lag == Some(0));
        if began && all_seen(fleet, topics) {
            std::future::pending::<()>().await;
        }
        let (topic_error, topic_denied) = last_topic_error(fleet).unzip();
        let signs = Signs {
            elapsed: LOOK_INTERVAL * looks,
            connected: fleet.has_connected(),
            connection_error: fleet.connection_error(),
            topic_error,
            topic_denied: topic_denied.unwrap_or_default(),
            // A fleet tells of a missing topic after as many.
            topic_answers: TOPIC_ANSWERS,
        };
        if let Some(failure) = judge(&signs, patience) {
            return failure;
        }
        looks = looks.saturating_add(1);
    }
}

/// Resolves when a partition has stopped for good: nobody would learn that from the output.
pub(super) async fn partition_failed(fleet: &FleetHandle) -> Failure {
    let mut ticks = looks_at_the_fleet();
    loop {
        ticks.tick().await;
        let events = fleet.recent_events();
        for numbered in &events {
            if let Event::PartitionFailed { partition, reason } = &numbered.event {
                return Failure::running(format!("{partition}: {reason}"));
            }
        }
    }
}

/// Resolves when every one of `topics` was seen, and every partition that is assigned has been read
/// to its end. A member without any is not at the end: its turn may come.
pub(super) async fn reached_end(fleet: &FleetHandle, topics: &[TopicName]) {
    let mut ticks = looks_at_the_fleet();
    loop {
        ticks.tick().await;
        let partitions = fleet.report().partitions;
        let mut lags = partitions.iter().map(|partition| partition.lag);
        if !partitions.is_empty() && lags.all(|lag| lag == Some(0)) && all_seen(fleet, topics) {
            return;
        }
    }
}

fn all_seen(fleet: &FleetHandle, topics: &[TopicName]) -> bool {
    topics.iter().all(|topic| fleet.has_seen(topic))
}

/// What was told last of a topic that cannot be read, and whether a permission is missing.
fn last_topic_error(fleet: &FleetHandle) -> Option<(String, bool)> {
    let events = fleet.recent_events();
    events.iter().rev().find_map(|numbered| {
        let Event::TopicError {
            topic,
            error,
            denied,
        } = &numbered.event
        else {
            return None;
        };
        Some((format!("topic `{topic}`: {error}"), *denied))
    })
}

fn looks_at_the_fleet() -> Interval {
    let mut ticks = interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

const LOOK_INTERVAL: Duration = Duration::from_millis(100);
