//! Hints that lead in circles: routing.md S38.

use std::time::Duration;

use nearside::embedded::{RowEdit, Rule, Selector};
use nearside::ids::BrokerId;
use nearside::routing::{Count, State, Why};

use crate::rig::Rig;

const B2: BrokerId = BrokerId(2);
const B3: BrokerId = BrokerId(3);

/// Rows of `at` name `hint`.
fn hints(at: i32, hint: BrokerId) -> Rule {
    let edit = RowEdit {
        hint: Some(Some(hint)),
        ..RowEdit::default()
    };
    Rule::row(edit).at(at)
}

/// routing.md S38 (a)
#[test]
fn hints_of_followers_are_dropped_and_the_leader_is_asked() {
    for (rack, read, other) in [("b", B2, B3), ("c", B3, B2)] {
        let mut rig = Rig::with(|client| client.client_rack = Some(rack.into()), |_| {});
        rig.preload(1_000);
        rig.assign();
        rig.run_until(|rig| rig.reader().delivered.len() == 1_000);
        assert_eq!(rig.follower(), Some(read));
        let changes = rig.reader().changes.len();
        rig.cluster().inject(hints(read.0, other).times(1));
        rig.preload(10);
        rig.run_until(|rig| !rig.probed(1).is_empty());
        rig.run_for(Duration::from_secs(5));

        assert!(rig.reader().counts.contains(&Count::Hint("H1")));
        assert_eq!(rig.reader().changes.len(), changes);
        assert_eq!(rig.follower(), Some(read));
        assert!(rig.reading(other.0).is_empty(), "{other} is never asked");
        assert_eq!(rig.probed(1).len(), 1);
        assert_eq!(rig.reader().delivered.len(), 1_010);
    }
}

/// routing.md S38 (b)
#[test]
fn a_leader_that_hints_itself_twice_is_read_without_a_rack() {
    let mut rig = Rig::with(|_| {}, |cluster| cluster.selector = Selector::LeaderOnly);
    rig.preload(100);
    let edit = RowEdit {
        hint: Some(Some(BrokerId(1))),
        records: Some(Vec::new().into()),
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(edit).at(1).with_rack(true));
    rig.assign();
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::SelfHint));
    assert_eq!(rig.reading(1).len(), 2, "the second time it counts");
    rig.run_until(|rig| rig.reader().delivered.len() == 100);
    assert_eq!(rig.reader().reasons(), ["assigned", "hold_self_hint"]);
}

/// routing.md S38 (c)
#[test]
fn the_fourth_adoption_within_a_minute_is_a_flap() {
    let mut rig = Rig::new();
    // 2 hints, so the leader is asked, which now says "me" and then 2 again, as when the end of the
    // log of 2 hovers about the position.
    let mut asked = 0;
    rig.cluster().inject(Rule::rows_by(move |facts| {
        let hint = match (facts.leader, facts.rack) {
            (true, None) => return None,
            (true, Some(_)) => {
                asked += 1;
                (asked % 2 == 1).then_some(B2)
            }
            (false, _) => Some(B3),
        };
        Some(RowEdit {
            hint: Some(hint),
            ..RowEdit::default()
        })
    }));
    rig.preload(1_000);
    rig.assign();
    let start = rig.now;
    while rig.reader().route.state().why() != Some(Why::Flap) {
        assert!(rig.now.since(start) < Duration::from_secs(60));
        rig.run_busy(Duration::from_millis(10), Duration::from_millis(10));
    }
    let forced = rig.now;
    assert!(forced.since(start) < Duration::from_secs(1));
    let adopted = |count: &&Count| **count == Count::Hint("adopted");
    assert_eq!(rig.reader().counts.iter().filter(adopted).count(), 3);
    assert!(rig.reader().counts.contains(&Count::Hint("H10")));
    assert_eq!(rig.reader().reasons().last().unwrap(), "hold_flap");

    let probes = rig.reader().probes.len();
    let asked = |rig: &Rig| rig.reader().probes.len() > probes;
    rig.run_until(asked);
    let held = rig.now.since(forced);
    let second = Duration::from_millis(990)..=Duration::from_millis(1_010);
    assert!(second.contains(&held), "held for {held:?}");
    assert!(matches!(rig.reader().route.state(), State::Forced { .. }));
    let end = rig.reader().route.fetch_end();
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}
