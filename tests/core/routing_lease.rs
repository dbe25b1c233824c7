//! Staying with a follower, and asking the leader again: routing.md S2 to S5, S7.

use std::time::Duration;

use nearside::embedded::{Api, Effect, RowEdit, Rule, Seen};
use nearside::ids::{BrokerId, Offset};
use nearside::routing::{self, Count, Event, Gate, Input, Wish};
use nearside::wire::Class;
use nearside::wire::api::TopicRef;
use nearside::wire::api::fetch::{Aborted, Row};

use crate::rig::{ROUND_TRIP, Rig, partition};

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// A rig that reads from 2, has read everything, and knows what it looked like then.
fn settled() -> (Rig, Stillness) {
    let mut rig = Rig::new();
    rig.follow();
    let stillness = Stillness {
        dials: dials(&rig),
        changes: rig.reader().changes.len(),
        fetches: rig.reading(1).len(),
    };
    (rig, stillness)
}

/// Dials of all data connections.
fn dials(rig: &Rig) -> usize {
    let of = |broker| rig.dials(broker, Class::FetchRack) + rig.dials(broker, Class::FetchNoRack);
    (1..=3).map(of).sum()
}

struct Stillness {
    dials: usize,
    changes: usize,
    fetches: usize,
}

impl Stillness {
    /// Nothing moved: same connection, no event, the leader was asked about leases only.
    fn check(&self, rig: &Rig) {
        assert_eq!(dials(rig), self.dials, "none is opened");
        assert!(rig.is_ready(2, routing::Class::Rack), "nor closed");
        let quiet = |said: &&Event| matches!(said, Event::CaughtUp { .. });
        let events = &rig.reader().events;
        assert!(events.iter().all(|said| quiet(&said)), "{events:?}");
        assert_eq!(
            rig.reader().changes.len(),
            self.changes,
            "{:?}",
            rig.reader().reasons()
        );
        assert_eq!(rig.reading(1).len(), self.fetches);
        assert!(
            (1..=2).contains(&rig.reader().probes.len()),
            "{:?}",
            rig.reader().probes
        );
        assert_eq!(rig.probed(1).len(), rig.reader().probes.len());
        let other =
            |count: &&Count| matches!(count, Count::Probe { wish, .. } if *wish != Wish::Lease);
        assert_eq!(rig.reader().counts.iter().find(other), None);
    }
}

/// routing.md S2 (a)
#[test]
fn ten_minutes_of_busy_stay_rows_change_nothing() {
    let (mut rig, stillness) = settled();
    rig.run_busy(TEN_MINUTES, Duration::from_millis(200));
    stillness.check(&rig);
    assert!(rig.reader().delivered.len() >= 3_999);
}

/// routing.md S2 (b)
#[test]
fn ten_minutes_of_omitted_rows_change_nothing() {
    let (mut rig, stillness) = settled();
    let wants = rig.reader().wants.len();
    rig.run_for(TEN_MINUTES);
    stillness.check(&rig);
    assert!(
        rig.reader().wants.len() <= wants + 2,
        "an idle partition says nothing"
    );
    assert!(
        rig.reading(2).len() > 1_000,
        "the session is polled all the time"
    );
    // The log of 2 stands still, so that of its leader is sampled by the clock.
    assert!(rig.seen(Api::ListOffsets).len() >= 15);
}

/// routing.md S2 (c)
#[test]
fn ten_minutes_of_throttled_answers_change_nothing() {
    let (mut rig, stillness) = settled();
    // Longer than any answer is waited for.
    let throttle = Duration::from_secs(4);
    let rule = Rule::new(Effect::Throttle(throttle)).on(Api::Fetch).at(2);
    let rule = rig.cluster().inject(rule);
    let before = rig.reading(2).len();
    rig.run_busy(TEN_MINUTES, Duration::from_secs(1));
    stillness.check(&rig);
    let fetches = &rig.reading(2)[before + 1..];
    assert!(fetches.len() >= 100, "{} fetches", fetches.len());
    let apart = |pair: &[Seen]| pair[1].at.since(pair[0].at) >= throttle;
    assert!(fetches.windows(2).all(apart), "the link is mute");
    assert!(rig.hedged(1).is_empty(), "no answer is overdue meanwhile");
    // Ten seconds of an end that stands still never pass while every answer moves them.
    assert!(rig.seen(Api::ListOffsets).is_empty());

    rig.cluster().withdraw(rule);
    rig.run_for(Duration::from_secs(30));
    assert_eq!(rig.reader().delivered, (0..1_600).collect::<Vec<_>>());
    assert!(!rig.seen(Api::ListOffsets).is_empty(), "now they do");
}

/// routing.md S3
#[test]
fn a_renewed_lease_costs_one_probe_row_and_no_pause() {
    let (mut rig, stillness) = settled();
    let generation = rig.reader().route.generation();
    let start = rig.now;
    rig.run_for(Duration::from_secs(265));
    while rig.reader().probes.is_empty() {
        rig.run_busy(Duration::from_secs(1), Duration::from_millis(10));
    }
    let (asked, question) = rig.reader().probes[0];
    assert!((270..=330).contains(&asked.since(start).as_secs()));
    rig.run_busy(Duration::from_secs(5), Duration::from_millis(10));

    assert_eq!(question.stamp.broker, BrokerId(1));
    assert_eq!(rig.probed(1).len(), 1);
    let probe = rig.probed(1)[0].fetch.clone().unwrap();
    assert_eq!(
        (probe.rows.len(), probe.rows[0].bytes_max, probe.bytes_max),
        (1, 1, 1)
    );
    assert_eq!(
        (probe.wait_max, probe.rack),
        (Duration::ZERO, Some("b".into()))
    );
    stillness.check(&rig);
    assert_eq!(rig.reader().route.generation(), generation);
    let lease = rig.reader().route.state().lease().unwrap();
    assert!(lease.granted >= asked && lease.granted.since(asked) <= ROUND_TRIP * 3);
    let gap = rig
        .reader()
        .longest_gap(asked - Duration::from_secs(1), rig.now);
    assert!(
        gap <= Duration::from_millis(20),
        "records paused for {gap:?}"
    );
}

