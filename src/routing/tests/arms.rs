//! Rules that come with refuge, hedges and watchdogs: their arms keep the state and show.

use std::time::Duration;

use super::desk::{B2, Desk, hint, stay};
use crate::ids::{Moment, Offset, PositionGeneration, TopicId, TopicIncarnation};
use crate::routing::{Class, Hold, Input, LinkChange, Output, State};

/// A route on a refuge, a state this release never enters by itself.
fn on_refuge() -> Desk {
    let mut desk = Desk::following();
    desk.route.state = State::Follower {
        broker: B2,
        hold: Hold::Refuge,
    };
    desk
}

fn silent() -> Input {
    Input::Silent {
        broker: B2,
        class: Class::Rack,
    }
}

fn sampled() -> Input {
    Input::Sampled {
        generation: PositionGeneration(1),
        leader_end: Offset(700),
    }
}

fn keeps(mut desk: Desk, input: Input, rule: &'static str) {
    let (state, generation) = (*desk.route.state(), desk.route.generation());
    desk.input(input);
    assert!(desk.not_yet(rule), "{rule}: {:?}", desk.said);
    assert_eq!(
        (*desk.route.state(), desk.route.generation()),
        (state, generation),
        "{rule}"
    );
}

#[test]
fn r29_r36_r42_r43_keep_the_state_and_count() {
    keeps(Desk::following(), silent(), "R29");
    keeps(Desk::following(), sampled(), "R36");
    let recreated = Input::TopicRecreated {
        incarnation: TopicIncarnation(1),
        id: TopicId(uuid::Uuid::from_u128(1)),
    };
    keeps(Desk::new(), recreated, "R42");
    keeps(Desk::following(), Input::TopicGone, "R42");
    keeps(Desk::new(), silent(), "R43");
    keeps(Desk::new(), silent(), "R43");
}

#[test]
fn r13_a_leader_that_answers_and_gives_nothing_is_counted_the_third_time() {
    let mut desk = Desk::new();
    for turn in 1..=3 {
        desk.row(stay());
        assert_eq!(desk.not_yet("R13"), turn == 3);
    }
    assert!(desk.at_leader());
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
        assert!(!desk.not_yet("R13"));
    }
}

#[test]
fn r16_a_follower_empty_below_its_own_end_is_counted_after_a_second() {
    let mut desk = Desk::following();
    desk.row(stay());
    desk.pass(Duration::from_millis(1_000));
    desk.row(stay());
    assert!(desk.not_yet("R16"));
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn r44_probes_on_a_refuge_and_a_resume_there_are_counted() {
    let mut desk = on_refuge();
    desk.input(Input::Pause);
    desk.input(Input::Resume);
    assert!(desk.not_yet("R44"));

    let mut desk = Desk::following();
    desk.pass(Duration::from_secs(331));
    let stamp = desk.probe().stamp;
    desk.route.state = State::Follower {
        broker: B2,
        hold: Hold::Refuge,
    };
    keeps(
        desk.clone(),
        Input::ProbeRow {
            stamp,
            row: hint(2),
        },
        "R44",
    );
    keeps(desk, Input::ProbeFailed { stamp }, "R44");
}

#[test]
fn r45_faults_of_a_refuge_are_counted() {
    let mut lost = on_refuge();
    lost.brokers
        .entry(B2)
        .set_link(Class::Rack, crate::routing::Link::Down);
    let (broker, class, change) = (B2, Class::Rack, LinkChange::Lost);
    keeps(
        lost,
        Input::LinkChanged {
            broker,
            class,
            change,
        },
        "R45",
    );
    keeps(on_refuge(), Input::BreakerOpened { broker: B2 }, "R45");
    keeps(on_refuge(), silent(), "R45");
    keeps(on_refuge(), sampled(), "R45");
    let stamp = on_refuge().demand().stamp;
    let row = super::desk::error(56);
    keeps(
        on_refuge(),
        Input::Row {
            stamp,
            row,
            inconclusive: false,
        },
        "R45",
    );
}

#[test]
fn r40_a_throttle_alone_has_no_route_effect() {
    for mut desk in [Desk::new(), Desk::following()] {
        let state = *desk.route.state();
        let until = desk.now + Duration::from_secs(3);
        desk.input(Input::Throttled { broker: B2, until });
        assert_eq!((*desk.route.state(), desk.said.len()), (state, 0));
    }
}

#[test]
fn inputs_of_an_unassigned_route_do_nothing() {
    let mut desk = Desk::new();
    desk.input(Input::Revoked);
    let inputs = [
        Input::Tick,
        silent(),
        Input::Pause,
        Input::Resume,
        Input::Room(true),
        Input::Seek {
            offset: Offset(1),
            epoch: None,
        },
        Input::Throttled {
            broker: B2,
            until: Moment::from_ms(1),
        },
        Input::Readmitted { broker: B2 },
    ];
    for input in inputs {
        desk.input(input);
        assert!(
            !desk
                .said
                .iter()
                .any(|output| matches!(output, Output::Want(_)))
        );
        assert_eq!(*desk.route.state(), State::Parked);
    }
}
