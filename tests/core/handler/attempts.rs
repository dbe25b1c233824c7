//! Deadlines, grace and abandonment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearside::handler::{
    Cause, Context, Event, Message, Outcome, Raw, Subscription, SubscriptionBuilder, handler_fn,
};

use super::rig::{Log, Rig, batch, log, read, seconds};

fn orders() -> SubscriptionBuilder {
    Subscription::topics(["orders"]).deadline(seconds(1))
}

/// Counts how many of its copies are alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        let before = count.fetch_add(1, Ordering::SeqCst);
        assert_eq!(before, 0, "two attempts alive");
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A handler whose first attempt of record 1 takes ten seconds. It honours cancellation, if
/// `polite`.
fn slow_once(rig: &Rig, seen: &Log<(i64, u32)>, polite: bool) -> Subscription {
    let (clock, seen) = (Arc::clone(&rig.clock), Arc::clone(seen));
    let alive = Arc::default();
    orders().handler(handler_fn(
        move |message: Message<Raw>, context: Context| {
            let (clock, seen, alive) = (Arc::clone(&clock), Arc::clone(&seen), Arc::clone(&alive));
            async move {
                let _alive = Alive::new(&alive);
                seen.lock()
                    .unwrap()
                    .push((message.offset().0, context.attempt()));
                if message.offset().0 == 1 && context.attempt() == 1 {
                    if polite {
                        context.cancelled().await;
                        return Ok(Outcome::retry());
                    }
                    clock.sleep(seconds(100)).await;
                }
                Ok(Outcome::Done)
            }
        },
    ))
}

/// runtime.md 4
#[test]
fn a_handler_that_honours_cancellation_is_cancelled_at_the_deadline_and_tried_again() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow_once(&rig, &seen, true);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    rig.pass(seconds(1) - std::time::Duration::from_micros(1));
    assert!(rig.events.is_empty());
    rig.pass(std::time::Duration::from_micros(1));
    assert!(matches!(rig.events[0], Event::Overdue { .. }));
    assert!(matches!(
        rig.events[1],
        Event::Retrying {
            attempt: 1,
            cause: Cause::Deadline,
            ..
        }
    ));
    rig.pass(seconds(1));
    assert_eq!(read(&seen), [(0, 1), (1, 1), (1, 2), (2, 1)]);
    assert_eq!(rig.report(0).watermark(), 3);
}

#[test]
fn an_attempt_that_ignores_cancellation_is_aborted_after_the_grace() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow_once(&rig, &seen, false);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    assert_eq!(rig.reports.len(), 0, "record 0 is reported with the stint");
    rig.pass(seconds(6));
    assert_eq!(
        rig.report(0).watermark(),
        1,
        "what was finished before counts"
    );
    assert!(
        rig.events
            .iter()
            .any(|event| matches!(event, Event::Abandoned { offset, .. } if offset.0 == 1))
    );
    rig.pass(seconds(1));
    assert_eq!(read(&seen), [(0, 1), (1, 1), (1, 2), (2, 1)]);
    assert_eq!(rig.report(0).watermark(), 3);
}

/// runtime.md A1
#[test]
fn nothing_starts_beside_a_task_that_survives_its_abort() {
    let seen = log();
    let mut rig = Rig::new();
    rig.deaf = true;
    let subscription = slow_once(&rig, &seen, false);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    rig.pass(seconds(90));
    assert_eq!(read(&seen), [(0, 1), (1, 1)]);
    assert_eq!(rig.host.stints_abandoned(), 1);
    assert!(
        rig.events
            .iter()
            .any(|event| matches!(event, Event::Stuck { .. }))
    );
    rig.pass(seconds(30));
    assert_eq!(
        read(&seen),
        [(0, 1), (1, 1), (1, 2), (2, 1)],
        "the late result was dropped"
    );
    assert!(
        rig.events
            .iter()
            .any(|event| matches!(event, Event::LateResult { .. }))
    );
    assert_eq!(rig.host.stints_abandoned(), 0);
}

#[test]
fn work_that_gets_done_in_the_grace_counts() {
    let seen = log();
    let mut rig = Rig::new();
    let (clock, sink) = (Arc::clone(&rig.clock), Arc::clone(&seen));
    let subscription = orders().handler(handler_fn(
        move |message: Message<Raw>, context: Context| {
            let (clock, sink) = (Arc::clone(&clock), Arc::clone(&sink));
            async move {
                clock.sleep(seconds(2)).await;
                sink.lock()
                    .unwrap()
                    .push((message.offset().0, context.attempt()));
                Ok(Outcome::Done)
            }
        },
    ));
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    rig.pass(seconds(6));
    assert_eq!(read(&seen), [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(rig.report(0).watermark(), 3);
    let overdue = rig
        .events
        .iter()
        .filter(|event| matches!(event, Event::Overdue { .. }));
    assert_eq!(overdue.count(), 3, "each record has its own deadline");
}

#[test]
fn a_context_knows_its_deadline() {
    let seen = log();
    let sink = Arc::clone(&seen);
    let mut rig = Rig::new();
    let clock = Arc::clone(&rig.clock);
    let subscription = orders().handler(handler_fn(move |_: Message<Raw>, context: Context| {
        let (clock, sink) = (Arc::clone(&clock), Arc::clone(&sink));
        async move {
            clock.sleep(seconds(1) / 4).await;
            sink.lock().unwrap().push(context.remaining());
            Ok(Outcome::Done)
        }
    }));
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 2)]);
    rig.pass(seconds(1));
    assert_eq!(read(&seen), [Some(seconds(3) / 4), Some(seconds(3) / 4)]);
}
