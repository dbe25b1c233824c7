//! I9: when records that could be had are overdue.

use std::time::Duration;

use super::desk::{B1, Desk};
use crate::ids::Offset;
use crate::invariants::routing::{Flow, Supply};
use crate::routing::{Class, Input};

const ROUND_TRIP: Duration = Duration::from_millis(2);
/// `fetch.max.wait.ms`, `route.starve.ms`, `route.connect.grace.ms` and two round trips.
const FROM_A_LEADER: u64 = 500 + 1_000 + 250 + 4;
/// `fetch.max.wait.ms`, `route.stuck.ms`, `.probe.ms`, `.grace.ms` and two round trips.
const FROM_A_FOLLOWER: u64 = 500 + 10_000 + 30_000 + 2_000 + 4;

/// A leader that answers and has records, last heard of now.
fn supply(desk: &Desk) -> Supply {
    Supply {
        leader_answers: true,
        leader_end: Offset(1_000),
        fed_at: desk.now,
        round_trip: ROUND_TRIP,
    }
}

/// For how long the invariant holds, in ms; `None` if for ever.
fn patience(desk: &Desk, supply: Supply) -> Option<u64> {
    let mut flow = Flow::default();
    let begun = desk.now;
    (0..50_000).find(|ms| !flow.holds(&desk.route, supply, begun + Duration::from_millis(*ms)))
}

#[test]
fn i9_a_leader_that_answers_feeds_its_readers_soon() {
    let desk = Desk::new();
    assert_eq!(patience(&desk, supply(&desk)), Some(FROM_A_LEADER + 1));
    let mut desk = Desk::following();
    desk.error(56);
    assert_eq!(
        patience(&desk, supply(&desk)),
        Some(FROM_A_LEADER + 1),
        "Forced"
    );
}

#[test]
fn i9_a_follower_that_trails_is_left_in_the_end() {
    let desk = Desk::following();
    assert_eq!(patience(&desk, supply(&desk)), Some(FROM_A_FOLLOWER + 1));
}

#[test]
fn i9_binds_nobody_who_cannot_be_fed() {
    let mut desk = Desk::new();
    let end = desk.route.fetch_end();
    for supply in [
        Supply {
            leader_answers: false,
            ..supply(&desk)
        },
        Supply {
            leader_end: end,
            ..supply(&desk)
        },
    ] {
        assert_eq!(patience(&desk, supply), None);
    }
    desk.input(Input::Pause);
    assert_eq!(patience(&desk, supply(&desk)), None, "paused");
    desk.input(Input::Resume);
    desk.error(6);
    assert_eq!(patience(&desk, supply(&desk)), None, "an error backs off");
    let mut desk = Desk::new();
    desk.silent(B1, Class::Rack, true);
    assert_eq!(patience(&desk, supply(&desk)), None, "a refuge");
}

#[test]
fn i9_counts_anew_when_records_come_or_somebody_else_is_read() {
    let mut desk = Desk::following();
    let mut flow = Flow::default();
    let begun = desk.now;
    assert!(flow.holds(&desk.route, supply(&desk), begun));
    let late = begun + Duration::from_millis(FROM_A_FOLLOWER);
    assert!(flow.holds(&desk.route, supply(&desk), late));
    desk.error(56);
    let stale = supply(&desk);
    assert!(
        flow.holds(&desk.route, stale, late),
        "the leader owes since now"
    );
    let later = late + Duration::from_millis(FROM_A_LEADER + 1);
    assert!(!flow.holds(&desk.route, stale, later));
    let fed = Supply {
        fed_at: later,
        ..stale
    };
    assert!(flow.holds(&desk.route, fed, later));
}
