//! R13, R16, R36: brokers that answer and give nothing (routing.md 14).

use std::time::Duration;

use super::desk::{B1, B2, Desk, hint, stay};
use crate::ids::Offset;
use crate::routing::{Class, Event, Fault, Input, Lane, Output, Reason, Until, Why, Wish};
use crate::wire::api::Isolation;

fn samples(desk: &Desk) -> usize {
    let is_sample = |output: &&Output| matches!(output, Output::Sample { .. });
    desk.said.iter().filter(is_sample).count()
}

fn asked_for(desk: &Desk, expected: Wish) -> bool {
    desk.said
        .iter()
        .any(|output| matches!(output, Output::Probe { wish, .. } if *wish == expected))
}

/// The lane of `broker` goes on answering, without rows of ours.
fn answers(desk: &mut Desk, time: Duration) {
    let end = desk.now + time;
    let mut said = Vec::new();
    while desk.now < end {
        for broker in [B1, B2] {
            let now = desk.now;
            desk.brokers.entry(broker).set_answered(Class::Rack, now);
            desk.brokers.entry(broker).set_answered(Class::NoRack, now);
        }
        desk.pass(Duration::from_millis(250));
        said.append(&mut desk.said);
    }
    desk.said = said;
}

fn sampled(desk: &mut Desk, end: i64) {
    let generation = desk.route.position_generation();
    let leader_end = Offset(end);
    desk.input(Input::Sampled {
        generation,
        leader_end,
    });
}

#[test]
fn r13_three_empty_answers_below_the_end_force_the_lane_without_rack() {
    let mut desk = Desk::new();
    for _ in 0..2 {
        desk.row(stay());
        assert!(desk.at_leader());
    }
    desk.row(stay());
    assert_eq!(desk.why(), Some(Why::Starved));
    assert_eq!(desk.reasons(), [Reason::Hold(Why::Starved)]);
    assert_eq!(desk.demand().stamp.lane, Lane::NoRack);
    desk.pass(Duration::from_secs(5));
    assert!(desk.asked_probe(), "the hold is over");
}

#[test]
fn r13_the_hold_doubles_until_records_come_at_the_leader() {
    let mut desk = Desk::new();
    for (turn, seconds) in [5, 10, 20, 40, 60, 60].into_iter().enumerate() {
        for _ in 0..3 {
            desk.row(stay());
        }
        assert_eq!(desk.why(), Some(Why::Starved), "turn {turn}");
        desk.pass(Duration::from_millis(seconds * 1_000 - 1));
        assert!(!desk.asked_probe(), "turn {turn}");
        desk.pass(Duration::from_millis(1));
        desk.probed(stay());
        desk.drained();
        assert!(desk.at_leader());
    }
    desk.records(101);
    for _ in 0..3 {
        desk.row(stay());
    }
    let until = desk.now + Duration::from_secs(5);
    let crate::routing::State::Forced { until: held, .. } = desk.route.state() else {
        panic!("{:?}", desk.route.state());
    };
    assert_eq!(*held, Until::At(until));
}

#[test]
fn r13_throttled_and_full_answers_do_not_count() {
    let mut desk = Desk::new();
    for _ in 0..9 {
        let stamp = desk.demand().stamp;
        desk.input(Input::Row {
            stamp,
            row: stay(),
            inconclusive: true,
        });
    }
    assert!(desk.at_leader());
}

#[test]
fn r13_needs_a_rack_or_a_hint_seen() {
    let mut desk = Desk::with(|settings| settings.client_rack = None);
    for _ in 0..9 {
        desk.row(stay());
    }
    assert!(desk.at_leader());
    desk.pass(Duration::from_secs(100));
    assert!(!desk.asked_probe());
}

#[test]
fn r13_an_open_transaction_does_not_starve_a_reader_of_committed_records() {
    let mut desk = Desk::with(|settings| settings.isolation = Isolation::ReadCommitted);
    for _ in 0..9 {
        let mut row = stay();
        row.last_stable_offset = Some(Offset(100));
        desk.row(row);
    }
    assert!(desk.at_leader());
}

/// routing.md S37 (a).
#[test]
fn r13_rows_left_out_below_the_end_starve_as_empty_ones_do() {
    let mut desk = Desk::new();
    desk.records(101);
    answers(&mut desk, Duration::from_millis(1_500));
    assert_eq!(desk.why(), Some(Why::Starved));
}

#[test]
fn r13_a_lane_without_answers_or_with_full_ones_starves_nobody() {
    let mut desk = Desk::new();
    desk.records(101);
    desk.pass(Duration::from_secs(20));
    assert!(desk.at_leader());
}

#[test]
fn r13_at_the_end_nothing_is_missed() {
    let mut desk = Desk::new();
    desk.records(1_000);
    answers(&mut desk, Duration::from_secs(20));
    assert!(desk.at_leader());
}

