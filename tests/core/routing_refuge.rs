//! Leaders out of reach: routing.md S6, S41 to S45.

use std::time::Duration;

use nearside::embedded::{Api, Effect, Link, RowEdit, Rule, Seen, Selector};
use nearside::ids::{BrokerId, LeaderEpoch, Moment, Offset, TopicPartition};
use nearside::routing::{Class, Count, Event, Hold, Position, State, Why};

use crate::rig::many::partitions;
use crate::rig::{ROUND_TRIP, Rig, partition};

const B1: BrokerId = BrokerId(1);
const B2: BrokerId = BrokerId(2);
const B3: BrokerId = BrokerId(3);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const TENTH: Duration = Duration::from_millis(100);
const HEDGE: Duration = Duration::from_millis(2_500);

fn refuge(rig: &Rig) -> Option<BrokerId> {
    refuge_of(rig.reader().route.state())
}

fn refuge_of(state: &State) -> Option<BrokerId> {
    if let State::Follower {
        broker,
        hold: Hold::Refuge,
    } = state
    {
        return Some(*broker);
    }
    None
}

/// Everything written was delivered once.
fn check_complete(rig: &Rig) {
    let end = rig.reader().route.fetch_end();
    assert_eq!(rig.reader().delivered, (0..end.0).collect::<Vec<_>>());
    let reset =
        |said: &&Event| matches!(said, Event::PositionReset { .. } | Event::Truncated { .. });
    assert_eq!(rig.reader().events.iter().filter(reset).count(), 0);
}

/// 3 leads at epoch 6, and is asked about our history before it is read.
fn check_election(rig: &mut Rig) {
    let fetches = rig.reading(3).len();
    let asked = rig.seen(Api::OffsetForLeaderEpoch).len();
    rig.cluster().move_leader(&partition(), B3).unwrap();
    rig.preload(10);
    rig.run_until(|rig| *rig.reader().route.state() == State::Leader);
    let at_six = |seen: &&Seen| {
        let rows = &seen.fetch.as_ref().unwrap().rows;
        let six = Some(LeaderEpoch(6));
        rows.iter().any(|row| row.current_epoch == six)
    };
    let first = |rig: &Rig| rig.reading(3)[fetches..].iter().find(at_six).cloned();
    rig.run_until(|rig| first(rig).is_some());
    let validated = rig.seen(Api::OffsetForLeaderEpoch);
    assert!(validated.len() > asked);
    assert_eq!(validated[asked].broker, B3);
    assert!(validated[asked].at < first(rig).unwrap().at);
    rig.run_for(SECOND);
    check_complete(rig);
}

/// routing.md S6 (a)
#[test]
fn a_follower_is_read_on_while_its_leader_is_out_of_reach() {
    let mut rig = Rig::new();
    rig.follow();
    let granted = rig.reader().route.state().lease().unwrap();
    let changes = rig.reader().changes.len();
    rig.cluster().set_link(B1, Link::Refused);
    let start = rig.now;
    let stop = granted.stop_at.since(start) - SECOND;
    rig.run_busy(stop, SECOND);
    assert!(!rig.reader().route.health().lease_overdue, "not yet");
    rig.run_busy(MINUTE * 15 - stop, SECOND);

    assert_eq!(
        rig.reader().changes.len(),
        changes,
        "{:?}",
        rig.reader().reasons()
    );
    assert_eq!(rig.follower(), Some(B2));
    let gap = rig.reader().longest_gap(start, rig.now);
    assert!(gap <= SECOND + ROUND_TRIP * 2, "records paused for {gap:?}");
    let probes: Vec<Moment> = rig.reader().probes.iter().map(|(at, _)| *at).collect();
    assert!(probes[0] >= granted.ask_at);
    let pauses: Vec<u128> = probes
        .windows(2)
        .map(|pair| pair[1].since(pair[0]).as_millis())
        .collect();
    // 1, 2, 4 .. 30 s, give or take a fifth, after at most two seconds without an answer.
    for (pause, step) in pauses.iter().zip(0..) {
        let delay = 1_000 * 2_u128.pow(step).min(30);
        let in_turn = delay * 8 / 10..=delay * 12 / 10 + 2_100;
        assert!(in_turn.contains(pause), "{step}: {pauses:?}");
    }
    assert!(pauses.len() > 10, "{pauses:?}");
    assert!(rig.reader().route.health().lease_overdue);
    assert!(rig.reader().events.contains(&Event::LeaseOverdue(true)));
    check_election(&mut rig);
}

