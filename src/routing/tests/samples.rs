//! One sample of every input, for tests that must not forget one.

use super::desk::{B1, B2, B3, assigned, error, hint};
use crate::ids::{
    AssignmentEpoch, LeaderEpoch, MetadataVersion, Moment, Offset, PositionGeneration,
    RouteGeneration, TopicId, TopicIncarnation,
};
use crate::routing::{
    Class, Found, HedgeId, Indexed, Input, Kind, Lane, Leadership, LinkChange, ProbeId, Role,
    Source, Stamp, Verdict,
};
use crate::wire::api::fetch::{EpochEnd, Row};

/// Place of an input in [`inputs`]. A new input does not compile until it has one.
fn place(input: &Input) -> usize {
    match input {
        Input::Assigned(_) => 0,
        Input::LeaderChanged(_) => 1,
        Input::LeaderLost => 2,
        Input::IsrChanged { .. } => 3,
        Input::ReplicasChanged { .. } => 4,
        Input::MetadataVersion(_) => 5,
        Input::Row { .. } => 6,
        Input::ProbeRow { .. } => 7,
        Input::ProbeFailed { .. } => 8,
        Input::Drained { .. } => 9,
        Input::Indexed(_) => 10,
        Input::LinkChanged { .. } => 11,
        Input::LinkRestarted { .. } => 12,
        Input::BreakerOpened { .. } => 13,
        Input::BreakerClosed { .. } => 14,
        Input::Readmitted { .. } => 15,
        Input::Resolved { .. } => 16,
        Input::Validated { .. } => 17,
        Input::Seek { .. } => 18,
        Input::Pause => 19,
        Input::Resume => 20,
        Input::Room(_) => 21,
        Input::Throttled { .. } => 22,
        Input::Revoked => 23,
        Input::TopicRecreated { .. } => 24,
        Input::TopicGone => 25,
        Input::LaneDropped { .. } => 26,
        Input::LaneRestored { .. } => 27,
        Input::Silent { .. } => 28,
        Input::Quiet { .. } => 29,
        Input::HedgeRow { .. } => 30,
        Input::HedgeFailed { .. } => 31,
        Input::Sampled { .. } => 32,
        Input::Unanswered { .. } => 33,
        Input::Tick => 34,
    }
}

/// One of each, in order.
pub(super) fn inputs() -> Vec<Input> {
    let mut inputs = cluster_inputs();
    inputs.extend(answers());
    inputs.extend(host_inputs());
    inputs.sort_by_key(place);
    inputs
}

pub(super) fn stamp(kind: Kind) -> Stamp {
    Stamp {
        assignment: AssignmentEpoch(1),
        topic: TopicIncarnation(0),
        position: PositionGeneration(2),
        route: RouteGeneration(3),
        broker: B1,
        role: Role::Leader,
        lane: Lane::Rack,
        kind,
        epoch: Some(LeaderEpoch(5)),
        offset: Offset(100),
    }
}

fn cluster_inputs() -> Vec<Input> {
    let (broker, class) = (B2, Class::Rack);
    vec![
        Input::Assigned(assigned(1)),
        Input::LeaderChanged(Leadership {
            leader: Some(B3),
            epoch: Some(LeaderEpoch(6)),
            addressable: true,
        }),
        Input::LeaderLost,
        Input::IsrChanged {
            isr: [B1, B3].into(),
            epoch: None,
        },
        Input::ReplicasChanged {
            replicas: [B1, B2].into(),
            offline: [B2].into(),
        },
        Input::MetadataVersion(MetadataVersion(9)),
        Input::LinkChanged {
            broker,
            class,
            change: LinkChange::Lost,
        },
        Input::LinkRestarted { broker },
        Input::BreakerOpened { broker },
        Input::BreakerClosed { broker },
        Input::Readmitted { broker },
        Input::Throttled {
            broker,
            until: Moment::from_ms(7),
        },
        Input::TopicRecreated {
            incarnation: TopicIncarnation(1),
            id: TopicId(uuid::Uuid::from_u128(7)),
        },
        Input::TopicGone,
        Input::LaneDropped { broker },
        Input::LaneRestored { broker },
        Input::Silent { broker, class },
        Input::Quiet { broker, class },
    ]
}

fn answers() -> Vec<Input> {
    let with_records = Row {
        records: vec![7; 10].into(),
        diverging_epoch: Some(EpochEnd {
            epoch: LeaderEpoch(4),
            end_offset: Offset(90),
        }),
        ..hint(2)
    };
    vec![
        Input::Row {
            stamp: stamp(Kind::Reading),
            row: with_records,
            inconclusive: true,
        },
        Input::ProbeRow {
            stamp: stamp(Kind::Probe(ProbeId(1))),
            row: hint(3),
        },
        Input::ProbeFailed {
            stamp: stamp(Kind::Probe(ProbeId(1))),
        },
        Input::Drained {
            stamp: stamp(Kind::Reading),
        },
        Input::HedgeRow {
            stamp: stamp(Kind::Hedge(HedgeId(4))),
            row: error(6),
        },
        Input::HedgeFailed {
            stamp: stamp(Kind::Hedge(HedgeId(4))),
        },
    ]
}

fn host_inputs() -> Vec<Input> {
    let generation = PositionGeneration(2);
    vec![
        Input::Indexed(Indexed::Advanced {
            fetch_end: Offset(110),
            epoch: Some(LeaderEpoch(5)),
        }),
        Input::Resolved {
            generation,
            found: Found::Offset {
                offset: Offset(5),
                epoch: None,
                source: Source::Committed,
            },
        },
        Input::Validated {
            generation,
            verdict: Verdict::Truncated {
                to: Offset(80),
                epoch: Some(LeaderEpoch(4)),
            },
        },
        Input::Seek {
            offset: Offset(1),
            epoch: None,
        },
        Input::Pause,
        Input::Resume,
        Input::Room(false),
        Input::Revoked,
        Input::Sampled {
            generation,
            leader_end: Offset(500),
        },
        Input::Unanswered { generation },
        Input::Tick,
    ]
}

#[test]
fn there_is_one_sample_of_every_input() {
    let places: Vec<usize> = inputs().iter().map(place).collect();
    // The last arm of `place` has the highest number.
    let all: Vec<usize> = (0..=place(&Input::Tick)).collect();
    assert_eq!(places, all);
}
