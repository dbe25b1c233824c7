//! Assignors at the size they are specified for: 100,000 partitions and 500 members within two
//! seconds on one core.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use nearside::assign::{Assignor, Candidate, Problem, Topic};
use nearside::ids::{Generation, MemberId, Rack, TopicName};

const TOPICS: usize = 100;
const PARTITIONS: usize = 1_000;
const MEMBERS: usize = 500;

fn rack(number: usize) -> Rack {
    Rack::from(format!("rack-{}", number % 6))
}

/// 100 topics of 1,000 partitions, three replicas in three of six racks.
fn topics() -> Vec<Topic> {
    (0..TOPICS)
        .map(|topic| Topic {
            name: name(topic),
            replica_racks: (0..PARTITIONS)
                .map(|at| (0..3).map(|replica| rack(topic + at + replica)).collect())
                .collect(),
        })
        .collect()
}

fn name(topic: usize) -> TopicName {
    TopicName::from(format!("topic-{topic:03}"))
}

fn members(racks: bool) -> Vec<Candidate> {
    (0..MEMBERS)
        .map(|member| Candidate {
            member: MemberId::from(format!("member-{member:03}")),
            instance: None,
            topics: (0..TOPICS).map(name).collect(),
            owned: Vec::new(),
            generation: None,
            rack: racks.then(|| rack(member)),
        })
        .collect()
}

/// The group after a first assignment, with its last member gone.
fn one_left(mut members: Vec<Candidate>, topics: &[Topic]) -> Vec<Candidate> {
    let problem = Problem::build(members.clone(), topics);
    let lists = Assignor::Sticky.assign(&problem).by_member(&problem);
    for (member, list) in members.iter_mut().zip(lists) {
        member.owned = list;
        member.generation = Some(Generation(1));
    }
    members.pop();
    members
}

fn assign(criterion: &mut Criterion) {
    let topics = topics();
    let mut group = criterion.benchmark_group("assign 100,000 x 500");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(5));
    for racks in [false, true] {
        let how = if racks { "with racks" } else { "plain" };
        let cold = members(racks);
        let warm = one_left(cold.clone(), &topics);
        let cases = [
            (Assignor::Range, "cold", &cold),
            (Assignor::CooperativeSticky, "cold", &cold),
            (Assignor::CooperativeSticky, "one member leaves", &warm),
        ];
        for (assignor, case, members) in cases {
            group.bench_function(format!("{assignor}, {how}, {case}"), |bencher| {
                bencher.iter(|| {
                    let problem = Problem::build(members.clone(), &topics);
                    black_box(assignor.assign(&problem).by_member(&problem))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, assign);
criterion_main!(benches);
