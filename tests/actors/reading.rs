//! Joining, reading from the nearest replica, committing, stopping.

use std::time::Duration;

use nearside::ids::TopicPartition;

use crate::stage::{Seen, Stage, run, until};

#[test]
fn a_member_reads_every_record_once_in_order_and_commits_at_its_stop() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 4);
        for partition in 0..4 {
            stage.produce("orders", partition, 250);
        }
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        until("all records are seen", || seen.len() == 1_000).await;
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(stopped.unfinished.is_empty(), "{stopped:?}");
        for partition in 0..4 {
            let at = TopicPartition::new("orders", partition);
            assert_eq!(seen.offsets(&at), (0..250).collect::<Vec<_>>());
            assert_eq!(stage.committed("g", &at).map(|offset| offset.0), Some(250));
        }
    });
}

#[test]
fn records_come_from_the_broker_in_the_members_rack() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 6);
        for partition in 0..6 {
            stage.produce("orders", partition, 100);
        }
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        until("all records are seen", || seen.len() == 600).await;
        let (a, b, c) = (
            stage.record_bytes(1),
            stage.record_bytes(2),
            stage.record_bytes(3),
        );
        assert_eq!((a, c), (0, 0), "broker 2 served {b}");
        let fetched = fleet.report().fetched;
        let total: u64 = fetched.iter().map(|row| row.bytes).sum();
        assert_eq!(total, b, "{fetched:?}");
        fleet.stop(Duration::from_secs(20)).await;
    });
}
