//! Refusals and waits that must neither last for ever nor run at network speed.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, hint, stay};
use crate::ids::{MetadataVersion, Offset, PositionGeneration};
use crate::routing::{Event, Found, Hold, Input, IsrPolicy, Source, State, Why};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_row_that_speaks_of_the_session_is_not_asked_for_again_at_once() {
    for code in [70, 71, 106] {
        for (mut desk, reads) in [(Desk::new(), B1), (Desk::following(), B2)] {
            desk.error(code);
            assert!(desk.route.standing_demand().is_none(), "{code} at {reads}");
            desk.pass(SECOND);
            assert_eq!(desk.demand().stamp.broker, reads, "{code}");
        }
    }
}

/// Seconds until something is fetched again, and whether metadata was asked for meanwhile.
fn fenced(desk: &mut Desk) -> (u64, bool) {
    desk.error(74);
    let mut refreshed = desk.refreshed();
    for second in 0..60 {
        if desk.route.standing_demand().is_some() {
            return (second, refreshed);
        }
        desk.pass(SECOND);
        refreshed |= desk.refreshed();
    }
    panic!("nothing is fetched any more");
}

#[test]
fn r27_a_leader_that_fences_the_only_epoch_there_is_stops_nobody_for_good() {
    let mut desk = Desk::new();
    let (waited, refreshed) = fenced(&mut desk);
    assert!((5..30).contains(&waited) && refreshed, "{waited} s");
    for _ in 0..3 {
        let (waited, refreshed) = fenced(&mut desk);
        assert!((1..=2).contains(&waited) && refreshed, "{waited} s");
    }
    desk.row(stay());
    assert!(desk.at_leader());
    let (waited, _) = fenced(&mut desk);
    assert!(
        waited >= 5,
        "an answer proves that it was right: {waited} s"
    );
}

#[test]
fn h7_a_replica_listed_offline_is_not_dialled_and_asked_about_once_it_is_back() {
    let mut desk = Desk::new();
    let replicas = |offline: &[_]| Input::ReplicasChanged {
        replicas: [B1, B2, B3].into(),
        offline: offline.into(),
    };
    desk.input(replicas(&[B2]));
    desk.row(hint(2));
    assert_eq!(desk.why(), Some(Why::UnknownBroker(B2)));
    assert!(desk.refreshed() && !desk.dialled(B2));
    desk.input(replicas(&[]));
    desk.input(Input::MetadataVersion(MetadataVersion(2)));
    desk.probed(hint(2));
    desk.land();
    assert_eq!(desk.follower(), Some(B2));
}

#[test]
fn r27_a_seek_ends_no_fence_and_stops_nobody_from_asking() {
    let mut desk = Desk::new();
    desk.error(74);
    let (offset, epoch) = (Offset(0), None);
    desk.input(Input::Seek { offset, epoch });
    assert!(desk.route.standing_demand().is_none(), "still fenced");
    assert!(desk.refreshed());
    let mut refreshes = 0;
    for _ in 0..60 {
        desk.pass(SECOND);
        refreshes += usize::from(desk.refreshed());
    }
    assert!(refreshes >= 5, "asked {refreshes} times");
    assert!(desk.route.standing_demand().is_some(), "fetched, slowly");
}

/// Reading from 2 when the leader names 3, which is out of sync.
fn outside() -> Desk {
    let mut desk = Desk::following();
    desk.isr(&[1, 2]);
    desk.pass(SECOND * 331);
    desk.probed(hint(3));
    assert!(desk.refreshed(), "7.2 step 1");
    desk
}

#[test]
fn h11_on_a_follower_metadata_is_asked_again_after_the_second_refusal() {
    let mut desk = outside();
    desk.pass(SECOND * 31);
    desk.probed(hint(3));
    assert_eq!(desk.follower(), Some(B2));
    desk.pass(SECOND * 2);
    assert!(desk.refreshed(), "7.2 step 3");
}

#[test]
fn h12_the_patience_with_a_dial_ends_no_wait_for_the_isr() {
    let mut desk = Desk::following();
    desk.link(
        B3,
        crate::routing::Class::Rack,
        crate::routing::LinkChange::Lost,
    );
    desk.pass(SECOND * 331);
    desk.probed(hint(3));
    assert!(desk.dialled(B3));
    desk.isr(&[1, 2]);
    desk.row(hint(3));
    desk.probed(hint(3));
    desk.pass(SECOND);
    desk.isr(&[1, 2, 3]);
    assert!(desk.dialled(B3), "7.2 step 2");
}

#[test]
fn r35_a_trial_goes_on_as_a_trial_also_outside_the_isr_view_under_advise() {
    let mut desk = Desk::with(|settings| settings.isr = IsrPolicy::Advise);
    desk.isr(&[1, 3]);
    desk.row(hint(2));
    let Some(Hold::Trial(lease)) = desk.route.state().hold() else {
        panic!("{:?}", desk.route.state());
    };
    for _ in 0..40 {
        match desk.route.standing_demand() {
            Some(demand) if demand.stamp.broker == B2 => desk.error(75),
            Some(_) | None => desk.pass(SECOND / 20),
        }
    }
    assert_eq!(desk.why(), Some(Why::NotYet(B2)));
    desk.pass(SECOND * 5);
    desk.land();
    let hold = Hold::Trial(lease);
    assert_eq!(*desk.route.state(), State::Follower { broker: B2, hold });
}

#[test]
fn a_position_that_waits_for_its_leader_raises_the_gauge_and_no_other_does() {
    let mut desk = Desk::new();
    desk.error(1);
    desk.pass(SECOND * 60);
    let raised = Event::LeaderUnreachable(true);
    assert!(!desk.told(&raised), "it may be the coordinator's turn");
    let generation = desk.route.position_generation();
    let old = PositionGeneration(generation.0 - 1);
    desk.input(Input::Unanswered { generation: old });
    assert!(!desk.told(&raised));
    desk.input(Input::Unanswered { generation });
    assert!(desk.told(&raised));
    let found = Found::Offset {
        offset: Offset(100),
        epoch: None,
        source: Source::Inside,
    };
    desk.input(Input::Resolved { generation, found });
    assert!(desk.told(&Event::LeaderUnreachable(false)));
}
