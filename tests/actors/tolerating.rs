//! What fleets tolerate in what brokers send, and that it is counted.

use std::time::Duration;

use bytes::Bytes;
use nearside::embedded::{Api, Effect, Record, Rule, encode_batch};
use nearside::prelude::*;

use crate::counting::Counted;
use crate::stage::{Seen, Stage, commit_marker, emptied, forged, run, start, until};

fn one() -> Bytes {
    encode_batch(&[Record::of("odd")])
}

/// Attributes without a meaning; a null key of length -2; a control record of an unknown kind; a
/// batch that compaction emptied.
fn odd_batches() -> [Bytes; 4] {
    let (key, kind) = (65, 69);
    [
        forged(&one(), |bytes| bytes[21] |= 0x40),
        forged(&one(), |bytes| bytes[key] = 3),
        forged(&commit_marker(7), |bytes| bytes[kind] = 9),
        emptied(3),
    ]
}

fn counts_what_it_tolerates(subscribe: fn(&Seen) -> Subscription) {
    let counted = Counted::default();
    let guard = metrics::set_default_local_recorder(&counted);
    run(async move {
        let (stage, seen) = (Stage::new(), Seen::default());
        stage.topic("orders", 1);
        for batch in odd_batches() {
            stage.append("orders", 0, batch);
        }
        stage.produce("orders", 0, 1);
        let long = Duration::from_secs(86_400);
        let quiet = Rule::new(Effect::Throttle(long)).on(Api::ListOffsets);
        stage
            .cluster()
            .with(|cluster| cluster.inject(quiet.times(1)));
        let fleet = start(stage.fleet("g", "b", subscribe(&seen))).await;
        until("all records are done", || seen.len() == 3).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
    drop(guard);
    for expected in [
        "nearside_wire_oddities_total what=attributes",
        "nearside_wire_oddities_total what=null_length",
        "nearside_wire_oddities_total what=marker",
        "nearside_wire_oddities_total what=throttle",
        "nearside_wire_passed_batches_total why=control",
        "nearside_wire_passed_batches_total why=empty",
    ] {
        let sum = counted.sum(&[expected]);
        assert!((sum - 1.0).abs() < 0.1, "{expected}: {sum}");
    }
}

#[test]
fn what_is_tolerated_in_batches_and_answers_is_counted_once() {
    counts_what_it_tolerates(|seen| seen.noting("orders"));
}

#[test]
fn what_is_tolerated_is_counted_for_batch_handlers_too() {
    counts_what_it_tolerates(|seen| {
        let seen = seen.clone();
        Subscription::topics(["orders"]).handler(batch_fn(move |batch: Batch<Raw>, _: Context| {
            batch.messages().for_each(|message| seen.note(&message));
            async { Ok(BatchOutcome::done()) }
        }))
    });
}
