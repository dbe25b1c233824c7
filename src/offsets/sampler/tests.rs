//! Unit tests of the sampler: questions in, one request per leader out.

use std::time::Duration;

use super::*;
use crate::ids::{LeaderEpoch, PartitionIndex, TopicId, TopicName};
use crate::wire::api::list_offsets;

/// Partition `n` is led by broker `n % 3 + 1` at epoch 5; those from 9,000 on have no leader.
#[derive(Default)]
struct Cluster {
    looked_up: std::cell::Cell<usize>,
    /// Everything broker 1 led is led by 2.
    moved: bool,
}

impl LeaderView for Cluster {
    fn leader(&self, partition: &TopicPartition) -> Option<(BrokerId, Option<LeaderEpoch>)> {
        let index = partition.partition.0;
        self.looked_up.set(self.looked_up.get() + 1);
        let leader = match index % 3 + 1 {
            1 if self.moved => 2,
            leader => leader,
        };
        (index < 9_000).then_some((BrokerId(leader), Some(LeaderEpoch(5))))
    }

    fn partition_count(&self, _: &TopicName) -> Option<usize> {
        Some(10_000)
    }

    fn topic_id(&self, _: &TopicName) -> Option<TopicId> {
        None
    }
}

struct Desk {
    sampler: Sampler,
    cluster: Cluster,
    now: Moment,
}

impl Desk {
    fn new() -> Self {
        Self {
            sampler: Sampler::new(Settings::default()),
            cluster: Cluster::default(),
            now: Moment::from_ms(1_000),
        }
    }

    fn say(&mut self, input: Input) -> Vec<Output> {
        self.sampler.handle(input, &self.cluster, self.now);
        std::iter::from_fn(|| self.sampler.poll_output()).collect()
    }

    fn ask(&mut self, index: i32) -> Vec<Output> {
        self.say(Input::Sample {
            partition: partition(index),
            assignment_epoch: AssignmentEpoch(1),
            generation: PositionGeneration(7),
        })
    }

    /// What the end of the window brings.
    fn close(&mut self) -> Vec<Output> {
        self.now = self.now + Duration::from_millis(250);
        assert_eq!(self.sampler.next_deadline(), Some(self.now));
        self.say(Input::Tick)
    }

    fn answer(&mut self, token: Token, rows: &[(i32, ErrorCode, Option<i64>)]) -> Vec<Output> {
        let found = |(index, error, offset): &(i32, ErrorCode, Option<i64>)| Found {
            topic: "orders".into(),
            partition: PartitionIndex(*index),
            error: *error,
            timestamp: None,
            offset: offset.map(Offset),
            leader_epoch: None,
        };
        let response = list_offsets::Response {
            throttle: Duration::ZERO,
            partitions: rows.iter().map(found).collect(),
        };
        let result = Ok(Response::ListOffsets(response));
        self.say(Input::Answer { token, result })
    }
}

fn partition(index: i32) -> TopicPartition {
    TopicPartition::new("orders", index)
}

/// Requests by leader: token and number of rows.
fn sent(outputs: &[Output]) -> Vec<(BrokerId, Token, usize)> {
    let sent = outputs.iter().map(|output| match output {
        Output::Send {
            to, token, request, ..
        } => (*to, *token, request.partitions.len()),
        other @ (Output::Sampled { .. } | Output::Refresh(_)) => panic!("{other:?}"),
    });
    sent.collect()
}

fn sampled(index: i32, end: i64) -> Output {
    Output::Sampled {
        partition: partition(index),
        assignment_epoch: AssignmentEpoch(1),
        generation: PositionGeneration(7),
        leader_end: Offset(end),
    }
}

#[test]
fn questions_of_a_window_leave_in_one_request_per_leader() {
    let mut desk = Desk::new();
    for index in 0..30 {
        assert_eq!(desk.ask(index), []);
    }
    let outputs = desk.close();
    let lots: Vec<_> = sent(&outputs)
        .iter()
        .map(|(to, _, rows)| (to.0, *rows))
        .collect();
    assert_eq!(lots, [(1, 10), (2, 10), (3, 10)]);
    let Output::Send { request, .. } = &outputs[0] else {
        panic!("{outputs:?}");
    };
    assert_eq!(request.isolation, Isolation::ReadUncommitted);
    let row = &request.partitions[0];
    assert_eq!(row.current_leader_epoch, Some(LeaderEpoch(5)));
    assert_eq!(row.at, At::Latest);
    assert_eq!(desk.sampler.next_deadline(), None);
}

