//! Three members, one per zone, reading a backlog from the embedded cluster: every partition at its
//! leader against every partition at the replica in the reader's own zone.
//!
//! Between processes on one machine a zone costs nothing, so the two should be alike: what this
//! shows is that following hints is not paid for in time. `cargo run --example zones` counts the
//! bytes that it saves.

mod backlog;

use std::time::Duration;

use backlog::{Backlog, Tally, by_batch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nearside::embedded::listener::Handle;
use nearside::prelude::*;

/// One member per zone, in a group of their own, read everything and stop.
async fn read_all(cluster: &Handle, group: u64, hints: &str) {
    let tally = Tally::of(BACKLOG);
    let mut members = Vec::new();
    for zone in ["a", "b", "c"] {
        let member = Fleet::builder(format!("zones-{hints}-{group}"))
            .bootstrap(&cluster.bootstrap())
            .property("client.rack", zone)
            .property("route.follow.hints", hints)
            .property("auto.offset.reset", "earliest")
            .subscribe(by_batch(&tally))
            .start();
        members.push(member.await.expect("the fleet starts"));
    }
    tally.complete().await;
    for member in members {
        member.stop(Duration::from_secs(10)).await;
    }
}

fn zones(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let serving = runtime.block_on(BACKLOG.serve());
    let mut group = criterion.benchmark_group("zones");
    group.sample_size(10);
    group.throughput(Throughput::Elements(BACKLOG.records()));
    let mut number = 0;
    for (name, hints) in [("at_the_leader", "never"), ("at_the_nearest", "always")] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                number += 1;
                runtime.block_on(read_all(serving.handle(), number, hints));
            });
        });
    }
    group.finish();
}

const BACKLOG: Backlog = Backlog {
    partitions: 12,
    batches: 20,
    batch: 1_000,
};

criterion_group!(benches, zones);
criterion_main!(benches);
