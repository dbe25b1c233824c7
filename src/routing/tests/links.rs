//! R5 to R8, R28, R30, R31, R35: members, links, breakers, holds.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, hint};
use crate::routing::{
    Breaker, Class, Fault, Input, Lane, LinkChange, Output, Reason, State, Until, Why,
};

#[test]
fn r6_a_follower_that_leaves_the_isr_is_left_after_the_fetch_in_flight() {
    let mut desk = Desk::following();
    desk.isr(&[1, 3]);
    assert!(desk.asked_probe());
    assert!(
        desk.route.standing_demand().is_none(),
        "no further fetch to it"
    );
    desk.drained();
    assert_eq!(desk.why(), Some(Why::NotInIsr(B2)));
    assert_eq!(desk.reasons(), [Reason::IsrLost]);
    assert_eq!(desk.demand().stamp.lane, Lane::NoRack);
}

#[test]
fn r6_a_follower_that_is_no_replica_any_more_is_left_too() {
    let mut desk = Desk::following();
    desk.input(Input::ReplicasChanged {
        replicas: [B1, B3].into(),
        offline: [].into(),
    });
    desk.drained();
    assert_eq!(desk.why(), Some(Why::NotInIsr(B2)));
}

#[test]
fn r7_a_follower_listed_offline_is_left_at_once() {
    let mut desk = Desk::following();
    let replicas = [B1, B2, B3].into();
    desk.input(Input::ReplicasChanged {
        replicas,
        offline: [B2].into(),
    });
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert_eq!(desk.reasons(), [Reason::ReplicaOffline]);
    assert_eq!(desk.demand().stamp.broker, B1);
}

#[test]
fn r28_a_lost_link_cools_the_follower_and_the_leader_serves_at_once() {
    let mut desk = Desk::following();
    desk.link(B2, Class::Rack, LinkChange::Lost);
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert!(desk.refreshed());
    let transport = Output::Cooling {
        broker: B2,
        fault: Some(Fault::Transport),
    };
    assert!(desk.said.contains(&transport));
    assert_eq!(
        (desk.demand().stamp.broker, desk.demand().stamp.lane),
        (B1, Lane::NoRack)
    );
}

#[test]
fn r28_the_leader_is_kept_when_its_link_is_lost() {
    let mut desk = Desk::new();
    desk.link(B1, Class::Rack, LinkChange::Lost);
    assert!(desk.at_leader() && desk.refreshed());
    assert_eq!(
        desk.demand().stamp.broker,
        B1,
        "the demand waits for the link"
    );
}

#[test]
fn another_connection_of_the_follower_is_no_reason_to_leave_it() {
    let mut desk = Desk::following();
    desk.link(B2, Class::Control, LinkChange::Lost);
    desk.link(B3, Class::Rack, LinkChange::Lost);
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn a_cooled_replica_is_dialled_before_it_costs_a_probe() {
    let mut desk = Desk::following();
    desk.link(B2, Class::Rack, LinkChange::Lost);
    desk.pass(Duration::from_secs(1));
    assert!(desk.dialled(B2) && !desk.asked_probe());
    desk.link(B2, Class::Rack, LinkChange::Failed);
    assert!(matches!(
        desk.route.state(),
        State::Forced {
            until: Until::At(_),
            ..
        }
    ));
    desk.pass(Duration::from_secs(2));
    assert!(desk.dialled(B2));
    desk.link(B2, Class::Rack, LinkChange::Ready);
    assert!(desk.asked_probe(), "R35");
    desk.probed(hint(2));
    desk.drained();
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn another_replica_of_our_rack_is_asked_about_at_once_and_every_half_minute() {
    let mut desk = Desk::following();
    desk.brokers.entry(B3).rack = Some("b".into());
    desk.error(29);
    desk.pass(Duration::ZERO);
    assert!(desk.asked_probe());
    desk.probed(hint(2));
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    let probes = (0..100).filter(|_| {
        desk.pass(Duration::from_secs(1));
        let asked = desk.asked_probe();
        if asked {
            desk.probed(hint(2));
        }
        asked
    });
    assert_eq!(probes.count(), 3);
}

#[test]
fn r30_r31_an_open_breaker_empties_the_broker_and_permits_lead_to_probes() {
    let mut desk = Desk::following();
    desk.brokers.entry(B2).breaker = Breaker::Open(desk.now + Duration::from_secs(1));
    desk.input(Input::BreakerOpened { broker: B2 });
    assert_eq!(desk.reasons(), [Reason::BreakerOpen]);
    assert!(matches!(
        desk.route.state(),
        State::Forced {
            until: Until::Permit,
            ..
        }
    ));
    assert!(desk.said.contains(&Output::Cooling {
        broker: B2,
        fault: None
    }));
    desk.pass(Duration::from_secs(60));
    assert!(!desk.asked_probe());

    desk.brokers.entry(B2).breaker = Breaker::Readmitting;
    desk.input(Input::Readmitted { broker: B2 });
    assert!(desk.asked_probe());
    desk.probed(hint(2));
    desk.drained();
    assert_eq!(desk.follower(), Some(B2), "its permit lets it through");
}

#[test]
fn r30_a_cooling_partition_waits_for_the_breaker_instead_of_the_clock() {
    let mut desk = Desk::following();
    desk.link(B2, Class::Rack, LinkChange::Lost);
    desk.brokers.entry(B2).breaker = Breaker::Open(desk.now + Duration::from_secs(9));
    desk.input(Input::BreakerOpened { broker: B2 });
    assert_eq!(desk.reasons(), [], "same broker, same lane");
    assert!(matches!(
        desk.route.state(),
        State::Forced {
            until: Until::Permit,
            ..
        }
    ));
}

#[test]
fn r31_other_faults_outlast_the_permit() {
    let mut desk = Desk::following();
    desk.error(29);
    desk.brokers.entry(B2).breaker = Breaker::Readmitting;
    desk.input(Input::Readmitted { broker: B2 });
    assert!(!desk.asked_probe());
    assert!(matches!(
        desk.route.state(),
        State::Forced {
            until: Until::At(_),
            ..
        }
    ));
}

#[test]
fn r35_a_replica_that_was_not_yet_ready_is_read_again_without_a_probe() {
    let mut desk = Desk::following();
    while desk.follower().is_some() {
        desk.error(78);
        desk.pass(Duration::from_millis(500));
    }
    assert_eq!(desk.why(), Some(Why::NotYet(B2)));
    desk.pass(Duration::from_secs(5));
    assert!(!desk.asked_probe());
    desk.drained();
    assert_eq!(desk.follower(), Some(B2));
    assert_eq!(desk.reasons(), [Reason::HoldEnded]);
}

#[test]
fn a_permit_nobody_waits_for_changes_nothing() {
    for mut desk in [Desk::new(), Desk::following()] {
        desk.input(Input::Readmitted { broker: B2 });
        assert!(desk.said.is_empty());
    }
}

#[test]
fn a_replica_that_left_the_isr_again_while_its_turn_was_awaited_is_not_read() {
    let mut desk = Desk::new();
    desk.isr(&[1, 3]);
    desk.row(hint(2));
    desk.isr(&[1, 2, 3]);
    desk.isr(&[1, 3]);
    desk.drained();
    assert_eq!(desk.why(), Some(Why::NotInIsr(B2)));
    assert!(desk.asked_probe());
}
