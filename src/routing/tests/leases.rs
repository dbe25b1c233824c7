//! R1 to R4, R17 to R22, R33 to R35, R37 to R41.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, assigned, error, hint, stay};
use crate::ids::{LeaderEpoch, Offset};
use crate::routing::{
    Assigned, Class, Event, Found, Hold, Input, LinkChange, Output, Position, Reason, Source,
    State, Verdict,
};

#[test]
fn r1_an_assigned_partition_reads_from_its_leader() {
    let desk = Desk::new();
    assert!(desk.at_leader());
    assert_eq!(desk.reasons(), [Reason::Assigned]);
    assert_eq!(
        (desk.demand().stamp.broker, desk.demand().stamp.offset),
        (B1, Offset(100))
    );
}

#[test]
fn r1_a_position_with_an_epoch_is_validated_first() {
    let mut desk = Desk::new();
    desk.input(Input::Revoked);
    let position = Some((Offset(100), Some(LeaderEpoch(4))));
    desk.input(Input::Assigned(Assigned {
        position,
        ..assigned(2)
    }));
    assert!(desk.validates() && desk.route.standing_demand().is_none());
    let generation = desk.route.position_generation();
    desk.input(Input::Validated {
        generation,
        verdict: Verdict::Agrees,
    });
    assert_eq!(desk.demand().stamp.offset, Offset(100));
}

#[test]
fn r1_an_unknown_position_is_resolved_and_a_commit_with_an_epoch_validated() {
    let mut desk = Desk::new();
    desk.input(Input::Revoked);
    desk.input(Input::Assigned(Assigned {
        position: None,
        ..assigned(2)
    }));
    assert!(desk.resolves());
    assert_eq!(desk.route.position(), Position::Resolving);
    let generation = desk.route.position_generation();
    let offset = Offset(7);
    let found = Found::Offset {
        offset,
        epoch: Some(LeaderEpoch(3)),
        source: Source::Committed,
    };
    desk.input(Input::Resolved { generation, found });
    assert!(desk.validates());
}

#[test]
fn r1_without_an_addressable_leader_the_route_is_parked_until_there_is_one() {
    let mut desk = Desk::new();
    desk.input(Input::Revoked);
    let mut nobody = assigned(2);
    nobody.leadership.addressable = false;
    desk.input(Input::Assigned(nobody));
    assert_eq!(*desk.route.state(), State::Parked);
    assert!(desk.refreshed());
    desk.leads(Some(B1), 5);
    assert!(desk.at_leader());
    assert_eq!(desk.demand().stamp.broker, B1);
}

#[test]
fn r2_a_higher_epoch_moves_every_state_to_the_new_leader_and_validates() {
    let mut desk = Desk::following();
    desk.records(110);
    desk.leads(Some(B3), 6);
    assert!(desk.at_leader() && desk.validates());
    assert_eq!(desk.reasons(), [Reason::LeaderChanged]);
    assert!(desk.route.standing_demand().is_none());
    let generation = desk.route.position_generation();
    desk.input(Input::Validated {
        generation,
        verdict: Verdict::Agrees,
    });
    let stamp = desk.demand().stamp;
    assert_eq!((stamp.broker, stamp.epoch), (B3, Some(LeaderEpoch(6))));
}

#[test]
fn r2_restated_leadership_is_no_input() {
    let mut desk = Desk::following();
    desk.leads(Some(B1), 5);
    assert_eq!((desk.follower(), desk.said.len()), (Some(B2), 0));
}

#[test]
fn r2_the_cooldowns_of_a_new_leader_end() {
    let mut desk = Desk::following();
    desk.error(56);
    assert!(desk.route.is_cooling(B2, desk.now));
    desk.leads(Some(B2), 6);
    assert!(!desk.route.is_cooling(B2, desk.now));
    assert_eq!(desk.demand().stamp.broker, B2);
}

#[test]
fn r3_without_a_leader_the_route_is_parked() {
    let mut desk = Desk::following();
    desk.leads(None, 6);
    assert_eq!(*desk.route.state(), State::Parked);
    assert!(desk.refreshed());
    assert!(desk.route.standing_demand().is_none());
}

#[test]
fn r4_a_lost_leader_is_kept_while_its_link_is_ready() {
    let mut desk = Desk::new();
    desk.input(Input::LeaderLost);
    assert!(desk.at_leader() && desk.refreshed());

    let mut desk = Desk::following();
    desk.input(Input::LeaderLost);
    assert_eq!(desk.follower(), Some(B2), "what it has is committed");

    let mut desk = Desk::new();
    desk.isr(&[1]);
    desk.link(B1, Class::Rack, LinkChange::Lost);
    desk.input(Input::LeaderLost);
    assert_eq!(*desk.route.state(), State::Parked);
    desk.leads(Some(B1), 5);
    assert!(desk.at_leader(), "the same epoch regained");
}

