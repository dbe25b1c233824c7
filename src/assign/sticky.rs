//! The sticky solver behind `sticky` and `cooperative-sticky`.
//!
//! Balance first, then racks, then as few moves as possible. Topics with the same subscribers form
//! one class, so that the usual group, in which all members want the same, is one class however
//! many topics it has.

#![expect(
    clippy::indexing_slicing,
    reason = "numbers come from the problem, and every array here has its sizes"
)]

use std::collections::{BTreeMap, BTreeSet};

use super::problem::{MemberNumber, PartitionNumber, Problem, index, number};
use super::solution::Solution;

/// Solves `problem`. What an owner holds stays with it unless balance, or a replica in another
/// member's rack, asks for a move.
pub(super) fn assign(problem: &Problem) -> Solution {
    let plain = Solver::new(problem).solve(false);
    let rack_aware = problem
        .topics
        .iter()
        .any(|topic| problem.racks_matter(&topic.members, topic.partitions()));
    if !rack_aware {
        return Solution::new(plain);
    }
    // A rack move must win something, or groups would move partitions back and forth for ever.
    let by_rack = Solver::new(problem).solve(true);
    if matches(problem, &by_rack) > matches(problem, &plain) {
        Solution::new(by_rack)
    } else {
        Solution::new(plain)
    }
}

fn matches(problem: &Problem, owner: &[Option<MemberNumber>]) -> usize {
    let at_home = |(partition, owner): (usize, &Option<MemberNumber>)| {
        owner.is_some_and(|member| problem.racks_match(member, number(partition)))
    };
    owner.iter().enumerate().filter(|row| at_home(*row)).count()
}

/// Topics with one and the same set of subscribers.
struct Class {
    members: Vec<MemberNumber>,
    /// Members by load: all of them first, then those of each rack.
    by_load: Vec<BTreeSet<(u32, MemberNumber)>>,
}

struct Solver<'a> {
    problem: &'a Problem,
    classes: Vec<Class>,
    class_of: Vec<usize>,
    classes_of: Vec<Vec<usize>>,
    load: Vec<u32>,
    owner: Vec<Option<MemberNumber>>,
    /// What a member holds of a class; those it owned before lie at the bottom.
    held: BTreeMap<(MemberNumber, usize), Vec<PartitionNumber>>,
}

impl<'a> Solver<'a> {
    fn new(problem: &'a Problem) -> Self {
        let mut numbers: BTreeMap<&[MemberNumber], usize> = BTreeMap::new();
        let mut class_of = Vec::with_capacity(problem.partition_count());
        for topic in &problem.topics {
            let fresh = numbers.len();
            let class = *numbers.entry(&topic.members).or_insert(fresh);
            class_of.extend(topic.partitions().map(|_| class));
        }
        let racks = problem
            .members
            .iter()
            .filter_map(|member| member.rack)
            .max();
        let sets = racks.map_or(1, |highest| index(highest) + 2);
        let mut classes: Vec<Class> = Vec::new();
        classes.resize_with(numbers.len(), || Class {
            members: Vec::new(),
            by_load: vec![BTreeSet::new(); sets],
        });
        let mut classes_of = vec![Vec::new(); problem.member_count()];
        for (members, class) in numbers {
            classes[class].members = members.to_vec();
            for member in members {
                classes_of[index(*member)].push(class);
            }
        }
        let mut solver = Self {
            problem,
            classes,
            class_of,
            classes_of,
            load: vec![0; problem.member_count()],
            owner: vec![None; problem.partition_count()],
            held: BTreeMap::new(),
        };
        for member in 0..number(problem.member_count()) {
            solver.enter(member);
        }
        solver
    }

    fn solve(mut self, by_rack: bool) -> Vec<Option<MemberNumber>> {
        let mut loose = Vec::new();
        for partition in 0..number(self.owner.len()) {
            match self.problem.owner(partition) {
                Some(owner) if !by_rack || self.problem.racks_match(owner, partition) => {
                    self.give(partition, owner);
                }
                Some(_) | None => loose.push(partition),
            }
        }
        // Few subscribers first: the others have more places to go to.
        loose.sort_by_key(|partition| self.classes[self.class_of[index(*partition)]].members.len());
        if by_rack {
            loose.retain(|partition| !self.give_in_rack(*partition));
            loose.retain(|partition| !self.give_back(*partition));
        }
        for partition in loose {
            if let Some(member) = self.least_loaded(self.class_of[index(partition)]) {
                self.give(partition, member);
            }
        }
        self.balance();
        self.owner
    }

    /// The even share, rounded up.
    fn share(&self) -> u32 {
        number(self.owner.len().div_ceil(self.load.len().max(1)))
    }

