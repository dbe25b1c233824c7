//! Rows and batches on their way to the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::ids::{
    AssignmentEpoch, BrokerId, PositionGeneration, RouteGeneration, TopicIncarnation,
};
use crate::records::{BatchWriter, Compression, NewRecord};
use crate::routing::{Kind, Lane, Role, Stamp};
use crate::wire::api::fetch::Aborted;

/// A batch of one record whose value is `size` zeros, at `base`.
fn packed(base: i64, size: usize) -> Vec<u8> {
    let mut writer = BatchWriter::new(Compression::Gzip);
    let value = vec![0; size];
    let record = NewRecord {
        value: Some(&value),
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
    let opened = elsewhere(job, |_| panic!("a broken codec"), || true).await;
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
        move |job: Job| {
            let offset = Offset(7);
            match tries.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Opened {
                    ticket: job.ticket,
                    view: Err(BatchError::NoMemory { offset }),
                },
                _ => job.run(),
            }
        }
    };
    let given_up = elsewhere(job.clone(), run.clone(), || {
        tries.load(Ordering::SeqCst) == 0
    });
    assert!(given_up.await.is_none(), "nobody wants it");
    let opened = elsewhere(job, run, || true).await.expect("told");
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    opening.opened(opened).expect("readable");
    assert_eq!(opening.ready().len(), 1);
}

/// A row of `count` batches of one record each, `size` zeros.
fn row(count: i64, size: usize) -> Delivery {
    let batches: Vec<u8> = (0..count).flat_map(|base| packed(base, size)).collect();
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

#[test]
fn a_row_of_small_batches_that_inflate_to_much_is_opened_bit_by_bit_and_in_order() {
    let (size, count, room) = (300_000, 20, 1_000_000);
    let delivery = row(count, size);
    assert!(delivery.records.len() < 20_000, "small on the wire");
    let index = index(&delivery, false, ReadSettings::default(), room);
    let mut opening = Opening::default();
    opening.push(index.views);
    let at_once = opening.inflated_bytes();
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
        assert_eq!(opening.inflated_bytes(), 0, "nothing piles up behind");
        opening.opened(job.run()).expect("sound");
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
    let indexed = |room| index(&row(1, 5_000), false, settings, room);
    assert_eq!(indexed(1_000).indexed, Indexed::Poison);
    // Too little room says nothing yet; the compute pool does.
    let mut opening = Opening::default();
    opening.push(indexed(500).views);
    let job = opening.next_job(settings.inflated_bytes_max);
    let error = opening
        .opened(job.expect("packed").run())
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
    opening.opened(old.run()).expect("dropped");
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
