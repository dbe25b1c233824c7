//! Batch handlers.

use std::sync::Arc;

use nearside::handler::{
    Batch, BatchOutcome, Context, Json, Outcome, Raw, Settings, Subscription, batch_fn,
};

use super::rig::{Log, Rig, batch, batch_of, log, read, seconds};

/// Offsets and attempt number of every batch offered.
type Offers = Log<(Vec<i64>, u32)>;

fn subscription(
    offers: &Offers,
    judge: impl Fn(&[i64], u32) -> BatchOutcome + Send + Sync + 'static,
) -> Subscription {
    let offers = Arc::clone(offers);
    Subscription::topics(["orders"]).handler(batch_fn(
        move |batch: Batch<Raw>, context: Context| {
            let offsets: Vec<i64> = batch.records().map(|record| record.offset.0).collect();
            assert_eq!(batch.len(), offsets.len());
            let outcome = judge(&offsets, context.attempt());
            offers.lock().unwrap().push((offsets, context.attempt()));
            async move { Ok(outcome) }
        },
    ))
}

#[test]
fn a_batch_spans_fetched_batches_up_to_its_limit() {
    let offers = log();
    let mut rig = Rig::with(Settings {
        unit_records: 5,
        ..Settings::default()
    });
    rig.assign(0, &subscription(&offers, |_, _| BatchOutcome::done()));
    rig.deliver(0, vec![batch(0, 2), batch(2, 2), batch(4, 4)]);
    assert_eq!(
        read(&offers),
        [(vec![0, 1, 2, 3, 4], 1), (vec![5, 6, 7], 1)]
    );
    assert_eq!(rig.report(0).finished, [(0, 8)]);
}

#[test]
fn a_batch_is_bound_in_bytes_too() {
    let offers = log();
    // Payload of these records: one digit and the empty header block.
    let mut rig = Rig::with(Settings {
        unit_bytes: 5,
        ..Settings::default()
    });
    rig.assign(0, &subscription(&offers, |_, _| BatchOutcome::done()));
    rig.deliver(0, vec![batch(0, 4)]);
    assert_eq!(read(&offers), [(vec![0, 1, 2], 1), (vec![3], 1)]);
}

/// runtime.md 12
#[test]
fn only_the_finished_head_of_a_batch_counts_and_the_rest_is_offered_again() {
    let offers = log();
    let mut rig = Rig::new();
    rig.assign(
        0,
        &subscription(&offers, |_, attempt| match attempt {
            1 => BatchOutcome::Each(vec![Outcome::Done, Outcome::retry(), Outcome::Done]),
            _ => BatchOutcome::done(),
        }),
    );
    rig.deliver(0, vec![batch(0, 3)]);
    assert_eq!(rig.report(0).finished, [(0, 1)]);
    rig.pass(seconds(1));
    assert_eq!(read(&offers), [(vec![0, 1, 2], 1), (vec![1, 2], 2)]);
    assert_eq!(rig.report(0).finished, [(0, 1), (1, 3)]);
}

#[test]
fn a_count_beyond_the_batch_is_a_permanent_error() {
    let mut rig = Rig::new();
    let too_many = |_: &[i64], _| BatchOutcome::UpTo {
        done: 4,
        then: Outcome::Done,
    };
    rig.assign(0, &subscription(&log(), too_many));
    rig.deliver(0, vec![batch(0, 3)]);
    assert_eq!(
        rig.stops[0].reason,
        "permanent: the handler says that 4 of 3 records are done"
    );
    assert_eq!(rig.stops[0].offset.0, 0);
}

/// runtime.md H3
#[test]
fn an_undecodable_record_splits_the_batch() {
    let offers: Log<Vec<u32>> = log();
    let sink = Arc::clone(&offers);
    let numbers = Subscription::topics(["orders"])
        .decode(Json::<u32>::new())
        .handler(batch_fn(move |batch: Batch<u32>, _: Context| {
            sink.lock().unwrap().push(batch.values().to_vec());
            async { Ok(BatchOutcome::done()) }
        }));
    let mut rig = Rig::new();
    rig.assign(0, &numbers);
    rig.deliver(0, vec![batch_of(0, 0, &["7", "8", "x", "9"])]);
    assert_eq!(read(&offers), [vec![7, 8]]);
    assert_eq!(rig.report(0).watermark(), 2);
    assert_eq!(rig.stops[0].offset.0, 2);
}

#[test]
fn a_batch_gives_owned_messages_in_order() {
    let seen: Log<(i64, u32, Option<Vec<u8>>)> = log();
    let sink = Arc::clone(&seen);
    let numbers = Subscription::topics(["orders"])
        .decode(Json::<u32>::new())
        .handler(batch_fn(move |batch: Batch<u32>, _: Context| {
            for message in batch {
                let bytes = message.payload().map(<[u8]>::to_vec);
                sink.lock()
                    .unwrap()
                    .push((message.offset().0, *message.value(), bytes));
            }
            async { Ok(BatchOutcome::done()) }
        }));
    let mut rig = Rig::new();
    rig.assign(0, &numbers);
    rig.deliver(0, vec![batch(0, 2), batch(2, 1)]);
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(
        read(&seen),
        [(0, 0, bytes("0")), (1, 1, bytes("1")), (2, 2, bytes("2"))]
    );
}
