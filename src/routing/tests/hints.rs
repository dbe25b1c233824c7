//! H1 to H13, and with them R9 to R12, R15, R17 to R20.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, hint, stay};
use crate::ids::{BrokerId, LeaderEpoch, MetadataVersion, Offset};
use crate::routing::{
    Breaker, Class, Count, Fault, FollowHints, Hold, Input, IsrPolicy, Lane, LinkChange, Output,
    Reason, State, Until, Why,
};
use crate::wire::api::fetch::Row;

#[test]
fn h1_a_hint_in_an_error_row_or_of_a_follower_is_ignored() {
    let mut desk = Desk::new();
    desk.row(Row {
        preferred_read_replica: Some(B2),
        ..super::desk::error(6)
    });
    assert!(desk.at_leader());

    let mut desk = Desk::following();
    desk.row(hint(3));
    assert_eq!(desk.follower(), Some(B2));
    assert!(desk.said.contains(&Output::Count(Count::Hint("H1"))));
    assert!(desk.asked_probe(), "R15: the leader is asked");
}

#[test]
fn h2_records_that_come_with_a_hint_are_taken_first() {
    let mut desk = Desk::new();
    desk.row(Row {
        records: vec![1; 10].into(),
        ..hint(2)
    });
    assert!(matches!(
        desk.said[0],
        Output::Count(_) | Output::Deliver(_)
    ));
    assert!(
        desk.said
            .iter()
            .any(|output| matches!(output, Output::Deliver(_)))
    );
    assert_eq!(desk.follower(), Some(B2));
    assert!(
        desk.route.standing_demand().is_none(),
        "the next offset is not known yet"
    );
    let epoch = Some(LeaderEpoch(5));
    let fetch_end = Offset(110);
    desk.input(Input::Indexed(crate::routing::Indexed::Advanced {
        fetch_end,
        epoch,
    }));
    assert_eq!(
        (desk.demand().stamp.broker, desk.demand().stamp.offset),
        (B2, fetch_end)
    );
}

#[test]
fn h3_stay_keeps_the_leader_and_from_a_probe_brings_it_back() {
    let mut desk = Desk::new();
    desk.row(stay());
    assert!(desk.at_leader());
    assert_eq!(desk.reasons(), []);

    let mut desk = Desk::following();
    desk.pass(Duration::from_secs(331));
    desk.probed(stay());
    assert_eq!(
        desk.follower(),
        Some(B2),
        "R20 waits for the fetch in flight"
    );
    desk.drained();
    assert!(desk.at_leader());
    assert_eq!(desk.reasons(), [Reason::LeaderSaidStay]);
}

#[test]
fn h4_a_hint_without_a_rack_drops_the_lane_and_says_nothing_of_preference() {
    let mut desk = Desk::with(|settings| settings.follow_hints = FollowHints::Never);
    desk.row(hint(2));
    assert_eq!(desk.route.served(), Some((B1, Lane::NoRack)));
    desk.row(hint(2));
    assert_eq!(desk.why(), Some(Why::Policy));
    assert!(desk.said.contains(&Output::DropLane { broker: B1 }));
    desk.brokers.entry(B1).v10 = true;
    let generation = desk.route.generation();
    desk.input(Input::LaneDropped { broker: B1 });
    desk.drained();
    assert_eq!(desk.route.served(), Some((B1, Lane::V10)));
    assert_eq!(desk.route.generation().0, generation.0 + 1);
    assert_eq!(desk.demand().stamp.lane, Lane::V10);
}

#[test]
fn h5_policy_forces_until_the_next_epoch() {
    let rules = [FollowHints::Never, FollowHints::Rack];
    for rule in rules {
        let mut desk = Desk::with(|settings| {
            settings.follow_hints = rule;
            settings.client_rack = None;
        });
        desk.row(hint(2));
        assert_eq!(desk.why(), Some(Why::Policy));
        desk.leads(Some(B1), 6);
        assert!(desk.at_leader());
    }
}

#[test]
fn h6_a_leader_that_hints_itself_twice_without_records_is_read_without_a_rack() {
    let mut desk = Desk::new();
    desk.row(hint(1));
    assert!(desk.at_leader());
    desk.row(Row {
        records: vec![1; 10].into(),
        ..hint(1)
    });
    let epoch = Some(LeaderEpoch(5));
    let fetch_end = Offset(110);
    desk.input(Input::Indexed(crate::routing::Indexed::Advanced {
        fetch_end,
        epoch,
    }));
    desk.row(hint(1));
    assert!(desk.at_leader(), "records in between start the count anew");
    desk.row(hint(1));
    assert_eq!(desk.why(), Some(Why::SelfHint));
    desk.pass(Duration::from_secs(30));
    assert!(desk.asked_probe());
}

