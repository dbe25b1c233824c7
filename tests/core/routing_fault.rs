//! Faults of one replica: routing.md S16, S17, S31, S32.

use std::time::Duration;

use nearside::embedded::{Api, Link, RowEdit, Rule, Selector};
use nearside::ids::{BrokerId, Moment};
use nearside::routing::{CooldownPolicy, Event, Lane, Why};
use nearside::wire::Class;

use crate::rig::{ROUND_TRIP, Rig, partition};

const B1: BrokerId = BrokerId(1);
const B2: BrokerId = BrokerId(2);
const FIVE_MINUTES: Duration = Duration::from_secs(300);

/// Everything that was tried at 2, or asked about it: dials of the data connection, and probes.
fn attempts(rig: &Rig) -> Vec<Moment> {
    let dials = rig.dialled(2, Class::FetchRack);
    let probes = rig.reader().probes.iter().map(|(at, _)| *at);
    dials.into_iter().chain(probes).collect()
}

/// routing.md S16
#[test]
fn under_the_fixed_policy_every_fault_costs_exactly_the_maximum() {
    let fixed = |client: &mut nearside::routing::Settings| {
        client.cooldown_policy = CooldownPolicy::Fixed;
    };
    let mut rig = Rig::with(fixed, |_| {});
    rig.follow();
    for fault in ["transport", "not_replica", "range"] {
        match fault {
            "transport" => {
                rig.cluster().set_link(B2, Link::Refused);
            }
            code => {
                let error = Some(if code == "range" { 1 } else { 6 });
                let edit = RowEdit {
                    error,
                    at_once: true,
                    ..RowEdit::default()
                };
                rig.cluster().inject(Rule::row(edit).at(2).times(1));
            }
        }
        rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::Cooldown(B2)));
        let cooled = rig.now;
        assert_eq!(
            *rig.reader().reasons().last().unwrap(),
            format!("cooldown_{fault}")
        );
        rig.cluster().set_link(B2, Link::Open);
        rig.run_busy(
            FIVE_MINUTES - Duration::from_secs(1),
            Duration::from_secs(1),
        );
        rig.run_until(|rig| rig.follower() == Some(B2));

        let next = attempts(&rig).into_iter().filter(|at| *at > cooled).min();
        assert_eq!(next.unwrap().since(cooled), FIVE_MINUTES, "{fault}");
    }
    let end = rig.reader().route.fetch_end();
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}

/// routing.md S17
#[test]
fn a_selector_that_hints_without_a_rack_drops_the_lane_to_the_version_without_hints() {
    let always = |cluster: &mut nearside::embedded::Settings| {
        cluster.selector = Selector::Always(B2);
    };
    let mut rig = Rig::with(|_| {}, always);
    rig.follow();
    let failing = Rule::row(RowEdit {
        error: Some(56),
        at_once: true,
        ..RowEdit::default()
    });
    let seen = rig.reading(1).len();
    rig.cluster().inject(failing.at(2).times(1));
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::Cooldown(B2)));
    let forced = rig.now;
    rig.run_busy(Duration::from_secs(5), Duration::from_millis(10));

    let versions: Vec<i16> = rig.reading(1)[seen..]
        .iter()
        .map(|seen| seen.version)
        .collect();
    assert!(versions[0] > 10, "{versions:?}");
    assert!(
        versions[1..].iter().all(|version| *version == 10),
        "{versions:?}"
    );
    assert_eq!(rig.reader().route.served(), Some((B1, Lane::V10)));
    assert!(rig.reader().reasons().contains(&"lane_v10".to_owned()));
    let gap = rig.reader().longest_gap(forced, rig.now);
    assert!(gap <= ROUND_TRIP * 10, "records paused for {gap:?}");

    // The next connection starts at the negotiated version, and drops again.
    let seen = rig.reading(1).len();
    rig.cluster().drop_connections(B1);
    rig.run_busy(Duration::from_secs(2), Duration::from_millis(10));
    let versions: Vec<i16> = rig.reading(1)[seen..]
        .iter()
        .map(|seen| seen.version)
        .collect();
    assert!(versions[0] > 10, "{versions:?}");
    assert!(versions.len() > 10 && versions[1..].iter().all(|version| *version == 10));
    assert!(rig.reader().reasons().contains(&"lane_restored".to_owned()));
    let end = rig.reader().route.fetch_end();
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}

