//! Following a hint, or not: routing.md S1, S8, S9, S18.

use std::time::Duration;

use nearside::cluster::Reason;
use nearside::embedded::{BrokerSettings, MetadataEdit, RowEdit, Rule, Seen, Selector};
use nearside::ids::{BrokerId, Moment, Offset};
use nearside::routing::{Class, Count, Fault, FollowHints, Lane, State, Why};

use crate::rig::{ROUND_TRIP, Rig, partition};

/// routing.md S1
#[test]
fn a_hint_of_the_leader_is_followed_within_one_fetch() {
    let mut rig = Rig::new();
    rig.preload(500);
    rig.assign();
    rig.run_until(|rig| !rig.reader().delivered.is_empty());

    assert_eq!(rig.reading(1).len(), 1, "one rack-lane fetch at the leader");
    assert_eq!(
        rig.reading(1)[0].fetch.as_ref().unwrap().rack,
        Some("b".into())
    );
    assert_eq!(rig.cluster().record_bytes(BrokerId(1)), 0);
    assert_eq!(
        rig.reading(2)[0].fetch.as_ref().unwrap().rows[0].offset,
        Offset(0)
    );
    assert_eq!(rig.reader().reasons(), ["assigned", "hint_adopted"]);
    assert_eq!(rig.follower(), Some(BrokerId(2)));
    let change = rig.reader().changes.last().unwrap();
    let left = change.lease_left.unwrap();
    assert!((270..=330).contains(&left.as_secs()), "lease of {left:?}");
    assert_eq!(change.to.zone, Some("b".into()));
    assert_eq!(change.to.lane, Some(Lane::Rack));
}

/// routing.md S8
#[test]
fn records_that_come_with_a_hint_are_delivered_once() {
    let mut rig = Rig::with(|_| {}, |cluster| cluster.selector = Selector::LeaderOnly);
    rig.preload(10);
    let hint = RowEdit {
        hint: Some(Some(BrokerId(2))),
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(hint).at(1).times(1));
    rig.assign();
    rig.run_until(|rig| rig.follower() == Some(BrokerId(2)));
    rig.preload(5);
    rig.run_for(Duration::from_secs(1));

    assert_eq!(rig.reader().delivered, (0..15).collect::<Vec<i64>>());
    assert_eq!(
        rig.reading(2)[0].fetch.as_ref().unwrap().rows[0].offset,
        Offset(10)
    );
}

/// routing.md S9
#[test]
fn a_hint_to_an_unknown_broker_costs_no_record_and_is_followed_once_it_is_listed() {
    let mut rig = Rig::with(
        |_| {},
        |cluster| cluster.brokers.push(BrokerSettings::new(9, "b")),
    );
    let replicas = [1, 9, 3].map(BrokerId);
    rig.cluster().reassign(&partition(), &replicas).unwrap();
    let hidden = MetadataEdit {
        hide_brokers: vec![BrokerId(9)],
        ..MetadataEdit::default()
    };
    let hiding = rig.cluster().inject(Rule::metadata(hidden));
    rig.refresh_metadata();
    rig.run_for(Duration::from_millis(500));
    rig.preload(100);
    rig.assign();
    rig.run_until(|rig| rig.reader().route.state().why().is_some());
    let refused = rig.now;
    let served = Some((BrokerId(1), Lane::NoRack));
    assert_eq!(rig.reader().route.served(), served);
    rig.run_until(|rig| rig.is_ready(1, Class::NoRack));
    assert!(rig.now.since(refused) <= ROUND_TRIP * 3, "the lane was new");
    let ready = rig.now;
    rig.run_until(|rig| !rig.reader().delivered.is_empty());
    assert!(rig.now.since(ready) <= ROUND_TRIP, "{refused:?} {ready:?}");

    rig.run_busy(Duration::from_secs(60), Duration::from_millis(100));
    assert_eq!(
        rig.reader().route.state().why(),
        Some(Why::UnknownBroker(BrokerId(9)))
    );
    assert_eq!(rig.reader().delivered.len(), 700);
    let asked = rig
        .reader()
        .refreshes
        .iter()
        .filter(|(_, why)| *why == Reason::UnknownBroker);
    let asked: Vec<_> = asked.map(|(at, _)| *at).collect();
    let apart = |pair: &[Moment]| pair[1].since(pair[0]) >= Duration::from_secs(1);
    assert!(asked.len() > 10 && asked.windows(2).all(apart), "{asked:?}");

    let probes = rig.probed(1).len();
    rig.cluster().withdraw(hiding);
    rig.run_until(|rig| rig.follower() == Some(BrokerId(9)));
    assert!(
        rig.probed(1).len() > probes,
        "it is asked about once listed"
    );
    assert_eq!(rig.reader().reasons().last().unwrap(), "hint_adopted");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.reader().delivered, (0..700).collect::<Vec<_>>());
    assert!(!rig.reading(9).is_empty());
}

