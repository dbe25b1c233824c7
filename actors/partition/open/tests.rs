//! Rows and batches on their way to the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::job::Ran;
use super::*;
use crate::actors::clock::Clock;
use crate::budget::{Budget, Inflation, InflationCharge};
use crate::ids::{
    AssignmentEpoch, BrokerId, PositionGeneration, RouteGeneration, TopicIncarnation,
};
use crate::records::{BatchWriter, Charge, Compression, NewRecord};
use crate::routing::{Kind, Lane, Role, Stamp};
use crate::wire::api::fetch::Aborted;

/// A batch of one record whose value is `size` zeros, at `base`.
fn packed(base: i64, size: usize) -> Vec<u8> {
    around(base, &vec![0; size])
}

/// A batch of one record that is a quarter smaller on the wire.
fn noise(base: i64, size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0] & 0x3f
    };
    let value: Vec<u8> = (0..size).map(|_| next()).collect();
    around(base, &value)
}

fn around(base: i64, value: &[u8]) -> Vec<u8> {
    let mut writer = BatchWriter::new(Compression::Gzip);
    let record = NewRecord {
        value: Some(value),
        ..NewRecord::default()
    };
    writer.push(&record).expect("fits");
    let mut bytes = writer.seal().expect("not empty").to_vec();
    // Outside of what the checksum covers.
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes
}

fn view(base: i64, size: usize) -> BatchView {
    let bytes = packed(base, size).into();
    let mut set = BatchSet::new(bytes, Offset(base), ReadSettings::default());
    set.next().expect("one batch").expect("sound")
}

#[tokio::test]
async fn a_batch_whose_inflation_panics_is_judged_as_one_that_does_not_decode() {
    let mut opening = Opening::default();
    opening.push(vec![view(7, 100)]);
    let job = opening.next_job(1 << 20).expect("one job");
    let broken = |_, _| panic!("a broken codec");
    let opened = elsewhere(job, seat(), broken, Clock::start()).await;
    let error = opening.opened(opened.expect("told")).expect_err("no batch");
    assert_eq!(error.label(), "corrupt");
    assert_eq!(error.position(), Offset(7));
    assert_eq!(error.skip_to(), Some(Offset(8)), "its checksum held");
    assert!(!opening.is_empty(), "nothing behind it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_finds_no_memory_is_tried_again_until_it_does() {
    let mut opening = Opening::default();
    opening.push(vec![view(7, 100)]);
    let job = opening.next_job(1 << 20).expect("one job");
    let tries = Arc::new(AtomicUsize::new(0));
    let run = {
        let tries = Arc::clone(&tries);
        move |job: Job, charge: InflationCharge| {
            let offset = Offset(7);
            match tries.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Ran::Opened(Opened {
                    ticket: job.ticket,
                    view: Err(BatchError::NoMemory { offset }),
                }),
                _ => job.run(charge),
            }
        }
    };
    let opened = elsewhere(job, seat(), run, Clock::start()).await;
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    opening.opened(opened.expect("told")).expect("readable");
    assert_eq!(opening.ready().len(), 1);
}

fn seat() -> InflationSeat {
    Inflation::unlimited().seat()
}

/// What came of a job for which there is room.
fn run(job: Job) -> Opened {
    match job.run(seat().charge_next()) {
        Ran::Opened(opened) => opened,
        Ran::NoRoom(bytes) => panic!("no room for {bytes} bytes"),
    }
}

fn reading(settings: ReadSettings) -> Reading {
    Reading {
        settings,
        read_committed: false,
        seat: seat(),
    }
}

/// A row of `count` batches of one record each, `size` zeros.
fn row(count: i64, size: usize) -> Delivery {
    delivery((0..count).flat_map(|base| packed(base, size)).collect())
}

fn delivery(batches: Vec<u8>) -> Delivery {
    Delivery {
        stamp: Stamp {
            assignment: AssignmentEpoch(1),
            topic: TopicIncarnation(1),
            position: PositionGeneration(1),
            route: RouteGeneration(1),
            broker: BrokerId(1),
            role: Role::Leader,
            lane: Lane::Rack,
            kind: Kind::Reading,
            epoch: None,
            offset: Offset(0),
        },
        records: batches.into(),
        aborted: Aborted::default(),
        high_watermark: None,
        last_stable: None,
    }
}

/// Inflated bytes that wait for a batch before them.
fn inflated_waiting(opening: &Opening) -> usize {
    let held = |slot: &Slot| match slot {
        Slot::Open(view) => inflated_bytes(view),
        Slot::Packed(_) | Slot::Elsewhere { .. } => 0,
    };
    opening.waiting.iter().map(held).sum()
}