/// routing.md S6 (b)
#[test]
fn while_follower_and_leader_are_out_a_third_replica_is_the_refuge() {
    let mut rig = Rig::new();
    rig.follow();
    let edit = RowEdit {
        error: Some(6),
        at_once: true,
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(edit).at(2).times(1));
    rig.run_until(|rig| rig.reader().route.state().why() == Some(Why::Cooldown(B2)));
    rig.cluster().set_link(B1, Link::Refused);
    let cut = rig.now;
    rig.preload(10);
    rig.run_until(|rig| refuge(rig) == Some(B3));
    assert!(rig.reader().route.is_cooling(B2, rig.now));
    let cooled = rig.reader().route.cools_until().unwrap();
    rig.run_until(|rig| rig.reader().delivered.len() == 1_010);
    assert!(
        rig.now.since(cut) <= Duration::from_millis(500),
        "{:?}",
        rig.now.since(cut)
    );

    rig.run_until(|rig| rig.follower() == Some(B2));
    assert!(rig.now >= cooled && rig.now.since(cooled) <= ROUND_TRIP);
    assert_eq!(rig.reader().reasons().last().unwrap(), "refuge_moved");
    assert!(rig.reader().probes.is_empty(), "R45 asks nobody");
    let changes = rig.reader().changes.len();
    rig.run_busy(MINUTE * 15, SECOND);
    assert_eq!(rig.follower(), Some(B2));
    assert_eq!(
        rig.reader().changes.len(),
        changes,
        "{:?}",
        rig.reader().reasons()
    );
    check_election(&mut rig);
}

/// A busy reader of leader 1 from which its packets vanish for a minute.
fn cut_off(rack: Option<&str>) -> Rig {
    let mut rig = Rig::with(|client| client.client_rack = rack.map(Into::into), |_| {});
    rig.preload(1_000);
    rig.assign();
    rig.run_until(|rig| rig.reader().delivered.len() == 1_000);
    rig.run_busy(SECOND, TENTH);
    assert_eq!(*rig.reader().route.state(), State::Leader);
    rig.cluster().set_link(B1, Link::Silent);
    rig
}

/// routing.md S41
#[test]
fn a_client_cut_off_from_its_leader_reads_another_replica_meanwhile() {
    for rack in [None, Some("a")] {
        let mut rig = cut_off(rack);
        let cut = rig.now;
        let read = rig.reader().delivered.len();
        rig.preload(1);
        rig.run_until(move |rig| rig.reader().delivered.len() > read);
        let paused = rig.now.since(cut);
        assert!(
            paused <= HEDGE + ROUND_TRIP * 2,
            "{rack:?}: records paused for {paused:?}"
        );
        let flowing = rig.now;
        rig.run_busy(MINUTE - paused, TENTH);
        let gap = rig.reader().longest_gap(flowing, rig.now);
        assert!(
            gap <= TENTH + ROUND_TRIP * 2,
            "{rack:?}: records paused for {gap:?}"
        );
        assert_eq!(rig.reader().reasons(), ["assigned", "refuge"]);
        assert!([Some(B2), Some(B3)].contains(&refuge(&rig)));

        rig.cluster().set_link(B1, Link::Open);
        let probes = rig.reader().probes.len();
        while !rig.is_ready(1, Class::Control) {
            rig.run_busy(TENTH, TENTH);
            assert!(rig.now.since(cut) < MINUTE * 3);
        }
        let ready = rig.now;
        while *rig.reader().route.state() != State::Leader {
            rig.run_busy(TENTH, TENTH);
            let waited = rig.now.since(ready);
            assert!(waited <= SECOND * 12, "{:?}", rig.reader().reasons());
        }
        rig.run_busy(SECOND * 20, TENTH);
        assert!(rig.reader().probes.len() > probes, "asked before");
        assert_eq!(
            rig.reader().changes.len(),
            3,
            "{:?}",
            rig.reader().reasons()
        );
        let gap = rig.reader().longest_gap(flowing, rig.now);
        assert!(
            gap <= TENTH + ROUND_TRIP * 4,
            "{rack:?}: records paused for {gap:?}"
        );
        check_complete(&rig);
    }
}