    fn give_in_rack(&mut self, partition: PartitionNumber) -> bool {
        let class = &self.classes[self.class_of[index(partition)]];
        let racks = &self.problem.replica_racks[index(partition)];
        let best = racks
            .iter()
            .filter_map(|rack| class.by_load.get(index(*rack) + 1)?.first())
            .min();
        match best.copied() {
            Some((load, member)) if load < self.share() => {
                self.give(partition, member);
                true
            }
            Some(_) | None => false,
        }
    }

    fn give_back(&mut self, partition: PartitionNumber) -> bool {
        match self.problem.owner(partition) {
            Some(owner) if self.load[index(owner)] < self.share() => {
                self.give(partition, owner);
                true
            }
            Some(_) | None => false,
        }
    }

    fn least_loaded(&self, class: usize) -> Option<MemberNumber> {
        self.classes[class].by_load[0]
            .first()
            .map(|(_, member)| *member)
    }

    /// Moves partitions from the most to the least loaded until no move makes the loads more even.
    fn balance(&mut self) {
        let mut moves_left = self.owner.len().saturating_mul(MOVES_PER_PARTITION);
        for _ in 0..PASSES_MAX {
            let mut donors: BTreeSet<(u32, MemberNumber)> = self
                .load
                .iter()
                .zip(0..)
                .map(|(load, member)| (*load, member))
                .collect();
            let mut moved = false;
            while let Some((load, donor)) = donors.pop_last() {
                if load != self.load[index(donor)] {
                    donors.insert((self.load[index(donor)], donor));
                    continue;
                }
                let Some((class, taker)) = self.relief(donor) else {
                    continue;
                };
                if moves_left == 0 {
                    return;
                }
                moves_left -= 1;
                moved = true;
                self.shift(class, donor, taker);
                donors.insert((self.load[index(donor)], donor));
            }
            if !moved {
                return;
            }
        }
    }

    /// The class of which `donor` should give, and the member that should take it.
    fn relief(&self, donor: MemberNumber) -> Option<(usize, MemberNumber)> {
        self.classes_of[index(donor)]
            .iter()
            .filter(|class| {
                self.held
                    .get(&(donor, **class))
                    .is_some_and(|held| !held.is_empty())
            })
            .filter_map(|class| {
                let (load, taker) = *self.classes[*class].by_load[0].first()?;
                (load + 2 <= self.load[index(donor)]).then_some((load, *class, taker))
            })
            .min()
            .map(|(_, class, taker)| (class, taker))
    }

    fn shift(&mut self, class: usize, donor: MemberNumber, taker: MemberNumber) {
        let Some(held) = self.held.get_mut(&(donor, class)) else {
            return;
        };
        let top = held.len().saturating_sub(LOOK_MAX);
        let problem = self.problem;
        // Best: back to its owner; then into the taker's rack without leaving the donor's; then the
        // newest.
        let rank = |partition: PartitionNumber| {
            let home = problem.owner(partition) == Some(taker);
            let stays = problem.owner(partition) == Some(donor);
            let gains = problem.racks_match(taker, partition);
            let loses = problem.racks_match(donor, partition);
            (home, gains && !loses, !stays, gains || !loses)
        };
        let best = (top..held.len()).max_by_key(|at| rank(held[*at]));
        let Some(best) = best else { return };
        let partition = held.remove(best);
        self.leave(donor);
        self.load[index(donor)] -= 1;
        self.enter(donor);
        self.give(partition, taker);
    }

    fn give(&mut self, partition: PartitionNumber, member: MemberNumber) {
        self.leave(member);
        self.load[index(member)] += 1;
        self.enter(member);
        self.owner[index(partition)] = Some(member);
        self.held
            .entry((member, self.class_of[index(partition)]))
            .or_default()
            .push(partition);
    }

    /// Takes the member out of the load order, before its load changes.
    fn leave(&mut self, member: MemberNumber) {
        let key = (self.load[index(member)], member);
        let rack = self.problem.members[index(member)].rack;
        for class in &self.classes_of[index(member)] {
            let sets = &mut self.classes[*class].by_load;
            sets[0].remove(&key);
            if let Some(rack) = rack {
                sets[index(rack) + 1].remove(&key);
            }
        }
    }

    /// Puts the member back, after its load changed.
    fn enter(&mut self, member: MemberNumber) {
        let key = (self.load[index(member)], member);
        let rack = self.problem.members[index(member)].rack;
        for class in &self.classes_of[index(member)] {
            let sets = &mut self.classes[*class].by_load;
            sets[0].insert(key);
            if let Some(rack) = rack {
                sets[index(rack) + 1].insert(key);
            }
        }
    }
}

/// Bound of balancing moves (runtime.md G10).
const MOVES_PER_PARTITION: usize = 10;
/// Bound of passes over all donors; each pass but the last makes at least one move.
const PASSES_MAX: usize = 64;
/// How many of a donor's partitions are looked at for the best one to move.
const LOOK_MAX: usize = 64;
