//! What was probed on real 4.4.0 brokers, and the byte rules of KIP-74.

use std::time::Duration;

use kafka_protocol::messages::fetch_response::PartitionData;

use super::client::{Fetch, Rig, t0};
use crate::embedded::{Record, Selector, Settings};
use crate::ids::{BrokerId, LeaderEpoch, Offset};

fn bounds(row: &PartitionData) -> (i16, i64, i64) {
    (row.error_code, row.high_watermark, row.log_start_offset)
}

fn bytes(row: &PartitionData) -> usize {
    row.records.as_ref().map_or(0, bytes::Bytes::len)
}

#[test]
fn a_follower_serves_any_rack_and_never_hints() {
    let mut rig = Rig::new();
    for version in [11, 12, 17, 18] {
        for rack in ["", "b", "c", "nowhere"] {
            let row = rig.fetch(
                2,
                &Fetch {
                    version,
                    rack,
                    ..Fetch::default()
                },
            );
            assert_eq!(bounds(&row), (0, 10, 0), "v{version} rack {rack}");
            assert!(bytes(&row) > 0, "v{version} rack {rack}");
            assert_eq!(row.preferred_read_replica.0, -1);
        }
    }
}

/// routing.md F1, F2: no records, right bounds, at once.
#[test]
fn a_leader_hints_at_the_replica_in_the_consumers_rack() {
    let mut rig = Rig::new();
    for version in [11, 12, 17] {
        for offset in [0, 5, 10] {
            let row = rig.fetch(
                1,
                &Fetch {
                    version,
                    rack: "b",
                    offset,
                    ..Fetch::default()
                },
            );
            assert_eq!(bounds(&row), (0, 10, 0), "v{version} at {offset}");
            assert_eq!((row.preferred_read_replica.0, bytes(&row)), (2, 0));
        }
    }
}

/// routing.md F4.
#[test]
fn a_leader_serves_its_own_rack_no_rack_and_an_unknown_rack() {
    let mut rig = Rig::new();
    for rack in ["", "a", "nowhere"] {
        let row = rig.fetch(
            1,
            &Fetch {
                rack,
                ..Fetch::default()
            },
        );
        assert_eq!(row.preferred_read_replica.0, -1, "rack {rack}");
        assert!(bytes(&row) > 0, "rack {rack}");
    }
}

/// routing.md F5.
#[test]
fn version_10_is_served_by_the_leader_alone() {
    let mut rig = Rig::new();
    let row = rig.fetch(
        2,
        &Fetch {
            version: 10,
            ..Fetch::default()
        },
    );
    assert_eq!(bounds(&row), (6, -1, -1));
    let row = rig.fetch(
        1,
        &Fetch {
            version: 10,
            ..Fetch::default()
        },
    );
    assert_eq!(bounds(&row), (0, 10, 0));
    assert!(bytes(&row) > 0);
}

/// routing.md F8, F10, F14.
#[test]
fn an_older_epoch_is_fenced_by_both_roles_with_the_leader_from_version_16() {
    let mut rig = Rig::new();
    for broker in [1, 2] {
        for version in [11, 15, 16, 17] {
            let row = rig.fetch(
                broker,
                &Fetch {
                    version,
                    epoch: 4,
                    ..Fetch::default()
                },
            );
            assert_eq!(bounds(&row), (74, -1, -1), "v{version} at {broker}");
            let leader = (
                row.current_leader.leader_id.0,
                row.current_leader.leader_epoch,
            );
            let expected = if version >= 16 { (1, 5) } else { (-1, -1) };
            assert_eq!(leader, expected, "v{version} at {broker}");
        }
    }
}

#[test]
fn a_fenced_row_comes_with_the_leaders_endpoint() {
    let mut rig = Rig::new();
    let connection = rig.connect(2);
    let fetch = Fetch {
        epoch: 4,
        ..Fetch::default()
    };
    rig.send_fetch(connection, &fetch);
    let response: kafka_protocol::messages::FetchResponse =
        rig.answer(connection, fetch.version).unwrap();
    let endpoint = &response.node_endpoints[0];
    assert_eq!((endpoint.node_id.0, endpoint.port), (1, 9092));
    assert_eq!(endpoint.rack.as_deref(), Some("a"));
}

#[test]
fn the_current_epoch_and_none_are_served() {
    let mut rig = Rig::new();
    for broker in [1, 2] {
        for epoch in [5, -1] {
            let row = rig.fetch(
                broker,
                &Fetch {
                    epoch,
                    ..Fetch::default()
                },
            );
            assert_eq!(bounds(&row), (0, 10, 0), "epoch {epoch} at {broker}");
        }
    }
}