/// The leader's answer to the next probe is `hint`, while a fetch at 2 waits for records. Then ten
/// records come.
fn asked_again(hint: Option<BrokerId>) -> (Rig, Offset) {
    let (mut rig, _) = settled();
    let edit = RowEdit {
        hint: Some(hint),
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(edit).at(1).times(1));
    rig.run_until(|rig| !rig.probed(1).is_empty());
    rig.run_for(ROUND_TRIP);
    let end = rig.reader().route.fetch_end();
    assert_eq!(
        rig.follower(),
        Some(BrokerId(2)),
        "the fetch in flight is paid for"
    );
    rig.preload(10);
    rig.run_until(move |rig| rig.reader().route.fetch_end() > end);
    (rig, Offset(end.0 + 10))
}

/// routing.md S4 (a)
#[test]
fn a_probe_that_names_another_follower_moves_the_route_after_the_fetch_in_flight() {
    let (mut rig, end) = asked_again(Some(BrokerId(3)));
    rig.run_until(|rig| rig.follower() == Some(BrokerId(3)));
    rig.run_for(Duration::from_millis(50));

    assert_eq!(
        rig.reader().reasons(),
        ["assigned", "hint_adopted", "probe_moved"],
        "one event"
    );
    assert_eq!(
        rig.reading(3)[0].fetch.as_ref().unwrap().rows[0].offset,
        end
    );
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}

/// routing.md S4 (b)
#[test]
fn a_probe_that_names_nobody_returns_to_the_leader_after_the_fetch_in_flight() {
    let (mut rig, end) = asked_again(None);
    let fetches = rig.reading(1).len();
    let moved = |rig: &Rig| rig.reader().reasons().last().unwrap() == "leader_said_stay";
    rig.run_until(moved);
    rig.run_until(move |rig| rig.reading(1).len() > fetches);

    assert_eq!(
        rig.reader().reasons()[..3],
        ["assigned", "hint_adopted", "leader_said_stay"],
        "one event"
    );
    let fetch = rig.reading(1)[fetches].fetch.clone().unwrap();
    assert_eq!((fetch.rows[0].offset, fetch.rack), (end, Some("b".into())));
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
}

/// routing.md S5
#[test]
fn a_resume_after_a_long_pause_asks_first_and_never_reads_in_bulk_from_the_leader() {
    for minutes in [6, 12] {
        let (mut rig, stillness) = settled();
        rig.input(Input::Pause);
        rig.run_for(Duration::from_secs(60 * minutes));
        assert!(rig.reader().probes.is_empty(), "no probe while paused");
        rig.preload(100);
        let resumed = rig.now;
        let fetches = rig.reading(2).len();
        rig.input(Input::Resume);
        rig.run_until(|rig| rig.reader().delivered.len() == 1_100);

        assert!(rig.now.since(resumed) <= Duration::from_secs(2));
        let probe = rig.probed(1)[0].at;
        let fetch = rig.reading(2)[fetches].at;
        match minutes {
            6 => assert!(
                fetch.since(probe) <= ROUND_TRIP * 3,
                "probe and fetch together"
            ),
            _ => assert!(fetch > probe, "probe first"),
        }
        assert_eq!(rig.reading(1).len(), stillness.fetches);
    }
}

/// routing.md S7
#[test]
fn a_late_answer_of_an_earlier_probe_is_dropped() {
    let (mut rig, stillness) = settled();
    // By then the session at 1 has said good-bye: the next Fetch there is the probe.
    rig.run_for(Duration::from_secs(120));
    let dials = rig.dials(1, Class::Control);
    let swallow = Rule::new(Effect::Swallow).on(Api::Fetch).at(1);
    rig.cluster().inject(swallow.times(1));
    rig.run_until(|rig| rig.reader().probes.len() == 2);
    let apart = rig.reader().probes[1].0.since(rig.reader().probes[0].0);
    assert!(
        apart < Duration::from_secs(4),
        "asked again after {apart:?}"
    );
    rig.run_for(Duration::from_secs(1));
    assert!(
        rig.dials(1, Class::Control) > dials,
        "its connection is gone"
    );
    let lease = rig.reader().route.state().lease().unwrap();
    assert!(
        lease.granted > rig.reader().probes[1].0,
        "the second probe renewed it"
    );

    let stamp = rig.reader().probes[0].1.stamp;
    rig.input(Input::ProbeRow {
        stamp,
        row: stay_with_records(),
    });
    assert_eq!(rig.follower(), Some(BrokerId(2)));
    assert_eq!(rig.reader().changes.len(), stillness.changes);
    let dropped = Count::Wasted {
        gate: Some(Gate::G3),
        bytes: 61,
    };
    assert!(rig.reader().counts.contains(&dropped));
}

fn stay_with_records() -> Row {
    Row {
        topic: TopicRef::Name(partition().topic),
        partition: partition().partition,
        error: nearside::wire::ErrorCode::NONE,
        high_watermark: Some(Offset(1_000)),
        last_stable_offset: Some(Offset(1_000)),
        log_start: Some(Offset(0)),
        preferred_read_replica: None,
        diverging_epoch: None,
        current_leader: None,
        aborted: Aborted::default(),
        records: vec![0; 61].into(),
    }
}
