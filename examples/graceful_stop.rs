//! A stop that loses nothing: work in hand is finished, committed, and only then the member leaves.
//!
//! `cargo run --example graceful_stop` stops a fleet in the middle of its work, starts it again,
//! and shows that the second run goes on where the first one stopped.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearside::embedded::listener::Serving;
use nearside::embedded::{Record, Settings};
use nearside::ids::TopicPartition;
use nearside::prelude::*;

const RECORDS: usize = 200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Serving::listen(Settings::default().on_loopback(None)).await?;
    let records: Vec<_> = (0..RECORDS).map(|n| Record::of(n.to_string())).collect();
    cluster.handle().with(|cluster| {
        cluster.create_topic("jobs", 1, 3)?;
        cluster.produce(&TopicPartition::new("jobs", 0), &records)
    })?;
    let bootstrap = cluster.handle().bootstrap();

    let first = run(&bootstrap, 50).await?;
    println!(
        "first run handled  {:>3} records: {:?}",
        first.len(),
        span(&first)
    );
    let second = run(&bootstrap, RECORDS - first.len()).await?;
    println!(
        "second run handled {:>3} records: {:?}",
        second.len(),
        span(&second)
    );
    println!(
        "together {} of {RECORDS}, none twice",
        first.len() + second.len()
    );
    Ok(())
}

/// Handles records until at least `wanted` are done, then stops. Returns the offsets in the order
/// they were handled.
async fn run(bootstrap: &str, wanted: usize) -> Result<Vec<i64>, Error> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handled = Arc::clone(&seen);
    let work = handler_fn(move |message: Message<Raw>, _: Context| {
        let handled = Arc::clone(&handled);
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            handled
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(message.offset().0);
            Ok(Outcome::Done)
        }
    });
    let fleet = Fleet::builder("workers")
        .bootstrap(bootstrap)
        .property("auto.offset.reset", "earliest")
        .subscribe(Subscription::topics(["jobs"]).handler(work))
        .start()
        .await?;
    let count = || seen.lock().unwrap_or_else(PoisonError::into_inner).len();
    while count() < wanted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopped = fleet.stop(Duration::from_secs(10)).await;
    println!(
        "stopped: {}, {} partitions unfinished",
        stopped.reason,
        stopped.unfinished.len()
    );
    let handled = seen.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(handled.clone())
}

fn span(offsets: &[i64]) -> Option<(i64, i64)> {
    offsets.first().copied().zip(offsets.last().copied())
}
