//! Late answers: routing.md S25, S26.

use std::time::Duration;

use nearside::embedded::{Api, RowEdit, Rule};
use nearside::ids::{BrokerId, LeaderEpoch, Offset};
use nearside::routing::{Count, Gate, Input, Leadership, Stamp, State};
use nearside::wire::ErrorCode;
use nearside::wire::api::TopicRef;
use nearside::wire::api::fetch::{Aborted, Row};

use crate::rig::{Rig, partition};

const B2: BrokerId = BrokerId(2);

/// A reader of 2 with a fetch in flight, and that fetch's stamp.
fn in_flight() -> (Rig, Stamp) {
    let mut rig = Rig::new();
    rig.follow();
    let stamp = rig.reader().wants.last().unwrap().1.stamp;
    assert_eq!(stamp.broker, B2);
    (rig, stamp)
}

fn out_of_range(stamp: Stamp) -> Input {
    let row = Row {
        topic: TopicRef::Name(partition().topic),
        partition: partition().partition,
        error: ErrorCode::OFFSET_OUT_OF_RANGE,
        high_watermark: None,
        last_stable_offset: None,
        log_start: None,
        preferred_read_replica: None,
        diverging_epoch: None,
        current_leader: None,
        aborted: Aborted::default(),
        records: vec![0; 61].into(),
    };
    Input::Row {
        stamp,
        row,
        inconclusive: false,
    }
}

fn is_dropped_by(rig: &Rig, gate: Gate) -> bool {
    let gate = Some(gate);
    let bytes = 61;
    let counts = &rig.reader().counts;
    counts.contains(&Count::Wasted { gate, bytes })
}

/// routing.md S25 (a)
#[test]
fn a_followers_late_error_is_judged_as_a_followers_after_the_hard_stop() {
    let (mut rig, _) = in_flight();
    // Probes fail, so that the lease runs out while the leader is in reach.
    let edit = RowEdit {
        error: Some(-1),
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(edit).at(1));
    let waits =
        |rig: &Rig| rig.reader().route.standing_demand().is_none() && rig.follower() == Some(B2);
    rig.run_until(|rig| !rig.reader().probes.is_empty());
    rig.run_until(|rig| rig.reader().probes.len() > 8);
    rig.run_until(waits);
    let stamp = rig.reader().wants.last().unwrap().1.stamp;
    // Its end stood still for minutes, so the leader's was sampled.
    let sampled = rig.cluster().requests(BrokerId(1), Api::ListOffsets);
    rig.input(out_of_range(stamp));

    assert!(rig.reader().route.is_cooling(B2, rig.now));
    assert_eq!(
        *rig.reader().route.state(),
        State::Leader,
        "{:?}",
        rig.reader().reasons()
    );
    assert!(rig.reader().resolves.is_empty());
    let asked = rig.cluster().requests(BrokerId(1), Api::ListOffsets);
    assert_eq!(asked, sampled);
}

/// routing.md S25 (b)
#[test]
fn an_answer_to_an_offset_before_the_seek_is_dropped() {
    let (mut rig, stamp) = in_flight();
    rig.input(Input::Seek {
        offset: Offset(700),
        epoch: None,
    });
    rig.input(out_of_range(stamp));
    assert!(is_dropped_by(&rig, Gate::G2));
    assert!(!rig.reader().route.is_cooling(B2, rig.now));
    assert_eq!(rig.follower(), Some(B2));
    rig.run_for(Duration::from_secs(1));
    assert_eq!(
        rig.reader().delivered[1_000..],
        (700..1_000).collect::<Vec<_>>()
    );
}

/// routing.md S25 (c)
#[test]
fn an_answer_of_an_earlier_epoch_is_dropped() {
    let (mut rig, stamp) = in_flight();
    let epoch = Some(LeaderEpoch(6));
    let leadership = Leadership {
        leader: Some(BrokerId(1)),
        epoch,
        addressable: true,
    };
    rig.input(Input::LeaderChanged(leadership));
    rig.input(out_of_range(stamp));
    assert!(is_dropped_by(&rig, Gate::G2));
    assert!(!rig.reader().route.is_cooling(B2, rig.now));
    assert!(rig.reader().resolves.is_empty());
    assert_eq!(rig.reader().route.fetch_end(), Offset(1_000));
}

/// routing.md S26
#[test]
fn an_answer_of_an_earlier_assignment_is_dropped() {
    let (mut rig, stamp) = in_flight();
    rig.input(Input::Revoked);
    assert_eq!(*rig.reader().route.state(), State::Parked);
    rig.preload(10);
    rig.assign_again(1_000);
    let before = rig.reader().wants.len();
    rig.input(out_of_range(stamp));
    assert!(is_dropped_by(&rig, Gate::G1));
    assert_eq!(rig.reader().wants.len(), before);
    assert!(rig.reader().resolves.is_empty());
    rig.run_until(|rig| rig.reader().delivered.len() >= 1_010);
    assert_eq!(rig.reader().delivered, (0..1_010).collect::<Vec<_>>());
}

/// routing.md 5, G0: also without anybody who waits for the row.
#[test]
fn leadership_in_an_answer_that_nobody_waits_for_still_reaches_metadata() {
    let (mut rig, _) = in_flight();
    let edit = RowEdit {
        error: Some(6),
        current_leader: Some((3, 6)),
        at_once: true,
        ..RowEdit::default()
    };
    rig.cluster().inject(Rule::row(edit).at(2));
    rig.input(Input::Revoked);
    let version = rig.metadata_version();
    let moved = (Some(BrokerId(3)), Some(LeaderEpoch(6)));
    rig.run_until(move |rig| rig.leader_known() == moved);
    assert_eq!(
        rig.metadata_version(),
        version,
        "before any Metadata answer"
    );
}