#[test]
fn r17_a_hint_to_the_follower_being_read_renews_its_lease_silently() {
    let mut desk = Desk::following();
    let first = desk.route.state().lease().unwrap();
    desk.pass(Duration::from_secs(331));
    assert!(desk.asked_probe(), "R33");
    assert_eq!(desk.demand().stamp.broker, B2, "reading goes on");
    desk.probed(hint(2));
    let second = desk.route.state().lease().unwrap();
    assert!(second.ask_at > first.stop_at - Duration::from_secs(60));
    assert_eq!(desk.reasons(), []);
}

#[test]
fn r18_a_probe_moves_to_the_replica_it_names_after_the_fetch_in_flight() {
    let mut desk = Desk::following();
    desk.pass(Duration::from_secs(331));
    desk.probed(hint(3));
    assert_eq!(desk.follower(), Some(B2));
    let stamp = desk.route.stamp(
        B2,
        crate::routing::Lane::Rack,
        crate::routing::Role::Follower,
        crate::routing::Kind::Reading,
    );
    let row = crate::wire::api::fetch::Row {
        records: vec![0; 10].into(),
        ..stay()
    };
    desk.input(Input::Row {
        stamp,
        row,
        inconclusive: false,
    });
    assert!(
        desk.said
            .iter()
            .any(|output| matches!(output, Output::Deliver(_)))
    );
    assert_eq!(desk.follower(), Some(B3));
    assert_eq!(desk.reasons(), [Reason::ProbeMoved]);
}

#[test]
fn a_deferred_change_waits_no_longer_than_the_hedge_deadline() {
    let mut desk = Desk::following();
    desk.pass(Duration::from_secs(331));
    desk.probed(hint(3));
    desk.pass(Duration::from_millis(2_499));
    assert_eq!(desk.follower(), Some(B2));
    desk.pass(Duration::from_millis(1));
    assert_eq!(desk.follower(), Some(B3));
}

#[test]
fn r40_a_mute_moves_what_waits_for_the_muted_broker() {
    let mut desk = Desk::following();
    desk.pass(Duration::from_secs(331));
    desk.probed(hint(3));
    let until = desk.now + Duration::from_secs(10);
    desk.input(Input::Throttled { broker: B2, until });
    desk.pass(Duration::from_millis(12_499));
    assert_eq!(desk.follower(), Some(B2));
    desk.pass(Duration::from_millis(1));
    assert_eq!(desk.follower(), Some(B3));
}

#[test]
fn r21_a_failed_probe_is_repeated_while_reading_goes_on() {
    let mut desk = Desk::following();
    desk.pass(Duration::from_secs(331));
    let mut waits = Vec::new();
    for _ in 0..6 {
        let stamp = desk.probe().stamp;
        desk.input(Input::ProbeFailed { stamp });
        let failed = desk.now;
        while !desk.asked_probe() {
            desk.pass(Duration::from_millis(10));
        }
        waits.push(desk.now.since(failed).as_secs_f64());
        assert_eq!(desk.demand().stamp.broker, B2);
    }
    for (step, wait) in (0_i32..).zip(waits) {
        let plain = 2_f64.powi(step).min(30.0);
        assert!((wait / plain - 1.0).abs() <= 0.22, "step {step}: {wait}");
    }
}

#[test]
fn r22_out_of_range_in_a_probe_is_the_leaders_word() {
    let mut desk = Desk::following();
    desk.pass(Duration::from_secs(331));
    desk.probed(error(1));
    assert!(desk.resolves());
    assert_eq!(desk.route.position(), Position::Resolving);
    assert!(desk.route.standing_demand().is_none());
}

#[test]
fn r34_the_hard_stop_returns_to_a_leader_in_reach() {
    let mut desk = Desk::following();
    let lease = desk.route.state().lease().unwrap();
    desk.pass(lease.stop_at.since(desk.now));
    assert_eq!(desk.follower(), Some(B2), "the fetch in flight is paid for");
    desk.drained();
    assert!(desk.at_leader());
    assert_eq!(desk.reasons(), [Reason::LeaseHardStop]);
}

#[test]
fn r34_an_unreachable_leader_is_no_better_and_the_lease_is_overdue() {
    let mut desk = Desk::following();
    for class in [Class::Rack, Class::NoRack, Class::Control] {
        desk.link(B1, class, LinkChange::Lost);
    }
    desk.pass(Duration::from_secs(661));
    assert_eq!(desk.follower(), Some(B2));
    assert!(
        desk.said
            .contains(&Output::Event(Event::LeaseOverdue(true)))
    );
    assert_eq!(desk.demand().stamp.broker, B2);
    desk.link(B1, Class::Control, LinkChange::Ready);
    desk.drained();
    assert!(desk.at_leader());
}

