//! Replicas and leaders that answer and give nothing: routing.md S33, S36, S37.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearside::embedded::{Api, Link, RowEdit, Rule, Selector};
use nearside::ids::{BrokerId, Moment, Offset};
use nearside::routing::{Gate, State, Why, broker};
use nearside::wire::api::Isolation;

use crate::rig::{ROUND_TRIP, Rig, partition};

const B1: BrokerId = BrokerId(1);
const B2: BrokerId = BrokerId(2);

/// A reader of 2, which has 500 records and gets no more, and when it had read them.
fn frozen(isolation: Isolation) -> (Rig, Moment) {
    let mut rig = Rig::with(|client| client.isolation = isolation, |_| {});
    rig.preload(500);
    rig.assign();
    rig.run_until(|rig| rig.follower() == Some(B2));
    rig.run_until(|rig| rig.reader().delivered.len() == 500);
    rig.cluster().hold_replica(&partition(), B2, true).unwrap();
    let read = rig.now;
    (rig, read)
}

/// routing.md S33 (a)
#[test]
fn a_follower_that_stands_still_below_the_leaders_end_is_left() {
    let (mut rig, read) = frozen(Isolation::ReadUncommitted);
    // The leader goes on without 2, and metadata has not told us yet.
    rig.cluster().shrink_isr(&partition(), B2).unwrap();
    rig.preload(200);
    rig.run_until(|rig| !rig.seen(Api::ListOffsets).is_empty());
    let sampled = rig.seen(Api::ListOffsets).remove(0);
    assert_eq!(sampled.broker, B1);
    let after = sampled.at.since(read).as_millis();
    assert!(
        (9_900..=11_000).contains(&after),
        "sampled after {after} ms"
    );
    assert!(rig.reader().probes.is_empty(), "sampled, not probed");

    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::Cooldown(B2)));
    assert!(
        rig.now.since(read) <= Duration::from_secs(13),
        "{:?}",
        rig.now.since(read)
    );
    assert_eq!(rig.reader().reasons().last().unwrap(), "cooldown_slow");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.reader().delivered, (0..700).collect::<Vec<_>>());
}

/// routing.md S33 (b)
#[test]
fn an_open_transaction_is_no_reason_to_leave_a_follower() {
    let (mut rig, _) = frozen(Isolation::ReadCommitted);
    rig.cluster()
        .hold_stable(&partition(), Some(Offset(500)))
        .unwrap();
    rig.cluster().hold_replica(&partition(), B2, false).unwrap();
    rig.preload(200);
    let changes = rig.reader().changes.len();
    rig.run_for(Duration::from_secs(120));
    assert!(rig.seen(Api::ListOffsets).len() >= 3, "it was sampled");
    assert_eq!(
        rig.reader().changes.len(),
        changes,
        "{:?}",
        rig.reader().reasons()
    );
    assert_eq!(rig.follower(), Some(B2));

    rig.cluster().hold_stable(&partition(), None).unwrap();
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.reader().delivered, (0..700).collect::<Vec<_>>());
}

/// routing.md S36
#[test]
fn a_follower_that_stops_answering_loses_a_hedge() {
    let mut rig = Rig::new();
    rig.follow();
    let written = rig.reading(2).last().unwrap().at;
    rig.cluster().set_link(B2, Link::Silent);
    rig.preload(10);
    rig.run_until(|rig| rig.reader().delivered.len() == 1_010);

    assert_eq!(rig.hedged(1).len(), 1);
    let hedge = rig.hedged(1)[0].clone();
    let deadline = Duration::from_millis(2_500);
    let asked = hedge.at.since(written);
    assert!(
        asked >= deadline && asked <= deadline + ROUND_TRIP * 4,
        "hedge after {asked:?}"
    );
    assert!(rig.now.since(hedge.at) <= ROUND_TRIP);
    let fetch = hedge.fetch.unwrap();
    assert_eq!((fetch.wait_max, fetch.bytes_min), (Duration::ZERO, 1));
    assert_eq!(fetch.rack, None);
    assert!(rig.reader().route.is_cooling(B2, rig.now));
    assert_eq!(rig.reader().reasons().last().unwrap(), "cooldown_slow");

    rig.cluster().set_link(B2, Link::Open);
    rig.preload(10);
    rig.run_for(Duration::from_secs(2));
    let late = |(from, count): &(BrokerId, broker::Count)| {
        let gate = Gate::G3;
        *from == B2
            && matches!(count, broker::Count::Wasted { gate: by, bytes: 1.. } if *by == gate)
    };
    assert!(rig.link_counts.iter().any(late), "the late answer came");
    assert_eq!(
        rig.reader().delivered,
        (0..1_020).collect::<Vec<_>>(),
        "and was dropped"
    );
}

/// A reader of leader 1 whose rows say no more than the first one, and the switch for that.
fn muzzled() -> (Rig, Arc<AtomicBool>) {
    let mut rig = Rig::with(
        |client| client.partition_bytes = 4_000,
        |cluster| cluster.selector = Selector::LeaderOnly,
    );
    let mute = Arc::new(AtomicBool::new(false));
    let muted = Arc::clone(&mute);
    // Incremental answers leave the row out; any other has the hint in it, and no records.
    let rule = Rule::rows_by(move |facts| {
        let holds_back = muted.load(Ordering::Relaxed) && facts.rack.is_some();
        holds_back.then(|| RowEdit {
            records: Some(Vec::new().into()),
            omit: facts.incremental,
            hint: (!facts.incremental).then_some(Some(B2)),
            ..RowEdit::default()
        })
    });
    rig.cluster().inject(rule.at(1));
    (rig, mute)
}

/// routing.md S37 (a)
#[test]
fn a_leader_that_holds_records_back_is_read_without_a_rack() {
    let (mut rig, mute) = muzzled();
    for _ in 0..100 {
        rig.preload(10);
    }
    rig.assign();
    rig.run_until(|rig| !rig.reader().delivered.is_empty());
    mute.store(true, Ordering::Relaxed);
    let muted = rig.now;
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::Starved));
    let starved = rig.now.since(muted);
    assert!(
        starved <= Duration::from_millis(1_500),
        "starved for {starved:?}"
    );
    rig.run_until(|rig| rig.reader().delivered.len() == 1_000);
    assert_eq!(rig.reader().reasons(), ["assigned", "hold_starved"]);
}

/// routing.md S37 (b)
#[test]
fn a_leader_that_says_nothing_for_half_a_minute_is_asked_for_its_hint() {
    let (mut rig, mute) = muzzled();
    rig.preload(10);
    rig.assign();
    rig.run_until(|rig| rig.reader().delivered.len() == 10);
    rig.run_for(ROUND_TRIP * 2);
    mute.store(true, Ordering::Relaxed);
    let quiet = rig.now;
    rig.run_until(|rig| rig.follower() == Some(B2));
    let waited = rig.now.since(quiet).as_millis();
    assert!(
        (29_000..=31_000).contains(&waited),
        "the hint was found after {waited} ms"
    );
    assert_eq!(rig.probed(1).len(), 1);
    assert_eq!(rig.reader().reasons(), ["assigned", "hint_adopted"]);
    assert!(matches!(rig.reader().route.state(), State::Follower { .. }));
}
