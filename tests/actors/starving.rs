//! Leaders that hold records back, whatever lane asks for them.

use std::time::Duration;

use nearside::embedded::{Api, RowEdit, Rule, Selector};
use nearside::fleet::{Event, FleetHandle};
use nearside::ids::{BrokerId, TopicPartition};

use crate::stage::{Seen, Stage, pass, run, until};

const LEADER: BrokerId = BrokerId(1);
const HINTED: BrokerId = BrokerId(2);

/// A cluster without Fetch v10, whose brokers recommend broker 2 whatever the rack.
fn stage() -> Stage {
    let stage = Stage::with(|cluster| cluster.selector = Selector::Always(HINTED));
    stage
        .cluster()
        .with(|cluster| {
            for broker in (1..=3).map(BrokerId) {
                cluster.limit_versions(broker, Api::Fetch, 11..=17);
            }
            let replicas = vec![LEADER, HINTED, BrokerId(3)];
            cluster.create_topic_on("orders", &[replicas])
        })
        .expect("creatable");
    stage
}

/// Diagnostics that stand, by name.
fn raised(fleet: &FleetHandle) -> Vec<(&'static str, String)> {
    let report = fleet.report();
    let raised = report.diagnostics.into_iter();
    raised.map(|one| (one.name, one.detail)).collect()
}

/// Fetches broker `id` received.
fn fetches(stage: &Stage, id: BrokerId) -> u64 {
    stage
        .cluster()
        .with(|cluster| cluster.requests(id, Api::Fetch))
}

/// routing.md 6: no lane without hints, and the replica recommended serves nothing.
#[test]
fn a_leader_without_fetch_v10_that_starves_us_is_named_and_asked_with_patience() {
    run(async {
        let stage = stage();
        let edit = RowEdit {
            error: Some(56),
            at_once: true,
            ..RowEdit::default()
        };
        let broken = Rule::row(edit).at(HINTED.0);
        let broken = stage.cluster().with(|cluster| cluster.inject(broken));
        stage.produce("orders", 0, 100);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        let starves = || fleet.report().partitions.iter().any(|one| one.starving);
        until("the partition starves", starves).await;
        until("that is told", || !raised(&fleet).is_empty()).await;
        let [("lane_v10_unavailable", detail)] = &raised(&fleet)[..] else {
            panic!("{:?}", raised(&fleet));
        };
        assert!(detail.contains("brokers 1 "), "{detail}");

        let before = [LEADER, HINTED].map(|id| fetches(&stage, id));
        pass(Duration::from_secs(60)).await;
        let [leader, hinted] = [LEADER, HINTED].map(|id| fetches(&stage, id));
        let (leader, hinted) = (leader - before[0], hinted - before[1]);
        assert!(
            (60..=60 * 5).contains(&leader),
            "{leader} fetches at 1 in a minute"
        );
        assert!(
            (1..=10).contains(&hinted),
            "{hinted} fetches at 2 in a minute"
        );
        assert_eq!(seen.len(), 0);

        stage.cluster().with(|cluster| cluster.withdraw(broken));
        until("the recommended replica serves", || seen.len() == 100).await;
        until("all is well", || raised(&fleet).is_empty()).await;
        assert!(!starves());
        let other = |event: &Event| match event {
            Event::Diagnostic { name, .. } => *name != "lane_v10_unavailable",
            _ => false,
        };
        assert!(!fleet.recent_events().iter().any(|one| other(&one.event)));
        fleet.stop(Duration::from_secs(20)).await;
        let orders = TopicPartition::new("orders", 0);
        assert_eq!(seen.offsets(&orders), (0..100).collect::<Vec<_>>());
    });
}
