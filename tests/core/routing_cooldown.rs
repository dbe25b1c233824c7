//! Replicas that cannot be used: routing.md S14, S15, S22 to S24.

use std::time::Duration;

use nearside::embedded::{Link, RowEdit, Rule};
use nearside::ids::{BrokerId, Offset};
use nearside::routing::{Class, Fault, State, Why};
use nearside::wire;

use crate::rig::{ROUND_TRIP, Rig};

const B2: BrokerId = BrokerId(2);

/// routing.md S14
#[test]
fn while_a_replica_cools_the_leader_serves_without_a_rack_and_then_one_probe_brings_it_back() {
    let mut rig = Rig::new();
    rig.follow();
    rig.cluster().set_link(B2, Link::Refused);
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::Cooldown(B2)));
    let left = rig.now;
    let rack_fetches = rig.reading(1).iter().filter(|seen| has_rack(seen)).count();
    // Three refused dials: the third cooldown is the one of about four seconds.
    let dials = rig.dials(2, wire::Class::FetchRack);
    rig.run_busy(Duration::from_secs(3), Duration::from_millis(10));
    let gap = rig.reader().longest_gap(left, rig.now);
    assert!(
        gap <= Duration::from_millis(10) + ROUND_TRIP * 4,
        "records paused for {gap:?}"
    );
    assert!(rig.dials(2, wire::Class::FetchRack) > dials);

    let (before, idle_from) = (rig.reading(1).len(), rig.now);
    rig.run_for(Duration::from_secs(1));
    let fetches = rig.reading(1).len() - before;
    assert!(
        (1..=3).contains(&fetches),
        "{fetches} fetches of an idle second from {idle_from:?}"
    );
    assert!(
        rig.probed(1).is_empty(),
        "an unreachable replica costs no probe"
    );

    rig.cluster().set_link(B2, Link::Open);
    rig.run_until(|rig| rig.follower() == Some(B2));
    assert_eq!(rig.probed(1).len(), 1);
    let later = rig.reading(1).iter().filter(|seen| has_rack(seen)).count();
    assert_eq!(
        later, rack_fetches,
        "no rack-lane fetch at the leader in all the time"
    );
    rig.preload(10);
    rig.run_for(Duration::from_secs(1));
    let end = rig.reader().route.fetch_end();
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}

/// routing.md S15
#[test]
fn a_black_holed_replica_costs_a_quarter_of_a_second_once() {
    let mut rig = Rig::new();
    rig.preload(1);
    rig.cluster().set_link(B2, Link::Silent);
    let start = rig.now;
    rig.assign();
    rig.run_busy(Duration::from_secs(600), Duration::from_millis(100));

    assert_eq!(rig.follower(), None);
    let first = rig.reader().delivered_at[0];
    let setup = ROUND_TRIP * 12;
    assert!(
        first.since(start) <= Duration::from_millis(250) + setup,
        "{first:?}"
    );
    let gap = rig.reader().longest_gap(first, rig.now);
    assert!(
        gap <= Duration::from_millis(250) + ROUND_TRIP,
        "records paused for {gap:?}"
    );
    assert!(rig.reader().delivered.len() >= 6_000);
    assert!(
        rig.reader().probes.is_empty(),
        "no probe while the link is down"
    );
    assert!(!rig.is_ready(2, Class::Rack));
    let dials = rig.dials(2, wire::Class::FetchRack);
    assert!(dials <= 12, "{dials} dials in ten minutes");

    rig.cluster().set_link(B2, Link::Open);
    rig.run_until(|rig| rig.follower() == Some(B2));
}

/// routing.md S22 (a)
#[test]
fn a_follower_that_lags_behind_an_election_for_a_moment_is_kept() {
    let (mut rig, rule) = refusing(75);
    rig.run_busy(Duration::from_millis(400), Duration::from_millis(10));
    rig.cluster().withdraw(rule);
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.follower(), Some(B2));
    assert_eq!(rig.reader().reasons(), ["assigned", "hint_adopted"]);
    assert!(rig.reader().refreshes.is_empty());
    assert_eq!(rig.reader().delivered.len(), 1_041);
}

/// routing.md S22 (b)
#[test]
fn a_follower_that_lags_longer_rests_for_five_seconds_and_comes_back_unasked() {
    let (mut rig, rule) = refusing(75);
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::NotYet(B2)));
    let left = rig.now;
    rig.run_busy(Duration::from_secs(3), Duration::from_millis(10));
    rig.cluster().withdraw(rule);
    rig.run_until(|rig| rig.follower() == Some(B2));

    let away = rig.now.since(left);
    assert!(
        away >= Duration::from_secs(5) && away <= Duration::from_millis(5_600),
        "{away:?}"
    );
    assert!(rig.reader().probes.is_empty(), "its lease still stands");
    assert!(rig.reader().refreshes.is_empty());
    assert!(!rig.reader().route.is_cooling(B2, rig.now));
}

