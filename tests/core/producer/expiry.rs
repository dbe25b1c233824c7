//! The delivery timeout: it never guesses about what is in flight.

use std::time::Duration;

use nearside::producer::{Outcome, ProduceError, Settings};

use super::rig::Rig;

const TIMEOUT_MS: u64 = 120_000;

/// wire.md A44 (a)
#[test]
fn what_was_never_sent_times_out_without_using_a_sequence() {
    let mut rig = Rig::proven();
    rig.view.leaders.clear();
    rig.append(1);
    rig.advance(TIMEOUT_MS);
    assert_eq!(rig.failed, [(1, ProduceError::Timeout)]);
    rig.lead(1, 5);
    rig.append(1);
    assert_eq!(rig.sequences(), [(0, 1)]);
    assert_eq!(rig.producer.counts().epoch_bumps, 0);
}

/// wire.md A44 (a)
#[test]
fn what_waits_for_its_topic_times_out_too() {
    let mut rig = Rig::new();
    rig.view.partitions = 0;
    rig.append(2);
    rig.advance(TIMEOUT_MS - 1);
    assert!(rig.failed.is_empty());
    rig.advance(1);
    assert_eq!(
        rig.failed,
        [(0, ProduceError::Timeout), (1, ProduceError::Timeout)]
    );
    assert!(rig.producer.is_idle());
}

/// wire.md A44 (b)
#[test]
fn success_counts_however_late_it_is() {
    let mut rig = Rig::proven();
    rig.append(1);
    rig.advance(TIMEOUT_MS * 2);
    assert!(rig.failed.is_empty());
    rig.answer(0, Some(1));
    assert_eq!(rig.acked.last(), Some(&(1, Some(1))));
    rig.append(1);
    assert_eq!(rig.sequences(), [(0, 2)]);
}

/// wire.md A44 (c)
#[test]
fn a_lost_connection_after_the_timeout_leaves_doubt_and_raises_the_epoch() {
    let mut rig = Rig::proven();
    rig.append(1);
    rig.advance(TIMEOUT_MS);
    rig.lose(Outcome::Unknown);
    assert_eq!(rig.failed, [(1, ProduceError::OutcomeUnknown)]);
    rig.append(1);
    assert_eq!(rig.sequences(), [(1, 0)]);
    assert_eq!(
        rig.producer.counts().possible_duplicates,
        0,
        "it was not sent again"
    );
}

#[test]
fn a_refused_attempt_after_the_timeout_is_certain_but_leaves_a_gap() {
    let mut rig = Rig::proven();
    rig.append(2);
    rig.advance(TIMEOUT_MS);
    rig.answer(19, None);
    assert_eq!(rig.failed, [(1, ProduceError::Timeout)]);
    rig.answer(0, Some(2));
    rig.append(1);
    assert_eq!(rig.sequences(), [(1, 0)]);
}

#[test]
fn one_attempt_in_doubt_keeps_the_batch_in_doubt() {
    let mut rig = Rig::proven();
    rig.append(1);
    rig.lose(Outcome::Unknown);
    rig.advance(300);
    rig.answer(19, None);
    rig.view.leaders.clear();
    rig.input(nearside::producer::Input::ClusterChanged);
    rig.advance(TIMEOUT_MS);
    assert_eq!(rig.failed, [(1, ProduceError::OutcomeUnknown)]);
}

#[test]
fn a_changelog_never_times_out() {
    let kind = nearside::producer::Kind::Changelog;
    let mut rig = Rig::with(Settings {
        kind,
        linger: Duration::ZERO,
        ..Settings::default()
    });
    rig.view.leaders.clear();
    rig.append(1);
    rig.advance(TIMEOUT_MS * 100);
    assert!(rig.failed.is_empty());
    rig.lead(1, 5);
    rig.answer(0, Some(0));
    assert_eq!(rig.acked.len(), 1);
}