#[test]
fn h7_an_unknown_broker_is_asked_about_at_most_once_per_second() {
    let mut desk = Desk::new();
    desk.row(hint(9));
    assert_eq!(desk.why(), Some(Why::UnknownBroker(BrokerId(9))));
    assert!(desk.refreshed());
    assert!(desk.route.watches_versions());
    desk.pass(Duration::from_millis(300));
    desk.input(Input::MetadataVersion(MetadataVersion(2)));
    desk.probed(hint(9));
    assert!(!desk.refreshed(), "0.3 s after the last one");
    desk.pass(Duration::from_millis(701));
    assert!(desk.refreshed());
    let facts = desk.brokers.entry(BrokerId(9));
    facts.addressable = true;
    facts.set_link(Class::Rack, crate::routing::Link::Ready);
    desk.isr(&[1, 2, 3, 9]);
    desk.input(Input::MetadataVersion(MetadataVersion(3)));
    desk.probed(hint(9));
    desk.drained();
    assert_eq!(desk.follower(), Some(BrokerId(9)));
}

#[test]
fn h8_a_cooling_replica_a_closed_breaker_and_an_old_version_are_not_followed() {
    let mut desk = Desk::following();
    desk.error(56);
    desk.leads(Some(B1), 6);
    desk.input(Input::IsrChanged {
        isr: [B1, B2, B3].into(),
        epoch: Some(LeaderEpoch(6)),
    });
    desk.row(hint(2));
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));

    let mut desk = Desk::new();
    desk.brokers.entry(B2).breaker = Breaker::Open(desk.now + Duration::from_secs(9));
    desk.row(hint(2));
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert!(desk.said.contains(&Output::Cooling {
        broker: B2,
        fault: None
    }));

    let mut desk = Desk::new();
    desk.brokers.entry(B2).fetch_version = Some(10);
    desk.row(hint(2));
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert!(
        desk.said
            .contains(&Output::Count(Count::Cooldown(Fault::Version)))
    );
    assert!(
        desk.route
            .is_cooling(B2, desk.now + Duration::from_secs(299))
    );
}

#[test]
fn h9_the_former_leader_is_not_followed_for_a_second() {
    let mut desk = Desk::new();
    desk.leads(Some(B3), 6);
    desk.input(Input::IsrChanged {
        isr: [B1, B2, B3].into(),
        epoch: Some(LeaderEpoch(6)),
    });
    desk.pass(Duration::from_millis(400));
    desk.row(hint(1));
    assert_eq!(desk.why(), Some(Why::FormerLeader(B1)));
    desk.pass(Duration::from_millis(601));
    assert!(desk.asked_probe());
    desk.probed(hint(1));
    desk.drained();
    assert_eq!(desk.follower(), Some(B1));
}

#[test]
fn h10_the_fourth_adoption_in_a_minute_is_held_for_a_second() {
    let mut desk = Desk::new();
    for target in [2, 3, 2] {
        if !desk.at_leader() {
            desk.leads(Some(B1), desk.route.leadership().epoch.unwrap().0 + 1);
            let epoch = desk.route.leadership().epoch;
            desk.input(Input::IsrChanged {
                isr: [B1, B2, B3].into(),
                epoch,
            });
        }
        desk.row(hint(target));
        assert_eq!(desk.follower(), Some(BrokerId(target)));
    }
    desk.leads(Some(B1), 9);
    desk.input(Input::IsrChanged {
        isr: [B1, B2, B3].into(),
        epoch: Some(LeaderEpoch(9)),
    });
    desk.row(hint(3));
    assert_eq!(desk.why(), Some(Why::Flap));
    desk.pass(Duration::from_secs(1));
    assert!(desk.asked_probe());
}

#[test]
fn h11_a_replica_outside_the_isr_view_waits_for_one_refresh() {
    let mut desk = Desk::new();
    desk.isr(&[1, 3]);
    desk.row(hint(2));
    assert_eq!(desk.why(), Some(Why::NotInIsr(B2)));
    assert!(desk.refreshed());
    desk.pass(Duration::from_millis(200));
    desk.isr(&[1, 2, 3]);
    assert!(!desk.asked_probe(), "R5: the pending hint is fresh");
    desk.drained();
    assert_eq!(desk.follower(), Some(B2));
    assert_eq!(desk.reasons(), [Reason::IsrGained]);
}

#[test]
fn h11_a_stale_pending_hint_is_asked_about_instead() {
    let mut desk = Desk::new();
    desk.isr(&[1, 3]);
    desk.row(hint(2));
    desk.pass(Duration::from_secs(31));
    desk.isr(&[1, 2, 3]);
    assert!(desk.asked_probe());
    assert_eq!(desk.why(), Some(Why::NotInIsr(B2)));
}

#[test]
fn h11_the_ladder_of_refreshes_doubles_and_each_version_is_asked_about_once() {
    let mut desk = Desk::new();
    desk.isr(&[1, 3]);
    desk.row(hint(2));
    let mut waits = Vec::new();
    for version in 2..6 {
        desk.input(Input::MetadataVersion(MetadataVersion(version)));
        assert!(desk.asked_probe(), "R8 for version {version}");
        let question = desk.probe();
        desk.input(Input::MetadataVersion(MetadataVersion(version)));
        assert!(!desk.asked_probe());
        desk.input(Input::ProbeRow {
            stamp: question.stamp,
            row: hint(2),
        });
        let asked = desk.now;
        while !desk.refreshed() {
            desk.pass(Duration::from_millis(100));
        }
        waits.push(desk.now.since(asked).as_millis());
    }
    assert_eq!(waits, [1_000, 2_000, 4_000, 8_000]);
}

