//! Order, progress and failures of single records.

use std::sync::Arc;

use nearside::handler::{
    Cause, Context, Event, Gate, HandlerError, Input, Json, Message, Outcome, Raw, Retry, Settings,
    Subscription, blocking_fn, handler_fn,
};
use nearside::ids::LeaderEpoch;

use super::rig::{Log, Rig, batch, batch_at_epoch, batch_of, log, partition, read, seconds};

/// Handles records as `judge` says, and logs `(offset, attempt)` of every attempt.
fn subscription(
    seen: &Log<(i64, u32)>,
    judge: impl Fn(i64, u32) -> Result<Outcome, HandlerError> + Send + Sync + 'static,
) -> Subscription {
    let seen = Arc::clone(seen);
    Subscription::topics(["orders"]).handler(handler_fn(
        move |message: Message<Raw>, context: Context| {
            seen.lock()
                .unwrap()
                .push((message.offset().0, context.attempt()));
            let result = judge(message.offset().0, context.attempt());
            async move { result }
        },
    ))
}

/// runtime.md 1
#[test]
fn records_run_once_each_in_order_and_the_last_epoch_is_reported() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(0, &subscription(&seen, |_, _| Ok(Outcome::Done)));
    rig.deliver(0, vec![batch_at_epoch(0, 2, 5), batch_at_epoch(2, 1, 6)]);
    assert_eq!(read(&seen), [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(rig.report(0).finished, [(0, 3)]);
    assert_eq!(rig.report(0).leader_epoch, Some(LeaderEpoch(6)));
    assert_eq!(rig.started, 1, "one task for the whole run of records");
}

/// runtime.md 2
#[test]
fn a_panic_is_a_retry_after_a_backoff() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(
        0,
        &subscription(&seen, |offset, attempt| {
            assert!(offset != 1 || attempt > 1, "record one is not ready");
            Ok(Outcome::Done)
        }),
    );
    rig.deliver(0, vec![batch(0, 3)]);
    assert_eq!(
        read(&seen),
        [(0, 1), (1, 1)],
        "nothing overtakes the failed record"
    );
    assert_eq!(rig.report(0).watermark(), 1);
    rig.pass(seconds(1));
    assert_eq!(read(&seen), [(0, 1), (1, 1), (1, 2), (2, 1)]);
    assert_eq!(rig.report(0).watermark(), 3);
    let panics: Vec<_> = rig.events.iter().filter(|event| is_panic(event)).collect();
    assert_eq!(panics.len(), 1);
}

fn is_panic(event: &Event) -> bool {
    matches!(event, Event::Retrying { cause: Cause::Panic, text, attempt: 1, .. }
        if text == "record one is not ready")
}

#[test]
fn every_tenth_record_may_panic_at_first_and_none_is_skipped() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(
        0,
        &subscription(&seen, |offset, attempt| {
            assert!(offset % 10 != 0 || attempt > 1, "every tenth");
            Ok(Outcome::Done)
        }),
    );
    for base in [0, 100, 200] {
        rig.deliver(0, vec![batch(base, 40), batch(base + 40, 60)]);
    }
    rig.pass(seconds(60));
    let expected: Vec<_> = (0..300)
        .flat_map(|offset| (1..=if offset % 10 == 0 { 2 } else { 1 }).map(move |n| (offset, n)))
        .collect();
    assert_eq!(read(&seen), expected);
    assert_eq!(rig.report(0).watermark(), 300);
    let joined = rig
        .report(0)
        .finished
        .windows(2)
        .all(|pair| pair[0].1 == pair[1].0);
    assert!(joined, "reports follow one another without a gap");
}

/// runtime.md 6
#[test]
fn a_wished_delay_replaces_the_schedule() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(
        0,
        &subscription(&seen, |_, attempt| {
            Ok(if attempt == 1 {
                Outcome::retry_after(seconds(5))
            } else {
                Outcome::Done
            })
        }),
    );
    rig.deliver(0, vec![batch(0, 1)]);
    rig.pass(seconds(5) - std::time::Duration::from_micros(1));
    assert_eq!(read(&seen), [(0, 1)]);
    rig.pass(std::time::Duration::from_micros(1));
    assert_eq!(read(&seen), [(0, 1), (0, 2)]);
}