#[test]
fn r37_a_seek_keeps_the_route() {
    let mut desk = Desk::following();
    let generation = desk.route.position_generation();
    desk.input(Input::Seek {
        offset: Offset(500),
        epoch: None,
    });
    assert_eq!(desk.follower(), Some(B2));
    assert_eq!(desk.demand().stamp.offset, Offset(500));
    assert_eq!(desk.route.position_generation().0, generation.0 + 1);
}

#[test]
fn r38_r39_a_paused_partition_neither_fetches_nor_probes() {
    let mut desk = Desk::following();
    desk.input(Input::Pause);
    assert!(desk.route.standing_demand().is_none());
    desk.pass(Duration::from_secs(400));
    assert!(!desk.asked_probe());
    desk.input(Input::Resume);
    assert!(desk.asked_probe(), "the lease has passed");
    assert_eq!(desk.demand().stamp.broker, B2, "and reading goes on");
}

#[test]
fn r39_after_the_hard_stop_fetching_waits_for_the_probe_or_two_seconds() {
    let mut desk = Desk::following();
    desk.input(Input::Pause);
    desk.drained();
    desk.pass(Duration::from_secs(720));
    assert_eq!(desk.follower(), Some(B2));
    desk.input(Input::Resume);
    assert!(desk.asked_probe() && desk.route.standing_demand().is_none());
    let mut unanswered = desk.clone();
    desk.probed(hint(2));
    assert_eq!(desk.demand().stamp.broker, B2);
    unanswered.pass(Duration::from_secs(2));
    assert!(unanswered.at_leader());
}

#[test]
fn back_pressure_withholds_the_next_fetch_only() {
    let mut desk = Desk::following();
    desk.input(Input::Room(false));
    assert!(
        desk.said
            .iter()
            .any(|output| matches!(output, Output::Drain { .. }))
    );
    desk.input(Input::Room(true));
    assert_eq!(desk.demand().stamp.broker, B2);
}

#[test]
fn r41_a_revoked_partition_forgets_everything() {
    let mut desk = Desk::following();
    desk.error(56);
    desk.input(Input::Revoked);
    assert_eq!(
        (desk.route.state(), desk.route.position()),
        (&State::Parked, Position::Unset)
    );
    assert_eq!(desk.reasons(), [Reason::Revoked]);
    assert!(
        desk.said
            .iter()
            .any(|output| matches!(output, Output::Withdraw { .. }))
    );
    assert!(!desk.route.is_cooling(B2, desk.now));
    assert_eq!(desk.route.next_deadline(), None);
}

#[test]
fn without_epochs_a_follower_is_read_on_trial_only() {
    let mut desk = Desk::new();
    desk.input(Input::Revoked);
    let mut old = assigned(2);
    old.leadership.epoch = None;
    old.isr_epoch = None;
    desk.input(Input::Assigned(old));
    desk.row(hint(2));
    assert!(matches!(
        desk.route.state(),
        State::Follower {
            hold: Hold::Trial(_),
            ..
        }
    ));
}

#[test]
fn a_confirmed_truncation_moves_the_fetch_end_and_is_told() {
    let mut desk = Desk::following();
    desk.records(850);
    desk.leads(Some(B3), 6);
    let generation = desk.route.position_generation();
    let verdict = Verdict::Truncated {
        to: Offset(800),
        epoch: Some(LeaderEpoch(5)),
    };
    desk.input(Input::Validated {
        generation,
        verdict,
    });
    let (from, to) = (Offset(850), Offset(800));
    assert!(desk.said.contains(&Output::Truncate { from, to }));
    let epochs = (Some(LeaderEpoch(5)), Some(LeaderEpoch(5)));
    let told = Event::Truncated { from, to, epochs };
    assert!(desk.said.contains(&Output::Event(told)));
    assert_eq!(desk.demand().stamp.offset, to);
}

#[test]
fn an_answer_of_an_earlier_question_is_dropped() {
    let mut desk = Desk::following();
    desk.records(850);
    desk.leads(Some(B3), 6);
    let generation = desk.route.position_generation();
    desk.leads(Some(B1), 7);
    let verdict = Verdict::Truncated {
        to: Offset(800),
        epoch: None,
    };
    desk.input(Input::Validated {
        generation,
        verdict,
    });
    assert_eq!(desk.route.fetch_end(), Offset(850));
    assert_eq!(desk.route.position(), Position::Validating);
}

/// runtime.md B7: 2 KiB for everything an idle partition keeps.
#[test]
fn an_idle_route_is_small() {
    let size = size_of::<crate::routing::Route>();
    assert!(size <= 1_216, "{size} bytes");
}
