//! What each answer leads to (wire.md 10.2, 10.4).

use std::time::Duration;

use bytes::Bytes;
use nearside::cluster::Want;
use nearside::ids::{Offset, PartitionIndex};
use nearside::producer::{
    Input, Kind, Outcome, ProduceError, Record, RecordToken, Settings, partition_of_key,
};
use nearside::wire::ErrorCode;
use nearside::wire::api::produce::RecordError;

use super::rig::{ID, Rig, TOPIC};

fn one_batch() -> Settings {
    Settings {
        linger: Duration::ZERO,
        ..Settings::default()
    }
}

/// A rig with ten records in the batch that is out.
fn ten_out() -> Rig {
    let mut rig = Rig::with(Settings {
        linger: Duration::from_millis(5),
        ..Settings::default()
    });
    rig.append(10);
    rig.advance(5);
    assert_eq!(rig.sent.len(), 1);
    rig
}

/// wire.md A45
#[test]
fn a_duplicate_is_acknowledged_without_an_offset() {
    let mut rig = Rig::new();
    rig.append(1);
    rig.answer(46, Some(77));
    assert_eq!(rig.acked, [(0, None)]);
}

/// wire.md 10.2: an attempt in doubt outweighs a refusal of a later one.
#[test]
fn a_batch_in_doubt_stays_in_doubt_when_its_retry_is_refused() {
    for refusal in [29, 87, 10] {
        let mut rig = Rig::proven();
        rig.append(1);
        rig.lose(Outcome::Unknown);
        rig.advance(200);
        rig.answer(refusal, None);
        assert_eq!(rig.failed, [(1, ProduceError::OutcomeUnknown)], "{refusal}");
    }
}

/// wire.md A45
#[test]
fn a_batch_too_large_is_split_within_its_sequence_range() {
    let mut rig = ten_out();
    rig.answer(10, None);
    assert_eq!(rig.sequences(), [(0, 0)]);
    rig.answer(0, Some(0));
    assert_eq!(rig.sequences(), [(0, 5)]);
    rig.answer(0, Some(5));
    let expected: Vec<_> = (0..10)
        .map(|token: u64| (token, Some(token as i64)))
        .collect();
    assert_eq!(rig.acked, expected);
    rig.append(1);
    rig.advance(5);
    assert_eq!(rig.sequences(), [(0, 10)]);
    assert_eq!(rig.producer.counts().splits, 1);
}

#[test]
fn a_single_record_too_large_fails_and_the_gap_is_bumped_over() {
    let mut rig = Rig::new();
    rig.append(2);
    rig.answer(18, None);
    assert!(matches!(
        rig.failed[..],
        [(0, ProduceError::RecordTooLarge { .. })]
    ));
    assert_eq!(rig.sequences(), [(1, 0)]);
}

/// wire.md A45
#[test]
fn an_append_in_doubt_is_settled_by_the_same_bytes() {
    let mut rig = Rig::new();
    rig.append(1);
    let bytes = rig.sent[0].request.partitions[0].records.clone();
    rig.answer(20, None);
    rig.advance(1_000);
    assert_eq!(rig.sent[0].request.partitions[0].records, bytes);
    rig.answer(0, Some(4));
    assert_eq!(rig.acked, [(0, Some(4))]);
}

#[test]
fn a_refusal_fails_the_batch_with_what_the_broker_said_of_each_record() {
    let mut rig = ten_out();
    rig.answer_with(|row| {
        row.error = ErrorCode::INVALID_RECORD;
        row.message = Some("bad batch".to_owned());
        row.record_errors = vec![RecordError {
            index: 3,
            message: Some("no key".to_owned()),
        }];
    });
    assert_eq!(rig.failed.len(), 10);
    let said = |index: usize| {
        let (_, ProduceError::Refused { message, .. }) = &rig.failed[index] else {
            panic!("{}", rig.failed[index].1);
        };
        message.clone().unwrap()
    };
    assert_eq!(
        (said(2), said(3)),
        ("bad batch".to_owned(), "no key".to_owned())
    );
}