/// runtime.md 9
#[test]
fn stop_names_the_record_and_starts_nothing_more() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(
        0,
        &subscription(&seen, |offset, _| {
            Ok(if offset == 5 {
                Outcome::stop("ledger is closed")
            } else {
                Outcome::Done
            })
        }),
    );
    rig.deliver(0, vec![batch(0, 10)]);
    rig.pass(seconds(60));
    assert_eq!(rig.report(0).watermark(), 5);
    assert_eq!(read(&seen).last(), Some(&(5, 1)));
    assert_eq!(rig.stops.len(), 1);
    assert_eq!(
        rig.stops[0].to_string(),
        "ledger is closed (partition orders-0, offset 5, attempt 1)"
    );
}

#[test]
fn a_ceiling_ends_in_a_stop_and_a_panic_counts_twice() {
    let seen = log();
    let sink = Arc::clone(&seen);
    let failing = Subscription::topics(["orders"])
        .retry(Retry::default().ceiling(3))
        .handler(handler_fn(
            move |message: Message<Raw>, context: Context| {
                sink.lock()
                    .unwrap()
                    .push((message.offset().0, context.attempt()));
                assert!(context.attempt() > 1, "first attempt");
                async move { Err(HandlerError::retryable("no luck")) }
            },
        ));
    let mut rig = Rig::new();
    rig.assign(0, &failing);
    rig.deliver(0, vec![batch(0, 2)]);
    rig.pass(seconds(60));
    assert_eq!(
        read(&seen),
        [(0, 1), (0, 2)],
        "two strikes for the panic, one for the error"
    );
    assert_eq!(rig.stops[0].attempts, 2);
    assert_eq!(rig.stops[0].reason, "error: no luck");
}

#[test]
fn a_permanent_error_and_broken_bytes_take_the_exhausted_action_at_once() {
    let mut rig = Rig::new();
    let permanent = subscription(&log(), |_, _| {
        Err(HandlerError::permanent("no such account"))
    });
    rig.assign(0, &permanent);
    rig.deliver(0, vec![batch(0, 1)]);
    let json = Subscription::topics(["orders"])
        .decode(Json::<u32>::new())
        .handler(handler_fn(|_: Message<u32>, _: Context| async {
            Ok(Outcome::Done)
        }));
    rig.assign(1, &json);
    rig.deliver(1, vec![batch_of(0, 0, &["17", "{"])]);
    let reasons: Vec<_> = rig
        .stops
        .iter()
        .map(|stop| (stop.offset.0, stop.reason.as_str()))
        .collect();
    assert_eq!(reasons[0], (0, "permanent: no such account"));
    assert_eq!(reasons[1].0, 1);
    assert!(
        reasons[1].1.starts_with("decode: malformed: "),
        "{}",
        reasons[1].1
    );
}

#[test]
fn a_classifier_replaces_the_default_rules() {
    let classified = Subscription::topics(["orders"])
        .classify(|error: &HandlerError, attempt: u32| match attempt {
            1 => Outcome::retry(),
            _ => Outcome::stop(format!("gave up: {error}")),
        })
        .handler(handler_fn(|_: Message<Raw>, _: Context| async {
            Err(HandlerError::permanent("no such account"))
        }));
    let mut rig = Rig::new();
    rig.assign(0, &classified);
    rig.deliver(0, vec![batch(0, 1)]);
    rig.pass(seconds(60));
    assert_eq!(rig.stops[0].reason, "gave up: no such account");
    assert_eq!(rig.stops[0].attempts, 2);
}

#[test]
fn a_shut_gate_starts_nothing_until_it_opens() {
    let seen = log();
    let mut rig = Rig::new();
    rig.assign(0, &subscription(&seen, |_, _| Ok(Outcome::Done)));
    let gate = |shut| Input::Gate {
        partition: partition(0),
        gate: Gate::User,
        shut,
    };
    rig.input(gate(true));
    rig.deliver(0, vec![batch(0, 2)]);
    assert_eq!(read(&seen), []);
    rig.input(gate(false));
    assert_eq!(read(&seen), [(0, 1), (1, 1)]);
}

