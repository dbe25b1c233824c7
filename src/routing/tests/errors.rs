//! R23 to R27 and the code table of routing.md 10.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, error, hint, stay};
use crate::cluster;
use crate::ids::{LeaderEpoch, Offset};
use crate::routing::{
    Bound, Event, Fault, Found, Halt, Indexed, Input, Output, Position, Reason, Source, State,
    Verdict, Why,
};
use crate::wire::ErrorCode;
use crate::wire::api::fetch::{EpochEnd, Row};

#[test]
fn r23_a_leader_scoped_code_waits_and_refreshes() {
    for code in [3, 5, 6, 8, 9, 56, 100, 103] {
        let mut desk = Desk::new();
        desk.error(code);
        assert!(desk.at_leader() && desk.refreshed(), "{code}");
        assert!(desk.route.standing_demand().is_none(), "{code}");
        desk.pass(Duration::from_millis(61));
        assert_eq!(desk.demand().stamp.broker, B1, "{code}");
    }
}

#[test]
fn the_backoff_of_the_leader_doubles_to_a_second_and_a_newer_epoch_cancels_it() {
    let mut desk = Desk::new();
    let mut waits = Vec::new();
    for _ in 0..7 {
        desk.error(6);
        let refused = desk.now;
        while desk.route.standing_demand().is_none() {
            desk.pass(Duration::from_millis(1));
        }
        waits.push(desk.now.since(refused).as_secs_f64());
    }
    for (step, wait) in (0_i32..).zip(waits) {
        let plain = (0.05 * 2_f64.powi(step)).min(1.0);
        assert!((wait / plain - 1.0).abs() <= 0.23, "step {step}: {wait}");
    }
    desk.error(6);
    desk.leads(Some(B3), 6);
    assert_eq!(desk.demand().stamp.broker, B3, "at once");
}

#[test]
fn a_flapping_controller_does_not_become_a_storm() {
    let mut desk = Desk::new();
    let mut free = 0;
    for epoch in 6..16 {
        desk.error(6);
        desk.leads(Some(if epoch % 2 == 0 { B3 } else { B1 }), epoch);
        if desk.route.standing_demand().is_none() {
            desk.pass(Duration::from_millis(100));
        } else {
            free += 1;
        }
    }
    assert!((5..=10).contains(&free), "{free} retries without backoff");
}

#[test]
fn r24_75_at_the_leader_asks_for_metadata_the_third_time() {
    let mut desk = Desk::new();
    let mut asked = Vec::new();
    for _ in 0..3 {
        desk.error(75);
        asked.push(desk.refreshed());
        desk.pass(Duration::from_secs(1));
    }
    assert_eq!(asked, [false, false, true]);
}

#[test]
fn r25_faults_of_a_follower_cool_it_and_the_leader_serves_at_once() {
    let faults = [
        (3, Fault::NotReplica),
        (6, Fault::NotReplica),
        (9, Fault::NotReplica),
        (29, Fault::Authorization),
        (35, Fault::Version),
        (56, Fault::Storage),
        (76, Fault::Version),
        (100, Fault::NotReplica),
        (4_711, Fault::UnknownCode),
    ];
    for (code, fault) in faults {
        let mut desk = Desk::following();
        desk.error(code);
        assert_eq!(desk.why(), Some(Why::Cooldown(B2)), "{code}");
        assert_eq!(desk.reasons(), [Reason::Cooldown(fault)], "{code}");
        assert_eq!(desk.demand().stamp.broker, B1, "{code}");
        assert_eq!(desk.refreshed(), fault == Fault::NotReplica, "{code}");
    }
}

#[test]
fn r26_out_of_range_at_a_follower_is_no_reset_and_at_the_leader_a_question() {
    let mut desk = Desk::following();
    desk.error(1);
    assert!(!desk.resolves());
    assert_eq!(
        (desk.why(), desk.demand().stamp.offset),
        (Some(Why::Cooldown(B2)), Offset(100))
    );
    desk.error(1);
    assert!(desk.resolves());
    let generation = desk.route.position_generation();
    let found = Found::Offset {
        offset: Offset(150),
        epoch: None,
        source: Source::Reset,
    };
    desk.input(Input::Resolved { generation, found });
    let reset = Event::PositionReset {
        from: Offset(100),
        to: Offset(150),
        bound: Bound::BelowStart,
    };
    assert!(desk.said.contains(&Output::Event(reset)));
    assert_eq!(desk.demand().stamp.offset, Offset(150));
}

