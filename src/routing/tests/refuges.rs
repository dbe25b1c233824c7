//! R4, R43 to R45, 8.4: no outage while any in-sync replica can be reached.

use std::time::Duration;

use super::desk::{B1, B2, B3, Desk, error, hint, stay};
use crate::ids::{BrokerId, LeaderEpoch, PartitionIndex, TopicPartition};
use crate::routing::{
    Breaker, Class, Event, Fault, Hold, Input, Lane, Link, LinkChange, Output, Position, Reason,
    RefugePolicy, State, Why, Wish,
};

fn is_refuge(desk: &Desk, broker: BrokerId) -> bool {
    desk.follower() == Some(broker) && desk.route.on_refuge()
}

fn control_dialled(desk: &Desk) -> bool {
    let class = Class::Control;
    desk.said.contains(&Output::Dial { broker: B1, class })
}

#[test]
fn r43_a_silent_leader_is_left_for_the_replica_in_our_rack() {
    let mut desk = Desk::new();
    desk.silent(B1, Class::Rack, true);
    assert!(is_refuge(&desk, B2));
    assert_eq!(desk.reasons(), [Reason::Refuge]);
    assert!(desk.refreshed());
    let stamp = desk.demand().stamp;
    assert_eq!((stamp.broker, stamp.lane), (B2, Lane::Rack));
    assert!(!desk.told(&Event::LeaderUnreachable(true)));
}

#[test]
fn r43_is_a_level_judged_again_when_a_link_becomes_ready() {
    let mut desk = Desk::new();
    for broker in [B2, B3] {
        desk.brokers.entry(broker).set_link(Class::Rack, Link::Down);
    }
    desk.silent(B1, Class::Rack, true);
    assert!(desk.at_leader() && desk.dialled(B2) && desk.dialled(B3));
    assert!(desk.told(&Event::LeaderUnreachable(true)));
    assert!(desk.route.concerns(B3), "its link matters now");
    desk.link(B3, Class::Rack, LinkChange::Failed);
    assert!(desk.dialled(B3), "again, as often as its link allows");
    desk.link(B3, Class::Rack, LinkChange::Ready);
    assert!(is_refuge(&desk, B3));
    assert!(desk.told(&Event::LeaderUnreachable(false)));
}

#[test]
fn r43_is_judged_again_when_a_cooldown_ends_or_a_breaker_closes() {
    let mut desk = Desk::following();
    desk.isr(&[1, 2]);
    desk.error(56);
    desk.silent(B1, Class::NoRack, true);
    assert_eq!(desk.why(), Some(Why::Cooldown(B2)), "nobody else");
    desk.pass(Duration::from_secs(30));
    assert_eq!(desk.follower(), Some(B2));

    let mut desk = Desk::new();
    desk.isr(&[1, 2]);
    desk.brokers.entry(B2).breaker = Breaker::Open(desk.now);
    desk.silent(B1, Class::Rack, true);
    assert!(desk.at_leader());
    desk.brokers.entry(B2).breaker = Breaker::Closed;
    desk.input(Input::BreakerClosed { broker: B2 });
    assert!(is_refuge(&desk, B2));
}

#[test]
fn r43_waits_for_the_position_and_for_a_resume() {
    let mut desk = Desk::new();
    desk.input(Input::Pause);
    desk.silent(B1, Class::Rack, true);
    assert!(desk.at_leader());
    desk.input(Input::Resume);
    assert!(is_refuge(&desk, B2));

    let mut desk = Desk::new();
    desk.error(1);
    assert_eq!(desk.route.position(), Position::Resolving);
    desk.silent(B1, Class::Rack, true);
    assert!(desk.at_leader(), "positions are resolved at the leader");
}

#[test]
fn r43_silence_of_the_lane_that_does_not_serve_changes_nothing() {
    let mut desk = Desk::new();
    desk.silent(B1, Class::NoRack, true);
    desk.silent(B3, Class::Rack, true);
    assert!(desk.at_leader());
}