/// The batches that `brokers` serve from offset 1000 on are damaged.
fn damaged_at(brokers: &[i32]) -> Rig {
    let mut rig = Rig::new();
    rig.follow();
    for broker in brokers {
        let edit = RowEdit {
            corrupt: true,
            ..RowEdit::default()
        };
        rig.cluster().inject(Rule::row(edit).at(*broker));
    }
    rig.preload(10);
    rig
}

/// routing.md S31 (a)
#[test]
fn a_batch_damaged_on_the_replica_alone_comes_from_the_leader_and_nobody_hears_of_it() {
    let mut rig = damaged_at(&[2]);
    rig.run_until(|rig| rig.reader().delivered.len() == 1_010);
    assert_eq!(rig.reader().delivered, (0..1_010).collect::<Vec<_>>());
    assert_eq!(
        rig.reader().reasons().last().unwrap(),
        "cooldown_corruption"
    );
    assert!(surfaced(&rig).is_empty(), "{:?}", surfaced(&rig));

    rig.run_busy(
        FIVE_MINUTES - Duration::from_secs(1),
        Duration::from_secs(1),
    );
    assert!(rig.reader().route.is_cooling(B2, rig.now));
    assert_eq!(rig.reader().route.state().why(), Some(Why::Cooldown(B2)));
    rig.run_for(Duration::from_secs(2));
    assert!(!rig.reader().route.is_cooling(B2, rig.now));
    assert!(surfaced(&rig).is_empty(), "{:?}", surfaced(&rig));
}

/// routing.md S31 (b)
#[test]
fn a_batch_damaged_on_the_leader_too_is_told_and_the_position_stays() {
    let mut rig = damaged_at(&[1, 2]);
    rig.run_until(|rig| !surfaced(rig).is_empty());
    let offset = rig.reader().route.fetch_end();
    assert_eq!(offset.0, 1_000);
    assert_eq!(surfaced(&rig), [Event::CorruptBatch { offset }]);
    // The leader's copy is no better: nothing of this speaks against 2.
    assert!(!rig.reader().route.is_cooling(B2, rig.now));
    rig.run_for(Duration::from_secs(2));
    assert_eq!(rig.reader().delivered.len(), 1_000);
}

/// routing.md S32
#[test]
fn a_replica_that_alone_refuses_the_topic_is_left_in_silence() {
    let mut rig = Rig::new();
    rig.follow();
    let refusal = Rule::error(29).on(Api::Fetch).at(2).of(partition());
    let refusal = rig.cluster().inject(refusal);
    rig.preload(10);
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::Cooldown(B2)));
    let cooled = rig.now;
    assert_eq!(
        rig.reader().reasons().last().unwrap(),
        "cooldown_authorization"
    );
    rig.run_busy(
        FIVE_MINUTES - Duration::from_secs(1),
        Duration::from_secs(1),
    );
    assert!(rig.reader().route.is_cooling(B2, rig.now));
    assert_eq!(
        rig.reader().delivered.len(),
        1_010 + 299,
        "the leader serves"
    );
    assert!(surfaced(&rig).is_empty(), "{:?}", surfaced(&rig));
    rig.cluster().withdraw(refusal);
    rig.run_until(|rig| rig.follower() == Some(B2));
    let away = rig.now.since(cooled);
    assert!(
        (FIVE_MINUTES..FIVE_MINUTES + Duration::from_secs(1)).contains(&away),
        "{away:?}"
    );
}

/// What a user would hear of.
fn surfaced(rig: &Rig) -> Vec<Event> {
    let quiet = |said: &&Event| !matches!(said, Event::CaughtUp { .. });
    rig.reader().events.iter().filter(quiet).cloned().collect()
}
