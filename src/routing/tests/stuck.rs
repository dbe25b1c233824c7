//! Lanes that starve and cannot drop to v10 (routing.md 6).

use std::time::Duration;

use super::desk::{B1, B2, Desk, hint, stay};
use crate::routing::{Event, Output, Why};

/// Broker 2 cools, and leader 1 hints it whatever the rack.
fn stuck() -> Desk {
    let mut desk = Desk::following();
    desk.brokers.entry(B1).fetch_min = Some(12);
    desk.error(56);
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    desk
}

/// Answers with a hint until broker 2 is read; the time that took.
fn tried(desk: &mut Desk) -> Duration {
    let since = desk.now;
    while desk.route.state().follower().is_none() {
        assert!(desk.now.since(since) < Duration::from_secs(600));
        desk.pass(Duration::from_millis(250));
        assert!(desk.route.is_cooling(B2, desk.now), "tried in spite of it");
        desk.row(hint(2));
    }
    desk.now.since(since)
}

#[test]
fn a_lane_without_v10_is_told_as_starving_and_waits_between_fetches() {
    let mut desk = stuck();
    desk.row(hint(2));
    assert!(desk.told(&Event::Starving(true)));
    let drops = |output: &Output| matches!(output, Output::DropLane { .. });
    assert!(!desk.said.iter().any(drops));
    let wants = |output: &Output| matches!(output, Output::Want(_));
    assert!(!desk.said.iter().any(wants), "the next would be as empty");
    desk.pass(Duration::from_millis(250));
    assert!(desk.said.iter().any(wants));
}

#[test]
fn the_hinted_broker_is_tried_once_in_every_step_of_its_cooldown() {
    let mut desk = stuck();
    let first = tried(&mut desk);
    desk.error(56);
    let second = tried(&mut desk);
    assert!(second > first, "{first:?}, then {second:?}");
}

#[test]
fn a_lane_without_v10_that_starves_without_a_hint_is_told_too() {
    let mut desk = Desk::new();
    desk.brokers.entry(B1).fetch_min = Some(12);
    for _ in 0..3 {
        desk.row(stay());
    }
    assert_eq!(desk.why(), Some(Why::Starved));
    for _ in 0..3 {
        desk.pass(Duration::from_millis(250));
        desk.row(stay());
    }
    assert!(desk.told(&Event::Starving(true)));
}
