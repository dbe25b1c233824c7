//! Questions that must not be forgotten, and patience that must not be mistaken for silence.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, error, hint, stay};
use crate::ids::{BrokerId, MetadataVersion, Offset};
use crate::routing::{Class, Found, Input, LinkChange, Position, Source, State, Until, Why};

const SECOND: Duration = Duration::from_secs(1);

/// Forced to the leader after a fault of 2 that is over: a probe is on its way.
fn asking() -> Desk {
    let mut desk = Desk::following();
    desk.link(B2, Class::Rack, LinkChange::Lost);
    desk.link(B2, Class::Rack, LinkChange::Ready);
    desk.pass(SECOND);
    assert!(desk.asked_probe());
    desk
}

fn waits_for_a_probe(desk: &Desk) -> bool {
    matches!(
        desk.route.state(),
        State::Forced {
            until: Until::Probe,
            ..
        }
    )
}

#[test]
fn r22_a_probe_that_finds_the_position_out_of_range_is_asked_again_from_the_new_one() {
    let mut desk = asking();
    desk.probed(error(1));
    assert_eq!(desk.route.position(), Position::Resolving);
    let generation = desk.route.position_generation();
    let found = Found::Offset {
        offset: Offset(500),
        epoch: None,
        source: Source::Reset,
    };
    desk.input(Input::Resolved { generation, found });
    assert_eq!(desk.probe().stamp.offset, Offset(500));
}

#[test]
fn r46_a_lane_that_drops_takes_no_question_with_it() {
    let mut desk = asking();
    desk.brokers.entry(B1).v10 = true;
    desk.input(Input::LaneDropped { broker: B1 });
    desk.drained();
    assert!(waits_for_a_probe(&desk));
    assert!(desk.asked_probe());
}

#[test]
fn r46_a_lane_that_drops_keeps_the_question_of_a_metadata_version() {
    let mut desk = Desk::new();
    desk.row(hint(9));
    assert_eq!(desk.why(), Some(Why::UnknownBroker(BrokerId(9))));
    desk.input(Input::MetadataVersion(MetadataVersion(2)));
    assert!(desk.asked_probe());
    desk.brokers.entry(B1).v10 = true;
    desk.input(Input::LaneDropped { broker: B1 });
    desk.land();
    assert!(desk.asked_probe(), "the next version may be minutes away");
}

#[test]
fn r46_a_lane_that_changes_does_not_undo_what_the_leader_said() {
    let mut desk = asking();
    desk.probed(hint(2));
    desk.input(Input::LaneRestored { broker: B1 });
    desk.drained();
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn r6_the_leader_is_asked_even_if_the_row_in_flight_comes_before_the_probe() {
    let mut desk = Desk::following();
    desk.isr(&[1, 3]);
    assert!(desk.asked_probe());
    desk.drained();
    assert_eq!(desk.why(), Some(Why::NotInIsr(B2)));
    assert!(desk.asked_probe());
}

#[test]
fn a_change_does_not_wait_for_a_row_that_can_be_of_no_use() {
    let mut desk = Desk::following();
    desk.pass(SECOND * 331);
    desk.probed(hint(3));
    desk.input(Input::Seek {
        offset: Offset(700),
        epoch: None,
    });
    let stamp = desk.demand().stamp;
    assert_eq!((stamp.broker, stamp.offset), (B3, Offset(700)));
}

#[test]
fn r13_a_fetch_that_is_kept_back_on_purpose_starves_nobody() {
    for code in [29, 74] {
        let mut desk = Desk::new();
        desk.row(stay());
        desk.error(code);
        for _ in 0..8 {
            desk.brokers.entry(B1).rack_answered = Some(desk.now);
            desk.pass(SECOND / 2);
            assert!(desk.at_leader(), "{code}: {:?}", desk.route.state());
        }
    }
}

#[test]
fn another_replica_of_our_rack_is_asked_about_once_it_is_in_sync() {
    let mut desk = Desk::new();
    desk.brokers.entry(B3).rack = Some("b".into());
    desk.row(hint(2));
    desk.isr(&[1, 2]);
    desk.link(B2, Class::Rack, LinkChange::Lost);
    desk.pass(SECOND / 10);
    assert!(!desk.asked_probe(), "nobody else is in sync");
    desk.isr(&[1, 2, 3]);
    desk.pass(SECOND / 10);
    assert!(desk.asked_probe());
}