#[test]
fn r43_the_candidate_comes_before_any_refuge_and_keeps_its_lease() {
    let mut desk = Desk::following_with(|settings| settings.client_rack = None);
    let lease = desk.route.state().lease();
    desk.link(B2, Class::Rack, LinkChange::Lost);
    desk.link(B2, Class::Rack, LinkChange::Ready);
    desk.pass(Duration::from_millis(100));
    desk.silent(B1, Class::NoRack, true);
    assert!(is_refuge(&desk, B3), "2 still cools");
    desk.pass(Duration::from_secs(1));
    assert_eq!(desk.follower(), Some(B2), "R45: usable again");
    assert_eq!(desk.route.state().lease(), lease);
}

#[test]
fn r9_a_leader_that_recommends_nobody_ends_the_candidate() {
    let mut desk = Desk::following_with(|settings| settings.client_rack = Some("c".into()));
    desk.pass(Duration::from_secs(331));
    desk.probed(stay());
    desk.drained();
    assert!(desk.at_leader());
    desk.silent(B1, Class::Rack, true);
    assert!(is_refuge(&desk, B3), "our rack, and not the last follower");
}

#[test]
fn a_candidate_of_an_older_epoch_is_none() {
    let mut desk = Desk::following_with(|settings| settings.client_rack = Some("c".into()));
    desk.leads(Some(B1), 6);
    let (isr, epoch) = ([B1, B2, B3].into(), Some(LeaderEpoch(6)));
    desk.input(Input::IsrChanged { isr, epoch });
    desk.silent(B1, Class::Rack, true);
    assert!(is_refuge(&desk, B3));
}

/// Who is no refuge (8.4).
#[test]
fn a_refuge_is_in_sync_reachable_new_enough_and_not_the_leader_of_a_moment_ago() {
    let spoils: [fn(&mut Desk); 7] = [
        |desk| desk.isr(&[1]),
        |desk| desk.brokers.entry(B2).set_link(Class::Rack, Link::Down),
        |desk| desk.brokers.entry(B2).fetch_version = Some(10),
        |desk| desk.brokers.entry(B2).fetch_version = None,
        |desk| desk.brokers.entry(B2).breaker = Breaker::Readmitting,
        |desk| desk.brokers.entry(B2).rack_silent = true,
        |desk| {
            desk.leads(Some(B2), 6);
            desk.leads(Some(B1), 7);
            let (isr, epoch) = ([B1, B2].into(), Some(LeaderEpoch(7)));
            desk.input(Input::IsrChanged { isr, epoch });
        },
    ];
    for (index, spoil) in spoils.into_iter().enumerate() {
        let mut desk = Desk::new();
        desk.isr(&[1, 2]);
        spoil(&mut desk);
        desk.silent(B1, Class::Rack, true);
        assert!(desk.at_leader(), "case {index}");
    }
}

#[test]
fn h9_the_leader_of_a_moment_ago_is_a_refuge_a_second_later() {
    let mut desk = Desk::new();
    desk.leads(Some(B2), 6);
    desk.leads(Some(B1), 7);
    let (isr, epoch) = ([B1, B2].into(), Some(LeaderEpoch(7)));
    desk.input(Input::IsrChanged { isr, epoch });
    desk.silent(B1, Class::Rack, true);
    desk.pass(Duration::from_millis(1_000));
    assert!(is_refuge(&desk, B2));
}

#[test]
fn without_epochs_or_by_setting_there_is_no_refuge() {
    let mut desk = Desk::with(|settings| settings.refuge = RefugePolicy::Never);
    desk.silent(B1, Class::Rack, true);
    assert!(desk.at_leader() && desk.told(&Event::LeaderUnreachable(true)));

    let mut desk = Desk::new();
    desk.input(Input::Revoked);
    let mut old = super::desk::assigned(2);
    old.leadership.epoch = None;
    old.isr_epoch = None;
    desk.input(Input::Assigned(old));
    desk.silent(B1, Class::Rack, true);
    assert!(desk.at_leader());
}

