//! Replicas in and out of the ISR: routing.md S10, S12, S13.

use std::time::Duration;

use nearside::cluster::Reason;
use nearside::embedded::{Api, Effect, MetadataEdit, Rule};
use nearside::ids::BrokerId;
use nearside::routing::{Count, Hold, IsrPolicy, State, Why};

use crate::rig::{ROUND_TRIP, Rig, partition};

const B2: BrokerId = BrokerId(2);
const QUARTER: Duration = Duration::from_millis(250);

/// Whether the leader answered a probe.
fn is_answered(rig: &Rig) -> bool {
    let answer = |count: &Count| {
        matches!(
            count,
            Count::Probe {
                outcome: "stay" | "hint",
                ..
            }
        )
    };
    rig.reader().counts.iter().any(answer)
}

/// The rule by which Metadata lists 1 and 3 only.
fn without_two() -> Rule {
    let isr = Some(vec![BrokerId(1), BrokerId(3)]);
    Rule::metadata(MetadataEdit {
        isr,
        ..MetadataEdit::default()
    })
}

/// routing.md S10
#[test]
fn a_hint_outside_the_isr_view_is_followed_as_soon_as_one_refresh_lists_it() {
    let mut rig = Rig::new();
    let rule = rig.cluster().inject(without_two());
    rig.run_for(Duration::from_millis(500));
    rig.cluster().withdraw(rule);
    rig.cluster()
        .inject(Rule::new(Effect::Delay(Duration::from_millis(200))).on(Api::Metadata));
    rig.preload(100);
    rig.assign();
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::NotInIsr(B2)));
    rig.run_busy(Duration::from_millis(150), Duration::from_millis(10));
    rig.run_for(ROUND_TRIP * 2);
    assert_eq!(rig.reader().delivered.len(), 115, "records flow meanwhile");
    assert!(rig.reading(2).is_empty());
    rig.run_until(|rig| rig.follower() == Some(B2));

    let refreshes = rig
        .reader()
        .refreshes
        .iter()
        .map(|(_, why)| *why)
        .collect::<Vec<_>>();
    assert_eq!(refreshes, [Reason::OutsideIsr]);
    assert!(rig.reader().probes.is_empty());
    assert_eq!(rig.reader().reasons().last().unwrap(), "isr_gained");
}

/// routing.md S11
#[test]
fn a_replica_that_metadata_never_lists_costs_a_trickle_of_questions() {
    let mut rig = Rig::new();
    rig.cluster().inject(without_two());
    rig.run_for(Duration::from_millis(500));
    rig.preload(1);
    rig.assign();
    rig.run_until(|rig| !rig.reader().delivered.is_empty());
    let start = rig.now;
    let first = rig.metadata_version();
    let mut asked_at = first - 1;
    for _ in 0..7_200 {
        let probes = rig.reader().probes.len();
        rig.run_busy(QUARTER, QUARTER);
        let asked = u64::try_from(rig.reader().probes.len() - probes).unwrap();
        let fresh = rig.metadata_version() - asked_at;
        assert!(asked <= fresh, "{asked} probes for {fresh} versions");
        if asked > 0 {
            asked_at = rig.metadata_version();
        }
    }
    // One a version, of which the client asked for some and its age for others.
    let probes = u64::try_from(rig.reader().probes.len()).unwrap();
    let versions = rig.metadata_version() - first;
    assert!(
        probes >= versions - 1,
        "{probes} probes for {versions} versions"
    );

    assert!(rig.reading(2).is_empty());
    let asked = rig.reader().refreshes.len();
    assert!(asked <= 15, "{asked} refreshes in half an hour");
    let gap = rig.reader().longest_gap(start, rig.now);
    assert!(
        gap <= Duration::from_millis(500),
        "records paused for {gap:?}"
    );
}

