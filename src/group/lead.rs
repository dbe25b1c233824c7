//! The leader's work: from the members' subscriptions to everybody's assignment.

use std::collections::{BTreeMap, BTreeSet};

use super::protocol::{MemberSubscription, encode_assignment};
use crate::assign::{self, Assignor, Candidate, Problem};
use crate::ids::{Generation, TopicName};
use crate::wire::api::{join_group, sync_group};

/// An assignment to be solved: owned data, for a thread of the compute pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lead {
    pub(super) generation: Generation,
    pub(super) assignor: Assignor,
    pub(super) candidates: Vec<Candidate>,
    pub(super) topics: Vec<assign::Topic>,
}

/// A solved assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Led {
    pub(super) generation: Generation,
    pub(super) assignments: Vec<sync_group::Assignment>,
    pub(super) partitions: usize,
    pub(super) withheld: usize,
}

impl Lead {
    /// Solves it. Takes up to two seconds for 100,000 partitions and 500 members.
    pub fn solve(self) -> Led {
        let problem = Problem::build(self.candidates, &self.topics);
        let solution = self.assignor.assign(&problem);
        let lists = solution.by_member(&problem);
        let assignments = problem
            .members()
            .zip(lists)
            .map(|(member, list)| sync_group::Assignment {
                member: member.clone(),
                assignment: encode_assignment(&list),
            })
            .collect();
        Led {
            generation: self.generation,
            assignments,
            partitions: problem.partition_count(),
            withheld: solution.withheld(),
        }
    }
}

/// The members of a JoinGroup answer, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Roster {
    pub(super) candidates: Vec<Candidate>,
    /// Whether a member's bytes could not be read; such a member gets nothing.
    pub(super) unreadable: Option<&'static str>,
}

impl Roster {
    pub(super) fn read(members: &[join_group::Member], assignor: Assignor) -> Self {
        let mut unreadable = None;
        let candidates = members
            .iter()
            .map(|member| {
                let read = MemberSubscription::decode(&member.metadata);
                let told = read.unwrap_or_else(|field| {
                    unreadable = Some(field);
                    MemberSubscription::default()
                });
                let (owned, generation) = told.claim(assignor);
                Candidate {
                    member: member.id.clone(),
                    instance: member.instance.clone(),
                    topics: told.topics,
                    owned,
                    generation,
                    rack: told.rack,
                }
            })
            .collect();
        Self {
            candidates,
            unreadable,
        }
    }

    /// The topics of all members.
    pub(super) fn topics(&self) -> BTreeSet<TopicName> {
        self.candidates
            .iter()
            .flat_map(|candidate| &candidate.topics)
            .cloned()
            .collect()
    }
}

/// What the leader knew of the topics when it assigned: a change calls for another rebalance.
pub(super) type Baseline = BTreeMap<TopicName, Option<usize>>;
