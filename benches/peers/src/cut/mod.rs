//! One client cut off from one broker of a healthy cluster: how long does a record take from its
//! acknowledgement to its delivery?

mod readers;
mod table;
mod times;
mod writer;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use nearside::cli::kafka::{Cluster, Fault, Options, until};

use crate::Result;
use readers::{Librdkafka, Nearside};
use table::{Case, Table};
use times::Times;
use writer::Writer;

/// What to measure: both readers side by side, each behind proxies of its own, which are broken at
/// the same moment.
#[derive(Args, Clone, Debug)]
pub struct Plan {
    /// Records per second.
    #[arg(long, default_value_t = 300)]
    rate: u32,
    /// Seconds for which one broker is lost.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// How often each case is measured; the worst counts.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
}

/// What the lost broker is to the readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// The follower in their rack; others lead.
    Follower,
    /// The leader, in their rack.
    Leader,
}

/// The lost broker; it lives in rack b, as the readers do.
const LOST: i32 = 2;
const NEARSIDE: usize = 0;
const LIBRDKAFKA: usize = 1;

pub fn run(plan: &Plan) -> Result<()> {
    eprintln!("starting three brokers");
    let cluster = Cluster::start(&Options {
        clients: 2,
        ..Options::default()
    })?;
    let mut table = Table::default();
    for round in 1..=plan.rounds {
        for role in [Role::Follower, Role::Leader] {
            for fault in [Fault::Refuse, Fault::Vanish] {
                let case = measure(&cluster, plan, (role, fault), round)?;
                eprintln!("{case}");
                table.add(case);
            }
        }
    }
    println!(
        "\n{} records/s, acks=all, one broker lost to one client for {} s; worst time from \
         acknowledgement to delivery\n",
        plan.rate, plan.seconds
    );
    print!("{table}");
    Ok(())
}

fn measure(
    cluster: &Cluster,
    plan: &Plan,
    (role, fault): (Role, Fault),
    round: usize,
) -> Result<Case> {
    let topic = format!("cut-{role:?}-{fault:?}-{round}").to_lowercase();
    cluster
        .admin()?
        .create_topic(&topic, &role.replicas(), &[])?;
    cluster.wait_partitions(&topic, "all replicas in sync", |view| view.isr.len() == 3)?;
    let writer = Writer::start(cluster.bootstrap(), &topic, plan.rate)?;
    let nearside = Nearside::start(
        &cluster.proxied_bootstrap(NEARSIDE)?,
        &group(cluster, &format!("{topic}-nearside"))?,
        &topic,
    )?;
    let librdkafka = Librdkafka::start(
        &cluster.proxied_bootstrap(LIBRDKAFKA)?,
        &group(cluster, &format!("{topic}-librdkafka"))?,
        &topic,
    )?;
    let seen = [nearside.times(), librdkafka.times()];
    until("both readers at work", PATIENCE, || {
        nearside.reads_from(LOST)
    })?;
    until("both readers at work", PATIENCE, || {
        behind(&writer.acked(), &seen, ALMOST)
    })?;
    // librdkafka looks for its replica once a partition is at its end.
    thread::sleep(SETTLE);

    let lost_at = Instant::now();
    for client in [NEARSIDE, LIBRDKAFKA] {
        cluster.proxy_of(client, LOST)?.set(fault);
    }
    thread::sleep(Duration::from_secs(plan.seconds));
    for client in [NEARSIDE, LIBRDKAFKA] {
        cluster.proxy_of(client, LOST)?.set(Fault::None);
    }
    thread::sleep(SETTLE);
    let acked = writer.finish()?;
    until("the delivery of every record", PATIENCE, || {
        behind(&acked, &seen, 0)
    })?;
    let worst = |times: &Times| acked.worst(times, lost_at);
    let case = Case {
        role,
        fault,
        nearside: worst(&nearside.times()),
        librdkafka: worst(&librdkafka.times()),
    };
    nearside.finish()?;
    librdkafka.finish()?;
    Ok(case)
}

/// Fails with the counts while a reader lags more than `allowed` records behind.
fn behind(
    acked: &Times,
    readers: &[Arc<Times>],
    allowed: usize,
) -> std::result::Result<(), String> {
    let missing: Vec<usize> = readers.iter().map(|it| acked.missing(it)).collect();
    if acked.count() > 0 && missing.iter().all(|missing| *missing <= allowed) {
        return Ok(());
    }
    Err(format!(
        "{missing:?} of {} records are missing",
        acked.count()
    ))
}

/// A group whose coordinator stays reachable: this is about reading, not about membership.
fn group(cluster: &Cluster, name: &str) -> Result<String> {
    for number in 0..NAMES_MAX {
        let group = format!("{name}-{number}");
        if cluster.coordinator(&group)? != LOST {
            return Ok(group);
        }
    }
    Err("no group is coordinated elsewhere".into())
}

impl Role {
    /// Six partitions; the readers' rack is the lost broker's.
    fn replicas(self) -> Vec<Vec<i32>> {
        let pair = match self {
            Self::Follower => [vec![1, LOST, 3], vec![3, LOST, 1]],
            Self::Leader => [vec![LOST, 1, 3], vec![LOST, 3, 1]],
        };
        pair.into_iter().cycle().take(PARTITIONS).collect()
    }
}

const PARTITIONS: usize = 6;
const NAMES_MAX: usize = 100;
/// Half a second's records may be under way.
const ALMOST: usize = 150;
const SETTLE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(90);