/// routing.md S18
#[test]
fn without_a_rack_of_our_own_hints_are_followed_as_configured_and_records_flow_in_any_case() {
    for policy in [FollowHints::Always, FollowHints::Rack, FollowHints::Never] {
        let mut rig = Rig::with(
            |client| {
                client.client_rack = None;
                client.follow_hints = policy;
            },
            |cluster| cluster.selector = Selector::Always(BrokerId(2)),
        );
        rig.preload(100);
        rig.assign();
        rig.run_for(Duration::from_secs(2));

        assert_eq!(rig.reader().delivered.len(), 100, "{policy:?}");
        match policy {
            FollowHints::Always => assert_eq!(rig.follower(), Some(BrokerId(2))),
            FollowHints::Rack | FollowHints::Never => {
                assert_eq!(rig.reader().route.state().why(), Some(Why::Policy));
                // The selector hints whatever the rack: only a version without hints gets records.
                assert_eq!(rig.reader().route.served(), Some((BrokerId(1), Lane::V10)));
            }
        }
        let fetches = [1, 2, 3].map(|broker| [rig.reading(broker), rig.probed(broker)].concat());
        let fetches = fetches.concat();
        assert!(
            fetches
                .iter()
                .all(|seen| seen.fetch.as_ref().unwrap().rack.is_none())
        );
    }
}

/// routing.md S19 (a)
#[test]
fn brokers_that_know_no_hints_are_read_as_by_a_leader_only_client() {
    let mut rig = Rig::new();
    for broker in 1..=3 {
        rig.cluster()
            .limit_versions(BrokerId(broker), nearside::embedded::Api::Fetch, 4..=10);
    }
    rig.preload(10_000);
    rig.assign();
    rig.run_until(|rig| rig.reader().delivered.len() == 10_000);

    assert_eq!(rig.reader().reasons(), ["assigned"]);
    assert_eq!(*rig.reader().route.state(), State::Leader);
    assert!(rig.reader().probes.is_empty());
    let hint = |count: &&Count| matches!(count, Count::Hint(_));
    assert_eq!(rig.reader().counts.iter().find(hint), None, "no hint");
    let leader_only = |seen: &Seen| seen.version == 10 && seen.broker == BrokerId(1);
    assert!(rig.reading(1).iter().all(leader_only));
    assert!(rig.reading(2).is_empty() && rig.reading(3).is_empty());
}

/// routing.md S19 (b)
#[test]
fn a_hinted_broker_that_serves_no_followers_is_left_alone() {
    let mut rig = Rig::new();
    rig.cluster()
        .limit_versions(BrokerId(2), nearside::embedded::Api::Fetch, 4..=10);
    rig.preload(10_000);
    rig.assign();
    rig.run_until(|rig| rig.reader().delivered.len() == 10_000);

    assert!(rig.reader().route.is_cooling(BrokerId(2), rig.now));
    assert_eq!(
        rig.reader().route.state().why(),
        Some(Why::Cooldown(BrokerId(2)))
    );
    assert_eq!(rig.cluster().record_bytes(BrokerId(2)), 0);
    let version = Count::Cooldown(Fault::Version);
    assert!(rig.reader().counts.contains(&version));
    let left = rig.reader().route.cools_until().unwrap().since(rig.now);
    let full = Duration::from_secs(300);
    assert!(
        left <= full && left > full - Duration::from_secs(10),
        "{left:?} left"
    );
}