/// routing.md S12
#[test]
fn under_advise_the_hint_is_followed_at_once_on_trial() {
    let mut rig = Rig::with(|client| client.isr = IsrPolicy::Advise, |_| {});
    rig.cluster().inject(without_two());
    rig.run_for(Duration::from_millis(500));
    rig.preload(100);
    rig.assign();
    rig.run_until(|rig| rig.follower() == Some(B2));
    let adopted = rig.now;
    let State::Follower {
        hold: Hold::Trial(lease),
        ..
    } = *rig.reader().route.state()
    else {
        panic!("{:?}", rig.reader().route.state());
    };
    assert_eq!(lease.ask_at.since(lease.granted), Duration::from_secs(30));
    assert_eq!(rig.reader().refreshes.len(), 1);
    rig.run_for(ROUND_TRIP);
    assert_eq!(rig.reading(2).len(), 1, "at once");
    assert_eq!(rig.reading(1).len(), 1);
    rig.run_until(|rig| !rig.reader().probes.is_empty());
    let asked = rig.now.since(adopted);
    assert!(
        asked <= Duration::from_secs(30) && asked >= Duration::from_secs(29),
        "probe after {asked:?}"
    );
}

/// routing.md S13 (a)
#[test]
fn a_follower_that_leaves_the_isr_is_left_and_taken_back_when_it_returns() {
    let mut rig = Rig::new();
    rig.follow();
    rig.cluster().hold_replica(&partition(), B2, true).unwrap();
    rig.cluster().shrink_isr(&partition(), B2).unwrap();
    rig.refresh_metadata();
    rig.run_until(|rig| rig.follower().is_none());
    // The probe may answer before the fetch in flight does, and then its word counts.
    let reason = rig.reader().reasons().pop().unwrap();
    assert!(
        ["isr_lost", "leader_said_stay"].contains(&reason.as_str()),
        "{reason}"
    );
    let fetches = rig.reading(2).len();
    rig.run_busy(Duration::from_secs(2), Duration::from_millis(20));
    assert_eq!(rig.reading(2).len(), fetches, "no further fetch to it");
    assert!(is_answered(&rig));

    rig.cluster().hold_replica(&partition(), B2, false).unwrap();
    rig.run_until(|rig| rig.follower() == Some(B2));
    rig.preload(5);
    rig.run_for(Duration::from_secs(1));
    let end = rig.reader().route.fetch_end();
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}

/// routing.md S13 (b)
#[test]
fn a_follower_that_a_reassignment_drops_is_left_at_the_same_epoch() {
    let mut rig = Rig::new();
    rig.follow();
    // Metadata drops it from replicas and ISR before anything raises the epoch (F15).
    let left = Some(vec![BrokerId(1), BrokerId(3)]);
    rig.cluster().inject(Rule::metadata(MetadataEdit {
        isr: left.clone(),
        replicas: left,
        ..MetadataEdit::default()
    }));
    let epoch = rig.reader().route.leadership().epoch;
    let fetches = rig.reading(2).len();
    rig.refresh_metadata();
    rig.run_for(ROUND_TRIP);
    rig.preload(10);
    rig.run_until(|rig| rig.follower().is_none());
    assert_eq!(
        rig.reader().delivered.len(),
        1_010,
        "the answer in flight is kept"
    );
    assert!(rig.reading(2).len() <= fetches + 1);
    let reason = rig.reader().reasons().pop().unwrap();
    assert!(
        ["isr_lost", "leader_said_stay"].contains(&reason.as_str()),
        "{reason}"
    );

    let fetches = rig.reading(2).len();
    let changed = rig.now;
    rig.run_busy(Duration::from_secs(10), Duration::from_millis(20));
    assert_eq!(rig.reading(2).len(), fetches, "no further fetch to it");
    assert!(is_answered(&rig));
    assert_eq!(rig.reader().route.leadership().epoch, epoch);
    let gap = rig.reader().longest_gap(changed, rig.now);
    assert!(
        gap <= Duration::from_millis(20) + ROUND_TRIP * 8,
        "records paused for {gap:?}"
    );
    let end = rig.reader().route.fetch_end();
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}
