//! The cluster does what it is told: the ground every other test here stands on.

use std::collections::BTreeMap;
use std::sync::Arc;

use libtest_mimic::Trial;
use nearside::cli::kafka::{Cluster, ProduceLoad, RACKS};

use crate::lab::{Lab, Outcome, trials};
use crate::reader;

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    trials![lab;
        three_brokers_live_in_three_racks,
        a_follower_serves_and_counts_every_byte_it_sent,
        a_leader_moves_without_a_fault,
        a_killed_broker_loses_its_leads_and_comes_back_in_sync,
        a_frozen_follower_leaves_the_isr_and_returns,
    ]
}

fn three_brokers_live_in_three_racks(cluster: &mut Cluster) -> Outcome {
    let mut brokers = cluster.admin()?.brokers()?;
    brokers.sort_unstable_by_key(|broker| broker.id);
    let seen: Vec<(i32, &str)> = brokers
        .iter()
        .map(|broker| (broker.id, broker.rack.as_str()))
        .collect();
    assert_eq!(seen, (1..).zip(RACKS).collect::<Vec<_>>());
    assert_eq!(
        cluster.racks(),
        seen.into_iter().collect::<BTreeMap<_, _>>()
    );
    Ok(())
}

/// kafka.md 3: `BytesOutPerSec` counts exactly the record bytes a consumer received, per broker and
/// topic.
fn a_follower_serves_and_counts_every_byte_it_sent(cluster: &mut Cluster) -> Outcome {
    const RECORDS: u64 = 30_000;
    cluster.create_topic("counted", 6)?;
    cluster.produce(&ProduceLoad::numbered("counted", RECORDS))?;
    let ends = cluster.end_offsets("counted")?;
    let views = cluster.admin()?.partitions("counted")?;
    let mut seen = Vec::new();
    let mut bytes: BTreeMap<i32, u64> = cluster.racks().into_keys().map(|id| (id, 0)).collect();
    for (partition, end) in &ends {
        let follower = *views[partition].replicas.last().ok_or("no replica")?;
        assert_ne!(follower, views[partition].leader);
        let mut admin = cluster.connect(follower)?;
        let read = reader::read(&mut admin, "counted", *partition, *end)?;
        assert!(read.numbers.is_sorted(), "{partition} is out of order");
        seen.extend(read.numbers);
        *bytes.entry(follower).or_default() += read.bytes;
    }
    seen.sort_unstable();
    assert!(
        seen.iter().copied().eq(0..RECORDS),
        "{} records, not each once",
        seen.len()
    );
    assert_eq!(cluster.bytes_out("counted")?, bytes);
    Ok(())
}

fn a_leader_moves_without_a_fault(cluster: &mut Cluster) -> Outcome {
    cluster.create_topic("moved", 3)?;
    let before = cluster.admin()?.partitions("moved")?;
    assert_eq!(before[&0].leader, 1);
    cluster.move_leader("moved", 0, 3)?;
    let after = cluster.wait_partitions("moved", "all replicas in sync", |view| {
        view.isr == [1, 2, 3]
    })?;
    assert_eq!(after[&0].leader, 3);
    assert!(after[&0].epoch > before[&0].epoch);
    assert_eq!(after[&1], before[&1]);
    Ok(())
}

fn a_killed_broker_loses_its_leads_and_comes_back_in_sync(cluster: &mut Cluster) -> Outcome {
    cluster.create_topic("survivor", 3)?;
    cluster.kill(3)?;
    assert!(cluster.connect(3).is_err());
    let led =
        cluster.wait_partitions("survivor", "leaders 1 and 2, without 3 in sync", |view| {
            [1, 2].contains(&view.leader) && view.isr == [1, 2]
        })?;
    assert!(led.values().any(|view| view.replicas.first() == Some(&3)));
    cluster.restart(3)?;
    cluster.heal(&["survivor"])?;
    assert_eq!(cluster.connect(3)?.brokers()?.len(), 3);
    Ok(())
}

fn a_frozen_follower_leaves_the_isr_and_returns(cluster: &mut Cluster) -> Outcome {
    cluster.create_topic("shrunk", 1)?;
    cluster.freeze(2)?;
    let shrunk =
        cluster.wait_partitions("shrunk", "an ISR without 2", |view| view.isr == [1, 3])?;
    assert_eq!(shrunk[&0].leader, 1);
    cluster.thaw(2)?;
    cluster.wait_partitions("shrunk", "2 back in sync", |view| view.isr == [1, 2, 3])?;
    Ok(())
}
