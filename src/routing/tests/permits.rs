//! R31: permits of the breaker, and who waits for one.

use std::time::Duration;

use super::desk::{B2, B3, Desk, hint};
use crate::routing::{Breaker, Input, Output, State, Until, Why};

const SECOND: Duration = Duration::from_secs(1);

/// The breaker of 2 opened and readmits: this partition has just been let back to 2.
fn readmitted() -> Desk {
    let mut desk = Desk::following();
    desk.brokers.entry(B2).breaker = Breaker::Open(desk.now + SECOND);
    desk.input(Input::BreakerOpened { broker: B2 });
    desk.land();
    desk.brokers.entry(B2).breaker = Breaker::Readmitting;
    desk.input(Input::Readmitted { broker: B2 });
    desk.probed(hint(2));
    desk.land();
    assert_eq!(desk.follower(), Some(B2));
    desk
}

fn waits_for_a_permit(desk: &Desk) -> bool {
    matches!(
        desk.route.state(),
        State::Forced {
            why: Why::Cooldown(B2),
            until: Until::Permit,
            ..
        }
    )
}

fn queued(desk: &Desk) -> bool {
    desk.said.contains(&Output::Cooling {
        broker: B2,
        fault: None,
    })
}

#[test]
fn r31_a_fault_of_its_own_after_a_readmission_leaves_no_partition_waiting_unqueued() {
    for code in [3, 6, 56, 1] {
        let mut desk = readmitted();
        desk.error(code);
        let mut was_queued = queued(&desk);
        for _ in 0..60 {
            desk.pass(SECOND);
            was_queued |= queued(&desk);
        }
        assert!(
            waits_for_a_permit(&desk),
            "{code}: {:?}",
            desk.route.state()
        );
        assert!(was_queued, "{code}");
        desk.input(Input::Readmitted { broker: B2 });
        assert!(desk.asked_probe(), "{code}");
    }
}

#[test]
fn r30_whoever_is_forced_by_a_breaker_stands_in_its_queue() {
    let mut desk = Desk::following();
    desk.brokers.entry(B2).breaker = Breaker::Open(desk.now + SECOND);
    desk.input(Input::BreakerOpened { broker: B2 });
    assert!(waits_for_a_permit(&desk) && queued(&desk));
}

#[test]
fn a_breaker_that_closes_ends_the_wait_for_its_permit() {
    let mut desk = Desk::following();
    desk.brokers.entry(B2).breaker = Breaker::Open(desk.now + SECOND);
    desk.input(Input::BreakerOpened { broker: B2 });
    desk.land();
    desk.brokers.entry(B2).breaker = Breaker::Closed;
    desk.input(Input::BreakerClosed { broker: B2 });
    assert!(desk.asked_probe());
}

#[test]
fn r31_a_permit_is_void_once_the_breaker_opens_again() {
    let mut desk = readmitted();
    desk.brokers.entry(B2).breaker = Breaker::Open(desk.now + SECOND);
    desk.input(Input::BreakerOpened { broker: B2 });
    desk.brokers.entry(B2).breaker = Breaker::Readmitting;
    desk.row(hint(2));
    desk.pass(SECOND * 20);
    assert!(waits_for_a_permit(&desk), "{:?}", desk.route.state());
}

#[test]
fn r31_a_permit_serves_a_partition_that_reads_another_replica_meanwhile() {
    let mut desk = Desk::new();
    desk.row(hint(3));
    desk.brokers.entry(B2).breaker = Breaker::Readmitting;
    desk.pass(SECOND * 331);
    desk.probed(hint(2));
    assert_eq!(desk.follower(), Some(B3));
    assert!(queued(&desk), "H8");
    desk.input(Input::Readmitted { broker: B2 });
    desk.probed(hint(2));
    desk.land();
    assert_eq!(desk.follower(), Some(B2));
}