/// Checked before the hint, and without a CurrentLeader.
#[test]
fn a_newer_epoch_is_unknown_to_both_roles() {
    let mut rig = Rig::new();
    for (broker, rack) in [(1, "b"), (2, ""), (1, "")] {
        let row = rig.fetch(
            broker,
            &Fetch {
                epoch: 6,
                rack,
                ..Fetch::default()
            },
        );
        assert_eq!(bounds(&row), (75, -1, -1), "at {broker}");
        assert_eq!(row.current_leader.leader_id.0, -1);
    }
}

#[test]
fn at_the_end_both_roles_wait_and_answer_empty_with_their_bounds() {
    for broker in [1, 2] {
        let mut rig = Rig::new();
        let connection = rig.connect(broker);
        rig.send_fetch(
            connection,
            &Fetch {
                offset: 10,
                ..Fetch::default()
            },
        );
        rig.run_for(499);
        assert!(rig.row(connection, 17).is_none());
        rig.run_for(1);
        let row = rig.row(connection, 17).expect("max.wait has passed");
        assert_eq!((bounds(&row), bytes(&row)), ((0, 10, 0), 0));
    }
}

#[test]
fn between_high_watermark_and_log_end_both_roles_answer_empty() {
    let mut rig = Rig::new();
    // Broker 3 holds the high watermark back, so that 2 has records beyond it.
    rig.cluster.hold_replica(&t0(), BrokerId(3), true).unwrap();
    rig.cluster
        .produce(&t0(), &[Record::of("a"), Record::of("b"), Record::of("c")])
        .unwrap();
    rig.run_for(10);
    for broker in [1, 2] {
        let connection = rig.connect(broker);
        rig.send_fetch(
            connection,
            &Fetch {
                offset: 12,
                ..Fetch::default()
            },
        );
        assert!(rig.row(connection, 17).is_none(), "waits at {broker}");
        rig.run_for(500);
        let row = rig.row(connection, 17).unwrap();
        assert_eq!((bounds(&row), bytes(&row)), ((0, 10, 0), 0), "at {broker}");
    }
}

#[test]
fn beyond_the_log_end_both_roles_say_out_of_range_at_once_without_bounds_or_hint() {
    let mut rig = Rig::new();
    for (broker, rack) in [(1, ""), (1, "b"), (2, "")] {
        let row = rig.fetch(
            broker,
            &Fetch {
                offset: 11,
                rack,
                ..Fetch::default()
            },
        );
        assert_eq!(bounds(&row), (1, -1, -1), "at {broker}");
        assert_eq!(row.preferred_read_replica.0, -1);
    }
}

#[test]
fn below_the_log_start_is_out_of_range() {
    let mut rig = Rig::new();
    rig.cluster.delete_records(&t0(), Offset(4)).unwrap();
    let row = rig.fetch(
        1,
        &Fetch {
            offset: 3,
            ..Fetch::default()
        },
    );
    assert_eq!(bounds(&row), (1, -1, -1));
    let row = rig.fetch(
        1,
        &Fetch {
            offset: 4,
            ..Fetch::default()
        },
    );
    assert_eq!(bounds(&row), (0, 10, 4));
}

/// routing.md F6.
#[test]
fn no_hint_leads_out_of_the_isr_or_beyond_a_followers_end() {
    let mut rig = Rig::new();
    rig.cluster.hold_replica(&t0(), BrokerId(2), true).unwrap();
    rig.cluster.produce(&t0(), &[Record::of("late")]).unwrap();
    rig.run_for(10);
    let fetch = Fetch {
        rack: "b",
        wait_ms: 0,
        ..Fetch::default()
    };
    assert_eq!(rig.fetch(1, &fetch).preferred_read_replica.0, 2);
    let beyond = Fetch {
        offset: 11,
        ..fetch.clone()
    };
    assert_eq!(rig.fetch(1, &beyond).preferred_read_replica.0, -1);
    rig.run_for(5_000);
    assert_eq!(
        rig.cluster.partition(&t0()).unwrap().isr,
        [1, 3].map(BrokerId)
    );
    assert_eq!(rig.fetch(1, &fetch).preferred_read_replica.0, -1);
}

#[test]
fn a_custom_selector_hints_without_a_rack() {
    let mut rig = Rig::of(Settings {
        selector: Selector::Always(BrokerId(2)),
        ..Settings::default()
    });
    rig.cluster.create_topic("t", 1, 3).unwrap();
    let fetch = Fetch {
        epoch: 0,
        wait_ms: 0,
        ..Fetch::default()
    };
    assert_eq!(rig.fetch(1, &fetch).preferred_read_replica.0, 2);
    let old = Fetch {
        version: 10,
        ..fetch
    };
    assert_eq!(rig.fetch(1, &old).preferred_read_replica.0, -1);
}

