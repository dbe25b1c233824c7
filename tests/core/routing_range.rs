//! Positions the log no longer holds, or never held: routing.md S27 to S30, S34.

use std::time::Duration;

use nearside::embedded::{Api, Effect, RowEdit, Rule, Selector};
use nearside::ids::{BrokerId, LeaderEpoch, Offset};
use nearside::offsets::resolve::Reset;
use nearside::routing::{Bound, Event, Fault, Position, Role, State, Why};

use crate::rig::{Rig, partition};

const B1: BrokerId = BrokerId(1);
const B2: BrokerId = BrokerId(2);
const B3: BrokerId = BrokerId(3);

/// Position 400, log start 1000; the leader's error row carries these bounds.
fn below_the_start(edit: Option<RowEdit>) -> Rig {
    let mut rig = Rig::new();
    rig.preload(1_100);
    rig.cluster()
        .delete_records(&partition(), Offset(1_000))
        .unwrap();
    if let Some(edit) = edit {
        rig.cluster().inject(Rule::row(edit).at(1).times(1));
    }
    rig.assign_at(400);
    rig.run_until(|rig| rig.reader().delivered.len() == 100);
    rig
}

/// The position was reset to 1000 because the leader's ListOffsets says so.
fn check_reset_to_the_start(rig: &mut Rig) {
    let reset = Event::PositionReset {
        from: Offset(400),
        to: Offset(1_000),
        bound: Bound::BelowStart,
    };
    let resets = rig.reader().events.iter().filter(|said| **said == reset);
    assert_eq!(resets.count(), 1, "{:?}", rig.reader().events);
    assert_eq!(rig.reader().delivered, (1_000..1_100).collect::<Vec<_>>());
    assert!(rig.cluster().requests(B1, Api::ListOffsets) >= 1);
    assert_eq!(rig.cluster().requests(B2, Api::ListOffsets), 0);
    assert_eq!(rig.cluster().requests(B3, Api::ListOffsets), 0);
}

/// routing.md S27 (a)
#[test]
fn an_offset_below_the_log_start_is_reset_by_the_leaders_word_alone() {
    let mut rig = below_the_start(None);
    check_reset_to_the_start(&mut rig);
}

/// routing.md S27 (b)
#[test]
fn bounds_in_an_error_row_are_no_place_to_reset_to() {
    let filled = RowEdit {
        error: Some(1),
        high_watermark: Some(1_080),
        last_stable_offset: Some(1_080),
        log_start: Some(1_050),
        ..RowEdit::default()
    };
    let mut rig = below_the_start(Some(filled));
    check_reset_to_the_start(&mut rig);
    // I14: nor did they reach a watermark.
    assert_eq!(
        rig.reader().route.watermarks().leader_start,
        Some(Offset(1_000))
    );
}

/// Position 900 at a leader just elected, whose log ends at 880.
fn above_the_end() -> Rig {
    let mut rig = Rig::with(|_| {}, |cluster| cluster.selector = Selector::LeaderOnly);
    rig.reset_to(Reset::Latest);
    rig.preload(880);
    rig.cluster().move_leader(&partition(), B3).unwrap();
    rig.assign_at(900);
    rig.run_until(|rig| rig.reader().route.position() == Position::Resolving);
    rig
}

/// routing.md S28 (a)
#[test]
fn an_offset_past_the_end_is_held_while_the_high_watermark_catches_up() {
    let mut rig = above_the_end();
    rig.run_for(Duration::from_secs(4));
    assert_eq!(rig.reader().route.position(), Position::Resolving, "held");
    let asked = rig.cluster().requests(B3, Api::ListOffsets);
    assert!(
        (5..=9).contains(&asked),
        "{asked} questions in four seconds"
    );

    rig.preload(40);
    rig.run_until(|rig| rig.reader().delivered.len() == 20);
    assert_eq!(rig.reader().delivered, (900..920).collect::<Vec<_>>());
    let resets = |said: &&Event| matches!(said, Event::PositionReset { .. });
    assert_eq!(rig.reader().events.iter().filter(resets).count(), 0);
}

/// routing.md S28 (b)
#[test]
fn an_offset_past_the_end_for_ten_seconds_is_reset_by_policy() {
    let mut rig = above_the_end();
    let held = rig.now;
    rig.run_until(|rig| rig.reader().route.position() == Position::Ready);
    let waited = rig.now.since(held).as_millis();
    assert!((10_000..=11_100).contains(&waited), "held for {waited} ms");

    let reset = Event::PositionReset {
        from: Offset(900),
        to: Offset(880),
        bound: Bound::AboveEnd,
    };
    assert!(
        rig.reader().events.contains(&reset),
        "{:?}",
        rig.reader().events
    );
    rig.preload(5);
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.reader().delivered, (880..885).collect::<Vec<_>>());
}

/// A reader of leader 1 with 850 records of epoch 5, of which 3 has 800.
fn with_a_tail() -> Rig {
    let mut rig = Rig::with(|_| {}, |cluster| cluster.selector = Selector::LeaderOnly);
    rig.preload(800);
    rig.cluster().hold_replica(&partition(), B3, true).unwrap();
    rig.cluster().shrink_isr(&partition(), B3).unwrap();
    rig.preload(50);
    rig.assign();
    rig.run_until(|rig| rig.reader().delivered.len() == 850);
    rig
}

