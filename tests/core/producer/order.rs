//! Order, the gate, leader moves.

use std::time::Duration;

use nearside::ids::{LeaderEpoch, Moment, TopicIncarnation};
use nearside::producer::{Input, Outcome, Settings};
use nearside::wire::ErrorCode;

use super::rig::{Rig, hint};

/// wire.md A42
#[test]
fn a_second_batch_waits_until_a_new_topic_has_taken_the_first() {
    let mut rig = Rig::new();
    rig.append(3);
    assert_eq!(rig.sequences(), [(0, 0)]);
    rig.answer(6, None);
    rig.advance(1_000);
    assert_eq!(rig.sequences(), [(0, 0)], "the same batch, alone");
    rig.answer(0, Some(0));
    assert_eq!(rig.sequences(), [(0, 1), (0, 2)]);
}

#[test]
fn five_batches_are_out_once_the_leader_has_taken_one() {
    let mut rig = Rig::proven();
    rig.append(8);
    assert_eq!(rig.sequences(), [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
    rig.answer(0, Some(1));
    assert_eq!(rig.sequences().last(), Some(&(0, 6)));
}

/// wire.md A41
#[test]
fn a_hinted_leader_gets_the_batches_at_once_in_order_and_one_by_one_at_first() {
    let mut rig = Rig::proven();
    rig.append(5);
    let moved = |row: &mut nearside::wire::api::produce::Produced| {
        row.error = ErrorCode::NOT_LEADER_OR_FOLLOWER;
        row.current_leader = hint(2, 6);
    };
    rig.answer_with(moved);
    let lot = rig.hints.pop().unwrap();
    assert_eq!(lot.hints[0].epoch, Some(LeaderEpoch(6)));
    assert_eq!(lot.hints[0].incarnation, TopicIncarnation(0));
    rig.lead(2, 6);
    assert_eq!(
        rig.sent.len(),
        4,
        "what is out at the old leader is waited for"
    );
    for _ in 0..4 {
        rig.answer_with(moved);
    }
    let before = rig.now;
    assert_eq!((rig.sequences(), rig.sent[0].broker), (vec![(0, 1)], 2));
    rig.answer(0, Some(1));
    assert_eq!(rig.sequences(), [(0, 2)], "retries go one by one");
    for base in 2..6 {
        rig.answer(0, Some(base));
    }
    assert_eq!(rig.now, before, "none of them waited");
    let order: Vec<_> = rig.acked.iter().map(|(token, _)| *token).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    assert!(rig.producer.is_idle());
}

#[test]
fn only_the_first_retry_at_an_epoch_is_free() {
    let mut rig = Rig::proven();
    rig.append(1);
    rig.answer(6, None);
    rig.lead(2, 6);
    assert_eq!(rig.sent.len(), 1);
    rig.answer(6, None);
    assert_eq!(rig.sent.len(), 0, "the same epoch was asked already");
    rig.advance(260);
    assert_eq!(rig.sent.len(), 1);
    assert_eq!(rig.producer.counts().free_retries, 1);
}

#[test]
fn at_most_five_retries_a_second_are_free() {
    let mut rig = Rig::proven();
    rig.append(1);
    for epoch in 6..11 {
        rig.answer(6, None);
        rig.lead(epoch % 3, epoch);
        assert_eq!(rig.sent.len(), 1, "epoch {epoch}");
    }
    rig.answer(6, None);
    rig.lead(2, 11);
    assert_eq!(rig.sent.len(), 0);
    rig.advance(1_300);
    assert_eq!(rig.sent.len(), 1);
}

#[test]
fn an_old_leader_that_stays_silent_is_abandoned_after_the_drain_time() {
    let mut rig = Rig::proven();
    rig.append(3);
    rig.lead(2, 6);
    rig.advance(999);
    assert!(rig.abandoned.is_empty());
    rig.advance(1);
    assert_eq!(rig.abandoned, [1]);
    assert_eq!(rig.sent.len(), 3);
    for _ in 0..3 {
        rig.lose(Outcome::Unknown);
    }
    assert_eq!((rig.sequences(), rig.sent[0].broker), (vec![(0, 1)], 2));
}

#[test]
fn success_at_a_former_leader_opens_no_gate_at_the_new_one() {
    let mut rig = Rig::proven();
    rig.append(2);
    rig.lead(2, 6);
    rig.answer(0, Some(1));
    rig.answer(0, Some(2));
    rig.append(3);
    assert_eq!(rig.sequences(), [(0, 3)]);
    rig.answer(0, Some(3));
    assert_eq!(rig.sequences(), [(0, 4), (0, 5)]);
}

#[test]
fn without_idempotence_one_batch_is_out_and_bears_no_sequence() {
    let settings = Settings {
        idempotent: false,
        linger: Duration::ZERO,
        batch_bytes: 1,
        ..Settings::default()
    };
    let mut rig = Rig::with(settings);
    rig.append(2);
    assert_eq!(rig.sequences(), [(-1, -1)]);
    rig.answer(0, Some(0));
    assert_eq!(rig.sequences(), [(-1, -1)]);
}

#[test]
fn no_more_than_five_requests_are_out_to_a_broker() {
    let mut rig = Rig::new();
    rig.view.partitions = 8;
    rig.view.leaders = (0..8).map(|index| (index, (1, 5))).collect();
    for index in 0..8 {
        let record = nearside::producer::Record::new("orders", "x");
        let record = record.to_partition(nearside::ids::PartitionIndex(index));
        let token = nearside::producer::RecordToken(100 + index.unsigned_abs() as u64);
        rig.input(Input::Append { token, record });
    }
    assert_eq!(rig.sent.len(), 5);
    rig.answer(0, Some(0));
    assert_eq!(rig.sent.len(), 5);
    let rows = rig.sent.back().unwrap().request.partitions.len();
    assert_eq!(rows, 3, "those that waited share a request");
}

#[test]
fn batches_linger_for_company_but_not_once_they_are_full() {
    let settings = Settings {
        batch_bytes: 200,
        ..Settings::default()
    };
    let mut rig = Rig::with(settings);
    rig.append(2);
    assert_eq!(rig.producer.next_deadline(), Some(Moment::from_ms(1_005)));
    rig.advance(4);
    assert!(rig.sent.is_empty());
    rig.advance(1);
    assert_eq!(rig.sent.len(), 1);
    rig.answer(0, Some(0));
    assert_eq!(rig.acked, [(0, Some(0)), (1, Some(1))]);
    rig.append(30);
    assert!(!rig.sent.is_empty());
    rig.append(1);
    rig.input(Input::Flush);
    assert!(rig.producer.next_deadline().is_some());
}

#[test]
fn a_recreated_topic_begins_at_sequence_zero_after_a_drain() {
    let mut rig = Rig::proven();
    rig.append(2);
    rig.view.incarnation = 1;
    rig.lead(1, 0);
    rig.append(1);
    assert_eq!(rig.sequences(), [(0, 1), (0, 2)]);
    rig.answer(0, Some(1));
    rig.answer(3, None);
    assert_eq!(rig.sequences(), []);
    rig.advance(200);
    assert_eq!(rig.sequences(), [(0, 0)]);
    assert_eq!(rig.producer.counts().epoch_bumps, 0);
}