#[test]
fn damaged_bytes_are_sent_again_three_times() {
    let mut rig = Rig::new();
    rig.append(1);
    for _ in 0..3 {
        rig.answer(2, None);
        assert!(rig.failed.is_empty());
        rig.advance(1_300);
    }
    rig.answer(2, None);
    assert!(matches!(
        rig.failed[..],
        [(0, ProduceError::Refused { .. })]
    ));
}

/// wire.md A43
#[test]
fn out_of_order_at_the_head_drains_and_raises_the_epoch() {
    let mut rig = Rig::proven();
    rig.append(3);
    rig.answer(45, None);
    assert_eq!(rig.sent.len(), 2, "the others are drained first");
    rig.lose(Outcome::Unknown);
    rig.answer(45, None);
    rig.advance(1_300);
    assert_eq!(rig.sequences(), [(1, 0)]);
    rig.answer(0, Some(1));
    rig.advance(1_300);
    assert_eq!(rig.sequences(), [(1, 1)]);
    let counts = rig.producer.counts();
    assert_eq!((counts.epoch_bumps, counts.possible_duplicates), (1, 1));
}

/// wire.md A43
#[test]
fn out_of_order_behind_the_head_waits_for_it() {
    let mut rig = Rig::proven();
    rig.append(2);
    rig.answer(19, None);
    rig.answer(45, None);
    rig.advance(300);
    assert_eq!(rig.sequences(), [(0, 1)]);
    rig.answer(0, Some(1));
    assert_eq!(rig.sequences(), [(0, 2)]);
    assert_eq!(rig.producer.counts().epoch_bumps, 0);
}

/// wire.md A43
#[test]
fn a_producer_forgotten_by_retention_leaves_no_doubt() {
    for (log_start, doubts) in [(9, 0), (0, 1)] {
        let mut rig = Rig::proven();
        rig.append(1);
        rig.lose(Outcome::Unknown);
        rig.advance(300);
        rig.answer_with(|row| {
            row.error = ErrorCode::UNKNOWN_PRODUCER_ID;
            row.log_start = Some(Offset(log_start));
        });
        rig.advance(1_300);
        assert_eq!(rig.sequences(), [(1, 0)]);
        assert_eq!(
            rig.producer.counts().possible_duplicates,
            doubts,
            "log start {log_start}"
        );
    }
}

/// wire.md A43
#[test]
fn a_changelog_fails_a_batch_in_doubt_rather_than_writing_it_twice() {
    let kind = Kind::Changelog;
    let mut rig = Rig::with(Settings {
        kind,
        batch_bytes: 1,
        ..one_batch()
    });
    rig.append(1);
    rig.answer(0, Some(0));
    rig.append(2);
    rig.lose(Outcome::Unknown);
    rig.answer(0, Some(2));
    rig.advance(300);
    rig.answer(45, None);
    rig.advance(1_300);
    assert_eq!(rig.failed, [(1, ProduceError::OutcomeUnknown)]);
    assert_eq!(rig.producer.counts().possible_duplicates, 0);
}

#[test]
fn other_partitions_keep_their_epoch_until_they_are_quiet() {
    let mut rig = Rig::new();
    rig.view.partitions = 2;
    rig.view.leaders.insert(1, (2, 5));
    let other = |token: u64| {
        let record = Record::new(TOPIC, "x").to_partition(PartitionIndex(1));
        Input::Append {
            token: RecordToken(token),
            record,
        }
    };
    rig.input(other(100));
    rig.answer(0, Some(0));
    rig.input(other(101));
    rig.append(1);
    rig.input(other(102));
    assert_eq!(rig.sequences(), [(0, 1), (0, 0), (0, 2)]);
    rig.sent.rotate_left(1);
    rig.answer(47, None);
    rig.advance(300);
    assert_eq!(rig.sequences(), [(0, 2), (0, 1), (1, 0)]);
    rig.input(other(103));
    assert_eq!(rig.sequences().last(), Some(&(0, 3)), "not quiet yet");
    rig.sent.rotate_left(1);
    rig.answer(0, Some(1));
    rig.answer(0, Some(0));
    rig.answer(0, Some(3));
    rig.answer(0, Some(2));
    rig.input(other(104));
    assert_eq!(rig.sequences(), [(1, 0)]);
}