/// routing.md S29 (a)
#[test]
fn a_history_that_ends_earlier_twice_is_truncated() {
    let mut rig = with_a_tail();
    rig.cluster().elect_unclean(&partition(), B3).unwrap();
    rig.run_until(|rig| rig.reader().route.position() == Position::Validating);
    let asked = rig.now;
    rig.run_until(|rig| rig.reader().route.position() == Position::Ready);
    assert!(
        rig.now.since(asked) >= Duration::from_millis(250),
        "asked twice"
    );
    assert_eq!(rig.cluster().requests(B3, Api::OffsetForLeaderEpoch), 2);

    let (from, to) = (Offset(850), Offset(800));
    let epochs = (Some(LeaderEpoch(5)), Some(LeaderEpoch(5)));
    let told = Event::Truncated { from, to, epochs };
    assert!(
        rig.reader().events.contains(&told),
        "{:?}",
        rig.reader().events
    );
    assert_eq!(rig.reader().truncations, [(from, to)], "the buffer is cut");
    assert_eq!(rig.reader().route.fetch_end(), to);
    let before = rig.reader().delivered.len();
    rig.preload(10);
    rig.run_for(Duration::from_secs(1));
    assert_eq!(
        rig.reader().delivered[before..],
        (800..810).collect::<Vec<_>>()
    );
}

/// routing.md S29 (b)
#[test]
fn a_single_answer_that_ends_earlier_truncates_nothing() {
    let mut rig = with_a_tail();
    let lie = Rule::new(Effect::EpochEnd(Offset(800))).on(Api::OffsetForLeaderEpoch);
    rig.cluster().inject(lie.times(1));
    rig.cluster().move_leader(&partition(), B2).unwrap();
    rig.run_until(|rig| rig.reader().route.position() == Position::Validating);
    rig.run_until(|rig| rig.reader().route.position() == Position::Ready);
    assert_eq!(rig.cluster().requests(B2, Api::OffsetForLeaderEpoch), 2);

    rig.preload(10);
    rig.run_until(|rig| rig.reader().delivered.len() == 860);
    assert_eq!(rig.reader().delivered, (0..860).collect::<Vec<_>>());
    let told = |said: &&Event| matches!(said, Event::Truncated { .. });
    assert_eq!(rig.reader().events.iter().filter(told).count(), 0);
    assert!(rig.reader().truncations.is_empty());
}

/// routing.md S30
#[test]
fn a_divergence_that_only_the_follower_sees_is_a_question_to_the_leader() {
    let mut rig = Rig::new();
    rig.follow();
    let edit = RowEdit {
        diverging_epoch: Some((5, 700)),
        records: Some(Vec::new().into()),
        at_once: true,
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(edit).at(2).times(1));
    rig.preload(10);
    rig.run_until(|rig| rig.reader().delivered.len() == 1_010);

    assert_eq!(
        rig.reader().delivered,
        (0..1_010).collect::<Vec<_>>(),
        "no rewind"
    );
    assert_eq!(rig.cluster().requests(B1, Api::OffsetForLeaderEpoch), 1);
    assert_eq!(rig.cluster().requests(B2, Api::OffsetForLeaderEpoch), 0);
    assert!(rig.reader().truncations.is_empty());
    assert!(rig.reader().route.is_cooling(B2, rig.now));
    assert_eq!(rig.reader().reasons().last().unwrap(), "cooldown_range");
    let cooled = nearside::routing::Count::Cooldown(Fault::Range);
    assert_eq!(
        rig.reader()
            .counts
            .iter()
            .filter(|count| **count == cooled)
            .count(),
        1
    );
    assert_eq!(rig.reader().route.state().why(), Some(Why::Cooldown(B2)));
}

/// routing.md S34
#[test]
fn a_bounded_read_ends_at_the_leaders_end_and_not_at_its_replicas() {
    let mut rig = Rig::new();
    rig.preload(990);
    rig.cluster().hold_replica(&partition(), B2, true).unwrap();
    rig.assign();
    rig.run_until(|rig| rig.follower() == Some(B2));
    // The leader goes on without 2, and metadata has not told us yet.
    rig.cluster().shrink_isr(&partition(), B2).unwrap();
    rig.preload(10);
    let end = rig.ask_end();
    assert_eq!(end, Offset(1_000));

    let reached = |rig: &Rig, with: Role, end: i64| {
        let end = Offset(end);
        rig.reader().events.contains(&Event::CaughtUp { with, end })
    };
    rig.run_for(Duration::from_secs(1));
    assert!(
        reached(&rig, Role::Follower, 990),
        "{:?}",
        rig.reader().events
    );
    assert_eq!(rig.follower(), Some(B2));
    assert!(rig.reader().route.fetch_end() < end, "the read goes on");

    rig.cluster().hold_replica(&partition(), B2, false).unwrap();
    rig.run_until(|rig| rig.reader().route.fetch_end() >= end);
    assert_eq!(rig.reader().delivered, (0..1_000).collect::<Vec<_>>());
    assert_eq!(rig.follower(), Some(B2));
    assert!(matches!(rig.reader().route.state(), State::Follower { .. }));
}
