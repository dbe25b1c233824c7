//! The `roundrobin` assignor.

use super::problem::{Problem, index};
use super::solution::Solution;

/// Deals partitions in turn to the members in order, skipping those that do not subscribe to the
/// topic.
pub(super) fn assign(problem: &Problem) -> Solution {
    let mut owner = vec![None; problem.partition_count()];
    let mut next = 0;
    for topic in &problem.topics {
        for partition in topic.partitions() {
            let at = topic.members.partition_point(|member| *member < next);
            let Some(member) = topic.members.get(at).or_else(|| topic.members.first()) else {
                continue;
            };
            if let Some(slot) = owner.get_mut(index(partition)) {
                *slot = Some(*member);
            }
            next = member + 1;
        }
    }
    Solution::new(owner)
}