#[test]
fn a_row_of_small_batches_that_inflate_to_much_is_opened_bit_by_bit_and_in_order() {
    let (size, count, room) = (300_000, 20, 1_000_000);
    let delivery = row(count, size);
    assert!(delivery.records.len() < 20_000, "small on the wire");
    let index = index(&delivery, &reading(ReadSettings::default()), room);
    let mut opening = Opening::default();
    opening.push(index.views);
    let at_once = inflated_waiting(&opening);
    assert!(at_once > 0 && at_once <= room, "{at_once}");

    let mut seen = Vec::new();
    let mut jobs = 0;
    loop {
        let ready = opening.ready();
        seen.extend(ready.iter().map(BatchView::base_offset));
        assert!(ready.iter().all(|view| view.records().all(|it| it.is_ok())));
        let Some(job) = opening.next_job(1 << 20) else {
            break;
        };
        assert!(opening.next_job(1 << 20).is_none(), "one at a time");
        assert_eq!(inflated_waiting(&opening), 0, "nothing piles up behind");
        opening.opened(run(job)).expect("sound");
        jobs += 1;
    }
    assert_eq!(seen, (0..count).map(Offset).collect::<Vec<_>>());
    assert_eq!(jobs, 17, "three fitted at once");
    assert!(opening.is_empty());
}

#[test]
fn a_batch_beyond_the_cap_is_poison_however_little_room_there_is() {
    let settings = ReadSettings {
        inflated_bytes_max: 1_000,
        ..ReadSettings::default()
    };
    let indexed = |room| index(&row(1, 5_000), &reading(settings), room);
    assert_eq!(indexed(1_000).indexed, Indexed::Poison);
    // Too little room says nothing yet; the compute pool does.
    let mut opening = Opening::default();
    opening.push(indexed(500).views);
    let job = opening.next_job(settings.inflated_bytes_max);
    let error = opening
        .opened(run(job.expect("packed")))
        .expect_err("poison");
    assert_eq!(error.label(), "inflated");
}

#[test]
fn a_job_of_a_position_that_moved_away_still_counts_as_the_one_that_runs() {
    let mut opening = Opening::default();
    opening.push(vec![view(7, 100)]);
    let old = opening.next_job(1 << 20).expect("one job");
    opening.clear();
    opening.push(vec![view(3, 100)]);
    assert!(opening.next_job(1 << 20).is_none());
    opening.opened(run(old)).expect("dropped");
    assert!(opening.ready().is_empty());
    assert!(opening.next_job(1 << 20).is_some());
}

#[test]
fn what_waits_behind_a_batch_that_halts_its_partition_is_given_up() {
    let open = |base| view(base, 10).inflate(100).expect("sound");
    let mut opening = Opening::default();
    opening.push(vec![view(7, 100), open(8), view(9, 100)]);
    let job = opening.next_job(1 << 20).expect("one job");
    opening.waiting.push_front(Slot::Open(open(6)));
    opening.halt_at(job.ticket);
    opening.push(vec![open(10), view(11, 100)]);
    let ready = opening.ready();
    let left: Vec<_> = ready.iter().map(BatchView::base_offset).collect();
    assert_eq!(left, [Offset(6)], "what lies before it goes on");
    assert!(opening.waiting.is_empty(), "no bytes are held");
    assert!(!opening.is_empty(), "not everything has gone on");
    opening.clear();
    assert!(opening.is_empty(), "the position moved");
}

#[test]
fn a_row_that_finds_no_memory_is_fetched_again_and_is_no_damage() {
    let offset = Offset(7);
    let none = Some(BatchError::NoMemory { offset });
    let expected = Indexed::Advanced {
        fetch_end: offset,
        epoch: None,
    };
    assert_eq!(judge(offset, offset, None, none), expected);
}

/// A share of 1,000 bytes, all of it taken, beside 1,000 for fetching, with a batch open beyond it.
fn used_up() -> (Inflation, Budget, [InflationCharge; 2]) {
    let fetching = Budget::new(1_000);
    let inflation = Inflation::new(1_000, fetching.clone());
    let seat = inflation.seat();
    let (mut all, mut beyond) = (seat.charge(), seat.charge_next());
    assert!(all.grow(1_000) && beyond.grow(10));
    (inflation, fetching, [all, beyond])
}