#[test]
fn the_partitions_of_a_dead_link_spread_evenly_over_near_replicas() {
    let mut counts = [0; 4];
    for index in 0..500 {
        let mut desk = Desk::with(|settings| settings.client_rack = None);
        desk.input(Input::Revoked);
        let mut assigned = super::desk::assigned(2);
        assigned.partition = TopicPartition::new("orders", PartitionIndex(index));
        desk.input(Input::Assigned(assigned));
        desk.silent(B1, Class::Rack, true);
        let to = desk.follower().unwrap().0;
        counts[usize::try_from(to).unwrap()] += 1;
    }
    assert!((225..=275).contains(&counts[2]), "{counts:?}");
    assert_eq!(counts[2] + counts[3], 500);
}

#[test]
fn a_replica_far_away_is_no_equal() {
    let near = [(8, 16, 2), (8, 17, 1), (1, 6, 2), (1, 7, 1)];
    for (first, second, expected) in near {
        let mut taken = std::collections::BTreeSet::new();
        for index in 0..40 {
            let mut desk = Desk::with(|settings| settings.client_rack = None);
            desk.input(Input::Revoked);
            let mut assigned = super::desk::assigned(2);
            assigned.partition = TopicPartition::new("orders", PartitionIndex(index));
            desk.input(Input::Assigned(assigned));
            desk.brokers.entry(B2).round_trip = Some(Duration::from_millis(first));
            desk.brokers.entry(B3).round_trip = Some(Duration::from_millis(second));
            desk.silent(B1, Class::Rack, true);
            taken.insert(desk.follower());
        }
        assert_eq!(taken.len(), expected, "{first} and {second} ms: {taken:?}");
    }
}

#[test]
fn r44_the_leader_is_asked_after_five_seconds_and_returned_to_when_it_serves() {
    let mut desk = Desk::on_refuge();
    desk.pass(Duration::from_millis(4_999));
    assert!(!desk.asked_probe());
    desk.pass(Duration::from_millis(1));
    assert!(desk.asked_probe());
    let Some(Output::Probe { wish, .. }) = desk
        .said
        .iter()
        .find(|output| matches!(output, Output::Probe { .. }))
    else {
        panic!("{:?}", desk.said);
    };
    assert_eq!(*wish, Wish::Refuge);
    desk.probed(stay());
    assert!(is_refuge(&desk, B2), "the fetch in flight is waited for");
    desk.drained();
    assert!(desk.at_leader(), "though the facts still call it silent");
    assert_eq!(desk.reasons(), [Reason::RefugeEnded]);
}

#[test]
fn r44_a_hint_for_the_refuge_makes_it_a_follower_without_an_event() {
    let mut desk = Desk::on_refuge();
    desk.pass(Duration::from_secs(5));
    let generation = desk.route.generation();
    desk.probed(hint(2));
    assert!(matches!(
        desk.route.state(),
        State::Follower {
            broker: B2,
            hold: Hold::Full(_)
        }
    ));
    assert_eq!(
        (desk.route.generation(), desk.reasons()),
        (generation, vec![])
    );
}

#[test]
fn r44_another_hint_is_followed_and_a_refused_one_forces_the_leader() {
    let mut desk = Desk::on_refuge();
    desk.pass(Duration::from_secs(5));
    let mut other = desk.clone();
    desk.probed(hint(3));
    desk.drained();
    assert_eq!(desk.follower(), Some(B3));
    assert_eq!(desk.reasons(), [Reason::ProbeMoved]);

    other.probed(hint(9));
    other.drained();
    assert_eq!(other.why(), Some(Why::UnknownBroker(BrokerId(9))));
}

#[test]
fn r44_a_failed_probe_is_repeated_by_the_clock_of_the_refuge() {
    let mut desk = Desk::on_refuge();
    desk.pass(Duration::from_secs(5));
    let stamp = desk.probe().stamp;
    desk.input(Input::ProbeFailed { stamp });
    assert!(is_refuge(&desk, B2));
    desk.pass(Duration::from_millis(4_900));
    assert!(!desk.asked_probe());
    desk.pass(Duration::from_millis(100));
    assert!(desk.asked_probe());
}