/// routing.md S42
#[test]
fn after_follower_and_leader_vanish_the_third_replica_serves_until_both_are_back() {
    let mut rig = Rig::new();
    rig.follow();
    rig.cluster().set_link(B2, Link::Silent);
    let cut = rig.now;
    rig.preload(10);
    rig.run_for(SECOND);
    rig.cluster().set_link(B1, Link::Silent);
    rig.run_until(|rig| refuge(rig) == Some(B3));
    assert!(
        rig.reader().route.is_cooling(B2, rig.now),
        "it lost its hedge"
    );
    let neither = Count::Hedge("neither");
    assert!(rig.reader().counts.contains(&neither), "a hedge at 1");
    let cooled = rig.reader().route.cools_until().unwrap();
    rig.run_until(|rig| rig.reader().delivered.len() == 1_010);
    let paused = rig.now.since(cut);
    let bound = HEDGE + Duration::from_millis(500) + ROUND_TRIP * 4;
    assert!(paused <= bound, "records paused for {paused:?}");

    rig.run_busy(SECOND, TENTH);
    rig.cluster().set_link(B1, Link::Open);
    rig.cluster().set_link(B2, Link::Open);
    let back = rig.now;
    let probes = rig.probed(1).len();
    while rig.follower() != Some(B2) {
        rig.run_busy(TENTH, TENTH);
        assert!(rig.now.since(back) < MINUTE, "{:?}", rig.reader().reasons());
    }
    assert!(rig.now >= cooled, "its cooldown was kept");
    assert!(rig.probed(1).len() > probes, "the leader was asked");
    let way = [
        "assigned",
        "hint_adopted",
        "refuge",
        "hold_cooldown",
        "hint_adopted",
    ];
    assert_eq!(rig.reader().reasons(), way);
    rig.run_for(SECOND);
    check_complete(&rig);
}

/// routing.md S43
#[test]
fn a_position_is_resolved_by_the_leader_or_not_at_all() {
    let mut rig = Rig::with(|_| {}, |cluster| cluster.selector = Selector::LeaderOnly);
    rig.preload(1_100);
    rig.cluster()
        .delete_records(&partition(), Offset(1_000))
        .unwrap();
    rig.assign_at(400);
    rig.run_until(|rig| rig.reader().route.position() == Position::Resolving);
    rig.cluster().set_link(B1, Link::Silent);
    let wants = rig.reader().wants.len();
    let asked = rig.positions_asked.len();
    let mut told = 0;
    for _ in 0..120 {
        rig.run_busy(SECOND, SECOND);
        told += rig.facts().unreachable.len();
    }
    let retries = rig.positions_asked.len() - asked;
    assert!((3..=10).contains(&retries), "asked again {retries} times");
    assert!(told >= 115, "leader_unreachable for {told} s");
    assert_eq!(rig.reader().wants.len(), wants, "no fetch anywhere");
    assert!(rig.hedged(2).is_empty() && rig.hedged(3).is_empty());
    assert_eq!(rig.reader().route.position(), Position::Resolving);
    assert!(rig.reader().delivered.is_empty());
    for broker in [B2, B3] {
        assert_eq!(rig.cluster().requests(broker, Api::ListOffsets), 0);
    }

    rig.cluster().set_link(B1, Link::Open);
    rig.run_until(|rig| rig.reader().delivered.len() == 220);
    assert!(rig.facts().unreachable.is_empty());
    assert_eq!(rig.reader().delivered, (1_000..1_220).collect::<Vec<_>>());
}

