//! The `range` assignor, rack aware after KIP-881.
//!
//! The result must not depend on which client leads the group, so the order of every step is that
//! of the Java client: co-partitioned topics by rack, single topics by rack, then the rest by
//! number.

use std::collections::BTreeMap;

use super::problem::{MemberNumber, NumberedTopic, PartitionNumber, Problem, index, number};
use super::solution::Solution;

/// Gives every subscriber of a topic a neighbouring range of its partitions.
pub(super) fn assign(problem: &Problem) -> Solution {
    let mut owner = vec![None; problem.partition_count()];
    let mut states: Vec<State<'_>> = problem
        .topics
        .iter()
        .map(|topic| State::new(problem, topic))
        .collect();
    if states.iter().any(|state| state.rack_aware) {
        by_rack(problem, &mut states, &mut owner);
    }
    for state in &mut states {
        state.give_rest(&mut owner);
    }
    Solution::new(owner)
}

/// What is left to give of one topic.
struct State<'a> {
    topic: &'a NumberedTopic,
    rack_aware: bool,
    left: Vec<PartitionNumber>,
    /// Per subscriber, in the order of `topic.members`.
    given: Vec<u32>,
    quota: u32,
    extra: u32,
}

impl<'a> State<'a> {
    fn new(problem: &Problem, topic: &'a NumberedTopic) -> Self {
        let members = number(topic.members.len());
        Self {
            topic,
            rack_aware: problem.racks_matter(&topic.members, topic.partitions()),
            left: topic.partitions().collect(),
            given: vec![0; topic.members.len()],
            quota: topic.count.checked_div(members).unwrap_or(0),
            extra: topic.count.checked_rem(members).unwrap_or(0),
        }
    }

    fn room(&self, place: usize) -> usize {
        let given = self.given.get(place).copied().unwrap_or(u32::MAX);
        let most = self.quota.saturating_add(u32::from(self.extra > 0));
        index(most.saturating_sub(given))
    }

    fn note(&mut self, place: usize, count: usize) {
        if count == 0 {
            return;
        }
        if let Some(given) = self.given.get_mut(place) {
            *given = given.saturating_add(number(count));
            if *given > self.quota {
                self.extra = self.extra.saturating_sub(1);
            }
        }
    }

    /// Gives each member the first partitions with a replica in its rack, as many as it has room
    /// for.
    fn give_by_rack(&mut self, problem: &Problem, owner: &mut [Option<MemberNumber>]) {
        let topic = self.topic;
        for (place, member) in topic.members.iter().enumerate() {
            let room = self.room(place);
            let mut taken = 0;
            self.left.retain(|partition| {
                if taken == room || !problem.racks_match(*member, *partition) {
                    return true;
                }
                give(owner, *partition, *member);
                taken += 1;
                false
            });
            self.note(place, taken);
        }
    }

    /// Gives each member the first partitions left, as many as it has room for.
    fn give_rest(&mut self, owner: &mut [Option<MemberNumber>]) {
        let topic = self.topic;
        let left = std::mem::take(&mut self.left);
        let mut left = left.into_iter();
        for (place, member) in topic.members.iter().enumerate() {
            let mut taken = 0;
            for partition in left.by_ref().take(self.room(place)) {
                give(owner, partition, *member);
                taken += 1;
            }
            self.note(place, taken);
        }
    }
}

fn by_rack(problem: &Problem, states: &mut [State<'_>], owner: &mut [Option<MemberNumber>]) {
    let mut groups: BTreeMap<(&[MemberNumber], u32), Vec<usize>> = BTreeMap::new();
    for (at, state) in states.iter().enumerate() {
        groups
            .entry((&state.topic.members, state.topic.count))
            .or_default()
            .push(at);
    }
    for ((members, count), places) in groups {
        if let [single] = places[..] {
            if let Some(state) = states.get_mut(single).filter(|state| state.rack_aware) {
                state.give_by_rack(problem, owner);
            }
        } else {
            let mut together: Vec<&mut State<'_>> = states
                .iter_mut()
                .enumerate()
                .filter(|(at, _)| places.binary_search(at).is_ok())
                .map(|(_, state)| state)
                .collect();
            co_partitioned(problem, members, count, &mut together, owner);
        }
    }
}

/// Gives partition `n` of all these topics to the first member whose rack has a replica of each.
fn co_partitioned(
    problem: &Problem,
    members: &[MemberNumber],
    count: u32,
    states: &mut [&mut State<'_>],
    owner: &mut [Option<MemberNumber>],
) {
    let mut remaining: Vec<usize> = (0..members.len()).collect();
    for partition in 0..count {
        let fits = |place: usize| {
            let Some(member) = members.get(place) else {
                return false;
            };
            states.iter().all(|state| {
                state.room(place) > 0 && problem.racks_match(*member, state.topic.first + partition)
            })
        };
        let Some(at) = remaining.iter().position(|place| fits(*place)) else {
            continue;
        };
        let Some(&place) = remaining.get(at) else {
            continue;
        };
        for state in &mut *states {
            if let Some(member) = members.get(place) {
                give(owner, state.topic.first + partition, *member);
            }
            state.note(place, 1);
        }
        if states.iter().all(|state| state.room(place) == 0) {
            remaining.remove(at);
        }
    }
    for state in states {
        state
            .left
            .retain(|left| owner.get(index(*left)).is_some_and(Option::is_none));
    }
}

fn give(owner: &mut [Option<MemberNumber>], partition: PartitionNumber, member: MemberNumber) {
    if let Some(slot) = owner.get_mut(index(partition)) {
        *slot = Some(member);
    }
}