/// routing.md S37 (b).
#[test]
fn r13_a_leader_that_sends_no_row_for_long_is_asked_once() {
    let mut desk = Desk::new();
    desk.records(1_000);
    answers(&mut desk, Duration::from_secs(29));
    assert!(!desk.asked_probe());
    answers(&mut desk, Duration::from_secs(1));
    assert!(asked_for(&desk, Wish::Quiet));
    let stamp = desk.probe().stamp;
    desk.input(Input::ProbeRow { stamp, row: stay() });
    answers(&mut desk, Duration::from_secs(600));
    assert!(!desk.asked_probe(), "until a row comes");
    desk.row(stay());
    answers(&mut desk, Duration::from_secs(30));
    desk.probed(hint(2));
    desk.drained();
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn r13_a_forced_lane_that_starves_drops_to_v10_and_there_it_is_told() {
    let mut desk = Desk::new();
    for _ in 0..6 {
        desk.row(stay());
    }
    assert!(desk.said.contains(&Output::DropLane { broker: B1 }));
    desk.brokers.entry(B1).v10 = true;
    desk.input(Input::LaneDropped { broker: B1 });
    desk.drained();
    assert_eq!(desk.demand().stamp.lane, Lane::V10);
    for _ in 0..3 {
        desk.row(stay());
    }
    assert!(desk.told(&Event::Starving(true)) && desk.refreshed());
    let row = crate::wire::api::fetch::Row {
        records: vec![0; 10].into(),
        ..stay()
    };
    desk.row(row);
    let (fetch_end, epoch) = (Offset(200), None);
    let indexed = crate::routing::Indexed::Advanced { fetch_end, epoch };
    desk.input(Input::Indexed(indexed));
    assert!(desk.told(&Event::Starving(false)));
}

#[test]
fn r16_a_follower_empty_below_its_own_end_cools_as_slow() {
    let mut desk = Desk::following();
    desk.row(stay());
    desk.pass(Duration::from_millis(1_000));
    desk.row(stay());
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert_eq!(desk.reasons(), [Reason::Cooldown(Fault::Slow)]);

    let mut desk = Desk::following();
    for _ in 0..3 {
        desk.row(stay());
    }
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));

    let mut desk = Desk::following();
    desk.records(101);
    answers(&mut desk, Duration::from_millis(1_500));
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)), "rows left out");
}

#[test]
fn r45_a_refuge_empty_below_its_own_end_is_left() {
    let mut desk = Desk::on_refuge();
    for _ in 0..3 {
        desk.row(stay());
    }
    assert_eq!(desk.reasons(), [Reason::RefugeMoved]);
}

/// routing.md S33 (a).
#[test]
fn r36_a_frozen_follower_behind_the_leader_is_left_by_thirteen_seconds() {
    let mut desk = Desk::following();
    desk.records(1_000);
    desk.row(stay());
    desk.pass(Duration::from_millis(9_900));
    assert_eq!(samples(&desk), 0);
    desk.pass(Duration::from_millis(100));
    assert_eq!(samples(&desk), 1);
    sampled(&mut desk, 1_200);
    assert_eq!(desk.follower(), Some(B2));
    desk.pass(Duration::from_millis(2_000));
    desk.drained();
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert_eq!(desk.reasons(), [Reason::Cooldown(Fault::Slow)]);
}

#[test]
fn r36_an_end_that_moves_is_not_sampled() {
    let mut desk = Desk::following();
    desk.records(1_000);
    for end in 1_000..1_020 {
        let mut row = stay();
        row.high_watermark = Some(Offset(end));
        desk.row(row);
        desk.pass(Duration::from_secs(5));
        assert_eq!(samples(&desk), 0);
        desk.records(end + 1);
    }
}

#[test]
fn r36_a_follower_that_reaches_the_sampled_end_stays() {
    let mut desk = Desk::following();
    desk.records(1_000);
    desk.row(stay());
    desk.pass(Duration::from_secs(10));
    sampled(&mut desk, 1_001);
    let mut row = stay();
    row.high_watermark = Some(Offset(1_001));
    desk.row(row);
    desk.pass(Duration::from_secs(3));
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn r36_an_idle_follower_is_sampled_every_half_minute_and_kept() {
    let mut desk = Desk::following();
    desk.records(1_000);
    desk.row(stay());
    let mut asked = 0;
    for _ in 0..100 {
        desk.pass(Duration::from_secs(1));
        if samples(&desk) > 0 {
            asked += samples(&desk);
            sampled(&mut desk, 1_000);
        }
    }
    assert_eq!(asked, 4, "after 10, 40, 70 and 100 s");
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn r36_a_sample_of_an_earlier_position_is_dropped() {
    let mut desk = Desk::following();
    desk.records(1_000);
    let generation = desk.route.position_generation();
    let (offset, epoch) = (Offset(1_000), None);
    desk.input(Input::Seek { offset, epoch });
    let leader_end = Offset(9_999);
    desk.input(Input::Sampled {
        generation,
        leader_end,
    });
    desk.pass(Duration::from_secs(3));
    assert_eq!(desk.follower(), Some(B2));
    assert_eq!(desk.route.watermarks().leader_hw, Some(Offset(1_000)));
}

#[test]
fn r40_a_follower_that_mutes_us_is_not_frozen() {
    let mut desk = Desk::following();
    desk.records(1_000);
    desk.row(stay());
    for _ in 0..60 {
        let until = desk.now + Duration::from_secs(1);
        desk.input(Input::Throttled { broker: B2, until });
        desk.pass(Duration::from_secs(1));
        assert_eq!(samples(&desk), 0);
    }
}

#[test]
fn r36_a_refuge_is_never_sampled() {
    let mut desk = Desk::on_refuge();
    desk.records(1_000);
    desk.row(stay());
    desk.pass(Duration::from_secs(60));
    assert_eq!(samples(&desk), 0);
}

#[test]
fn a_fetch_end_beyond_the_followers_end_is_asked_about_after_two_seconds() {
    let mut desk = Desk::following();
    desk.records(1_500);
    desk.row(stay());
    desk.pass(Duration::from_millis(1_900));
    assert!(!desk.asked_probe());
    desk.pass(Duration::from_millis(200));
    assert!(asked_for(&desk, Wish::Ahead));
    let stamp = desk.probe().stamp;
    desk.input(Input::ProbeRow {
        stamp,
        row: hint(2),
    });
    desk.pass(Duration::from_secs(9));
    assert!(
        !desk.asked_probe() && samples(&desk) == 1,
        "then it is sampled"
    );
}