#[test]
fn a_parked_fetch_is_answered_when_records_become_visible() {
    for broker in [1, 3] {
        let mut rig = Rig::new();
        let connection = rig.connect(broker);
        rig.send_fetch(
            connection,
            &Fetch {
                offset: 10,
                ..Fetch::default()
            },
        );
        rig.cluster.produce(&t0(), &[Record::of("new")]).unwrap();
        rig.drain();
        assert!(rig.row(connection, 17).is_none(), "not yet replicated");
        rig.run_for(5);
        let row = rig.row(connection, 17).expect("visible once replicated");
        assert_eq!(row.high_watermark, 11);
        assert!(bytes(&row) > 0);
    }
}

/// routing.md F18.
#[test]
fn a_parked_fetch_delays_what_is_behind_it() {
    let mut rig = Rig::new();
    let connection = rig.connect(1);
    rig.send_fetch(
        connection,
        &Fetch {
            offset: 10,
            ..Fetch::default()
        },
    );
    rig.send_fetch(
        connection,
        &Fetch {
            offset: 0,
            ..Fetch::default()
        },
    );
    rig.run_for(499);
    assert!(rig.row(connection, 17).is_none());
    rig.run_for(1);
    assert_eq!(bytes(&rig.row(connection, 17).unwrap()), 0);
    assert!(bytes(&rig.row(connection, 17).unwrap()) > 0);
}

/// KIP-74.
#[test]
fn the_first_batch_comes_whole_and_a_tail_may_be_cut() {
    let mut rig = Rig::new();
    let whole = bytes(&rig.fetch(1, &Fetch::default()));
    let one = whole / 10;
    let small = rig.fetch(
        1,
        &Fetch {
            bytes_max: 1,
            ..Fetch::default()
        },
    );
    assert_eq!(bytes(&small), one);
    let limit = i32::try_from(one + one / 2).unwrap();
    let cut = rig.fetch(
        1,
        &Fetch {
            bytes_max: limit,
            ..Fetch::default()
        },
    );
    assert_eq!(bytes(&cut), one + one / 2);
}

/// KIP-320: the follower of a truncated history is told where it diverges.
#[test]
fn a_stale_last_fetched_epoch_diverges() {
    let mut rig = Rig::new();
    rig.cluster.raise_epoch(&t0(), LeaderEpoch(7)).unwrap();
    rig.preload("in epoch 7");
    let good = Fetch {
        epoch: 7,
        offset: 10,
        last_epoch: 5,
        ..Fetch::default()
    };
    assert_eq!(rig.fetch(1, &good).diverging_epoch.epoch, -1);
    let stale = Fetch {
        offset: 11,
        ..good.clone()
    };
    let row = rig.fetch(1, &stale);
    assert_eq!(
        (row.diverging_epoch.epoch, row.diverging_epoch.end_offset),
        (5, 10)
    );
    assert_eq!((row.error_code, bytes(&row)), (0, 0));
    let unknown = Fetch {
        last_epoch: 8,
        ..good
    };
    assert_eq!(rig.fetch(1, &unknown).error_code, 1);
}

#[test]
fn a_slow_broker_answers_later() {
    let mut rig = Rig::new();
    rig.cluster
        .set_answer_delay(BrokerId(2), Duration::from_millis(70));
    let connection = rig.connect(2);
    rig.send_fetch(connection, &Fetch::default());
    rig.run_for(69);
    assert!(rig.row(connection, 17).is_none());
    rig.run_for(1);
    assert!(rig.row(connection, 17).is_some());
}

#[test]
fn record_bytes_are_counted_where_they_were_served() {
    let mut rig = Rig::new();
    let served = bytes(&rig.fetch(2, &Fetch::default()));
    rig.fetch(
        1,
        &Fetch {
            rack: "b",
            ..Fetch::default()
        },
    );
    assert_eq!(
        rig.cluster.record_bytes(BrokerId(2)),
        u64::try_from(served).unwrap()
    );
    assert_eq!(rig.cluster.record_bytes(BrokerId(1)), 0);
    let seen = rig.cluster.take_history();
    let fetch = seen.last().unwrap().fetch.as_ref().unwrap();
    assert_eq!(fetch.rack.as_ref().map(crate::ids::Rack::as_str), Some("b"));
    assert_eq!(
        (&fetch.rows[0].partition, fetch.rows[0].offset),
        (&t0(), Offset(0))
    );
}
