//! What a fleet says of its set-up as a whole, and of each change of route.

use std::time::Duration;

use nearside::fleet::{Event, LaneName};
use nearside::prelude::*;

use crate::stage::{Stage, run, until};

fn reader() -> Subscription {
    Subscription::topics(["orders"]).handler(batch_fn(|_: Batch<Raw>, _: Context| async {
        Ok(BatchOutcome::All(Outcome::Done))
    }))
}

/// Diagnostics told so far: the name, and whether it is over.
fn told(fleet: &FleetHandle) -> Vec<(&'static str, bool)> {
    let events = fleet.recent_events();
    let diagnostics = events.iter().filter_map(|event| match &event.event {
        Event::Diagnostic { name, cleared, .. } => Some((*name, *cleared)),
        _ => None,
    });
    diagnostics.collect()
}

#[test]
fn a_rack_nobody_has_is_told_once_and_stands_in_the_report() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        stage.produce("orders", 0, 10);
        let fleet = stage.start("elsewhere", reader()).await;
        until("the rack is missed", || !told(&fleet).is_empty()).await;
        assert_eq!(told(&fleet), [("rack_absent", false)]);
        let report = fleet.report();
        let [absent] = report.diagnostics.as_slice() else {
            panic!("{:?}", report.diagnostics);
        };
        assert_eq!(absent.name, "rack_absent");
        assert!(absent.detail.contains("`elsewhere`"), "{absent:?}");
        assert!(absent.detail.contains("a, b, c"), "{absent:?}");
        until("nothing comes from there", || told(&fleet).len() > 1).await;
        assert_eq!(
            told(&fleet),
            [("rack_absent", false), ("no_same_zone", false)]
        );
        fleet.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_fleet_in_a_rack_of_its_cluster_has_nothing_to_say() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        stage.produce("orders", 0, 10);
        let fleet = stage.start("b", reader()).await;
        // Paused time: longer than any diagnostic takes to be raised.
        tokio::time::sleep(Duration::from_secs(75)).await;
        assert_eq!(told(&fleet), []);
        assert_eq!(fleet.report().diagnostics, []);
        fleet.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_change_of_route_tells_everything_about_itself() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let fleet = stage.start("b", reader()).await;
        let follows = || {
            let report = fleet.report();
            report.partitions.iter().any(|one| one.state == "follower")
        };
        until("the hint is followed", follows).await;
        let events = fleet.recent_events();
        let adopted = events.iter().find_map(|event| match &event.event {
            Event::RoutingChange(change) if change.reason == "hint_adopted" => Some(change),
            _ => None,
        });
        let change = adopted.expect("1 leads, and 2 is in our rack");
        assert_eq!((change.from.state, change.to.state), ("leader", "follower"));
        assert_eq!(change.to.broker, change.hint);
        assert_eq!(change.to.zone, Some("b".into()));
        assert_eq!(change.to.lane, Some(LaneName::Rack));
        let lease = change.lease.expect("a follower has a lease");
        assert_eq!(lease.kind, "full");
        assert!((270_000..=330_000).contains(&lease.left_ms), "{lease:?}");
        assert!(change.metadata_version.0 > 0);
        assert!(change.leader.is_some() && change.leader_epoch.is_some());
        let report = fleet.report();
        let partition = &report.partitions[0];
        assert_eq!((partition.state, partition.why), ("follower", None));
        assert!(!partition.lease_overdue && !partition.leader_unreachable);
        fleet.stop(Duration::from_secs(5)).await;
    });
}
