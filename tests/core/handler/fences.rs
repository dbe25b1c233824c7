//! Drains, lost partitions, moved positions, reassignment.

use std::sync::Arc;

use nearside::handler::{Context, Event, Input, Message, Outcome, Raw, Subscription, handler_fn};
use nearside::ids::{Moment, Offset};

use super::rig::{Log, Rig, batch, log, partition, read, seconds};

/// Each record takes `time` seconds. Logs its offset, and whether the result still counts by then.
fn slow(rig: &Rig, seen: &Log<(i64, bool)>, time: u64) -> Subscription {
    let (clock, seen) = (Arc::clone(&rig.clock), Arc::clone(seen));
    Subscription::topics(["orders"]).handler(handler_fn(
        move |message: Message<Raw>, context: Context| {
            let (clock, seen) = (Arc::clone(&clock), Arc::clone(&seen));
            async move {
                clock.sleep(seconds(time)).await;
                seen.lock()
                    .unwrap()
                    .push((message.offset().0, context.is_current()));
                Ok(Outcome::Done)
            }
        },
    ))
}

fn drain(until: u64) -> Input {
    let until = Moment::from_ms(until * 1_000);
    Input::Drain {
        partition: partition(0),
        epoch: 1.into(),
        until,
    }
}

fn end(epoch: u64) -> Input {
    Input::End {
        partition: partition(0),
        epoch: epoch.into(),
    }
}

#[test]
fn a_drain_lets_the_record_in_hand_end_and_drops_the_rest() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow(&rig, &seen, 2);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3), batch(3, 3)]);
    rig.pass(seconds(1));
    rig.input(drain(60));
    rig.deliver(0, vec![batch(6, 1)]);
    rig.pass(seconds(10));
    assert_eq!(read(&seen), [(0, true)]);
    assert_eq!(rig.report(0).finished, [(0, 1)]);
    assert_eq!(rig.report(0).drained, [None]);
    rig.input(end(1));
    assert_eq!(rig.report(0).ended, [1.into()]);
}

#[test]
fn a_quiesced_partition_resumes_with_what_is_delivered_afterwards() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow(&rig, &seen, 2);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    rig.input(drain(60));
    rig.pass(seconds(2));
    rig.input(Input::Resume {
        partition: partition(0),
        epoch: 1.into(),
    });
    rig.deliver(0, vec![batch(0, 3).starting_at(Offset(1))]);
    rig.pass(seconds(10));
    assert_eq!(read(&seen), [(0, true), (1, true), (2, true)]);
    assert_eq!(rig.report(0).finished, [(0, 1), (1, 2), (2, 3)]);
}

#[test]
fn a_drain_does_not_wait_for_a_backoff() {
    let mut rig = Rig::new();
    let failing =
        Subscription::topics(["orders"]).handler(handler_fn(|_: Message<Raw>, _: Context| async {
            Ok(Outcome::retry())
        }));
    rig.assign(0, &failing);
    rig.deliver(0, vec![batch(0, 1)]);
    assert!(rig.host.facts(&partition(0)).unwrap().retry_at.is_some());
    rig.input(drain(60));
    assert_eq!(rig.report(0).drained, [None]);
    let look = Some(Moment::from_ms(5_000));
    assert_eq!(rig.host.next_deadline(), look, "at the queues; no retry");
}

#[test]
fn a_drain_cancels_when_its_time_is_up_and_abandons_after_the_grace() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow(&rig, &seen, 50);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    rig.input(drain(10));
    rig.pass(seconds(15) - std::time::Duration::from_micros(1));
    assert!(!rig.reports.contains_key(&partition(0)));
    rig.pass(std::time::Duration::from_micros(1));
    assert_eq!(rig.report(0).drained, [Some(Offset(0))]);
    rig.input(end(1));
    assert_eq!(rig.report(0).ended, [1.into()], "its task was aborted");
    assert_eq!(read(&seen), []);
}

#[test]
fn the_result_of_a_lost_partition_is_dropped() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow(&rig, &seen, 2);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    rig.pass(seconds(1));
    rig.input(end(1));
    assert!(
        !rig.reports.contains_key(&partition(0)),
        "its task still lives"
    );
    rig.pass(seconds(10));
    assert_eq!(read(&seen), [(0, false)]);
    assert_eq!(rig.report(0).finished, []);
    assert_eq!(rig.report(0).ended, [1.into()]);
    assert!(matches!(rig.events[..], [Event::LateResult { .. }]));
}

/// runtime.md 37, at the host
#[test]
fn a_partition_that_comes_back_waits_for_the_old_attempt() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow(&rig, &seen, 2);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 1)]);
    rig.pass(seconds(1));
    rig.input(end(1));
    rig.assign_at(0, 2, &subscription);
    rig.deliver_at(0, 2, vec![batch(0, 1)]);
    rig.pass(seconds(1));
    assert_eq!(read(&seen), [(0, false)]);
    rig.pass(seconds(2));
    assert_eq!(read(&seen), [(0, false), (0, true)]);
    assert_eq!(rig.report(0).finished, [(0, 1)]);
}

#[test]
fn a_moved_position_drops_the_queue_and_the_result_in_hand() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow(&rig, &seen, 2);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    rig.pass(seconds(3));
    rig.input(Input::Rewind {
        partition: partition(0),
        epoch: 1.into(),
    });
    rig.deliver(0, vec![batch(100, 1)]);
    rig.pass(seconds(10));
    assert_eq!(read(&seen), [(0, true), (1, false), (100, true)]);
    assert_eq!(rig.report(0).finished, [(0, 1), (100, 101)]);
}

#[test]
fn what_belongs_to_another_assignment_is_dropped_and_told() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow(&rig, &seen, 1);
    rig.assign_at(0, 2, &subscription);
    rig.deliver_at(0, 1, vec![batch(0, 1)]);
    rig.input(end(1));
    rig.pass(seconds(5));
    assert_eq!(read(&seen), []);
    let stale = rig
        .events
        .iter()
        .filter(|event| matches!(event, Event::Stale { .. }));
    assert_eq!(stale.count(), 2);
    assert!(rig.host.facts(&partition(0)).is_some());
}

/// runtime.md 57, at the host
#[test]
fn the_queue_outlives_whoever_filled_it() {
    let seen = log();
    let mut rig = Rig::new();
    let subscription = slow(&rig, &seen, 2);
    rig.assign(0, &subscription);
    rig.deliver(0, vec![batch(0, 3)]);
    rig.pass(seconds(60));
    // A partition actor that starts again learns here what finished while it was away.
    assert_eq!(
        rig.host.facts(&partition(0)).unwrap().position,
        Some(Offset(3))
    );
    assert_eq!(read(&seen), [(0, true), (1, true), (2, true)]);
}

#[test]
fn later_attempts_carry_the_newer_generation() {
    let seen = log();
    let sink = Arc::clone(&seen);
    let mut rig = Rig::new();
    let tokens = Subscription::topics(["orders"]).handler(handler_fn(
        move |_: Message<Raw>, context: Context| {
            sink.lock().unwrap().push(context.fencing());
            async { Ok(Outcome::Done) }
        },
    ));
    rig.assign(0, &tokens);
    rig.deliver(0, vec![batch(0, 1)]);
    rig.input(Input::Generation(5.into()));
    rig.deliver(0, vec![batch(1, 1)]);
    let tokens = read(&seen);
    assert_eq!(tokens[0].to_string(), "billing/orders-0/4/0");
    assert_eq!(tokens[1].to_string(), "billing/orders-0/5/1");
    assert!(tokens[0] < tokens[1]);
}
