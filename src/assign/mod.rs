//! Assignors: who reads which partition, decided on dense integers (runtime.md G9, G10).
//!
//! [`Problem::build`] turns the members' subscriptions and the topics into numbers, an [`Assignor`]
//! solves it, and [`Solution::of`] turns the numbers of one member back into partitions. Nothing
//! here knows of groups, brokers or bytes.

mod problem;
mod range;
mod round_robin;
mod solution;
mod sticky;

pub use problem::{Candidate, MemberNumber, PartitionNumber, Problem, Topic, TopicNumber};
pub use solution::Solution;

use std::fmt;
use std::str::FromStr;

/// A partition assignment strategy, by the name that other clients use for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Assignor {
    /// Neighbouring partitions of each topic, co-partitioned topics alike; same result as the Java
    /// client.
    Range,
    /// Partitions dealt in turn over all topics.
    RoundRobin,
    /// Balanced with as few moves as possible; eager.
    Sticky,
    /// As sticky, but what changes its owner is given away only after its owner released it
    /// (KIP-429).
    CooperativeSticky,
}

/// How members give partitions up in a rebalance (KIP-429).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum RebalanceProtocol {
    /// Everything is given up before each join.
    Eager,
    /// Only what moves is given up, after the assignment is known.
    Cooperative,
}

impl Assignor {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Range,
        Self::RoundRobin,
        Self::Sticky,
        Self::CooperativeSticky,
    ];

    /// The name on the wire and in `partition.assignment.strategy`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The rebalance protocol that members using it follow.
    pub const fn protocol(self) -> RebalanceProtocol {
        match self {
            Self::Range | Self::RoundRobin | Self::Sticky => RebalanceProtocol::Eager,
            Self::CooperativeSticky => RebalanceProtocol::Cooperative,
        }
    }

    /// Solves `problem`. For [`Assignor::CooperativeSticky`] every partition that changes its owner
    /// is left without one in this round; [`Solution::withheld`] counts them.
    pub fn assign(self, problem: &Problem) -> Solution {
        match self {
            Self::Range => range::assign(problem),
            Self::RoundRobin => round_robin::assign(problem),
            Self::Sticky => sticky::assign(problem),
            Self::CooperativeSticky => sticky::assign(problem).withholding_moves(problem),
        }
    }
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Assignor {
    type Err = UnknownAssignor;

    /// Reads a short name or the class name of the Java client's assignor.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let class = text
            .strip_prefix("org.apache.kafka.clients.consumer.")
            .unwrap_or(text);
        match class {
            "range" | "RangeAssignor" => Ok(Self::Range),
            "roundrobin" | "RoundRobinAssignor" => Ok(Self::RoundRobin),
            "sticky" | "StickyAssignor" => Ok(Self::Sticky),
            "cooperative-sticky" | "CooperativeStickyAssignor" => Ok(Self::CooperativeSticky),
            other => Err(UnknownAssignor(other.to_owned())),
        }
    }
}

/// The text names no assignor of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownAssignor(String);

impl fmt::Display for UnknownAssignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(
            f,
            "unknown assignor '{name}'; use one of range, roundrobin, sticky, cooperative-sticky"
        )
    }
}

impl std::error::Error for UnknownAssignor {}
