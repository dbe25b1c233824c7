//! Clusters that misbehave for long: no leader, a silent or moving coordinator, damaged records.

use std::time::Duration;

use nearside::embedded::{Link, RowEdit, Rule};
use nearside::fleet::{Event as FleetEvent, FleetHandle};
use nearside::ids::{BrokerId, Offset, TopicPartition};

use crate::stage::{Seen, Stage, pass, run, start, until};

#[test]
fn a_partition_without_leader_for_minutes_goes_on_where_it_stood() {
    run(async {
        let stage = Stage::new();
        let only = |id| vec![vec![BrokerId(id)]];
        let away = 1 + stage.coordinator("g") % 3;
        stage
            .cluster()
            .with(|cluster| cluster.create_topic_on("orders", &only(away)))
            .expect("creatable");
        stage.produce("orders", 0, 20);
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        until("the first records are seen", || seen.len() == 20).await;

        stage.cluster().with(|cluster| cluster.kill(BrokerId(away)));
        until("nobody leads", || stage.leader("orders", 0).is_none()).await;
        pass(Duration::from_secs(200)).await;
        assert_eq!(seen.len(), 20);
        stage
            .cluster()
            .with(|cluster| cluster.revive(BrokerId(away)));
        until("it leads again", || stage.leader("orders", 0).is_some()).await;
        stage.produce("orders", 0, 20);
        let back = tokio::time::Instant::now();
        until("the rest is seen", || seen.len() == 40).await;
        assert!(back.elapsed() < Duration::from_secs(15), "{back:?}");
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(0)), (0..40).collect::<Vec<_>>());
    });
}

#[test]
fn a_coordinator_that_moves_costs_no_record_and_no_rebalance() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        stage.produce("orders", 0, 10);
        until("the first records are seen", || seen.len() == 10).await;
        let rebalances = fleet.report().totals.rebalances;
        for round in 1..=6 {
            let to = BrokerId(1 + round % 3);
            stage
                .cluster()
                .with(|cluster| cluster.move_coordinator("g", to));
            stage.produce("orders", 0, 10);
            let goal = 10 + 10 * i64::from(round);
            until("its records are committed", || {
                stage.committed("g", &orders(0)) == Some(Offset(goal))
            })
            .await;
        }
        assert_eq!(fleet.report().totals.rebalances, rebalances);
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(0)), (0..70).collect::<Vec<_>>());
    });
}

#[test]
fn a_silent_coordinator_ends_the_session_and_the_member_comes_back_behind_its_commit() {
    run(async {
        let stage = Stage::new();
        let silent = BrokerId(stage.coordinator("g"));
        stage.topic("orders", 2);
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        for partition in 0..2 {
            stage.produce("orders", partition, 10);
        }
        until("all is committed", || {
            (0..2).all(|one| stage.committed("g", &orders(one)) == Some(Offset(10)))
        })
        .await;

        stage
            .cluster()
            .with(|cluster| cluster.set_link(silent, Link::Silent));
        until("the partitions are lost", || {
            count(&fleet, |event| matches!(event, FleetEvent::Lost { .. })) == 1
        })
        .await;
        pass(Duration::from_secs(30)).await;
        for partition in 0..2 {
            let at = orders(partition);
            assert_eq!(stage.committed("g", &at), Some(Offset(10)));
        }
        stage
            .cluster()
            .with(|cluster| cluster.set_link(silent, Link::Open));
        for partition in 0..2 {
            stage.produce("orders", partition, 10);
        }
        until("the rest is committed", || {
            (0..2).all(|one| stage.committed("g", &orders(one)) == Some(Offset(20)))
        })
        .await;
        fleet.stop(Duration::from_secs(20)).await;
        for partition in 0..2 {
            let offsets = seen.offsets(&orders(partition));
            assert_eq!(offsets, (0..20).collect::<Vec<_>>());
        }
    });
}

/// Nobody tells of a new topic, so it is found when metadata is asked again for its age.
#[test]
fn a_topic_that_appears_later_is_read_from_its_start() {
    run(async {
        let stage = Stage::new();
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        pass(Duration::from_secs(120)).await;
        stage.topic("orders", 2);
        for partition in 0..2 {
            stage.produce("orders", partition, 10);
        }
        let created = tokio::time::Instant::now();
        until("it is read", || seen.len() == 20).await;
        let age_max = Duration::from_secs(300);
        assert!(created.elapsed() < age_max + Duration::from_secs(5));
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md A37
#[test]
fn a_damaged_batch_halts_its_partition_and_no_other() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        for partition in 0..3 {
            stage.produce("orders", partition, 10);
        }
        until("the first records are seen", || seen.len() == 30).await;
        let edit = RowEdit {
            corrupt: true,
            ..RowEdit::default()
        };
        let rule = Rule::row(edit).of(orders(1));
        stage.cluster().with(|cluster| cluster.inject(rule));
        for partition in 0..3 {
            stage.produce("orders", partition, 10);
        }
        until("it is halted", || {
            count(&fleet, |event| {
                matches!(event, FleetEvent::CorruptBatch { partition, offset: Offset(10), .. }
                    if *partition == orders(1))
            }) == 1
        })
        .await;
        until("the others go on", || seen.len() == 50).await;
        assert_eq!(fleet.report().partitions[1].state, "failed");
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(stopped.unfinished.is_empty(), "{stopped:?}");
        assert_eq!(stage.committed("g", &orders(1)), Some(Offset(10)));

        stage
            .cluster()
            .with(nearside::embedded::Cluster::clear_faults);
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        until("a new start reads on", || seen.len() == 60).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(1)), (0..20).collect::<Vec<_>>());
    });
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn count(fleet: &FleetHandle, test: impl Fn(&FleetEvent) -> bool) -> usize {
    let events = fleet.recent_events();
    events.iter().filter(|event| test(&event.event)).count()
}
