//! What a message between actors costs: on one thread, across threads, and as a request that is
//! waited for.
//!
//! The design rests on these three figures: one message per fetched batch is cheap, a request and
//! its answer across threads per batch would not be.

use std::hint::black_box;

use actix::prelude::*;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Adds up what it is sent.
struct Sum(u64);

impl Actor for Sum {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

#[derive(Message)]
#[rtype(u64)]
struct Add(u64);

impl Handler<Add> for Sum {
    type Result = u64;

    fn handle(&mut self, message: Add, _: &mut Self::Context) -> u64 {
        self.0 = self.0.wrapping_add(message.0);
        self.0
    }
}

/// Posts `BURST` messages without waiting, then waits for one answer behind them.
async fn burst(addr: &Addr<Sum>) -> u64 {
    for value in 0..BURST {
        let mut pending = Add(value);
        while let Err(SendError::Full(back)) = addr.try_send(pending) {
            pending = back;
            tokio::task::yield_now().await;
        }
    }
    addr.send(Add(0)).await.unwrap_or_default()
}

fn hops(c: &mut Criterion) {
    let system = System::new();
    let arbiter = Arbiter::new();
    let near = system.block_on(async { Sum(0).start() });
    let far = Sum::start_in_arbiter(&arbiter.handle(), |_| Sum(0));

    let mut group = c.benchmark_group("mailbox");
    group.throughput(Throughput::Elements(BURST));
    group.bench_function("same thread, posted", |b| {
        b.iter(|| black_box(system.block_on(burst(&near))));
    });
    group.bench_function("across threads, posted", |b| {
        b.iter(|| black_box(system.block_on(burst(&far))));
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("across threads, waited for", |b| {
        b.iter(|| black_box(system.block_on(far.send(Add(1))).unwrap_or_default()));
    });
    group.finish();
    arbiter.stop();
}

const MAILBOX: usize = 256;
const BURST: u64 = 128;

criterion_group!(benches, hops);
criterion_main!(benches);
