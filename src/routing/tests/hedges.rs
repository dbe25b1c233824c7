//! R29: a follower that stays away.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, error, hint, stay};
use crate::ids::Offset;
use crate::routing::{
    Class, Count, Fault, Hold, Input, Kind, Lane, LinkChange, Output, Reason, Role, Stamp, State,
    Why,
};
use crate::wire::api::fetch::Row;

/// Reads from 2, which missed its deadline; the hedge is out.
fn hedged() -> (Desk, Stamp) {
    let mut desk = Desk::following();
    desk.silent(B2, Class::Rack, true);
    let stamp = desk.hedge().expect("a hedge").stamp;
    (desk, stamp)
}

fn records() -> Row {
    Row {
        records: vec![0; 10].into(),
        ..stay()
    }
}

fn counted(desk: &Desk, outcome: &'static str) -> bool {
    desk.said.contains(&Output::Count(Count::Hedge(outcome)))
}

#[test]
fn r29_the_leader_is_asked_at_the_fetch_end_without_a_rack() {
    let (desk, stamp) = hedged();
    assert_eq!(
        (stamp.broker, stamp.lane, stamp.role, stamp.offset),
        (B1, Lane::NoRack, Role::Leader, Offset(100))
    );
    assert!(matches!(stamp.kind, Kind::Hedge(_)));
    assert_eq!(desk.follower(), Some(B2), "which may still answer first");
    assert!(desk.reasons().is_empty());
}

#[test]
fn r29_the_leader_answers_first_and_its_records_are_kept() {
    let (mut desk, stamp) = hedged();
    let late = desk.demand().stamp;
    let row = records();
    desk.input(Input::HedgeRow { stamp, row });
    assert!(
        desk.said
            .iter()
            .any(|output| matches!(output, Output::Deliver(_)))
    );
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert_eq!(desk.reasons(), [Reason::Cooldown(Fault::Slow)]);
    assert!(desk.route.is_cooling(B2, desk.now) && counted(&desk, "leader"));
    let (fetch_end, epoch) = (Offset(110), None);
    desk.input(Input::Indexed(crate::routing::Indexed::Advanced {
        fetch_end,
        epoch,
    }));
    assert_eq!(desk.demand().stamp.offset, Offset(110));
    let (row, inconclusive) = (records(), false);
    let stamp = late;
    desk.input(Input::Row {
        stamp,
        row,
        inconclusive,
    });
    assert!(
        !desk
            .said
            .iter()
            .any(|output| matches!(output, Output::Deliver(_))),
        "G3"
    );
}

#[test]
fn r29_an_empty_answer_of_the_leader_counts_as_one() {
    let (mut desk, stamp) = hedged();
    desk.input(Input::HedgeRow { stamp, row: stay() });
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert_eq!(desk.demand().stamp.broker, B1);
}

#[test]
fn r29_the_follower_answers_first_and_stays() {
    let (mut desk, stamp) = hedged();
    desk.brokers.entry(B2).rack_silent = false;
    desk.row(records());
    assert!(desk.said.contains(&Output::CancelHedge { broker: B1 }));
    let row = records();
    desk.input(Input::HedgeRow { stamp, row });
    assert!(
        !desk
            .said
            .iter()
            .any(|output| matches!(output, Output::Deliver(_)))
    );
    assert_eq!(desk.follower(), Some(B2));
    desk.pass(Duration::from_secs(1));
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn r29_an_answer_of_the_follower_that_left_the_row_out_is_an_answer_too() {
    let (mut desk, stamp) = hedged();
    desk.brokers.entry(B2).rack_silent = false;
    let mut other = desk.clone();
    desk.input(Input::HedgeRow { stamp, row: stay() });
    assert_eq!(desk.follower(), Some(B2));
    other.pass(Duration::from_millis(500));
    assert_eq!(other.follower(), Some(B2));
}

#[test]
fn r29_facts_that_come_after_the_row_send_no_second_hedge() {
    let (mut desk, _) = hedged();
    desk.row(stay());
    assert!(desk.hedge().is_none() && desk.follower() == Some(B2));
}

#[test]
fn r29_neither_within_half_a_second_leads_to_a_refuge() {
    let (mut desk, _) = hedged();
    desk.pass(Duration::from_millis(499));
    assert_eq!(desk.follower(), Some(B2));
    desk.pass(Duration::from_millis(1));
    let hold = Hold::Refuge;
    let broker = B3;
    assert_eq!(*desk.route.state(), State::Follower { broker, hold });
    assert_eq!(desk.reasons(), [Reason::Refuge]);
    assert!(desk.refreshed() && desk.route.is_cooling(B2, desk.now));
    assert!(counted(&desk, "neither"));
}

#[test]
fn r29_neither_and_no_refuge_forces_the_leader() {
    let mut desk = Desk::following();
    desk.isr(&[1, 2]);
    desk.silent(B2, Class::Rack, true);
    let stamp = desk.hedge().expect("a hedge").stamp;
    desk.input(Input::HedgeFailed { stamp });
    assert_eq!(
        desk.follower(),
        Some(B2),
        "the follower has its half second"
    );
    desk.pass(Duration::from_millis(500));
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
}

#[test]
fn r29_a_leader_already_silent_is_not_hedged_at() {
    let mut desk = Desk::following();
    desk.brokers.entry(B1).rack_silent = true;
    desk.silent(B2, Class::Rack, true);
    assert!(desk.hedge().is_none());
    assert_eq!(desk.follower(), Some(B3));
}

#[test]
fn r29_a_refusal_of_the_leader_is_no_answer_but_a_range_is_a_question() {
    let (mut desk, stamp) = hedged();
    let mut other = desk.clone();
    desk.input(Input::HedgeRow {
        stamp,
        row: error(6),
    });
    assert!(desk.follower() == Some(B2) && desk.refreshed());
    other.input(Input::HedgeRow {
        stamp,
        row: error(1),
    });
    assert!(other.resolves());
}

#[test]
fn r29_a_hint_in_the_hedge_drops_the_lane() {
    let (mut desk, stamp) = hedged();
    desk.input(Input::HedgeRow {
        stamp,
        row: hint(3),
    });
    assert!(desk.said.contains(&Output::DropLane { broker: B1 }));
}

#[test]
fn a_hedge_about_another_position_is_recalled() {
    let (mut desk, stamp) = hedged();
    let (offset, epoch) = (Offset(7), None);
    desk.input(Input::Seek { offset, epoch });
    assert!(desk.said.contains(&Output::CancelHedge { broker: B1 }));
    let again = desk.hedge().expect("a hedge at the new position");
    assert_eq!(again.stamp.offset, Offset(7));
    let row = records();
    desk.input(Input::HedgeRow { stamp, row });
    assert!(
        !desk
            .said
            .iter()
            .any(|output| matches!(output, Output::Deliver(_)))
    );
}

#[test]
fn no_hedge_is_sent_for_a_partition_that_fetches_nothing() {
    for stop in [Input::Pause, Input::Room(false)] {
        let mut desk = Desk::following();
        desk.input(stop);
        desk.silent(B2, Class::Rack, true);
        assert!(desk.hedge().is_none());
        desk.input(Input::Resume);
        desk.input(Input::Room(true));
        let sent = desk.route.hedge.out.is_some();
        assert!(sent, "the level is judged when reading goes on");
    }
}

#[test]
fn r28_a_lost_link_ends_the_hedge_with_the_route() {
    let (mut desk, _) = hedged();
    desk.link(B2, Class::Rack, LinkChange::Lost);
    assert!(desk.said.contains(&Output::CancelHedge { broker: B1 }));
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
}
