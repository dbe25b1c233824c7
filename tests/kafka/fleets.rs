//! A group of three fleets, one in each rack, on twelve partitions with three replicas.

use std::sync::Arc;

use libtest_mimic::Trial;
use nearside::cli::kafka::{Cluster, ProduceLoad};

use crate::groups::committed;
use crate::lab::{Lab, Outcome as Verdict, trials};
use crate::team::Team;

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    trials![lab;
        every_member_reads_in_its_own_rack_and_the_brokers_agree,
        moved_leaders_lose_nothing_and_reset_nothing,
        a_member_that_comes_back_handles_nothing_below_the_commit,
    ]
}

const PARTITIONS: usize = 12;
const RECORDS: u64 = 300_000;

/// The rack a broker lives in: brokers 1, 2, 3 are in a, b, c.
fn rack_of<'a>(cluster: &'a Cluster) -> impl Fn(i32) -> &'a str {
    let racks = cluster.racks();
    move |broker| racks.get(&broker).copied().unwrap_or("nowhere")
}

/// Not one record byte comes from another rack, from the first fetch on: a leader that has a better
/// replica to name sends no records along.
fn every_member_reads_in_its_own_rack_and_the_brokers_agree(cluster: &mut Cluster) -> Verdict {
    let topic = "near";
    cluster.create_topic(topic, PARTITIONS)?;
    let producer =
        cluster.produce_in_background(&ProduceLoad::numbered(topic, RECORDS).at_rate(30_000))?;
    let team = Team::start(cluster, topic)?;
    let rack_of = rack_of(cluster);
    team.wait_routes(
        PARTITIONS,
        "every partition read in its own rack",
        |rack, broker| rack_of(broker) == rack,
    )?;
    team.wait_handled(RECORDS)?;
    producer.wait()?;
    assert_eq!(team.foreign_bytes(), 0, "{}", team.routes_taken());
    assert_eq!(team.bytes_by_broker(), cluster.bytes_out(topic)?);
    team.journal.judge(RECORDS)?;
    team.dissolve()
}

fn moved_leaders_lose_nothing_and_reset_nothing(cluster: &mut Cluster) -> Verdict {
    let topic = "moving";
    cluster.create_topic(topic, PARTITIONS)?;
    let producer =
        cluster.produce_in_background(&ProduceLoad::numbered(topic, RECORDS).at_rate(30_000))?;
    let team = Team::start(cluster, topic)?;
    team.wait_handled(1_000)?;
    for (partition, view) in cluster.admin()?.partitions(topic)? {
        cluster.move_leader(topic, partition, view.leader % 3 + 1)?;
    }
    producer.wait()?;
    team.wait_handled(RECORDS)?;
    team.journal.judge(RECORDS)?;
    team.assert_no_position_was_reset();
    team.dissolve()
}

fn a_member_that_comes_back_handles_nothing_below_the_commit(cluster: &mut Cluster) -> Verdict {
    let topic = "coming";
    cluster.create_topic(topic, PARTITIONS)?;
    let producer =
        cluster.produce_in_background(&ProduceLoad::numbered(topic, RECORDS).at_rate(30_000))?;
    let mut team = Team::start(cluster, topic)?;
    team.wait_routes(PARTITIONS, "every partition owned", |_, _| true)?;
    team.wait_handled(20_000)?;
    team.leave("b")?;
    let commits = committed(cluster, team.group(), topic)?;
    assert!(!commits.is_empty());
    let before = team.journal.logs();
    team.wait_handled(100_000)?;
    team.join("b")?;
    producer.wait()?;
    team.wait_handled(RECORDS)?;
    team.journal.judge(RECORDS)?;
    for (partition, log) in team.journal.logs() {
        let known = before.get(&partition).map_or(0, |log| log.repeats.len());
        let commit = commits.get(&partition).copied().unwrap_or(0);
        let below = log.repeats[known..].iter().find(|offset| **offset < commit);
        assert_eq!(below, None, "partition {partition}, committed {commit}");
    }
    team.dissolve()
}
