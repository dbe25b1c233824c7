//! The range assignor, with the results other clients compute for the same groups (KIP-881).

use nearside::assign::{Assignor, Candidate, Problem, Topic};
use nearside::ids::Rack;

fn candidate(name: &str, topics: &[&str], rack: Option<&str>) -> Candidate {
    Candidate {
        member: name.into(),
        instance: None,
        topics: topics.iter().map(|topic| (*topic).into()).collect(),
        owned: Vec::new(),
        generation: None,
        rack: rack.map(Rack::from),
    }
}

/// A topic whose partition racks are written as `"ab bc c"`.
fn topic(name: &str, racks: &str) -> Topic {
    let row = |row: &str| {
        row.chars()
            .map(|rack| Rack::from(rack.to_string()))
            .collect()
    };
    Topic {
        name: name.into(),
        replica_racks: racks.split(' ').map(row).collect(),
    }
}

/// `["x0 x1", ..]` by member, in the order of member ids.
fn range(candidates: Vec<Candidate>, topics: &[Topic]) -> Vec<String> {
    let problem = Problem::build(candidates, topics);
    let lists = Assignor::Range.assign(&problem).by_member(&problem);
    let words = |list: &Vec<nearside::ids::TopicPartition>| {
        let words: Vec<_> = list
            .iter()
            .map(|at| format!("{}{}", at.topic, at.partition))
            .collect();
        words.join(" ")
    };
    lists.iter().map(words).collect()
}

#[test]
fn the_first_members_take_the_remainder() {
    let members = ["c", "a", "b"]
        .map(|name| candidate(name, &["x"], None))
        .to_vec();
    let topics = [topic("x", "- - - - - - -")];
    assert_eq!(range(members, &topics), ["x0 x1 x2", "x3 x4", "x5 x6"]);
}

#[test]
fn each_topic_is_cut_for_its_own_subscribers() {
    let members = vec![
        candidate("a", &["x"], None),
        candidate("b", &["x", "y"], None),
        candidate("c", &["y"], None),
    ];
    let topics = [topic("x", "- - -"), topic("y", "- - - -")];
    assert_eq!(range(members, &topics), ["x0 x1", "x2 y0 y1", "y2 y3"]);
}

#[test]
fn static_members_come_first_by_instance_id() {
    let mut stable = candidate("z", &["x"], None);
    stable.instance = Some("i1".into());
    let members = vec![candidate("a", &["x"], None), stable];
    assert_eq!(range(members, &[topic("x", "- - -")]), ["x0 x1", "x2"]);
}

#[test]
fn a_single_topic_follows_its_racks_within_the_quota() {
    let members = ["a", "b", "c"]
        .map(|rack| candidate(rack, &["x"], Some(rack)))
        .to_vec();
    // Neighbouring ranges would give a: 0 1, b: 2 3, c: 4 5.
    let topics = [topic("x", "c b a c b a")];
    assert_eq!(range(members, &topics), ["x2 x5", "x1 x4", "x0 x3"]);
}

#[test]
fn racks_do_not_count_if_every_partition_is_in_every_rack() {
    let members = ["a", "b"]
        .map(|rack| candidate(rack, &["x"], Some(rack)))
        .to_vec();
    assert_eq!(
        range(members, &[topic("x", "ab ba ab ba")]),
        ["x0 x1", "x2 x3"]
    );
}

#[test]
fn racks_do_not_count_if_no_member_rack_has_a_replica() {
    let members = ["d", "e"]
        .map(|rack| candidate(rack, &["x"], Some(rack)))
        .to_vec();
    assert_eq!(range(members, &[topic("x", "a b a b")]), ["x0 x1", "x2 x3"]);
}

#[test]
fn what_no_rack_matches_goes_by_number_and_balance_beats_racks() {
    let members = ["a", "b"]
        .map(|rack| candidate(rack, &["x"], Some(rack)))
        .to_vec();
    // Three of four are in rack a only; b has to take one of them.
    assert_eq!(range(members, &[topic("x", "a a a b")]), ["x0 x1", "x2 x3"]);
}

#[test]
fn co_partitioned_topics_stay_together() {
    let members = ["a", "b"]
        .map(|rack| candidate(rack, &["x", "y"], Some(rack)))
        .to_vec();
    // Partition 0 of both is in rack b, partition 1 of both in rack a.
    let topics = [topic("x", "b a"), topic("y", "b a")];
    assert_eq!(range(members, &topics), ["x1 y1", "x0 y0"]);
}

#[test]
fn co_partitioned_topics_ignore_racks_that_only_one_of_them_matches() {
    let members = ["a", "b"]
        .map(|rack| candidate(rack, &["x", "y"], Some(rack)))
        .to_vec();
    let topics = [topic("x", "b a"), topic("y", "a b")];
    assert_eq!(range(members, &topics), ["x0 y0", "x1 y1"]);
}