#[test]
fn a_row_for_which_there_is_no_room_stays_compressed_until_there_is() {
    let (inflation, fetching, [all, beyond]) = used_up();
    let reading = Reading {
        seat: inflation.seat(),
        ..reading(ReadSettings::default())
    };
    let views = index(&row(3, 100), &reading, 1 << 20).views;
    assert_eq!(views.len(), 3, "none is lost");
    assert!(views.iter().all(BatchView::is_compressed));
    assert!(reading.seat.is_empty(), "nothing is held for them");
    drop((all, beyond));
    let index = index(&row(3, 100), &reading, 1 << 20);
    assert!(!index.views.iter().any(BatchView::is_compressed));
    let charged = inflation.charged();
    assert!((300..=1_000).contains(&charged), "{charged}");
    assert!(index.inflated_bytes() <= charged);
    drop(index);
    assert_eq!((inflation.charged(), fetching.charged()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_room_waits_for_it_and_is_opened_then() {
    let (inflation, _, [all, beyond]) = used_up();
    let mut opening = Opening::default();
    opening.push(vec![view(7, 500)]);
    let job = opening.next_job(1_000).expect("one job");
    let seat = inflation.seat();
    // It holds something, so it has no claim to more than its turn.
    let place = seat.when_overdue(10, || {});
    let mut held = place.charge();
    assert!(held.grow(10));
    drop(place);
    let mut waiting = Box::pin(elsewhere(job, seat, Job::run, Clock::start()));
    let minute = Duration::from_secs(60);
    let early = tokio::time::timeout(minute, &mut waiting).await;
    assert!(early.is_err(), "one at a time");
    drop(all);
    let woken = tokio::time::timeout(minute, waiting).await;
    let opened = woken.expect("there is room").expect("told");
    opening.opened(opened).expect("sound");
    assert!(inflation.charged() >= 500);
    drop((beyond, held, opening.ready()));
    assert_eq!(inflation.charged(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_holds_nothing_is_not_stopped_by_others_that_are_stuck() {
    let (inflation, fetching, _stuck) = used_up();
    let mut opening = Opening::default();
    opening.push(vec![view(7, 500)]);
    let job = opening.next_job(1_000).expect("one job");
    let before = fetching.charged();
    let clock = Clock::start();
    let since = clock.now();
    let opened = elsewhere(job, inflation.seat(), Job::run, clock).await;
    assert!(clock.now().since(since) < Duration::from_secs(2));
    opening.opened(opened.expect("told")).expect("sound");
    assert!(fetching.charged() >= before + 500);
    drop(opening.ready());
    assert_eq!(fetching.charged(), before);
}

#[tokio::test(start_paused = true)]
async fn a_batch_given_up_while_it_waits_takes_nothing_and_lets_the_next_go_on() {
    let (inflation, _, stuck) = used_up();
    let mut opening = Opening::default();
    opening.push(vec![view(7, 500)]);
    let job = opening.next_job(1_000).expect("one job");
    let mut waiting = Box::pin(elsewhere(job, inflation.seat(), Job::run, Clock::start()));
    let moment = Duration::from_millis(10);
    let early = tokio::time::timeout(moment, &mut waiting).await;
    assert!(early.is_err(), "there is no room");
    opening.clear();
    opening
        .opened(waiting.await.expect("told"))
        .expect("nobody cares");
    assert!(opening.ready().is_empty());
    drop(stuck);
    opening.push(vec![view(3, 500)]);
    let job = opening.next_job(1_000).expect("the next");
    let opened = elsewhere(job, inflation.seat(), Job::run, Clock::start()).await;
    opening.opened(opened.expect("told")).expect("sound");
    assert_eq!(opening.ready().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_came_behind_a_large_batch_does_not_hold_what_that_one_waits_for() {
    let inflation = Inflation::new(200_000, Budget::new(1 << 20));
    let stuck = inflation.seat();
    let (mut most, mut beyond) = (stuck.charge(), stuck.charge_next());
    assert!(most.grow(140_000) && beyond.grow(100_000));
    let reading = Reading {
        seat: inflation.seat(),
        ..reading(ReadSettings::default())
    };
    let row = delivery([noise(0, 100_000), packed(1, 10_000)].concat());
    let mut opening = Opening::default();
    let room = opening.room_at_once(1 << 20, 200_000);
    opening.push(index(&row, &reading, room).views);
    assert_eq!(
        opening.room_at_once(1 << 20, 200_000),
        0,
        "nor what comes later"
    );
    for offset in [0, 1] {
        let job = opening.next_job(200_000).expect("packed");
        let opened = elsewhere(job, reading.seat.clone(), Job::run, Clock::start());
        let minute = Duration::from_secs(60);
        let opened = tokio::time::timeout(minute, opened).await;
        let opened = opened.expect("its turn came").expect("told");
        opening.opened(opened).expect("sound");
        let ready = opening.ready();
        let offsets: Vec<_> = ready.iter().map(BatchView::base_offset).collect();
        assert_eq!(offsets, [Offset(offset)]);
    }
    assert!(opening.room_at_once(1 << 20, 200_000) > 0);
}

#[tokio::test(start_paused = true)]
async fn partitions_that_others_hold_up_go_beyond_the_share_by_no_more_than_fetching_has() {
    let (inflation, fetching, _stuck) = used_up();
    let before = fetching.charged();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let mut opening = Opening::default();
        opening.push(vec![view(7, 300)]);
        let job = opening.next_job(1_000).expect("one job");
        let seat = inflation.seat();
        waiting.spawn(async move {
            let opened = elsewhere(job, seat, Job::run, Clock::start()).await;
            (opening, opened.expect("told"))
        });
    }
    let minute = Duration::from_secs(60);
    let mut open = Vec::new();
    while let Ok(Some(one)) = tokio::time::timeout(minute, waiting.join_next()).await {
        let (mut opening, opened) = one.expect("no panic");
        opening.opened(opened).expect("sound");
        open.extend(opening.ready());
        assert!(fetching.charged() <= before + 1_000, "{fetching:?}");
    }
    assert!((1..20).contains(&open.len()), "{}", open.len());
    drop(open);
    let next = waiting.join_next().await;
    assert!(next.is_some(), "their turn comes when bytes are given back");
}
