//! R40, and inputs that do nothing.

use std::time::Duration;

use super::desk::{B1, B2, Desk};
use crate::ids::{Moment, Offset, TopicIncarnation};
use crate::routing::{Class, Input, Output, State};

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
    desk.brokers.entry(B1).rack_silent = true;
    let (broker, class) = (B1, Class::Rack);
    let inputs = [
        Input::Tick,
        Input::Silent { broker, class },
        Input::Quiet { broker, class },
        Input::BreakerClosed { broker },
        Input::TopicGone,
        Input::TopicRecreated {
            incarnation: TopicIncarnation(1),
            id: crate::ids::TopicId(uuid::Uuid::from_u128(1)),
        },
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
                .any(|output| matches!(output, Output::Want(_) | Output::Event(_)))
        );
        assert_eq!(*desk.route.state(), State::Parked);
    }
}

#[test]
fn r41_a_revoked_partition_looks_for_no_leader_any_more() {
    let mut desk = Desk::new();
    desk.isr(&[1]);
    desk.brokers
        .entry(B1)
        .set_link(Class::Rack, crate::routing::Link::Down);
    desk.input(Input::LeaderLost);
    desk.input(Input::Revoked);
    assert_eq!(desk.route.next_deadline(), None);
    assert!(!desk.route.alert && !desk.route.gauges.unreachable);
}
