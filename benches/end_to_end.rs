//! A whole fleet reading a backlog from the embedded cluster over TCP: join, resolve, fetch,
//! handle, commit, leave.
//!
//! The cluster runs in the same process, so the figure holds both sides. Its use is to be compared
//! with itself; `benches/peers` compares with other clients on a real cluster.

mod backlog;

use std::sync::Arc;
use std::time::Duration;

use backlog::{Backlog, Tally, by_batch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nearside::embedded::listener::Handle;
use nearside::prelude::*;

/// One fleet of a group of its own reads everything, then stops.
async fn read_all(cluster: &Handle, group: u64, subscription: Subscription, tally: &Tally) {
    let fleet = Fleet::builder(format!("bench-{group}"))
        .bootstrap(&cluster.bootstrap())
        .property("client.rack", "b")
        .property("auto.offset.reset", "earliest")
        .property("join.jitter.ms", "0")
        .subscribe(subscription)
        .start()
        .await
        .expect("the configuration is sound");
    tally.complete().await;
    fleet.stop(Duration::from_secs(10)).await;
}

fn by_message(tally: &Arc<Tally>) -> Subscription {
    let tally = Arc::clone(tally);
    Subscription::topics(["backlog"]).handler(handler_fn(move |_: Message<Raw>, _: Context| {
        tally.add(1);
        async { Ok(Outcome::Done) }
    }))
}

type MakeSubscription = fn(&Arc<Tally>) -> Subscription;

fn end_to_end(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let serving = runtime.block_on(BACKLOG.serve());
    let mut group_number = 0;
    let mut bench = c.benchmark_group("end to end, 6 partitions, 100 B");
    bench
        .throughput(Throughput::Elements(BACKLOG.records()))
        .sample_size(10);
    let kinds: [(&str, MakeSubscription); 2] =
        [("batch handler", by_batch), ("message handler", by_message)];
    for (name, subscription) in kinds {
        bench.bench_function(name, |b| {
            b.iter(|| {
                group_number += 1;
                let tally = Tally::of(BACKLOG);
                let subscription = subscription(&tally);
                runtime.block_on(read_all(
                    serving.handle(),
                    group_number,
                    subscription,
                    &tally,
                ));
            });
        });
    }
    bench.finish();
}

const BACKLOG: Backlog = Backlog {
    partitions: 6,
    batches: 500,
    batch: 150,
};

criterion_group!(benches, end_to_end);
criterion_main!(benches);