#[test]
fn r44_without_a_control_connection_the_leader_is_dialled_and_asked_when_it_is_there() {
    let mut desk = Desk::new();
    desk.brokers.entry(B1).set_link(Class::Control, Link::Down);
    desk.silent(B1, Class::Rack, true);
    assert!(control_dialled(&desk));
    desk.pass(Duration::from_secs(60));
    assert!(!desk.asked_probe() && control_dialled(&desk));
    desk.link(B1, Class::Control, LinkChange::Failed);
    assert!(control_dialled(&desk));
    desk.link(B1, Class::Control, LinkChange::Ready);
    assert!(desk.asked_probe());
}

/// routing.md S45 as the machine sees it.
#[test]
fn r44_returns_to_a_leader_that_stalls_become_rare() {
    let mut desk = Desk::on_refuge();
    let start = desk.now;
    let mut returns = Vec::new();
    while desk.now.since(start) < Duration::from_secs(600) {
        desk.pass(Duration::from_millis(100));
        if desk.asked_probe() {
            desk.probed(stay());
            desk.drained();
            assert!(desk.at_leader());
            returns.push(desk.now.since(start).as_secs());
            // No new edge, no answer: the silence is believed again after a hedge deadline.
            desk.pass(Duration::from_millis(2_400));
            assert!(desk.at_leader());
            desk.pass(Duration::from_millis(100));
            assert!(is_refuge(&desk, B2));
        }
    }
    let pauses: Vec<_> = returns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [12, 23, 42, 83, 162], "{returns:?}");
}

#[test]
fn a_new_edge_of_silence_needs_no_patience() {
    let mut desk = Desk::on_refuge();
    desk.pass(Duration::from_secs(5));
    desk.probed(stay());
    desk.drained();
    desk.silent(B1, Class::Rack, true);
    assert!(is_refuge(&desk, B2));
}

#[test]
fn r39_a_resumed_refuge_reads_on_and_asks_if_the_question_fell_due() {
    let mut desk = Desk::on_refuge();
    desk.input(Input::Pause);
    desk.drained();
    desk.pass(Duration::from_secs(6));
    assert!(!desk.asked_probe());
    desk.input(Input::Resume);
    assert!(desk.asked_probe());
    assert_eq!(desk.demand().stamp.broker, B2);
}

#[test]
fn r45_faults_of_a_refuge_lead_to_the_next_one() {
    type Case = (fn(&mut Desk), Option<Fault>);
    let faults: [Case; 7] = [
        (|desk| desk.error(56), Some(Fault::Storage)),
        (|desk| desk.error(6), Some(Fault::NotReplica)),
        (|desk| desk.error(1), Some(Fault::Range)),
        (
            |desk| desk.link(B2, Class::Rack, LinkChange::Lost),
            Some(Fault::Transport),
        ),
        (|desk| desk.silent(B2, Class::Rack, true), Some(Fault::Slow)),
        (|desk| desk.isr(&[1, 3]), None),
        (
            |desk| {
                desk.brokers.entry(B2).breaker = Breaker::Open(desk.now);
                desk.input(Input::BreakerOpened { broker: B2 });
            },
            None,
        ),
    ];
    for (spoil, fault) in faults {
        let mut desk = Desk::on_refuge();
        spoil(&mut desk);
        assert!(is_refuge(&desk, B3), "{fault:?}");
        assert_eq!(desk.reasons(), [Reason::RefugeMoved]);
        assert_eq!(desk.route.is_cooling(B2, desk.now), fault.is_some());
        let cooling = |fault| {
            let broker = B2;
            Output::Cooling { broker, fault }
        };
        let all = Fault::ALL.map(Some).into_iter().chain([None]);
        let raised: Vec<_> = all.filter(|f| desk.said.contains(&cooling(*f))).collect();
        assert_eq!(raised, Vec::from_iter(fault.map(Some)));
    }
}

