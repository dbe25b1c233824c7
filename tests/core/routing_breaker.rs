//! Many partitions of one broker: routing.md S35.

use std::time::Duration;

use nearside::embedded::Seen;
use nearside::ids::{BrokerId, Moment, TopicPartition};
use nearside::routing::{Breaker, Class, State};
use nearside::wire;

use crate::rig::Rig;
use crate::rig::many::partitions;

const B2: BrokerId = BrokerId(2);
const COUNT: i32 = 500;
const ALL: usize = 500;
const SECOND: Duration = Duration::from_secs(1);

/// Every twenty-fifth partition is written to all the time.
fn busy() -> impl Iterator<Item = TopicPartition> {
    partitions(COUNT).step_by(25)
}

fn run_busy(rig: &mut Rig, time: Duration) {
    let end = rig.now + time;
    while rig.now < end {
        rig.preload_each(busy());
        rig.run_for(Duration::from_millis(50));
    }
}

fn on_two(rig: &Rig) -> usize {
    rig.count(|route| route.state().follower() == Some(B2))
}

/// The most partitions asked about within one second.
fn peak(probes: &[Seen], since: Moment) -> usize {
    let rows = |seen: &Seen| seen.fetch.as_ref().unwrap().rows.len();
    let recent: Vec<_> = probes.iter().filter(|seen| seen.at >= since).collect();
    let within = |from: Moment| {
        let in_time = |seen: &&&Seen| seen.at >= from && seen.at.since(from) < SECOND;
        recent.iter().filter(in_time).map(|seen| rows(seen)).sum()
    };
    recent.iter().map(|seen| within(seen.at)).max().unwrap_or(0)
}

/// routing.md S35
#[test]
fn five_hundred_partitions_leave_a_broker_together_and_come_back_in_turn() {
    let mut rig = Rig::of(COUNT, |_| {}, |_| {});
    rig.preload_each(partitions(COUNT));
    rig.assign_all(COUNT);
    rig.run_until(|rig| on_two(rig) == ALL);
    run_busy(&mut rig, Duration::from_secs(2));

    let killed = rig.now;
    let dialled = rig.dials(2, wire::Class::FetchRack);
    rig.cluster().kill(B2);
    run_busy(&mut rig, SECOND);
    let forced = rig.count(|route| matches!(route.state(), State::Forced { .. }));
    assert_eq!(forced, ALL, "all within a second");
    assert!(
        matches!(rig.breaker(2), Breaker::Open(_)),
        "{:?}",
        rig.breaker(2)
    );

    run_busy(&mut rig, Duration::from_secs(19));
    // The ladder of one dialler: 1, 2, 4, 8, 16 s, each half to whole.
    let dials = rig.dials(2, wire::Class::FetchRack) - dialled;
    assert!((3..=6).contains(&dials), "{dials} dials of 500 partitions");
    assert_eq!(on_two(&rig), 0);
    assert_eq!(
        peak(rig.probed(1), killed),
        0,
        "an unreachable broker costs no probe"
    );

    rig.cluster().revive(B2);
    while !rig.is_ready(2, Class::Rack) {
        run_busy(&mut rig, Duration::from_millis(50));
        assert!(rig.now.since(killed) < Duration::from_secs(60));
    }
    let ready = rig.now;
    let mut permits = rig.permits;
    while on_two(&rig) < ALL {
        run_busy(&mut rig, SECOND);
        assert!(
            rig.permits - permits <= 50,
            "{} permits in a second",
            rig.permits - permits
        );
        permits = rig.permits;
        let waited = rig.now.since(ready);
        assert!(
            waited <= Duration::from_secs(15),
            "{} back after {waited:?}",
            on_two(&rig)
        );
    }
    assert_eq!(permits, ALL);
    assert!(
        peak(rig.probed(1), ready) <= 50,
        "{} probes",
        peak(rig.probed(1), ready)
    );

    for partition in busy() {
        let reader = &rig.readers[&partition];
        let gap = reader.longest_gap(killed, rig.now);
        assert!(
            gap <= Duration::from_millis(150),
            "{partition} paused for {gap:?}"
        );
        let end = reader.route.fetch_end();
        assert_eq!(reader.delivered, (0..end.0).collect::<Vec<_>>());
    }
}