#[test]
fn a_full_queue_says_so_and_tells_when_there_is_room() {
    let mut rig = Rig::with(Settings {
        queue_records: 10,
        ..Settings::default()
    });
    rig.assign(0, &subscription(&log(), |_, _| Ok(Outcome::Done)));
    let gate = |shut| Input::Gate {
        partition: partition(0),
        gate: Gate::User,
        shut,
    };
    rig.input(gate(true));
    rig.deliver(0, vec![batch(0, 9)]);
    assert!(!rig.reports.contains_key(&partition(0)));
    rig.deliver(0, vec![batch(9, 1)]);
    assert!(rig.report(0).full);
    rig.input(gate(false));
    assert!(!rig.report(0).full);
}

/// A stint whose time is up behind the last record of a batch leaves nothing of that batch.
#[test]
fn a_slow_handler_leaves_no_record_counted_twice_and_there_is_room_again() {
    let seen = log();
    let sink = Arc::clone(&seen);
    let mut rig = Rig::with(Settings {
        queue_records: 10,
        stint_bytes_max: 1,
        ..Settings::default()
    });
    let clock = Arc::clone(&rig.clock);
    let slow = Subscription::topics(["orders"]).handler(handler_fn(
        move |message: Message<Raw>, _: Context| {
            sink.lock().unwrap().push(message.offset().0);
            let clock = Arc::clone(&clock);
            async move {
                clock.sleep(seconds(1)).await;
                Ok(Outcome::Done)
            }
        },
    ));
    rig.assign(0, &slow);
    rig.deliver(0, (0..10).map(|at| batch(2 * at, 2)).collect());
    assert!(rig.report(0).full);
    for handled in 1..=20 {
        rig.pass(seconds(1));
        let facts = rig.host.facts(&partition(0)).unwrap();
        // Of the batch in hand nothing waits.
        let behind = 18 - (handled / 2 * 2).min(18);
        assert_eq!(facts.queued_records, behind, "{handled} handled");
    }
    assert_eq!(read(&seen), (0..20).collect::<Vec<_>>());
    assert!(!rig.report(0).full);
}

#[test]
fn partitions_take_permits_in_turn() {
    let seen = log();
    let sink = Arc::clone(&seen);
    let mut rig = Rig::with(Settings {
        stints_max: 2,
        ..Settings::default()
    });
    let clock = Arc::clone(&rig.clock);
    let slow = Subscription::topics(["orders"]).handler(handler_fn(
        move |message: Message<Raw>, _: Context| {
            sink.lock().unwrap().push(message.partition().0);
            let clock = Arc::clone(&clock);
            async move {
                clock.sleep(seconds(1)).await;
                Ok(Outcome::Done)
            }
        },
    ));
    for index in 0..5 {
        rig.assign(index, &slow);
        rig.deliver(index, vec![batch(0, 2)]);
    }
    assert_eq!(read(&seen), [0, 1]);
    rig.pass(seconds(1));
    assert_eq!(
        read(&seen),
        [0, 1, 2, 3],
        "a second record waits for its turn"
    );
    rig.pass(seconds(4));
    let mut counts = read(&seen);
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
}

/// runtime.md 13
#[test]
fn blocking_handlers_are_bound_by_their_threads_and_do_not_hold_up_others() {
    let mut rig = Rig::with(Settings {
        blocking_max: 4,
        ..Settings::default()
    });
    let blocking = Subscription::topics(["orders"])
        .handler(blocking_fn(|_: Message<Raw>, _: Context| Ok(Outcome::Done)));
    rig.frozen = true;
    for index in 0..50 {
        rig.assign(index, &blocking);
        rig.deliver(index, vec![batch(0, 1)]);
    }
    assert_eq!(rig.started, 4);
    let seen = log();
    rig.assign(50, &subscription(&seen, |_, _| Ok(Outcome::Done)));
    rig.deliver(50, vec![batch(0, 1)]);
    assert_eq!(rig.started, 5, "the handler pool has permits of its own");
    rig.frozen = false;
    rig.input(Input::Tick);
    assert_eq!(rig.started, 51);
    assert!((0..50).all(|index| rig.report(index).watermark() == 1));
}