#[test]
fn r45_a_refuge_that_lags_is_left_after_a_second() {
    let mut desk = Desk::on_refuge();
    for _ in 0..10 {
        desk.error(78);
        if is_refuge(&desk, B3) {
            break;
        }
        desk.pass(Duration::from_millis(500));
    }
    assert!(is_refuge(&desk, B3) && desk.route.is_cooling(B2, desk.now));
}

#[test]
fn r45_without_another_refuge_the_leader_is_read_and_found_silent() {
    let mut desk = Desk::new();
    desk.isr(&[1, 2]);
    desk.silent(B1, Class::Rack, true);
    desk.link(B2, Class::Rack, LinkChange::Lost);
    assert!(desk.at_leader());
    assert_eq!(desk.reasons(), [Reason::RefugeEnded]);
    assert!(desk.told(&Event::LeaderUnreachable(true)));
    desk.link(B2, Class::Rack, LinkChange::Ready);
    desk.pass(Duration::from_secs(1));
    assert!(is_refuge(&desk, B2), "its cooldown is over");
}

#[test]
fn a_refuge_empty_at_its_end_is_no_fault_and_has_no_deadline() {
    let mut desk = Desk::on_refuge();
    desk.brokers.entry(B1).set_link(Class::Control, Link::Down);
    desk.records(1_000);
    for _ in 0..100 {
        desk.row(stay());
        desk.pass(Duration::from_secs(10));
    }
    assert!(is_refuge(&desk, B2));
}

#[test]
fn r2_a_new_leader_ends_the_refuge() {
    let mut desk = Desk::on_refuge();
    desk.leads(Some(B3), 6);
    assert!(desk.at_leader());
    assert_eq!(desk.demand().stamp.broker, B3);
    assert_eq!(desk.reasons(), [Reason::LeaderChanged]);
}

#[test]
fn r4_a_leader_lost_and_out_of_reach_is_left_for_a_refuge_at_once() {
    let mut desk = Desk::new();
    desk.brokers.entry(B1).set_link(Class::Rack, Link::Down);
    desk.input(Input::LeaderLost);
    assert!(is_refuge(&desk, B2) && desk.refreshed());

    let mut desk = Desk::new();
    desk.isr(&[1]);
    desk.brokers.entry(B1).set_link(Class::Rack, Link::Down);
    desk.input(Input::LeaderLost);
    assert_eq!(*desk.route.state(), State::Parked);
    assert_eq!(desk.reasons(), [Reason::LeaderLost]);
    desk.isr(&[1, 3]);
    assert!(is_refuge(&desk, B3), "R43 is a level");
}

#[test]
fn links_to_refuges_are_dialled_when_the_leader_is_lost_or_quiet() {
    let quiet = |desk: &mut Desk, broker| {
        let class = Class::Rack;
        desk.input(Input::Quiet { broker, class });
    };
    let mut desk = Desk::new();
    desk.brokers.entry(B3).set_link(Class::Rack, Link::Down);
    quiet(&mut desk, B2);
    assert!(!desk.dialled(B3), "2 does not serve");
    quiet(&mut desk, B1);
    assert!(desk.dialled(B3) && !desk.dialled(B2), "2 is Ready");
    desk.link(B1, Class::Rack, LinkChange::Lost);
    assert!(desk.dialled(B3) && desk.at_leader());
}

#[test]
fn r43_a_forced_partition_finds_refuge_as_well() {
    let mut desk = Desk::new();
    desk.row(hint(9));
    assert!(desk.why().is_some());
    desk.silent(B1, Class::NoRack, true);
    assert!(is_refuge(&desk, B2));
}

#[test]
fn an_error_probe_does_not_lead_back() {
    let mut desk = Desk::on_refuge();
    desk.pass(Duration::from_secs(5));
    desk.probed(error(6));
    assert!(is_refuge(&desk, B2) && desk.refreshed());
}
