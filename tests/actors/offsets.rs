//! Where reading begins, and where it goes on when the log is not what it was.

use std::time::Duration;

use nearside::embedded::{Api, Record, Rule};
use nearside::fleet::{Event as FleetEvent, FleetHandle, StartAt};
use nearside::ids::{Moment, Offset, TopicPartition};

use crate::stage::{Seen, Stage, run, start, until};

/// runtime.md 50
#[test]
fn a_thousand_partitions_on_three_brokers_are_resolved_by_three_requests() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1_000);
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        until("all have a position", || positions(&fleet) == 1_000).await;
        assert_eq!(stage.requests(Api::ListOffsets), 3);
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// runtime.md 50, its second half.
#[test]
fn one_failing_row_of_a_resolution_is_asked_again_alone() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 30);
        let refused = TopicPartition::new("orders", 7);
        let rule = Rule::error(6).on(Api::ListOffsets).of(refused).times(1);
        stage.cluster().with(|cluster| cluster.inject(rule));
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        until("all have a position", || positions(&fleet) == 30).await;
        assert_eq!(stage.requests(Api::ListOffsets), 4);
        fleet.stop(Duration::from_secs(20)).await;
    });
}

#[test]
fn a_start_at_an_offset_or_a_time_overrides_the_commit() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let records: Vec<_> = (0..50)
            .map(|n| Record::of("x").at(Moment::from_ms(1_000 + n)))
            .collect();
        let produced = stage
            .cluster()
            .with(|cluster| cluster.produce(&orders(0), &records));
        produced.expect("leader is up");
        let all = Seen::default();
        let fleet = start(stage.fleet("g", "b", all.noting("orders"))).await;
        until("all is seen", || all.len() == 50).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(50)));

        for (begin, first) in [
            (StartAt::Offset(Offset(30)), 30),
            (StartAt::Timestamp(1_045), 45),
        ] {
            let seen = Seen::default();
            let builder = stage.fleet("g", "b", seen.noting("orders"));
            let fleet = start(builder.start_at(begin)).await;
            let expected: Vec<i64> = (first..50).collect();
            until("the rest is seen again", || {
                seen.offsets(&orders(0)) == expected
            })
            .await;
            fleet.stop(Duration::from_secs(20)).await;
        }
    });
}

#[test]
fn latest_reads_what_comes_and_remembers_where_it_began() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 20);
        let seen = Seen::default();
        let latest = |seen: &Seen| {
            let builder = stage.fleet("g", "b", seen.noting("orders"));
            builder.property("auto.offset.reset", "latest")
        };
        let fleet = start(latest(&seen)).await;
        until("it has a position", || positions(&fleet) == 1).await;
        until("it is committed", || {
            stage.committed("g", &orders(0)) == Some(Offset(20))
        })
        .await;
        fleet.stop(Duration::from_secs(20)).await;
        stage.produce("orders", 0, 10);
        let fleet = start(latest(&seen)).await;
        until("what came meanwhile is read", || seen.len() == 10).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(0)), (20..30).collect::<Vec<_>>());
    });
}

#[test]
fn none_without_a_commit_fails_the_partition_and_keeps_it() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.topic("bills", 1);
        stage.produce("orders", 0, 20);
        stage.produce("bills", 0, 20);
        let first = Seen::default();
        let fleet = start(stage.fleet("g", "b", first.noting("bills"))).await;
        until("bills are read", || first.len() == 20).await;
        fleet.stop(Duration::from_secs(20)).await;

        stage.produce("bills", 0, 20);
        let (seen, bills) = (Seen::default(), Seen::default());
        let builder = stage.fleet("g", "b", seen.noting("orders"));
        let builder = builder.subscribe(bills.noting("bills"));
        let fleet = start(builder.property("auto.offset.reset", "none")).await;
        until("the other topic is read", || bills.len() == 20).await;
        until("it has failed", || {
            count(&fleet, |event| {
                matches!(event, FleetEvent::PartitionFailed { partition, .. }
                    if *partition == orders(0))
            }) == 1
        })
        .await;
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(stopped.unfinished.is_empty(), "{stopped:?}");
        assert_eq!((seen.len(), stage.committed("g", &orders(0))), (0, None));
    });
}

#[test]
fn a_commit_that_retention_overtook_goes_on_at_the_log_start_and_loses_nothing_above() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        until("ten are read", || seen.len() == 10).await;
        fleet.stop(Duration::from_secs(20)).await;

        stage.produce("orders", 0, 40);
        until("all is replicated", || stage.end("orders", 0) == 50).await;
        stage
            .cluster()
            .with(|cluster| cluster.delete_records(&orders(0), Offset(30)))
            .expect("partition exists");
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        until("the rest is read", || seen.len() == 30).await;
        let resets = count(&fleet, |event| {
            matches!(
                event,
                FleetEvent::PositionReset {
                    from: Some(Offset(10)),
                    to: Offset(30),
                    ..
                }
            )
        });
        assert_eq!(resets, 1, "{:?}", fleet.recent_events());
        fleet.stop(Duration::from_secs(20)).await;
        let expected: Vec<_> = (0..10).chain(30..50).collect();
        assert_eq!(seen.offsets(&orders(0)), expected);
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(50)));
    });
}

#[test]
fn two_thousand_partitions_are_read_to_their_ends_and_committed() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 2_000);
        for partition in 0..2_000 {
            stage.produce("orders", partition, 2);
        }
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        until("all is read", || seen.len() == 4_000).await;
        stage.produce("orders", 1_999, 1);
        until("a late record is read", || seen.len() == 4_001).await;
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(stopped.unfinished.is_empty(), "{stopped:?}");
        for partition in 0..1_999 {
            let at = orders(partition);
            assert_eq!(seen.offsets(&at), vec![0, 1]);
            assert_eq!(stage.committed("g", &at), Some(Offset(2)));
        }
    });
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn positions(fleet: &FleetHandle) -> usize {
    let report = fleet.report();
    let known = report.partitions.iter();
    known.filter(|row| row.position.is_some()).count()
}

fn count(fleet: &FleetHandle, test: impl Fn(&FleetEvent) -> bool) -> usize {
    let events = fleet.recent_events();
    events.iter().filter(|event| test(&event.event)).count()
}