#[test]
fn an_offset_the_leader_both_refuses_and_holds_is_asked_for_without_its_epoch_then_slowly() {
    let mut desk = Desk::new();
    desk.records(110);
    let mut epochs = Vec::new();
    for _ in 0..3 {
        desk.error(1);
        let generation = desk.route.position_generation();
        let found = Found::Offset {
            offset: Offset(110),
            epoch: None,
            source: Source::Inside,
        };
        desk.input(Input::Resolved { generation, found });
        if desk.route.standing_demand().is_none() {
            desk.pass(Duration::from_secs(1));
        }
        epochs.push(desk.demand().last_fetched_epoch.is_some());
        assert_eq!(desk.route.fetch_end(), Offset(110));
    }
    assert_eq!(epochs[..2], [true, false]);
}

#[test]
fn nothing_found_halts_the_partition() {
    let mut desk = Desk::new();
    desk.error(1);
    let generation = desk.route.position_generation();
    desk.input(Input::Resolved {
        generation,
        found: Found::Nothing,
    });
    assert_eq!(desk.route.position(), Position::Halted);
    let halted = Event::Halted(Halt::NoOffset);
    assert!(desk.said.contains(&Output::Event(halted)));
    desk.input(Input::Seek {
        offset: Offset(5),
        epoch: None,
    });
    assert_eq!(desk.demand().stamp.offset, Offset(5));
}

#[test]
fn r27_a_fenced_epoch_stops_the_fetch_until_a_newer_leader_is_known() {
    let mut desk = Desk::following();
    desk.records(110);
    desk.error(74);
    assert!(desk.at_leader() && desk.refreshed());
    assert!(!desk.route.is_cooling(B2, desk.now), "it is ahead of us");
    desk.pass(Duration::from_secs(5));
    assert!(
        desk.route.standing_demand().is_none() && desk.refreshed(),
        "metadata is asked again"
    );
    desk.leads(Some(B3), 6);
    assert!(desk.validates());

    let mut desk = Desk::new();
    desk.error(74);
    assert!(desk.at_leader() && desk.refreshed());
    desk.leads(Some(B3), 6);
    assert_eq!(desk.demand().stamp.broker, B3);
}

/// wire.md A37
#[test]
fn a_corrupt_batch_is_fetched_from_the_leader_before_anybody_hears_of_it() {
    let mut desk = Desk::following();
    desk.row(Row {
        records: vec![0; 10].into(),
        ..stay()
    });
    desk.input(Input::Indexed(Indexed::Corrupt));
    assert_eq!(desk.reasons(), [Reason::Cooldown(Fault::Corruption)]);
    assert_eq!(
        (desk.demand().stamp.broker, desk.demand().stamp.offset),
        (B1, Offset(100))
    );
    let mut dirty = desk.clone();
    desk.records(110);
    assert!(
        desk.route
            .is_cooling(B2, desk.now + Duration::from_secs(299))
    );

    for _ in 0..2 {
        dirty.row(Row {
            records: vec![0; 10].into(),
            ..stay()
        });
        dirty.input(Input::Indexed(Indexed::Corrupt));
    }
    let told = Event::CorruptBatch {
        offset: Offset(100),
    };
    assert!(dirty.said.contains(&Output::Event(told)));
    assert_eq!(dirty.route.fetch_end(), Offset(100), "the position stays");
    assert!(
        !dirty.route.is_cooling(B2, dirty.now),
        "its copy was as good as the leader's"
    );
}

/// wire.md 8.1 B10
#[test]
fn a_batch_whose_checksum_holds_is_told_at_the_leaders_first_copy() {
    let mut desk = Desk::following();
    let told = Output::Event(Event::CorruptBatch {
        offset: Offset(100),
    });
    let read = |desk: &mut Desk| {
        desk.row(Row {
            records: vec![0; 10].into(),
            ..stay()
        });
        desk.input(Input::Indexed(Indexed::Poison));
    };
    read(&mut desk);
    assert_eq!(desk.demand().stamp.broker, B1, "the leader is asked");
    assert!(!desk.said.contains(&told));
    read(&mut desk);
    assert!(desk.said.contains(&told));
    let (offset, epoch) = (Offset(110), None);
    desk.input(Input::Seek { offset, epoch });
    desk.row(Row {
        records: vec![0; 10].into(),
        ..stay()
    });
    desk.said.clear();
    desk.input(Input::Indexed(Indexed::Corrupt));
    let next = Output::Event(Event::CorruptBatch { offset });
    assert!(
        !desk.said.contains(&next),
        "a new position has its own second try"
    );
}