/// routing.md S44
#[test]
fn the_partitions_of_a_vanished_leader_spread_over_the_others() {
    const COUNT: i32 = 500;
    const ALL: usize = 500;
    let busy = || partitions(COUNT).step_by(25);
    let mut rig = Rig::of(COUNT, |client| client.client_rack = None, |_| {});
    rig.preload_each(partitions(COUNT));
    rig.assign_all(COUNT);
    rig.run_until(|rig| rig.count(|route| route.fetch_end() == Offset(1)) == ALL);
    let run_busy = |rig: &mut Rig, time: Duration| {
        let end = rig.now + time;
        while rig.now < end {
            rig.preload_each(busy());
            rig.run_for(TENTH);
        }
    };
    run_busy(&mut rig, SECOND * 2);
    rig.cluster().set_link(B1, Link::Silent);
    let at =
        |rig: &Rig, broker: BrokerId| rig.count(|route| refuge_of(route.state()) == Some(broker));
    let refuges = |rig: &Rig| at(rig, B2) + at(rig, B3);
    let cut = rig.now;
    while refuges(&rig) == 0 {
        run_busy(&mut rig, TENTH);
        assert!(rig.now.since(cut) < SECOND * 4);
    }
    let first = rig.now;
    run_busy(&mut rig, SECOND);
    assert_eq!(refuges(&rig), ALL, "all together");
    let share = at(&rig, B2);
    assert!(
        (225..=275).contains(&share),
        "{share} of {COUNT} at broker 2"
    );
    let asked = rig.seen(Api::Metadata);
    let asked = asked
        .iter()
        .filter(|seen| seen.at >= cut && seen.at.since(first) <= SECOND);
    assert!(asked.count() <= 1, "one refresh for all");

    run_busy(&mut rig, SECOND * 10);
    rig.cluster().set_link(B1, Link::Open);
    while !(rig.is_ready(1, Class::Rack) && rig.is_ready(1, Class::Control)) {
        run_busy(&mut rig, TENTH);
        assert!(rig.now.since(cut) < MINUTE);
    }
    let ready = rig.now;
    let home = |rig: &Rig| rig.count(|route| *route.state() == State::Leader);
    while home(&rig) < ALL {
        run_busy(&mut rig, TENTH);
        let waited = rig.now.since(ready);
        assert!(
            waited <= SECOND * 12,
            "{} back after {waited:?}",
            home(&rig)
        );
    }
    for partition in busy() {
        check_partition(&rig, &partition, first);
    }
}

fn check_partition(rig: &Rig, partition: &TopicPartition, since: Moment) {
    let reader = &rig.readers[partition];
    let end = reader.route.fetch_end();
    assert_eq!(reader.delivered, (0..end.0).collect::<Vec<_>>());
    let gap = reader.longest_gap(since, rig.now);
    assert!(gap <= TENTH * 2, "{partition} paused for {gap:?}");
}

/// routing.md S45
#[test]
fn a_leader_that_answers_probes_alone_is_returned_to_less_and_less() {
    let mut rig = cut_off(None);
    rig.preload(1);
    rig.run_until(|rig| refuge(rig).is_some());
    let stalls = Rule::new(Effect::Swallow)
        .on(Api::Fetch)
        .at(1)
        .in_session(true);
    rig.cluster().inject(stalls);
    rig.cluster().set_link(B1, Link::Open);
    let start = rig.now;
    rig.run_busy(MINUTE * 10, TENTH);

    let returns: Vec<Moment> = rig
        .reader()
        .changes
        .iter()
        .filter(|change| change.to.state == "leader" && change.at > start)
        .map(|change| change.at)
        .collect();
    assert!((4..=8).contains(&returns.len()), "{returns:?}");
    // Each after the last one was found out at its hedge deadline, and twice as much patience.
    let pauses = returns.windows(2).map(|pair| pair[1].since(pair[0]));
    for (pause, step) in pauses.clone().zip(1..) {
        let expected = HEDGE + SECOND * 5 * 2_u32.pow(step).min(60);
        let off = pause.abs_diff(expected);
        assert!(off <= TENTH * 2, "{:?}", pauses.collect::<Vec<_>>());
    }
    let gap = rig.reader().longest_gap(start, rig.now);
    assert!(gap <= HEDGE + TENTH * 2, "records paused for {gap:?}");
    let told = &rig.reader().delivered_at;
    let gaps = told
        .windows(2)
        .filter(|pair| pair[0] > start && pair[1].since(pair[0]) > SECOND);
    assert_eq!(gaps.count(), returns.len(), "one a return");
    check_complete(&rig);
}
