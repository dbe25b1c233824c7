//! Older brokers: the core of the suite on a cluster of their version.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use libtest_mimic::{Failed, Trial};
use nearside::cli::kafka::{Cluster, Options, ProduceLoad, RACKS};

use crate::groups::committed;
use crate::lab::{Lab, Outcome as Verdict};
use crate::team::Team;

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    let name = "older_brokers_serve_a_group_through_moves_and_a_kill";
    vec![lab.trial_alone(name, older_brokers_serve_a_group_through_moves_and_a_kill)]
}

/// The last of the 3 line, the last without leader hints (KIP-951), and the oldest with production
/// KRaft.
const VERSIONS: [&str; 3] = ["3.9.2", "3.6.2", "3.3.2"];
const PARTITIONS: usize = 12;
const RECORDS: u64 = 150_000;

/// One version a day in turn; `NEARSIDE_KAFKA_VERSIONS=3.9.2,3.3.2` names others.
fn older_brokers_serve_a_group_through_moves_and_a_kill() -> Verdict {
    let named = std::env::var("NEARSIDE_KAFKA_VERSIONS");
    let versions = match &named {
        Ok(list) => list.split(',').map(str::trim).collect(),
        Err(_) => vec![version_of_today()?],
    };
    for version in versions {
        eprintln!("Kafka {version}");
        let mut cluster = Cluster::start(&Options {
            version: version.to_owned(),
            ..Options::default()
        })?;
        serves_a_group(&mut cluster).map_err(|failed| in_version(version, &failed))?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "which day it is decides, and nothing else"
)]
fn version_of_today() -> Result<&'static str, Failed> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let day = usize::try_from(since.as_secs() / (24 * 60 * 60))?;
    Ok(VERSIONS[day % VERSIONS.len()])
}

fn in_version(version: &str, failed: &Failed) -> Failed {
    let why = failed.message().unwrap_or("no reason given");
    format!("Kafka {version}: {why}").into()
}

/// Reads at home, moved leaders, a killed broker that comes back, and every offset committed.
fn serves_a_group(cluster: &mut Cluster) -> Verdict {
    let topic = "older";
    cluster.create_topic(topic, PARTITIONS)?;
    let producer =
        cluster.produce_in_background(&ProduceLoad::numbered(topic, RECORDS).at_rate(5_000))?;
    let team = Team::start(cluster, topic)?;
    at_home(cluster, &team, "every partition read at home")?;
    for (partition, view) in cluster.admin()?.partitions(topic)? {
        cluster.move_leader(topic, partition, view.leader % 3 + 1)?;
    }
    team.wait_flowing(10_000, RECORDS)?;

    cluster.kill(3)?;
    team.wait_routes(
        PARTITIONS,
        "nobody reads from a dead broker",
        |_, broker| broker != 3,
    )?;
    team.wait_flowing(10_000, RECORDS)?;
    cluster.restart(3)?;
    cluster.wait_partitions(topic, "all replicas in sync", |view| view.isr.len() == 3)?;
    at_home(cluster, &team, "every partition read at home again")?;

    producer.wait()?;
    team.wait_handled(RECORDS)?;
    team.journal.judge(RECORDS)?;
    team.assert_no_position_was_reset();
    let group = team.group().to_owned();
    team.dissolve()?;
    let commits = committed(cluster, &group, topic)?;
    assert_eq!(commits.values().sum::<i64>(), i64::try_from(RECORDS)?);
    Ok(())
}

fn at_home(cluster: &Cluster, team: &Team, what: &str) -> Verdict {
    let racks = cluster.racks();
    assert_eq!(racks.values().copied().collect::<Vec<_>>(), RACKS);
    team.wait_routes(PARTITIONS, what, |rack, broker| {
        racks.get(&broker) == Some(&rack)
    })
}