#[test]
fn a_refused_topic_is_told_once_and_only_when_the_leader_says_so() {
    let mut desk = Desk::following();
    desk.error(29);
    let refused = Output::Event(Event::Refused {
        code: ErrorCode(29),
    });
    assert!(!desk.said.contains(&refused));
    desk.error(29);
    assert!(desk.said.contains(&refused));
    assert!(!desk.route.is_cooling(B2, desk.now));
    desk.pass(Duration::from_millis(4_999));
    assert!(desk.route.standing_demand().is_none());
    desk.pass(Duration::from_millis(1));
    desk.error(29);
    assert!(!desk.said.contains(&refused), "once");
}

#[test]
fn a_server_error_of_a_follower_counts_three_times_in_ten_seconds() {
    let mut desk = Desk::following();
    for _ in 0..2 {
        desk.error(-1);
        assert_eq!(desk.follower(), Some(B2));
        desk.pass(Duration::from_secs(1));
    }
    desk.error(-1);
    assert_eq!(desk.reasons(), [Reason::Cooldown(Fault::ServerError)]);
}

#[test]
fn session_codes_are_no_route_event() {
    for code in [70, 71, 106] {
        let mut desk = Desk::following();
        desk.error(code);
        assert_eq!((desk.follower(), desk.reasons().len()), (Some(B2), 0));
    }
}

#[test]
fn a_divergence_is_a_question_to_the_leader_whoever_tells_it() {
    let told = EpochEnd {
        epoch: LeaderEpoch(4),
        end_offset: Offset(90),
    };
    let diverging = Row {
        diverging_epoch: Some(told),
        ..stay()
    };
    let mut desk = Desk::following();
    desk.records(110);
    desk.row(diverging.clone());
    assert!(desk.validates());
    assert_eq!(
        (desk.why(), desk.route.fetch_end()),
        (Some(Why::Cooldown(B2)), Offset(110))
    );
    let generation = desk.route.position_generation();
    desk.input(Input::Validated {
        generation,
        verdict: Verdict::Agrees,
    });
    assert!(desk.route.is_cooling(B2, desk.now));
    assert_eq!(desk.demand().stamp.broker, B1);

    let mut desk = Desk::new();
    desk.records(110);
    desk.row(diverging);
    assert!(desk.said.iter().any(|output| matches!(
        output,
        Output::Validate {
            told: Some((LeaderEpoch(4), Offset(90))),
            ..
        }
    )));
}

#[test]
fn bytes_that_move_nothing_are_not_fetched_at_network_speed() {
    let mut desk = Desk::new();
    desk.row(Row {
        records: vec![0; 10].into(),
        ..stay()
    });
    desk.input(Input::Indexed(Indexed::Advanced {
        fetch_end: Offset(100),
        epoch: None,
    }));
    assert!(desk.route.standing_demand().is_none());
    desk.pass(Duration::from_millis(120));
    assert_eq!(desk.demand().stamp.offset, Offset(100));
}

#[test]
fn a_batch_larger_than_the_limit_raises_it_for_one_fetch() {
    let mut desk = Desk::new();
    desk.row(Row {
        records: vec![0; 10].into(),
        ..stay()
    });
    desk.input(Input::Indexed(Indexed::TooLarge { needed: 3 << 20 }));
    assert_eq!(desk.demand().max_bytes, 3 << 20);
    desk.records(101);
    assert_eq!(desk.demand().max_bytes, 1 << 20);
}

#[test]
fn an_error_of_a_follower_never_counts_as_the_leaders() {
    let mut desk = Desk::following();
    let stamp = desk.demand().stamp;
    desk.pass(Duration::from_secs(331));
    desk.probed(stay());
    desk.input(Input::Row {
        stamp,
        row: error(1),
        inconclusive: false,
    });
    assert!(!desk.resolves(), "role at send");
    assert!(desk.at_leader(), "what the leader said still counts");
    assert!(desk.route.is_cooling(B2, desk.now));
    assert_eq!(desk.demand().stamp.broker, B1);
}

#[test]
fn a_fault_of_the_follower_does_not_undo_a_move_to_another() {
    let mut desk = Desk::following();
    let stamp = desk.demand().stamp;
    desk.pass(Duration::from_secs(331));
    desk.probed(hint(3));
    desk.input(Input::Row {
        stamp,
        row: error(56),
        inconclusive: false,
    });
    assert_eq!(desk.follower(), Some(B3));
    assert!(desk.route.is_cooling(B2, desk.now));
    assert!(matches!(desk.route.state(), State::Follower { .. }));
    assert!(
        !desk
            .said
            .contains(&Output::Refresh(cluster::Reason::LinkLost))
    );
}
