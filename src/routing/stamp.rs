//! The stamp of a request and the gate its answer must pass (routing.md 5).

use serde::{Deserialize, Serialize};

use crate::ids::{
    AssignmentEpoch, BrokerId, LeaderEpoch, Offset, PositionGeneration, RouteGeneration,
    TopicIncarnation,
};

/// What the broker was believed to be when the request was sent. Errors are judged by this, never
/// by today's route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The leader of the partition.
    Leader,
    /// Another replica.
    Follower,
}

/// A lane that carries reading fetches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// With our rack: `Leader` and `Follower` routes.
    Rack,
    /// Without a rack, so that the leader serves: `Forced` routes.
    NoRack,
    /// Fetch v10, which knows no hints: `Forced` routes at a broker that hinted on its no-rack
    /// lane.
    V10,
}

/// Number of a probe of one partition; a late answer of an earlier one is told by it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ProbeId(pub u32);

/// Number of a hedge of one partition.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct HedgeId(pub u32);

/// What the request was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The one fetch that feeds the buffer.
    Reading,
    /// A question to the leader: whom do you recommend.
    Probe(ProbeId),
    /// A second fetch at the leader because the first stays away (routing.md 8.5).
    Hedge(HedgeId),
}

/// Everything needed to judge an answer; kept with its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stamp {
    /// Assignment of the partition to this process.
    pub assignment: AssignmentEpoch,
    /// Life of the topic name.
    pub topic: TopicIncarnation,
    /// Position generation.
    pub position: PositionGeneration,
    /// Route generation.
    pub route: RouteGeneration,
    /// Broker asked.
    pub broker: BrokerId,
    /// Its role when asked.
    pub role: Role,
    /// Lane used; a probe uses the fields of [`Lane::Rack`].
    pub lane: Lane,
    /// What the request was for.
    pub kind: Kind,
    /// Leader epoch sent, if known.
    pub epoch: Option<LeaderEpoch>,
    /// Offset asked for.
    pub offset: Offset,
}

/// A check of the stamp gate, by its number in routing.md 5.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Gate {
    /// Other assignment or topic incarnation.
    G1,
    /// Other position generation.
    G2,
    /// Other route generation, probe or hedge.
    G3,
    /// Other offset than the fetch end: hint and watermarks stay usable.
    G4,
}

impl Gate {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::G1 => "G1",
            Self::G2 => "G2",
            Self::G3 => "G3",
            Self::G4 => "G4",
        }
    }
}

/// What the gate compares a stamp with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) assignment: AssignmentEpoch,
    pub(crate) topic: TopicIncarnation,
    pub(crate) position: PositionGeneration,
    pub(crate) route: RouteGeneration,
    pub(crate) probe: Option<ProbeId>,
    pub(crate) hedge: Option<HedgeId>,
    pub(crate) fetch_end: Offset,
}

impl Stamp {
    /// The first check this stamp fails against `current`, in the order G1 to G4.
    pub(crate) fn check(&self, current: &Current) -> Option<Gate> {
        let identity = match self.kind {
            Kind::Reading => self.route == current.route,
            Kind::Probe(id) => current.probe == Some(id),
            Kind::Hedge(id) => current.hedge == Some(id),
        };
        if (self.assignment, self.topic) != (current.assignment, current.topic) {
            Some(Gate::G1)
        } else if self.position != current.position {
            Some(Gate::G2)
        } else if !identity {
            Some(Gate::G3)
        } else if self.offset != current.fetch_end {
            Some(Gate::G4)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURRENT: Current = Current {
        assignment: AssignmentEpoch(4),
        topic: TopicIncarnation(1),
        position: PositionGeneration(7),
        route: RouteGeneration(9),
        probe: Some(ProbeId(3)),
        hedge: None,
        fetch_end: Offset(100),
    };

    const STAMP: Stamp = Stamp {
        assignment: AssignmentEpoch(4),
        topic: TopicIncarnation(1),
        position: PositionGeneration(7),
        route: RouteGeneration(9),
        broker: BrokerId(2),
        role: Role::Follower,
        lane: Lane::Rack,
        kind: Kind::Reading,
        epoch: Some(LeaderEpoch(5)),
        offset: Offset(100),
    };

    #[test]
    fn a_current_stamp_passes() {
        assert_eq!(STAMP.check(&CURRENT), None);
    }

    #[test]
    fn the_first_mismatch_names_the_gate() {
        let old = Stamp {
            assignment: AssignmentEpoch(3),
            route: RouteGeneration(1),
            ..STAMP
        };
        assert_eq!(old.check(&CURRENT), Some(Gate::G1));
        let sought = Stamp {
            position: PositionGeneration(6),
            ..STAMP
        };
        assert_eq!(sought.check(&CURRENT), Some(Gate::G2));
        let moved = Stamp {
            route: RouteGeneration(8),
            ..STAMP
        };
        assert_eq!(moved.check(&CURRENT), Some(Gate::G3));
        let behind = Stamp {
            offset: Offset(99),
            ..STAMP
        };
        assert_eq!(behind.check(&CURRENT), Some(Gate::G4));
    }

    #[test]
    fn a_probe_is_judged_by_its_number_and_not_by_the_route() {
        let probe = Stamp {
            kind: Kind::Probe(ProbeId(3)),
            route: RouteGeneration(1),
            ..STAMP
        };
        assert_eq!(probe.check(&CURRENT), None);
        let late = Stamp {
            kind: Kind::Probe(ProbeId(2)),
            ..STAMP
        };
        assert_eq!(late.check(&CURRENT), Some(Gate::G3));
    }
}