/// routing.md S23
#[test]
fn an_offset_not_yet_available_is_asked_for_with_restraint() {
    let (mut rig, rule) = refusing(78);
    let start = rig.now;
    let end = rig.reader().route.fetch_end();
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::NotYet(B2)));
    let refused = rig
        .reading(2)
        .iter()
        .filter(|seen| seen.at >= start)
        .count();
    assert!(refused <= 7, "{refused} fetches in the first second");
    assert_eq!(rig.reader().route.fetch_end(), end, "position unchanged");
    let (asked, served) = (rig.reading(2).len(), rig.reading(1).len());
    rig.run_busy(Duration::from_millis(4_900), Duration::from_millis(100));
    assert_eq!(rig.reading(2).len(), asked, "left alone for 5 s");
    assert!(rig.reading(1).len() >= served + 40, "the leader serves");
    rig.run_for(Duration::from_millis(4_100));
    rig.cluster().withdraw(rule);
    rig.run_for(Duration::from_secs(6));

    let rounds = rig
        .reader()
        .reasons()
        .iter()
        .filter(|why| *why == "hold_not_yet")
        .count();
    assert!(rounds <= 2, "{rounds} rounds in ten seconds");
    assert_eq!(rig.follower(), Some(B2));
    let end = rig.reader().route.fetch_end();
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}

/// A reader of 2, to which 2 answers `code` from now on, with one record to fetch.
fn refusing(code: i16) -> (Rig, nearside::embedded::RuleId) {
    let mut rig = Rig::new();
    rig.follow();
    let edit = RowEdit {
        error: Some(code),
        at_once: true,
        ..RowEdit::default()
    };
    let rule = rig.cluster().inject(Rule::row(edit).at(2));
    rig.preload(1);
    (rig, rule)
}

/// routing.md S24
#[test]
fn a_follower_out_of_range_is_no_reason_to_reset() {
    for log_start in [None, Some(500)] {
        let mut rig = Rig::new();
        rig.preload(450);
        let edit = RowEdit {
            error: Some(1),
            log_start,
            at_once: true,
            ..RowEdit::default()
        };
        rig.cluster().inject(Rule::row(edit).at(2).times(1));
        rig.assign_at(400);
        rig.run_until(|rig| rig.reader().delivered.len() == 50);

        assert_eq!(rig.reader().delivered[0], 400);
        assert!(rig.reader().resolves.is_empty());
        assert_eq!(
            rig.cluster()
                .requests(BrokerId(1), nearside::embedded::Api::ListOffsets),
            0
        );
        let reasons = rig.reader().reasons();
        assert_eq!(
            reasons,
            ["assigned", "hint_adopted", "cooldown_range"],
            "{log_start:?}"
        );
        assert!(
            rig.reader()
                .counts
                .contains(&nearside::routing::Count::Cooldown(Fault::Range))
        );
        let forced = rig.reading(1).last().unwrap().fetch.clone().unwrap();
        assert_eq!((forced.rack, forced.rows[0].offset), (None, Offset(400)));

        let cooled = rig.now;
        rig.preload(40);
        rig.run_for(Duration::from_secs(1));
        assert_eq!(rig.reader().route.fetch_end(), Offset(490));
        assert_eq!(rig.reader().route.state().why(), Some(Why::Cooldown(B2)));
        rig.preload(20);
        rig.run_until(|rig| rig.follower() == Some(B2));
        let early = rig.now.since(cooled) < Duration::from_secs(2);
        assert_eq!(
            early,
            log_start.is_some(),
            "position 510 is past its log start"
        );
    }
}

fn has_rack(seen: &nearside::embedded::Seen) -> bool {
    seen.fetch
        .as_ref()
        .is_some_and(|fetch| fetch.rack.is_some())
}

/// routing.md 4.1: the state a cooling replica leaves behind.
#[test]
fn a_forced_route_reads_on_its_own_lane() {
    let (mut rig, _) = refusing(56);
    rig.run_until(|rig| matches!(rig.reader().route.state(), State::Forced { .. }));
    rig.run_for(Duration::from_millis(100));
    let lanes: Vec<_> = rig
        .reader()
        .wants
        .iter()
        .map(|(_, want)| want.stamp.lane)
        .collect();
    assert_eq!(*lanes.last().unwrap(), nearside::routing::Lane::NoRack);
}
