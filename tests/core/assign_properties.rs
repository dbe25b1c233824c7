//! What holds of every assignor, whatever the group.

use std::collections::BTreeMap;

use nearside::assign::{Assignor, Candidate, Problem, Solution, Topic};
use nearside::ids::{Generation, MemberId, Rack, TopicPartition};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Group {
    candidates: Vec<Candidate>,
    topics: Vec<Topic>,
}

fn rack(number: u8) -> Rack {
    Rack::from(format!("r{number}"))
}

fn topics() -> impl Strategy<Value = Vec<Topic>> {
    let row = btree_set(0_u8..3, 0..3);
    vec(vec(row, 0..12), 1..5).prop_map(|topics| {
        topics
            .into_iter()
            .enumerate()
            .map(|(index, rows)| Topic {
                name: format!("t{index}").as_str().into(),
                replica_racks: rows
                    .into_iter()
                    .map(|row| row.into_iter().map(rack).collect())
                    .collect(),
            })
            .collect()
    })
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let owned = vec((0_usize..5, 0_i32..12), 0..8);
    let one = (
        btree_set(0_usize..5, 0..5),
        owned,
        option::of(0_i32..4),
        option::of(0_u8..3),
    );
    vec(one, 1..7).prop_map(|members| {
        members
            .into_iter()
            .enumerate()
            .map(|(index, (topics, owned, generation, home))| Candidate {
                member: MemberId::from(format!("m{index}")),
                instance: None,
                topics: topics
                    .into_iter()
                    .map(|topic| format!("t{topic}").as_str().into())
                    .collect(),
                owned: owned
                    .into_iter()
                    .map(|(topic, index)| TopicPartition::new(format!("t{topic}").as_str(), index))
                    .collect(),
                generation: generation.map(Generation),
                rack: home.map(rack),
            })
            .collect()
    })
}

fn groups() -> impl Strategy<Value = Group> {
    (candidates(), topics()).prop_map(|(candidates, topics)| Group { candidates, topics })
}

/// All members want all topics.
fn uniform(mut group: Group) -> Group {
    for candidate in &mut group.candidates {
        candidate.topics = group
            .topics
            .iter()
            .map(|topic| topic.name.clone())
            .collect();
    }
    group
}

fn loads(problem: &Problem, solution: &Solution) -> Vec<usize> {
    solution.by_member(problem).iter().map(Vec::len).collect()
}

/// The members after `solution`: each owns what it was given.
fn after(group: &Group, problem: &Problem, solution: &Solution) -> Group {
    let given: BTreeMap<MemberId, Vec<TopicPartition>> = problem
        .members()
        .cloned()
        .zip(solution.by_member(problem))
        .collect();
    let mut group = group.clone();
    for candidate in &mut group.candidates {
        candidate.owned = given[&candidate.member].clone();
        candidate.generation = Some(Generation(9));
    }
    group
}

fn numbers(problem: &Problem) -> impl Iterator<Item = u32> {
    0..u32::try_from(problem.partition_count()).unwrap()
}

