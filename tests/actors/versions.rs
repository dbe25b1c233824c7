//! Brokers older than the newest, and brokers that were rolled back under way.

use std::collections::BTreeSet;
use std::time::Duration;

use nearside::ErrorKind;
use nearside::embedded::{Api, Rule};
use nearside::fleet::Event;
use nearside::ids::{BrokerId, Offset, TopicPartition};

use crate::stage::{Seen, Stage, pass, run, start, until};

fn serve_fetch_up_to(stage: &Stage, version: i16) {
    stage.cluster().with(|cluster| {
        for broker in (1..=3).map(BrokerId) {
            cluster.limit_versions(broker, Api::Fetch, 4..=version);
        }
    });
}

/// The versions of all Fetch requests since the last time.
fn fetched_at(stage: &Stage) -> BTreeSet<i16> {
    let seen = stage
        .cluster()
        .with(nearside::embedded::Cluster::take_history);
    let fetches = seen.iter().filter(|one| one.api == Api::Fetch);
    fetches.map(|one| one.version).collect()
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

#[test]
fn brokers_that_stop_at_fetch_10_or_11_are_read_and_committed_to() {
    for version in [10, 11] {
        run(async move {
            let stage = Stage::new();
            serve_fetch_up_to(&stage, version);
            stage.topic("orders", 3);
            let seen = Seen::default();
            let fleet = stage.start("b", seen.noting("orders")).await;
            for _ in 0..20 {
                (0..3).for_each(|partition| stage.produce("orders", partition, 10));
                pass(Duration::from_millis(500)).await;
            }
            let all: Vec<_> = (0..200).collect();
            until("all is committed", || {
                (0..3).all(|one| stage.committed("g", &orders(one)) == Some(Offset(200)))
            })
            .await;
            fleet.stop(Duration::from_secs(20)).await;
            for partition in 0..3 {
                assert_eq!(seen.offsets(&orders(partition)), all, "v{version}");
            }
            let spoken = fetched_at(&stage);
            assert_eq!(spoken.last(), Some(&version));
            // Hints begin with version 11; before, everything comes from the leaders.
            let near = stage.record_bytes(2);
            let far = stage.record_bytes(1) + stage.record_bytes(3);
            assert_eq!(near > far, version >= 11, "v{version}: {near}, {far}");
        });
    }
}

#[test]
fn brokers_that_stop_at_fetch_9_are_refused_by_name_and_dialled_with_patience() {
    run(async {
        let stage = Stage::new();
        serve_fetch_up_to(&stage, 9);
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        until("it is told", || fleet.connection_error().is_some()).await;
        let error = fleet.connection_error().expect("just seen");
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
        let text = "broker serves Fetch 4-9, this client needs 10-18";
        assert!(error.to_string().contains(text), "{error}");
        pass(Duration::from_secs(60)).await;
        assert!(!fleet.has_connected() && seen.len() == 0);
        let asked = stage.cluster().with(|cluster| {
            let seen = cluster.history();
            seen.map(|one| one.api).collect::<Vec<_>>()
        });
        assert!(asked.iter().all(|api| *api == Api::ApiVersions));
        // Three addresses, waits that grow to 5 s.
        assert!((6..=90).contains(&asked.len()), "{} dials", asked.len());
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md A10
#[test]
fn brokers_rolled_back_under_way_are_read_on_at_the_version_they_have_left() {
    run(async {
        let stage = Stage::new();
        serve_fetch_up_to(&stage, 17);
        stage.topic("orders", 3);
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        (0..3).for_each(|partition| stage.produce("orders", partition, 10));
        until("the first records are seen", || seen.len() == 30).await;
        assert_eq!(fetched_at(&stage), BTreeSet::from([17]));

        serve_fetch_up_to(&stage, 13);
        // What is left of the new release at a broker says so before it closes.
        stage.cluster().with(|cluster| {
            for broker in 1..=3 {
                cluster.inject(Rule::error(35).on(Api::Fetch).at(broker).times(1));
            }
        });
        (0..3).for_each(|partition| stage.produce("orders", partition, 10));
        until("the rest is seen", || seen.len() == 60).await;
        fleet.stop(Duration::from_secs(20)).await;
        for partition in 0..3 {
            let all: Vec<_> = (0..20).collect();
            assert_eq!(seen.offsets(&orders(partition)), all, "once and in order");
        }
        let rolled_back = fleet.recent_events().iter().any(|one| {
            matches!(&one.event, Event::BrokerLink { reason, .. }
                if reason == "broker no longer serves its Fetch version")
        });
        assert!(rolled_back);
        assert!(fetched_at(&stage).contains(&13));
    });
}
