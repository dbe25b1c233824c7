//! Three members of one group, one per rack, each reading from the replica in its own rack.
//!
//! `cargo run --example rack_local_reads` runs it on an embedded cluster and prints, per member,
//! the bytes it received from each broker: everything beyond the first look comes from its own
//! zone.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};
use std::time::Duration;

use nearside::embedded::listener::Serving;
use nearside::embedded::{Record, Settings};
use nearside::ids::TopicPartition;
use nearside::prelude::*;

const PARTITIONS: u32 = 12;
const RECORDS: usize = 1_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Serving::listen(Settings::default().on_loopback(None)).await?;
    let handle = cluster.handle();
    handle.with(|cluster| cluster.create_topic("orders", PARTITIONS, 3))?;
    let handled = Arc::new(AtomicUsize::new(0));

    let mut members = Vec::new();
    for rack in ["a", "b", "c"] {
        let counter = Arc::clone(&handled);
        let count = batch_fn(move |batch: Batch<Raw>, _: Context| {
            counter.fetch_add(batch.len(), Memory::Relaxed);
            async { Ok(BatchOutcome::All(Outcome::Done)) }
        });
        let member = Fleet::builder("zones")
            .bootstrap(&handle.bootstrap())
            .property("client.rack", rack)
            .property("auto.offset.reset", "earliest")
            .subscribe(Subscription::topics(["orders"]).handler(count))
            .start()
            .await?;
        members.push((rack, member));
    }

    // Records come once each member has its third, or the first would read them all.
    let third = usize::try_from(PARTITIONS)? / members.len();
    let has_third = |(_, member): &(_, FleetHandle)| member.report().partitions.len() == third;
    while !members.iter().all(has_third) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let records = vec![Record::of("x".repeat(100)); RECORDS];
    for partition in 0..i32::try_from(PARTITIONS)? {
        handle
            .with(|cluster| cluster.produce(&TopicPartition::new("orders", partition), &records))?;
    }
    let total = RECORDS * usize::try_from(PARTITIONS)?;
    while handled.load(Memory::Relaxed) < total {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    for (rack, member) in members {
        println!("member in rack {rack}");
        for row in member.report().fetched {
            println!(
                "  broker {:<3} {:<10} {:>9} bytes",
                row.broker,
                row.zone.as_str(),
                row.bytes
            );
        }
        member.stop(Duration::from_secs(10)).await;
    }
    Ok(())
}
