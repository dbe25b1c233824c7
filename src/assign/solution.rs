//! A solved assignment.

use super::problem::{MemberNumber, PartitionNumber, Problem, index, number};
use crate::ids::TopicPartition;

/// The owner of every partition of a [`Problem`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Solution {
    pub(super) owner: Vec<Option<MemberNumber>>,
    withheld: usize,
}

impl Solution {
    pub(super) fn new(owner: Vec<Option<MemberNumber>>) -> Self {
        Self { owner, withheld: 0 }
    }

    /// The new owner of partition `number`; none if nobody subscribes to it, or if it is withheld.
    pub fn owner(&self, number: PartitionNumber) -> Option<MemberNumber> {
        self.owner.get(index(number)).copied().flatten()
    }

    /// Number of partitions that were withheld because they change their owner (KIP-429).
    pub fn withheld(&self) -> usize {
        self.withheld
    }

    /// The partitions of every member, in the order of member numbers, each ascending.
    pub fn by_member(&self, problem: &Problem) -> Vec<Vec<TopicPartition>> {
        let mut lists = vec![Vec::new(); problem.member_count()];
        for (partition, owner) in self.owner.iter().enumerate() {
            let list = owner.and_then(|member| lists.get_mut(index(member)));
            if let (Some(list), Some(name)) = (list, problem.partition(number(partition))) {
                list.push(name);
            }
        }
        lists
    }

    /// The partitions of one member, ascending.
    pub fn of(&self, problem: &Problem, member: MemberNumber) -> Vec<TopicPartition> {
        self.owner
            .iter()
            .enumerate()
            .filter(|(_, owner)| **owner == Some(member))
            .filter_map(|(partition, _)| problem.partition(number(partition)))
            .collect()
    }

    /// Takes away every partition whose former owner is another member: it must be released first.
    pub(super) fn withholding_moves(mut self, problem: &Problem) -> Self {
        for (new, old) in self.owner.iter_mut().zip(&problem.owner) {
            if new.is_some() && old.is_some() && new != old {
                *new = None;
                self.withheld += 1;
            }
        }
        self
    }
}
