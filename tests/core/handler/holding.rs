//! What the queue of a partition keeps in memory (runtime.md 11 B2).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nearside::budget::{Arrival, Budget, Inflation};
use nearside::handler::{Context, Gate, Input, Message, Outcome, Raw, Subscription, handler_fn};
use nearside::ids::Offset;
use nearside::records::{BatchSet, BatchView, BatchWriter, Compression, NewRecord, ReadSettings};

use super::rig::{Log, Rig, log, partition, read, seconds};

const RECORDS: i64 = 100;
const VALUE: usize = 1_000;

/// Bytes that count themselves.
struct Counted(Bytes, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

/// This record is large beside the others of its batch.
const HEAVY: i64 = 1_099;

/// What a record says.
fn value(offset: i64) -> String {
    let width = if offset == HEAVY { 60 * VALUE } else { VALUE };
    format!("{offset:0width$}")
}

/// A batch of 100 KB from `base` on, whose buffer counts in `alive`.
fn large(base: i64, codec: Compression, alive: &Arc<AtomicUsize>) -> BatchView {
    let mut writer = BatchWriter::new(codec);
    for offset in base..base + RECORDS {
        let value = value(offset);
        let record = NewRecord {
            value: Some(value.as_bytes()),
            ..NewRecord::default()
        };
        writer.push(&record).unwrap();
    }
    let mut bytes = writer.seal().unwrap().to_vec();
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    alive.fetch_add(1, Ordering::SeqCst);
    let bytes = Bytes::from_owner(Counted(bytes.into(), Arc::clone(alive)));
    let mut set = BatchSet::new(bytes, Offset(base), ReadSettings::default());
    set.next().unwrap().unwrap()
}

/// Fails `times` times at offset `bad` and asks for `delay` then; notes what it is done with.
fn failing(bad: i64, times: u32, delay: Duration, seen: &Log<i64>) -> Subscription {
    let seen = Arc::clone(seen);
    let handler = handler_fn(move |message: Message<Raw>, context: Context| {
        let offset = message.offset().0;
        let right = value(offset);
        assert_eq!(message.payload(), Some(right.as_bytes()));
        let fails = offset == bad && context.attempt() <= times;
        if !fails {
            seen.lock().unwrap().push(offset);
        }
        async move {
            Ok(if fails {
                Outcome::retry_after(delay)
            } else {
                Outcome::Done
            })
        }
    });
    Subscription::topics(["orders"]).handler(handler)
}

fn queued_bytes(rig: &Rig) -> usize {
    rig.host.facts(&partition(0)).unwrap().queued_bytes
}

/// What inflated batches are charged to.
fn inflation() -> Inflation {
    Inflation::new(1 << 20, Budget::unlimited())
}

/// The same batch in a buffer of its own.
fn inflated(base: i64, inflation: &Inflation) -> BatchView {
    let packed = large(base, Compression::Lz4, &Arc::default());
    let charge = inflation.seat().charge();
    packed.inflate_charged(1 << 20, charge).unwrap()
}

#[test]
fn the_last_records_of_a_large_batch_that_wait_for_long_are_copied_and_its_buffer_is_freed() {
    let (inflation, seen) = (inflation(), log());
    let mut rig = Rig::new();
    rig.assign(0, &failing(97, 1, seconds(5), &seen));
    rig.deliver(0, vec![inflated(0, &inflation)]);
    assert_eq!(inflation.charged(), 0);
    let queued = queued_bytes(&rig);
    assert!((3 * VALUE..4 * VALUE).contains(&queued), "{queued}");
    assert_eq!(rig.budget.charged(), queued, "the copy is charged");
    assert_eq!(rig.report(0).watermark(), 97);
    rig.pass(seconds(5));
    assert_eq!(read(&seen), (0..RECORDS).collect::<Vec<_>>());
    assert_eq!(rig.report(0).watermark(), RECORDS);
    assert_eq!((queued_bytes(&rig), rig.budget.charged()), (0, 0));
}

#[test]
fn a_batch_that_does_not_wait_for_long_or_of_which_much_is_left_stays_as_it_is() {
    let (inflation, seen) = (inflation(), log());
    let mut rig = Rig::new();
    rig.assign(0, &failing(97, 3, seconds(2), &seen));
    rig.deliver(0, vec![inflated(0, &inflation)]);
    let whole = inflation.charged();
    assert!((100_000..150_000).contains(&whole), "{whole}");
    rig.pass(seconds(2));
    assert_eq!(inflation.charged(), whole, "4 s");
    rig.pass(seconds(2));
    assert_eq!(inflation.charged(), 0, "6 s");
    rig.pass(seconds(2));
    assert_eq!(rig.report(0).watermark(), RECORDS);

    rig.assign(1, &failing(94, 1, seconds(60), &seen));
    rig.deliver(1, vec![inflated(0, &inflation)]);
    assert_eq!(inflation.charged(), whole, "6 of 100 are left");
}

#[test]
fn a_few_records_that_are_much_of_a_batch_are_not_copied() {
    let (inflation, seen) = (inflation(), log());
    let mut rig = Rig::new();
    rig.assign(0, &failing(HEAVY, 1, seconds(60), &seen));
    rig.deliver(0, vec![inflated(1_000, &inflation)]);
    assert_eq!(rig.report(0).watermark(), HEAVY);
    assert!(inflation.charged() > 100_000);
    rig.pass(seconds(60));
    assert_eq!(rig.report(0).watermark(), HEAVY + 1);
    assert_eq!(inflation.charged(), 0);
}

#[test]
fn what_lies_behind_an_inflated_batch_does_not_keep_its_buffer() {
    let (inflation, seen) = (inflation(), log());
    let mut rig = Rig::new();
    rig.assign(0, &failing(97, 1, seconds(9), &seen));
    let views = [0, RECORDS].map(|base| inflated(base, &inflation));
    let both = inflation.charged();
    rig.deliver(0, views.into());
    assert_eq!(inflation.charged(), both / 2);
    rig.pass(seconds(9));
    assert_eq!(inflation.charged(), 0);
    assert_eq!(rig.report(0).watermark(), 2 * RECORDS);
}

/// What came as it is keeps its whole frame, which others may be done with.
#[test]
fn all_that_waits_for_long_in_a_frame_is_copied_if_together_it_is_little() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(0, &failing(3, 1, seconds(9), &seen));
    let (frame, mut rows) = fetched(&rig.budget, 12, 2);
    rig.deliver(0, rows.remove(0));
    assert_eq!(rig.budget.charged(), frame, "others are at their rows");
    drop(rows);
    rig.pass(seconds(5));
    let queued = queued_bytes(&rig);
    assert!((197 * VALUE..210 * VALUE).contains(&queued), "{queued}");
    assert_eq!(rig.budget.charged(), queued);
    rig.pass(seconds(4));
    assert_eq!(read(&seen), (0..2 * RECORDS).collect::<Vec<_>>());
    assert_eq!(rig.report(0).watermark(), 2 * RECORDS);
    assert_eq!((queued_bytes(&rig), rig.budget.charged()), (0, 0));
}

