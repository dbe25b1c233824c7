//! Brokers that die and handlers that panic, under load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use nearside::cli::kafka::{Cluster, ProduceLoad, RACKS};
use nearside::prelude::*;

use crate::journal::number;
use crate::lab::{Lab, Outcome as Verdict, trials};
use crate::team::Team;

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    trials![lab;
        a_killed_follower_is_replaced_by_the_leaders_and_read_again_once_it_is_back,
        a_handler_that_panics_on_every_tenth_record_skips_nothing,
    ]
}

const PARTITIONS: usize = 12;
const RECORDS: u64 = 300_000;

/// Broker 3 leads nothing here: the member of its rack reads from it as a follower.
fn a_killed_follower_is_replaced_by_the_leaders_and_read_again_once_it_is_back(
    cluster: &mut Cluster,
) -> Verdict {
    let topic = "bereft";
    let mut replicas = vec![vec![1, 2, 3]; PARTITIONS / 2];
    replicas.extend(vec![vec![2, 3, 1]; PARTITIONS / 2]);
    cluster.admin()?.create_topic(topic, &replicas, &[])?;
    cluster.wait_partitions(topic, "all replicas in sync", |view| view.isr.len() == 3)?;
    let producer =
        cluster.produce_in_background(&ProduceLoad::numbered(topic, RECORDS).at_rate(10_000))?;
    let team = Team::start(cluster, topic)?;
    let home: BTreeMap<&str, i32> = RACKS.into_iter().zip(1..).collect();
    team.wait_routes(
        PARTITIONS,
        "every partition read at home",
        |rack, broker| home[rack] == broker,
    )?;
    team.wait_handled(20_000)?;

    cluster.kill(3)?;
    team.wait_routes(
        PARTITIONS,
        "the third rack served by its leaders",
        |rack, broker| {
            if rack == "c" {
                broker != 3
            } else {
                home[rack] == broker
            }
        },
    )?;
    team.wait_flowing(20_000, RECORDS)?;

    cluster.restart(3)?;
    cluster.wait_partitions(topic, "all replicas in sync", |view| view.isr.len() == 3)?;
    team.wait_routes(
        PARTITIONS,
        "every partition read at home again",
        |rack, broker| home[rack] == broker,
    )?;
    producer.wait()?;
    team.wait_handled(RECORDS)?;
    team.journal.judge(RECORDS)?;
    team.dissolve()
}

fn a_handler_that_panics_on_every_tenth_record_skips_nothing(cluster: &mut Cluster) -> Verdict {
    const RECORDS: u64 = 30_000;
    const PANICS: u64 = RECORDS / 10;
    let topic = "panicking";
    cluster.create_topic(topic, PARTITIONS)?;
    cluster.produce(&ProduceLoad::numbered(topic, RECORDS))?;
    let mut team = Team::empty(cluster, topic)?;
    silence_panics_on_purpose();
    for rack in RACKS {
        let journal = Arc::clone(&team.journal);
        let handler = handler_fn(move |message: Message<Raw>, context: Context| {
            let journal = Arc::clone(&journal);
            async move {
                let tenth = number(&message).is_some_and(|number| number % 10 == 0);
                assert!(!tenth || context.attempt() > 1, "{ON_PURPOSE}");
                journal.note(&message);
                Ok(Outcome::Done)
            }
        });
        let retry = Retry::exponential(Duration::from_millis(1), Duration::from_millis(10));
        let subscription = team.subscription().retry(retry).handler(handler);
        team.join_with(rack, subscription)?;
    }
    team.wait_handled(RECORDS)?;
    team.journal.judge(RECORDS)?;
    let mut panicked = 0;
    for rack in RACKS {
        panicked += team.member(rack)?.report().totals.attempts_panicked;
    }
    // A record whose partition changed hands between its attempts panics once more.
    assert!(panicked >= PANICS, "{panicked} panics");
    team.dissolve()
}

/// Three thousand reports of panics that are meant to happen would drown the others.
fn silence_panics_on_purpose() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains(ON_PURPOSE) {
            usual(info);
        }
    }));
}

const ON_PURPOSE: &str = "the first attempt at every tenth record panics";
