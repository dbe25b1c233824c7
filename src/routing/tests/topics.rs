//! R42: topics that are another one, or gone.

use super::desk::{B2, B3, Desk};
use crate::ids::{LeaderEpoch, Offset, TopicId, TopicIncarnation};
use crate::routing::{Event, Found, Gate, Input, Output, Position, Reason, Resolve, Source, State};

fn recreated(desk: &mut Desk) {
    desk.input(Input::TopicRecreated {
        incarnation: TopicIncarnation(1),
        id: TopicId(uuid::Uuid::from_u128(7)),
    });
}

fn resolves(desk: &Desk, expected: Resolve) -> bool {
    desk.said
        .iter()
        .any(|output| matches!(output, Output::Resolve { what, .. } if *what == expected))
}

#[test]
fn r42_a_recreated_topic_is_parked_and_read_anew_from_its_first_leader() {
    let mut desk = Desk::following();
    desk.error(56);
    let old = desk.demand().stamp;
    recreated(&mut desk);
    assert_eq!(*desk.route.state(), State::Parked);
    assert_eq!(desk.reasons(), [Reason::TopicRecreated]);
    assert!(resolves(&desk, Resolve::Anew) && desk.refreshed());
    assert!(!desk.route.is_cooling(B2, desk.now), "brokers start over");
    assert_eq!(old.check(&desk.route.current()), Some(Gate::G1));

    desk.leads(Some(B3), 0);
    assert_eq!(desk.reasons(), [Reason::LeaderChanged]);
    assert_eq!(desk.route.leadership().epoch, Some(LeaderEpoch(0)));
    let (generation, found) = (
        desk.route.position_generation(),
        Found::Offset {
            offset: Offset(0),
            epoch: None,
            source: Source::Reset,
        },
    );
    desk.input(Input::Resolved { generation, found });
    let demand = desk.demand();
    assert_eq!((demand.stamp.broker, demand.stamp.offset), (B3, Offset(0)));
    assert_eq!(demand.stamp.topic, TopicIncarnation(1));
    assert!(demand.topic_id.is_some());
}

#[test]
fn r42_the_same_incarnation_twice_is_news_once() {
    let mut desk = Desk::new();
    recreated(&mut desk);
    desk.leads(Some(B3), 0);
    recreated(&mut desk);
    assert!(desk.at_leader() && desk.said.is_empty());
}

#[test]
fn r42_a_topic_that_is_gone_is_parked_and_told_once() {
    let mut desk = Desk::following();
    desk.input(Input::TopicGone);
    assert_eq!(*desk.route.state(), State::Parked);
    assert_eq!(desk.reasons(), [Reason::TopicGone]);
    assert!(desk.told(&Event::TopicGone));
    desk.input(Input::TopicGone);
    assert!(desk.said.is_empty());
    desk.input(Input::LeaderLost);
    assert_eq!(*desk.route.state(), State::Parked);
}

#[test]
fn r42_a_topic_that_comes_back_is_asked_about_again() {
    let mut desk = Desk::new();
    desk.error(1);
    desk.input(Input::TopicGone);
    desk.leads(Some(B3), 6);
    assert!(desk.at_leader());
    let (offset, epoch) = (Offset(100), None);
    assert!(resolves(&desk, Resolve::OutOfRange { offset, epoch }));
    assert_eq!(desk.route.position(), Position::Resolving);
}

/// routing.md R42: what the group committed of the former topic is no position in this one.
#[test]
fn r42_a_topic_lost_before_its_first_position_is_asked_about_anew() {
    let mut desk = Desk::new();
    recreated(&mut desk);
    desk.input(Input::TopicGone);
    desk.leads(Some(B3), 6);
    assert!(resolves(&desk, Resolve::Anew) && !resolves(&desk, Resolve::Start));
}