#[test]
fn what_waits_for_a_retry_alone_in_its_frame_is_copied_at_once() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(0, &failing(97, 1, seconds(9), &seen));
    let (_, mut rows) = fetched(&rig.budget, 1, 1);
    rig.deliver(0, rows.remove(0));
    let queued = queued_bytes(&rig);
    assert!((3 * VALUE..4 * VALUE).contains(&queued), "{queued}");
    assert_eq!(rig.budget.charged(), queued);
    rig.pass(seconds(9));
    assert_eq!(read(&seen), (0..RECORDS).collect::<Vec<_>>());
    assert_eq!((queued_bytes(&rig), rig.budget.charged()), (0, 0));
}

/// A pause, a coordinator that is away.
#[test]
fn what_waits_behind_a_gate_does_not_keep_a_frame_that_others_are_done_with() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(0, &failing(-1, 0, seconds(1), &seen));
    gate(&mut rig, true);
    let (frame, mut rows) = fetched(&rig.budget, 12, 1);
    rig.deliver(0, rows.remove(0));
    drop(rows);
    rig.pass(seconds(4));
    assert_eq!(rig.budget.charged(), frame, "it may be over soon");
    rig.pass(seconds(1));
    assert_eq!(rig.budget.charged(), queued_bytes(&rig));
    assert!(rig.budget.charged() < frame / 10);
    rig.pass(seconds(60));
    assert_eq!(rig.budget.charged(), queued_bytes(&rig), "copied once");
    gate(&mut rig, false);
    assert_eq!(read(&seen), (0..RECORDS).collect::<Vec<_>>());
    assert_eq!((queued_bytes(&rig), rig.budget.charged()), (0, 0));
}

