//! Actors that crash: what comes back, and what ends the fleet with a reason.

use std::sync::Arc;
use std::time::Duration;

use nearside::fleet::{Event as FleetEvent, FleetHandle, StopReason, Victim};
use nearside::ids::{BrokerId, Offset, TopicPartition};
use tokio::sync::Semaphore;

use crate::committing::gated;
use crate::stage::{Seen, Stage, commit_marker, pass, run, until};

/// runtime.md 57: what finished is not run again, what is in hand goes on, nothing is skipped.
#[test]
fn a_partition_actor_that_panics_comes_back_from_its_cell_and_nothing_runs_twice() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 2);
        stage.produce("orders", 0, 150);
        let (seen, permits) = (Seen::default(), Arc::new(Semaphore::new(20)));
        let subscription = gated(&seen, &permits);
        let fleet = stage.start("b", subscription).await;
        until("some records are seen", || seen.len() == 21).await;

        fleet.crash(Victim::Partition(orders(0)));
        until("it is back", || restarts(&fleet) == 1).await;
        permits.add_permits(10_000);
        until("the rest is seen", || seen.len() == 150).await;
        stage.produce("orders", 0, 50);
        stage.produce("orders", 1, 50);
        until("new records are seen", || seen.len() == 250).await;

        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(stopped.unfinished.is_empty(), "{stopped:?}");
        assert_eq!(seen.offsets(&orders(0)), (0..200).collect::<Vec<_>>());
        assert_eq!(seen.offsets(&orders(1)), (0..50).collect::<Vec<_>>());
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(200)));
    });
}

/// The position lies past the marker, the last delivery before it: no reason to run anything again.
#[test]
fn a_crash_behind_a_transaction_marker_does_not_run_the_record_in_hand_again() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 3);
        stage.append("orders", 0, commit_marker(7));
        let (seen, permits) = (Seen::default(), Arc::new(Semaphore::new(0)));
        let fleet = stage.start("b", gated(&seen, &permits)).await;
        until("the first record is in hand", || seen.len() == 1).await;

        fleet.crash(Victim::Partition(orders(0)));
        until("it is back", || restarts(&fleet) == 1).await;
        pass(Duration::from_secs(5)).await;
        permits.add_permits(100);
        stage.produce("orders", 0, 2);
        until("all is seen", || seen.len() >= 5).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(0)), vec![0, 1, 2, 4, 5]);
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(6)));
    });
}

/// runtime.md 57 in its second half.
#[test]
fn the_fourth_crash_within_a_minute_fails_the_partition_and_the_others_work() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        for partition in 0..3 {
            stage.produce("orders", partition, 10);
        }
        until("the first records are seen", || seen.len() == 30).await;
        for crash in 1..=3 {
            fleet.crash(Victim::Partition(orders(1)));
            until("it is back", || restarts(&fleet) == crash).await;
            stage.produce("orders", 1, 1);
            let goal = 30 + usize::try_from(crash).expect("small");
            until("it reads", || seen.len() == goal).await;
        }
        fleet.crash(Victim::Partition(orders(1)));
        until("it has failed", || has_failed(&fleet, &orders(1))).await;
        assert_eq!(restarts(&fleet), 3);

        for partition in 0..3 {
            stage.produce("orders", partition, 10);
        }
        until("the others read", || seen.len() == 53).await;
        let row = fleet.report().partitions.into_iter().nth(1).expect("owned");
        assert_eq!(row.state, "failed");
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(matches!(stopped.reason, StopReason::Requested));
        assert_eq!(stage.committed("g", &orders(1)), Some(Offset(13)));

        let fleet = stage.start("b", seen.noting("orders")).await;
        until("a new start reads the rest", || seen.len() == 63).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(1)), (0..23).collect::<Vec<_>>());
    });
}

#[test]
fn a_partition_that_crashes_while_it_drains_does_not_hold_the_stop() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 2);
        stage.produce("orders", 0, 10);
        let (seen, permits) = (Seen::default(), Arc::new(Semaphore::new(4)));
        let fleet = stage.start("b", gated(&seen, &permits)).await;
        until("the fifth record is in hand", || seen.len() == 5).await;

        let begun = tokio::time::Instant::now();
        let stop = fleet.stop(Duration::from_secs(20));
        let crash = async {
            tokio::time::advance(Duration::from_millis(100)).await;
            fleet.crash(Victim::Partition(orders(0)));
            tokio::time::advance(Duration::from_secs(2)).await;
            permits.add_permits(100);
        };
        let (stopped, ()) = tokio::join!(stop, crash);
        assert!(stopped.unfinished.is_empty(), "{stopped:?}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(seen.len(), 5, "nothing starts while it drains");
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(5)));
    });
}

