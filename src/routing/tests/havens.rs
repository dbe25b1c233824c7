//! 8.4: links to whoever may be read while the leader is silent.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, stay};
use crate::routing::{Breaker, Class, Input, Link, LinkChange, Output, Reason};
use crate::wire::api::fetch::Row;

/// routing.md 8.4: its link may never have been needed before.
#[test]
fn a_replica_that_joins_the_isr_while_the_leader_is_silent_is_dialled() {
    let mut desk = Desk::new();
    desk.isr(&[1]);
    desk.brokers.entry(B3).set_link(Class::Rack, Link::Down);
    desk.silent(B1, Class::Rack, true);
    assert!(!desk.dialled(B3), "it is not in sync");
    desk.isr(&[1, 3]);
    assert!(desk.dialled(B3));
    desk.link(B3, Class::Rack, LinkChange::Ready);
    assert!(desk.follower() == Some(B3) && desk.route.on_refuge());
}

/// routing.md 8.4: links are made to all of the ISR view, before it is known whom they will serve.
#[test]
fn a_replica_that_cools_or_whose_breaker_is_open_is_dialled_and_asked_for_a_permit() {
    let mut desk = Desk::new();
    desk.isr(&[1, 3]);
    desk.brokers.entry(B3).set_link(Class::Rack, Link::Down);
    desk.brokers.entry(B3).breaker = Breaker::Open(desk.now);
    desk.silent(B1, Class::Rack, true);
    assert!(desk.dialled(B3) && queued(&desk));
    desk.brokers.entry(B3).breaker = Breaker::Readmitting;
    desk.link(B3, Class::Rack, LinkChange::Ready);
    assert!(desk.at_leader(), "others have permits before it");
    desk.input(Input::Readmitted { broker: B3 });
    assert_eq!(desk.follower(), Some(B3));
    assert!(desk.route.on_refuge());
}

/// A permit ends what the broker as a whole did wrong (routing.md 9.1), whoever waited for it.
#[test]
fn a_permit_leads_to_a_refuge_that_would_still_cool() {
    let mut desk = Desk::following();
    desk.isr(&[1, 2]);
    desk.brokers.entry(B2).breaker = Breaker::Readmitting;
    desk.link(B2, Class::Rack, LinkChange::Lost);
    desk.link(B2, Class::Rack, LinkChange::Ready);
    desk.silent(B1, Class::NoRack, true);
    assert_eq!(desk.follower(), None);
    desk.input(Input::Readmitted { broker: B2 });
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn a_replica_whose_breaker_closes_while_the_leader_is_silent_is_a_refuge() {
    let mut desk = Desk::new();
    desk.isr(&[1, 3]);
    desk.brokers.entry(B3).breaker = Breaker::Readmitting;
    desk.silent(B1, Class::Rack, true);
    assert!(desk.at_leader() && queued(&desk));
    desk.brokers.entry(B3).breaker = Breaker::Closed;
    desk.input(Input::BreakerClosed { broker: B3 });
    assert_eq!(desk.follower(), Some(B3));
}

/// An ISR that grows moves no epoch: nothing but an answer of metadata tells of it.
#[test]
fn metadata_is_asked_again_while_nobody_may_be_read() {
    let mut desk = Desk::new();
    desk.isr(&[1]);
    desk.silent(B1, Class::Rack, true);
    assert!(desk.refreshed());
    for _ in 0..3 {
        desk.pass(Duration::from_secs(6));
        assert!(desk.refreshed());
    }
    desk.silent(B1, Class::Rack, false);
    desk.records(1_000);
    desk.pass(Duration::from_secs(12));
    assert!(!desk.refreshed());
}

#[test]
fn metadata_is_not_asked_again_once_somebody_is_read() {
    let mut desk = Desk::new();
    desk.silent(B1, Class::Rack, true);
    assert_eq!(desk.reasons(), [Reason::Refuge]);
    desk.pass(Duration::from_secs(12));
    assert!(!desk.refreshed());
}

/// On refuge 3, while candidate 2 could be read again since a moment ago, and no input told of it.
fn with_a_candidate_that_speaks_again() -> Desk {
    let mut desk = Desk::following();
    desk.isr(&[1, 3]);
    desk.drained();
    desk.silent(B1, Class::NoRack, true);
    assert_eq!(desk.follower(), Some(B3));
    desk.silent(B2, Class::Rack, true);
    desk.isr(&[1, 2, 3]);
    assert_eq!(desk.follower(), Some(B3), "the candidate would not answer");
    desk.silent(B2, Class::Rack, false);
    desk
}

/// routing.md R40, I8: the throttle does not move it; what is due anyway comes right after.
#[test]
fn a_refuge_that_throttles_is_not_left_for_it() {
    let mut desk = with_a_candidate_that_speaks_again();
    let until = desk.now + Duration::from_secs(1);
    desk.input(Input::Throttled { broker: B3, until });
    assert_eq!(desk.follower(), Some(B3));
    desk.pass(Duration::ZERO);
    assert_eq!(desk.reasons(), [Reason::RefugeMoved]);
    assert_eq!(desk.follower(), Some(B2));
}

/// routing.md I8: the same of its records.
#[test]
fn a_refuge_that_serves_records_is_not_left_for_them() {
    let mut desk = with_a_candidate_that_speaks_again();
    desk.row(Row {
        records: vec![0; 10].into(),
        ..stay()
    });
    assert_eq!(desk.follower(), Some(B3));
    desk.pass(Duration::ZERO);
    assert_eq!(desk.follower(), Some(B2));
}

/// Whether it waits for a permit of 3.
fn queued(desk: &Desk) -> bool {
    let (broker, fault) = (B3, None);
    desk.said.contains(&Output::Cooling { broker, fault })
}
