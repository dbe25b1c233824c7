//! What nearest-replica reading saves: bytes that cross zones, counted.
//!
//! `cargo run --example zones` reads the same records twice with three members, one per zone, of an
//! embedded cluster: first every partition at its leader, then every partition at the replica in
//! the reader's own zone. It prints a table of the bytes each reader got from each zone. What still
//! crosses zones in the second run is what the questions to the leader bring along: nothing, as
//! long as the leader recommends somebody else.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};
use std::time::Duration;

use nearside::embedded::listener::{Handle, Serving};
use nearside::embedded::{Record, Settings};
use nearside::fleet::{LaneName, PartitionReport, Zone};
use nearside::ids::{BrokerId, TopicPartition};
use nearside::prelude::*;

const ZONES: [&str; 3] = ["a", "b", "c"];
const PARTITIONS: u32 = 12;
const RECORDS: usize = 2_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = Serving::listen(Settings::default().on_loopback(None)).await?;
    let handle = cluster.handle();
    handle.with(|cluster| cluster.create_topic("orders", PARTITIONS, 3))?;

    println!(
        "{:<24} {:<6} {:>10} {:>10} {:>10} {:>11} {:>9}",
        "read", "reader", "from a", "from b", "from c", "cross-zone", "(probes)"
    );
    let at_leaders = read_all(handle, "at the leader", "never").await?;
    let nearby = read_all(handle, "at the nearest replica", "always").await?;
    println!(
        "cross-zone bytes: {} at the leaders, {} at the nearest replicas, {} of them probes",
        at_leaders.cross, nearby.cross, nearby.probes
    );
    if nearby.cross > nearby.probes {
        return Err("more than probes crossed a zone".into());
    }
    Ok(())
}

/// Bytes of one run.
#[derive(Clone, Copy, Default)]
struct Crossing {
    cross: u64,
    probes: u64,
}

/// Writes a round of records, reads them with one member per zone, and prints who got how many
/// bytes from where.
async fn read_all(handle: &Handle, name: &str, hints: &str) -> Result<Crossing, Box<dyn Error>> {
    let handled = Arc::new(AtomicUsize::new(0));
    let mut members = Vec::new();
    for zone in ZONES {
        members.push((zone, member(handle, zone, hints, &handled).await?));
    }
    // Records come once each member has its third and has settled where to read it.
    let third = usize::try_from(PARTITIONS)? / members.len();
    let has_third = |(zone, member): &(&str, FleetHandle)| {
        let partitions = member.report().partitions;
        let own = (1..).zip(ZONES).find(|(_, name)| name == zone);
        let settled = |one: &PartitionReport| {
            let nearby = one.broker == own.map(|(id, _)| BrokerId(id));
            one.position.is_some() && (nearby || hints == "never")
        };
        partitions.len() == third && partitions.iter().all(settled)
    };
    while !members.iter().all(has_third) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before: Vec<_> = members.iter().map(|(_, member)| bytes(member)).collect();
    produce(handle)?;
    while handled.load(Memory::Relaxed) < RECORDS * usize::try_from(PARTITIONS)? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut total = Crossing::default();
    for ((zone, member), before) in members.iter().zip(before) {
        let crossing = print_row(name, zone, &before, &bytes(member));
        total.cross += crossing.cross;
        total.probes += crossing.probes;
    }
    for (_, member) in members {
        member.stop(Duration::from_secs(10)).await;
    }
    Ok(total)
}

async fn member(
    handle: &Handle,
    zone: &str,
    hints: &str,
    handled: &Arc<AtomicUsize>,
) -> Result<FleetHandle, nearside::Error> {
    let counter = Arc::clone(handled);
    let count = batch_fn(move |batch: Batch<Raw>, _: Context| {
        counter.fetch_add(batch.len(), Memory::Relaxed);
        async { Ok(BatchOutcome::All(Outcome::Done)) }
    });
    Fleet::builder(format!("zones-{hints}"))
        .bootstrap(&handle.bootstrap())
        .property("client.rack", zone)
        .property("route.follow.hints", hints)
        .property("auto.offset.reset", "latest")
        .subscribe(Subscription::topics(["orders"]).handler(count))
        .start()
        .await
}

fn produce(handle: &Handle) -> Result<(), Box<dyn Error>> {
    let records = vec![Record::of("x".repeat(100)); RECORDS];
    for partition in 0..i32::try_from(PARTITIONS)? {
        let partition = TopicPartition::new("orders", partition);
        handle.with(|cluster| cluster.produce(&partition, &records))?;
    }
    Ok(())
}

/// Record bytes a member has received so far.
fn bytes(member: &FleetHandle) -> BTreeMap<(BrokerId, Zone, LaneName), u64> {
    let fetched = member.report().fetched;
    fetched
        .into_iter()
        .map(|row| ((row.broker, row.zone, row.lane), row.bytes))
        .collect()
}

fn print_row(
    name: &str,
    zone: &str,
    before: &BTreeMap<(BrokerId, Zone, LaneName), u64>,
    after: &BTreeMap<(BrokerId, Zone, LaneName), u64>,
) -> Crossing {
    let mut crossing = Crossing::default();
    let mut from: BTreeMap<BrokerId, u64> = (1..=3).map(|id| (BrokerId(id), 0)).collect();
    for (&(broker, relation, lane), bytes) in after {
        let new = bytes - before.get(&(broker, relation, lane)).unwrap_or(&0);
        *from.entry(broker).or_default() += new;
        if relation != Zone::SameZone {
            crossing.cross += new;
            crossing.probes += if lane == LaneName::Probe { new } else { 0 };
        }
    }
    let from: Vec<String> = from.values().map(|bytes| format!("{bytes:>10}")).collect();
    println!(
        "{name:<24} {zone:<6} {} {:>11} {:>9}",
        from.join(" "),
        crossing.cross,
        crossing.probes
    );
    crossing
}