#[test]
fn a_leader_is_asked_about_a_thousand_at_a_time_and_once_at_a_time() {
    let mut desk = Desk::new();
    for index in 0..3_300 {
        desk.ask(index * 3 % 9_000);
    }
    let first = sent(&desk.close());
    assert_eq!(first.len(), 1);
    assert_eq!((first[0].0, first[0].2), (BrokerId(1), 1_000));
    desk.ask(1);
    let other = sent(&desk.close());
    assert_eq!(other[0].0, BrokerId(2), "another leader is not held up");
    let token = first[0].1;
    let next = sent(&desk.answer(token, &[]));
    assert_eq!((next[0].0, next[0].2), (BrokerId(1), 1_000));
}

#[test]
fn an_answer_goes_to_the_assignment_and_generation_that_asked() {
    let mut desk = Desk::new();
    for index in [0, 3, 6] {
        desk.ask(index);
    }
    let token = sent(&desk.close())[0].1;
    let none = ErrorCode::NONE;
    let rows = [(0, none, Some(700)), (3, none, None), (9, none, Some(1))];
    assert_eq!(desk.answer(token, &rows), [sampled(0, 700)]);
    assert_eq!(desk.answer(token, &rows), [], "a token is answered once");
}

#[test]
fn a_broker_that_does_not_lead_is_no_authority() {
    let mut desk = Desk::new();
    for index in [0, 3, 6] {
        desk.ask(index);
    }
    let token = sent(&desk.close())[0].1;
    let rows = [
        (0, ErrorCode::NOT_LEADER_OR_FOLLOWER, Some(700)),
        (3, ErrorCode::UNKNOWN_SERVER_ERROR, Some(700)),
        (6, ErrorCode::NONE, Some(700)),
    ];
    let refresh = Output::Refresh(partition(0));
    assert_eq!(desk.answer(token, &rows), [refresh, sampled(6, 700)]);
}

#[test]
fn a_request_without_an_answer_frees_its_leader_and_is_not_repeated() {
    let mut desk = Desk::new();
    desk.ask(0);
    let token = sent(&desk.close())[0].1;
    desk.ask(3);
    assert_eq!(desk.close(), [], "the leader is busy");
    let result = Err(NoAnswer::Lost("timed out".to_owned()));
    let outputs = desk.say(Input::Answer { token, result });
    let Output::Send { request, .. } = &outputs[0] else {
        panic!("{outputs:?}");
    };
    assert_eq!(request.partitions[0].partition.0, 3);
    assert_eq!(request.partitions.len(), 1);
}

#[test]
fn a_partition_without_a_leader_is_dropped() {
    let mut desk = Desk::new();
    desk.ask(9_001);
    assert_eq!(desk.close(), []);
    assert_eq!(desk.sampler.next_deadline(), None);
}

#[test]
fn a_question_looks_at_none_of_those_who_wait_for_their_leader() {
    let mut desk = Desk::new();
    for index in 0..8_000 {
        desk.ask(index);
    }
    assert_eq!(sent(&desk.close()).len(), 3);
    let looked_up = desk.cluster.looked_up.get();
    for index in 8_000..9_000 {
        assert!(desk.ask(index).is_empty());
    }
    assert_eq!(desk.cluster.looked_up.get(), looked_up);
}

#[test]
fn an_answer_looks_at_those_it_makes_room_for_and_at_no_others() {
    let mut desk = Desk::new();
    for index in 0..9_000 {
        desk.ask(index);
    }
    let mut out = sent(&desk.close());
    let mut rows = 3_000;
    while let Some((_, token, _)) = out.pop() {
        let before = desk.cluster.looked_up.get();
        let next = sent(&desk.answer(token, &[]));
        let looked_up = desk.cluster.looked_up.get() - before;
        assert!(looked_up <= 1_000, "{looked_up} looked up");
        rows += next.iter().map(|(_, _, rows)| rows).sum::<usize>();
        out.extend(next);
    }
    assert_eq!(rows, 9_000);
    let looked_up = desk.cluster.looked_up.get();
    assert_eq!(looked_up, 2 * 9_000, "once when gathered, once when sent");
}

#[test]
fn questions_that_wait_follow_their_leader() {
    let mut desk = Desk::new();
    for index in [0, 3] {
        desk.ask(index);
    }
    desk.sampler.settings.rows_max = 1;
    let first = sent(&desk.close());
    assert_eq!(first.len(), 1);
    desk.cluster.moved = true;
    let outputs = desk.answer(first[0].1, &[]);
    let next = sent(&outputs);
    assert_eq!((next[0].0, next[0].2), (BrokerId(2), 1));
    let Output::Send { request, .. } = &outputs[0] else {
        panic!("{outputs:?}");
    };
    assert_eq!(request.partitions[0].partition.0, 3);
}