#[test]
fn a_link_that_panics_is_started_again_and_is_asked_again_by_those_who_read_there() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 6);
        let seen = Seen::default();
        // No broker is in this rack, so every partition is read from its leader.
        let fleet = stage.start("elsewhere", seen.noting("orders")).await;
        let mut goal = 0;
        for round in 0..5 {
            for partition in 0..6 {
                stage.produce("orders", partition, 10);
            }
            goal += 60;
            until("the round is seen", || seen.len() == goal).await;
            // A link that is still away cannot be harmed; others may have served in its place.
            until("each is read from its leader again", || {
                let rows = fleet.report().partitions;
                let leads = |index: i32, broker: Option<BrokerId>| {
                    broker.is_some() && stage.leader("orders", index) == broker.map(|id| id.0)
                };
                rows.iter()
                    .all(|row| leads(row.partition.partition.0, row.broker))
            })
            .await;
            for broker in 1..=3 {
                fleet.crash(Victim::Link(BrokerId(broker)));
            }
            let restarted = 3 * (round + 1);
            until("they died", || restarts(&fleet) == restarted).await;
        }
        stage.produce("orders", 5, 10);
        until("the last are seen", || seen.len() == goal + 10).await;
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(stopped.unfinished.is_empty(), "{stopped:?}");
        for partition in 0..5 {
            let offsets = seen.offsets(&orders(partition));
            assert_eq!(offsets, (0..50).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_crashed_link_to_the_nearest_replica_costs_no_record_and_is_read_again() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        for partition in 0..3 {
            stage.produce("orders", partition, 10);
        }
        until("the first records are seen", || seen.len() == 30).await;
        fleet.crash(Victim::Link(BrokerId(2)));
        until("it died", || restarts(&fleet) == 1).await;
        let served = stage.record_bytes(2);
        let mut goal = 30;
        while stage.record_bytes(2) == served {
            assert!(goal < 600, "broker 2 is never read again");
            stage.produce("orders", 0, 1);
            goal += 1;
            until("the record is seen", || seen.len() == goal).await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        fleet.stop(Duration::from_secs(20)).await;
        let count = i64::try_from(goal - 20).expect("small");
        assert_eq!(seen.offsets(&orders(0)), (0..count).collect::<Vec<_>>());
    });
}

/// routing.md R43: a leader whose link is at rest is a leader that nobody reaches.
#[test]
fn while_a_link_that_used_up_its_restarts_rests_another_replica_is_read() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let leader = stage.leader("orders", 0).map(BrokerId).expect("led");
        let seen = Seen::default();
        let fleet = stage.start("elsewhere", seen.noting("orders")).await;
        stage.produce("orders", 0, 10);
        until("the first records are seen", || seen.len() == 10).await;
        until("its restarts are used up", || {
            fleet.crash(Victim::Link(leader));
            restarts(&fleet) == 11
        })
        .await;

        let begun = tokio::time::Instant::now();
        stage.produce("orders", 0, 10);
        until("the next records are seen", || seen.len() == 20).await;
        let stood = begun.elapsed();
        assert!(stood < Duration::from_secs(1), "stood still for {stood:?}");
        let broker_of = || fleet.report().partitions.first().and_then(|row| row.broker);
        assert_ne!(broker_of(), Some(leader));

        until("the leader is read again", || broker_of() == Some(leader)).await;
        stage.produce("orders", 0, 10);
        until("the last records are seen", || seen.len() == 30).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(0)), (0..30).collect::<Vec<_>>());
    });
}

/// Nothing restarts these yet. A fleet that cannot work must end and say why, not stand still.
#[test]
fn a_crash_of_an_actor_that_nothing_restarts_ends_the_fleet_with_its_name() {
    let victims = [
        (Victim::Metadata, "metadata actor"),
        (Victim::Coordinator, "coordinator"),
        (Victim::PartitionSupervisor, "partition supervisor"),
        (Victim::HandlerHost, "handler host"),
    ];
    for (victim, name) in victims {
        run(async {
            let stage = Stage::new();
            stage.topic("orders", 2);
            stage.produce("orders", 0, 10);
            let seen = Seen::default();
            let fleet = stage.start("b", seen.noting("orders")).await;
            until("the records are seen", || seen.len() == 10).await;
            fleet.crash(victim);
            let limit = Duration::from_secs(60);
            let stopped = tokio::time::timeout(limit, fleet.stopped())
                .await
                .unwrap_or_else(|_| panic!("the fleet stands still without its {name}"));
            match &stopped.reason {
                StopReason::Fatal(error) => {
                    let text = error.to_string();
                    assert!(text.contains(name), "{text}");
                    assert!(text.contains("on purpose"), "{text}");
                }
                other => panic!("{name}: stopped for another reason: {other}"),
            }
        });
    }
}

#[test]
fn a_crash_of_the_fleet_supervisor_itself_is_an_end_with_a_reason() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        stage.produce("orders", 0, 10);
        until("the records are seen", || seen.len() == 10).await;
        fleet.crash(Victim::FleetSupervisor);
        let limit = Duration::from_secs(5);
        let stopped = tokio::time::timeout(limit, fleet.stopped()).await;
        let stopped = stopped.expect("whoever waits is told");
        assert!(matches!(stopped.reason, StopReason::Fatal(_)));
        // Its links are gone with it: what comes now reaches nobody.
        pass(Duration::from_secs(1)).await;
        stage.produce("orders", 0, 10);
        pass(Duration::from_secs(5)).await;
        assert_eq!(seen.len(), 10);
    });
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn restarts(fleet: &FleetHandle) -> u64 {
    fleet.report().totals.restarts
}

fn has_failed(fleet: &FleetHandle, at: &TopicPartition) -> bool {
    fleet.recent_events().iter().any(|event| {
        matches!(&event.event, FleetEvent::PartitionFailed { partition, .. } if partition == at)
    })
}