proptest! {
    #[test]
    fn every_partition_with_a_subscriber_is_given_once_to_one_of_them(group in groups()) {
        let problem = Problem::build(group.candidates.clone(), &group.topics);
        for assignor in Assignor::ALL {
            let solution = assignor.assign(&problem);
            let lists = solution.by_member(&problem);
            let mut all: Vec<_> = lists.iter().flatten().collect();
            all.sort();
            let total = all.len();
            all.dedup();
            prop_assert_eq!(all.len(), total, "{} gives twice", assignor);
            prop_assert_eq!(total + solution.withheld(), problem.partition_count(), "{}", assignor);
            for (member, list) in problem.members().zip(&lists) {
                let wants = group.candidates.iter().find(|row| row.member == *member).unwrap();
                prop_assert!(list.iter().all(|given| wants.topics.contains(&given.topic)));
            }
        }
    }

    #[test]
    fn a_sticky_assignment_is_balanced_within_one(group in groups().prop_map(uniform)) {
        let problem = Problem::build(group.candidates, &group.topics);
        let loads = loads(&problem, &Assignor::Sticky.assign(&problem));
        let (low, high) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
        prop_assert!(high - low <= 1, "{:?}", loads);
    }

    #[test]
    fn no_single_move_makes_a_sticky_assignment_more_even(group in groups()) {
        let problem = Problem::build(group.candidates.clone(), &group.topics);
        let solution = Assignor::Sticky.assign(&problem);
        let loads = loads(&problem, &solution);
        let members: Vec<MemberId> = problem.members().cloned().collect();
        for number in numbers(&problem) {
            let Some(owner) = solution.owner(number) else { continue };
            let topic = problem.partition(number).unwrap().topic;
            for (taker, member) in members.iter().enumerate() {
                let wants = group.candidates.iter().find(|row| row.member == *member).unwrap();
                let owner = usize::try_from(owner).unwrap();
                let better = wants.topics.contains(&topic) && loads[taker] + 1 < loads[owner];
                prop_assert!(!better, "{number} from {owner} to {taker}: {loads:?}");
            }
        }
    }

    #[test]
    fn assigning_again_moves_nothing(group in groups()) {
        let mut group = group;
        let problem = Problem::build(group.candidates.clone(), &group.topics);
        group = after(&group, &problem, &Assignor::Sticky.assign(&problem));
        // Racks may call for one more move each, but not for ever.
        for _ in 0..=problem.partition_count() {
            let problem = Problem::build(group.candidates.clone(), &group.topics);
            let solution = Assignor::Sticky.assign(&problem);
            if numbers(&problem).all(|number| solution.owner(number) == problem.owner(number)) {
                return Ok(());
            }
            group = after(&group, &problem, &solution);
        }
        prop_assert!(false, "never comes to rest");
    }

    #[test]
    fn cooperative_rounds_come_to_rest_and_never_give_a_partition_that_is_not_released(
        group in groups()
    ) {
        let mut group = group;
        for _ in 0..60 {
            let problem = Problem::build(group.candidates.clone(), &group.topics);
            let solution = Assignor::CooperativeSticky.assign(&problem);
            for number in numbers(&problem) {
                let (old, new) = (problem.owner(number), solution.owner(number));
                let released = old.is_none() || new.is_none() || old == new;
                prop_assert!(released, "{number} has two owners");
            }
            let rests = solution.withheld() == 0
                && numbers(&problem).all(|number| solution.owner(number) == problem.owner(number));
            if rests {
                return Ok(());
            }
            group = after(&group, &problem, &solution);
        }
        prop_assert!(false, "never comes to rest");
    }

    #[test]
    fn without_racks_a_leaving_member_moves_only_its_own_partitions(
        group in groups().prop_map(uniform)
    ) {
        let mut group = group;
        for candidate in &mut group.candidates {
            candidate.rack = None;
        }
        let problem = Problem::build(group.candidates.clone(), &group.topics);
        group = after(&group, &problem, &Assignor::Sticky.assign(&problem));
        if group.candidates.len() < 2 {
            return Ok(());
        }
        group.candidates.pop();
        let problem = Problem::build(group.candidates, &group.topics);
        let solution = Assignor::Sticky.assign(&problem);
        for number in numbers(&problem).filter(|number| problem.owner(*number).is_some()) {
            prop_assert_eq!(solution.owner(number), problem.owner(number));
        }
    }
}

fn candidate(name: &str, owned: &[i32], generation: i32) -> Candidate {
    Candidate {
        member: name.into(),
        instance: None,
        topics: vec!["t".into()],
        owned: owned
            .iter()
            .map(|index| TopicPartition::new("t", *index))
            .collect(),
        generation: Some(Generation(generation)),
        rack: None,
    }
}

fn topic(partitions: usize) -> Vec<Topic> {
    vec![Topic {
        name: "t".into(),
        replica_racks: vec![Vec::new(); partitions],
    }]
}

/// runtime.md 18, 40.
#[test]
fn a_partition_claimed_twice_in_one_generation_counts_as_unowned_and_is_given_once() {
    let members = vec![
        candidate("a", &[0, 1], 5),
        candidate("b", &[0, 2], 5),
        candidate("old", &[0, 3], 4),
    ];
    let problem = Problem::build(members, &topic(6));
    assert_eq!(problem.owner(0), None);
    let solution = Assignor::CooperativeSticky.assign(&problem);
    assert!(solution.owner(0).is_some());
    assert_eq!(loads(&problem, &solution), [2, 2, 2]);
    assert_eq!(solution.withheld(), 0);
}

#[test]
fn the_claim_of_the_higher_generation_wins() {
    let problem = Problem::build(
        vec![candidate("a", &[0], 5), candidate("b", &[0], 6)],
        &topic(2),
    );
    assert_eq!(problem.owner(0), Some(1));
}

#[test]
fn what_moves_to_a_newcomer_is_withheld_until_it_is_released() {
    let members = vec![candidate("a", &[0, 1, 2, 3], 1), candidate("b", &[], 1)];
    let problem = Problem::build(members, &topic(4));
    let solution = Assignor::CooperativeSticky.assign(&problem);
    assert_eq!(
        (loads(&problem, &solution), solution.withheld()),
        (vec![2, 0], 2)
    );
}