/// Each has the last batch of a row of ten.
#[test]
fn partitions_that_wait_for_a_little_each_free_the_frame_they_share() {
    let mut rig = Rig::new();
    let (frame, rows) = fetched(&rig.budget, 2, 10);
    for (partition, mut row) in (0..).zip(rows) {
        rig.assign(partition, &failing(-1, 0, seconds(1), &log()));
        gate_of(&mut rig, partition, true);
        rig.deliver(partition, vec![row.pop().unwrap()]);
    }
    assert_eq!(rig.budget.charged(), frame);
    rig.pass(seconds(5));
    let charged = rig.budget.charged();
    assert!((190 * VALUE..300 * VALUE).contains(&charged), "{charged}");
}

#[test]
fn a_frame_of_which_a_third_waits_or_that_is_in_hand_is_not_copied() {
    let mut rig = Rig::new();
    rig.assign(0, &failing(-1, 0, seconds(1), &log()));
    gate(&mut rig, true);
    let (frame, mut rows) = fetched(&rig.budget, 3, 1);
    rig.deliver(0, rows.remove(0));
    drop(rows);
    rig.pass(seconds(60));
    assert_eq!(rig.budget.charged(), frame, "a third waits");
    gate(&mut rig, false);
    assert_eq!(rig.budget.charged(), 0);

    let stuck = handler_fn(|_: Message<Raw>, _: Context| std::future::pending());
    rig.assign(1, &Subscription::topics(["orders"]).handler(stuck));
    let (frame, mut rows) = fetched(&rig.budget, 1, 12);
    rig.deliver(1, rows.remove(0).split_off(10));
    rig.pass(seconds(60));
    assert_eq!(rig.budget.charged(), frame, "copies would free nothing");
}

/// Bytes of a frame, and its rows of so many batches each.
fn fetched(budget: &Budget, rows: usize, batches: i64) -> (usize, Vec<Vec<BatchView>>) {
    let alive = Arc::default();
    let row: Vec<u8> = (0..batches)
        .flat_map(|batch| {
            let view = large(batch * RECORDS, Compression::None, &alive);
            view.raw().unwrap().to_vec()
        })
        .collect();
    let frame = Bytes::from(row.repeat(rows));
    let arrival = Arrival::new(Arc::new(budget.charge(frame.len())));
    let rows = (0..rows).map(|at| {
        let row = arrival.keep(frame.slice(at * row.len()..(at + 1) * row.len()));
        let set = BatchSet::new(row, Offset(0), ReadSettings::default());
        set.map(Result::unwrap).collect()
    });
    (frame.len(), rows.collect())
}

fn gate(rig: &mut Rig, shut: bool) {
    gate_of(rig, 0, shut);
}

fn gate_of(rig: &mut Rig, index: i32, shut: bool) {
    let (partition, gate) = (partition(index), Gate::User);
    rig.input(Input::Gate {
        partition,
        gate,
        shut,
    });
}