#[test]
fn records_wait_for_an_unknown_topic_in_order() {
    let mut rig = Rig::with(one_batch());
    rig.view.partitions = 0;
    rig.append(3);
    assert_eq!(rig.refreshes, [Want::Topic(TOPIC.into())]);
    rig.view.partitions = 1;
    rig.input(Input::ClusterChanged);
    rig.answer(0, Some(0));
    assert_eq!(rig.acked, [(0, Some(0)), (1, Some(1)), (2, Some(2))]);
}

#[test]
fn a_topic_that_is_refused_fails_its_records_at_once() {
    let mut rig = Rig::new();
    rig.view.refusal = Some(29);
    rig.append(1);
    let error = nearside::Error::from(rig.failed[0].1.clone());
    assert_eq!(error.kind(), nearside::ErrorKind::Authorization);
    assert!(rig.producer.is_idle());
}

#[test]
fn a_partition_that_does_not_exist_fails_its_record() {
    let mut rig = Rig::new();
    let index = PartitionIndex(7);
    let record = Record::new(TOPIC, "x").to_partition(index);
    rig.input(Input::Append {
        token: RecordToken(9),
        record,
    });
    assert_eq!(rig.failed, [(9, ProduceError::NoSuchPartition(index))]);
}

#[test]
fn a_key_decides_the_partition_as_it_does_in_java() {
    let mut rig = Rig::new();
    rig.view.partitions = 10;
    rig.view.leaders = (0..10).map(|index| (index, (1, 5))).collect();
    let record = Record::new(TOPIC, "x").with_key("foobar");
    rig.input(Input::Append {
        token: RecordToken(9),
        record,
    });
    let index = rig.sent[0].request.partitions[0].partition;
    assert_eq!(Some(index), partition_of_key(b"foobar", 10));
}

#[test]
fn a_record_above_the_request_size_is_refused_without_a_request() {
    let mut rig = Rig::new();
    let record = Record::new(TOPIC, Bytes::from(vec![0; 1_048_576]));
    rig.input(Input::Append {
        token: RecordToken(9),
        record,
    });
    assert!(matches!(
        rig.failed[..],
        [(9, ProduceError::RecordTooLarge { .. })]
    ));
    assert!(rig.sent.is_empty() && rig.producer.is_idle());
}

#[test]
fn a_full_buffer_refuses_and_is_free_again_after_the_answers() {
    let mut rig = Rig::with(Settings {
        buffer_bytes: 100,
        ..one_batch()
    });
    let append = |token: u64| {
        let record = Record::new(TOPIC, vec![0; 60]);
        Input::Append {
            token: RecordToken(token),
            record,
        }
    };
    rig.input(append(1));
    rig.input(append(2));
    assert_eq!(rig.failed, [(2, ProduceError::BufferFull)]);
    rig.answer(0, Some(0));
    assert_eq!(rig.producer.room(), 100);
    rig.input(append(3));
    assert_eq!(rig.sent.len(), 1);
}

#[test]
fn a_producer_id_is_asked_for_until_there_is_one() {
    let mut rig = Rig::new();
    rig.identities.clear();
    rig.append(1);
    assert!(rig.sent.is_empty());
    let lost = |token| Input::Identified {
        token: nearside::producer::SendToken(token),
        response: None,
    };
    rig.input(lost(0));
    rig.identities.push_back(ID);
    rig.advance(200);
    assert_eq!(rig.sequences(), [(0, 0)]);
}
