//! Leaders that move: routing.md S20, S21, S39.

use std::time::Duration;

use nearside::embedded::{Api, Effect, RowEdit, Rule, Seen, Selector};
use nearside::ids::{BrokerId, LeaderEpoch};
use nearside::routing::{State, Why};

use crate::rig::{Rig, partition};

const B2: BrokerId = BrokerId(2);
const B3: BrokerId = BrokerId(3);

/// routing.md S20
#[test]
fn a_follower_that_names_the_new_leader_saves_the_metadata_round_trip() {
    let mut rig = Rig::new();
    rig.follow();
    let edit = RowEdit {
        error: Some(6),
        current_leader: Some((3, 6)),
        at_once: true,
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(edit).at(2).times(1));
    rig.cluster().move_leader(&partition(), B3).unwrap();
    let version = rig.metadata_version();
    rig.preload(1);
    rig.run_until(|rig| !rig.reading(3).is_empty());

    assert_eq!(
        rig.metadata_version(),
        version,
        "before any Metadata answer"
    );
    assert_eq!(rig.cluster().requests(B3, Api::OffsetForLeaderEpoch), 1);
    let validated = rig.seen(Api::OffsetForLeaderEpoch).remove(0);
    assert!(validated.at < rig.reading(3)[0].at);
    let row = rig.reading(3)[0].fetch.as_ref().unwrap().rows[0].clone();
    assert_eq!(row.current_epoch, Some(LeaderEpoch(6)));
    assert!(
        rig.reader()
            .reasons()
            .contains(&"cooldown_not_replica".to_owned())
    );
}

/// routing.md S21 (a)
#[test]
fn a_fenced_reader_validates_at_the_new_leader_before_it_reads_on() {
    let mut rig = Rig::with(|_| {}, |cluster| cluster.selector = Selector::LeaderOnly);
    rig.preload(100);
    rig.assign();
    rig.run_until(|rig| rig.reader().delivered.len() == 100);
    let fencing = RowEdit {
        error: Some(74),
        at_once: true,
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(fencing).at(1));
    rig.cluster().move_leader(&partition(), B3).unwrap();
    rig.preload(10);
    let fetches = rig.reading(1).len();
    rig.run_until(|rig| rig.reader().delivered.len() == 110);
    assert!(
        rig.reading(1).len() <= fetches + 1,
        "once fenced, never again"
    );

    let validated = rig.seen(Api::OffsetForLeaderEpoch).remove(0);
    assert_eq!(validated.broker, B3);
    assert!(validated.at < rig.reading(3)[0].at);
    assert_eq!(*rig.reader().route.state(), State::Leader);
    assert!(!rig.reader().route.is_cooling(BrokerId(1), rig.now));
}

/// routing.md S21 (a): refused first, and metadata is late.
#[test]
fn a_fenced_reader_waits_for_metadata_without_a_fetch() {
    let mut rig = Rig::with(|_| {}, |cluster| cluster.selector = Selector::LeaderOnly);
    // No answer but that of metadata names the new leader (KIP-951 begins with v16).
    for broker in 1..=3 {
        rig.cluster()
            .limit_versions(BrokerId(broker), Api::Fetch, 4..=15);
    }
    rig.preload(100);
    rig.assign();
    rig.run_until(|rig| rig.reader().delivered.len() == 100);
    let late = Duration::from_secs(4);
    rig.cluster()
        .inject(Rule::new(Effect::Delay(late)).on(Api::Metadata));
    let fencing = RowEdit {
        error: Some(74),
        at_once: true,
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(fencing).at(1));
    rig.cluster().move_leader(&partition(), B3).unwrap();
    rig.preload(10);
    let (moved, wants) = (rig.now, rig.reader().wants.len());
    rig.run_for(late - Duration::from_millis(100));
    assert_eq!(
        rig.reader().wants.len(),
        wants,
        "fenced, nothing is fetched"
    );
    assert!(!rig.reader().refreshes.is_empty());
    assert_eq!(rig.reader().reasons(), ["assigned"]);

    rig.run_until(|rig| rig.reader().delivered.len() == 110);
    assert!(rig.now.since(moved) <= late + Duration::from_millis(600));
    let validated = rig.seen(Api::OffsetForLeaderEpoch).remove(0);
    assert_eq!(validated.broker, B3);
    assert!(validated.at < rig.reading(3)[0].at);
    assert!(!rig.reader().route.is_cooling(BrokerId(1), rig.now));
    assert_eq!(rig.reader().delivered, (0..110).collect::<Vec<_>>());
}

/// routing.md S21 (b)
#[test]
fn the_leader_of_a_moment_ago_is_not_followed_at_once() {
    let mut rig = Rig::with(|_| {}, |cluster| cluster.selector = Selector::LeaderOnly);
    rig.preload(100);
    rig.assign();
    rig.run_until(|rig| rig.reader().delivered.len() == 100);
    rig.cluster().move_leader(&partition(), B3).unwrap();
    let hint = RowEdit {
        hint: Some(Some(BrokerId(1))),
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(hint).at(3).times(1));
    rig.preload(10);
    rig.run_until(|rig| rig.reader().route.state().why().is_some());
    assert_eq!(
        rig.reader().route.state().why(),
        Some(Why::FormerLeader(BrokerId(1)))
    );
    let forced = rig.now;
    rig.run_until(|rig| *rig.reader().route.state() == State::Leader);
    let held = rig.now.since(forced);
    assert!(
        held >= Duration::from_millis(900) && held <= Duration::from_millis(1_600),
        "{held:?}"
    );
}

/// routing.md S39
#[test]
fn a_follower_that_is_elected_keeps_connection_and_session() {
    let mut rig = Rig::new();
    rig.follow();
    let dials = rig.dials(2, nearside::wire::Class::FetchRack);
    let position = rig.reader().route.position_generation();
    rig.cluster().move_leader(&partition(), B2).unwrap();
    rig.preload(10);
    rig.run_until(|rig| rig.reader().delivered.len() == 1_010);

    assert_eq!(rig.dials(2, nearside::wire::Class::FetchRack), dials);
    let full = |seen: &Seen| seen.fetch.as_ref().unwrap().session_epoch == 0;
    assert_eq!(
        rig.reading(2).iter().filter(|seen| full(seen)).count(),
        1,
        "one session"
    );
    let validated = rig.seen(Api::OffsetForLeaderEpoch);
    let at_six = |seen: &&Seen| {
        let row = &seen.fetch.as_ref().unwrap().rows;
        row.iter()
            .any(|row| row.current_epoch == Some(LeaderEpoch(6)))
    };
    let first = rig.reading(2).iter().find(at_six).unwrap();
    assert_eq!((validated.len(), validated[0].broker), (1, B2));
    assert!(validated[0].at < first.at, "validation came first");
    let generation = rig.reader().route.position_generation();
    assert_eq!(generation.0, position.0 + 1);
    assert_eq!(*rig.reader().route.state(), State::Leader);
}