#[test]
fn h11_under_advise_the_hint_is_followed_on_trial() {
    let mut desk = Desk::with(|settings| settings.isr = IsrPolicy::Advise);
    desk.isr(&[1, 3]);
    desk.row(hint(2));
    assert!(desk.refreshed());
    let State::Follower {
        broker: B2,
        hold: Hold::Trial(lease),
    } = *desk.route.state()
    else {
        panic!("{:?}", desk.route.state());
    };
    assert_eq!(lease.ask_at, desk.now + Duration::from_secs(30));
}

#[test]
fn h12_at_the_leader_nothing_is_fetched_while_the_replica_is_dialled() {
    let mut desk = Desk::new();
    desk.brokers
        .entry(B2)
        .set_link(Class::Rack, crate::routing::Link::Down);
    desk.row(hint(2));
    assert!(desk.at_leader() && desk.dialled(B2));
    assert!(desk.route.standing_demand().is_none());
    desk.pass(Duration::from_millis(100));
    desk.link(B2, Class::Rack, LinkChange::Ready);
    assert_eq!(desk.follower(), Some(B2));
    assert_eq!(desk.reasons(), [Reason::HintAdopted]);
}

#[test]
fn h12_a_slow_dial_costs_a_quarter_of_a_second() {
    let mut desk = Desk::new();
    desk.brokers
        .entry(B2)
        .set_link(Class::Rack, crate::routing::Link::Down);
    desk.row(hint(2));
    desk.pass(Duration::from_millis(250));
    assert_eq!(desk.why(), Some(Why::Connecting(B2)));
    assert_eq!(desk.demand().stamp.lane, Lane::NoRack);
    desk.link(B2, Class::Rack, LinkChange::Ready);
    desk.drained();
    assert_eq!(desk.follower(), Some(B2));
    assert_eq!(desk.reasons(), [Reason::Connected]);
}

#[test]
fn h12_a_failed_dial_cools_the_replica() {
    let mut desk = Desk::new();
    desk.brokers
        .entry(B2)
        .set_link(Class::Rack, crate::routing::Link::Down);
    desk.row(hint(2));
    desk.link(B2, Class::Rack, LinkChange::Failed);
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)));
    assert_eq!(desk.reasons(), [Reason::Cooldown(Fault::Transport)]);
}

#[test]
fn h12_a_follower_is_read_while_the_next_one_is_dialled() {
    let mut desk = Desk::following();
    desk.brokers
        .entry(B3)
        .set_link(Class::Rack, crate::routing::Link::Down);
    desk.pass(Duration::from_secs(331));
    desk.probed(hint(3));
    assert!(desk.dialled(B3));
    assert_eq!(
        (desk.follower(), desk.demand().stamp.broker),
        (Some(B2), B2)
    );
    let mut late = desk.clone();
    desk.link(B3, Class::Rack, LinkChange::Ready);
    desk.drained();
    assert_eq!(desk.follower(), Some(B3));

    late.pass(Duration::from_millis(250));
    assert_eq!(late.follower(), Some(B2), "R19: stay, on trial");
    assert!(matches!(
        late.route.state(),
        State::Follower {
            hold: Hold::Trial(_),
            ..
        }
    ));
}

#[test]
fn h13_the_next_fetch_leaves_at_once_and_the_route_is_announced_once() {
    let mut desk = Desk::new();
    desk.row(hint(2));
    assert_eq!(desk.reasons(), [Reason::HintAdopted]);
    assert_eq!(desk.demand().stamp.broker, B2);
    assert!(matches!(
        desk.route.state(),
        State::Follower {
            hold: Hold::Full(_),
            ..
        }
    ));
}

#[test]
fn a_repeated_hint_outside_a_probe_changes_nothing() {
    let mut desk = Desk::following();
    let generation = desk.route.generation();
    for _ in 0..3 {
        desk.records(desk.route.fetch_end().0 + 10);
    }
    assert_eq!(desk.route.generation(), generation);
}

#[test]
fn r19_a_refused_hint_of_a_probe_leaves_a_follower_on_trial_and_tells_a_forced_route_why() {
    let mut desk = Desk::following();
    desk.pass(Duration::from_secs(331));
    desk.probed(hint(9));
    assert_eq!(desk.follower(), Some(B2));
    assert!(matches!(
        desk.route.state(),
        State::Follower {
            hold: Hold::Trial(_),
            ..
        }
    ));
    assert!(desk.refreshed());

    let mut desk = Desk::new();
    desk.row(hint(9));
    desk.isr(&[1, 3]);
    desk.input(Input::MetadataVersion(MetadataVersion(2)));
    desk.probed(hint(2));
    assert_eq!(desk.why(), Some(Why::NotInIsr(B2)));
    assert_eq!(desk.reasons(), [], "same broker, same lane: silent");
    assert!(matches!(
        desk.route.state(),
        State::Forced {
            until: Until::Version,
            ..
        }
    ));
}
