//! Leaders that move: routing.md S20, S21, S39.

use std::time::Duration;

use nearside::embedded::{Api, RowEdit, Rule, Seen, Selector};
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
    assert!(
        rig.reader().route.position_generation() > position,
        "validation came first"
    );
    assert_eq!(rig.cluster().requests(B2, Api::OffsetForLeaderEpoch), 1);
    assert_eq!(*rig.reader().route.state(), State::Leader);
}
