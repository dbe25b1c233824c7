//! The commit plan: on the embedded cluster, and alone where a broker would only be in the way.

use std::time::Duration;

use nearside::embedded::{Api, Effect, Rule};
use nearside::group::{Assigned, Identity, Standing, To, Token};
use nearside::ids::{
    AssignmentEpoch, Draw, Generation, GroupId, LeaderEpoch, Moment, Offset, PositionGeneration,
};
use nearside::offsets::commit::{
    Committer, Due, Event, FlushId, Input, Observed, Output, Settings,
};
use nearside::wire::api::offset_commit;
use nearside::wire::{ErrorCode, Request};

use crate::group_rig::{Rig, partition};

const SECOND: Duration = Duration::from_secs(1);

fn stored(rig: &Rig, index: i32) -> Option<(i64, Option<LeaderEpoch>)> {
    let committed = rig
        .cluster
        .committed(&GroupId::from("billing"), &partition(index))?;
    Some((committed.offset.0, committed.leader_epoch))
}

fn commits(rig: &Rig) -> u64 {
    (1..=3)
        .map(|id| {
            rig.cluster
                .requests(nearside::ids::BrokerId(id), Api::OffsetCommit)
        })
        .sum()
}

/// runtime.md 18, 1 (ledger and commit).
#[test]
fn finished_records_are_committed_with_the_epoch_of_the_last_one() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    for offset in 0..3 {
        rig.finish(node, &partition(0), offset, offset + 1);
    }
    rig.run_for(SECOND * 6);
    let epoch = rig.cluster.partition(&partition(0)).map(|view| view.epoch);
    assert_eq!(stored(&rig, 0), Some((3, epoch)));
    assert_eq!(commits(&rig), 1, "one interval, one commit");
}

/// runtime.md 18, 24.
#[test]
fn a_refused_row_is_retried_alone() {
    let mut rig = Rig::new(2);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.cluster.inject(
        Rule::error(3)
            .on(Api::OffsetCommit)
            .of(partition(1))
            .times(1),
    );
    for index in 0..2 {
        rig.finish(node, &partition(index), 0, 5);
    }
    rig.run_for(SECOND * 12);
    assert_eq!(
        (stored(&rig, 0), stored(&rig, 1))
            .0
            .map(|(offset, _)| offset),
        Some(5)
    );
    assert_eq!(stored(&rig, 1).map(|(offset, _)| offset), Some(5));
    let told = rig
        .log(node)
        .iter()
        .filter(|line| line.starts_with("committed"))
        .count();
    assert_eq!(told, 2, "{:#?}", rig.log(node));
}

/// runtime.md 18, 25.
#[test]
fn newer_states_wait_for_the_commit_in_flight_and_become_one() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.cluster.inject(
        Rule::new(Effect::Delay(SECOND))
            .on(Api::OffsetCommit)
            .times(1),
    );
    rig.finish(node, &partition(0), 0, 10);
    while commits(&rig) == 0 {
        rig.run_for(Duration::from_millis(100));
    }
    rig.finish(node, &partition(0), 10, 12);
    rig.finish(node, &partition(0), 12, 15);
    rig.run_for(SECOND * 20);
    assert_eq!(commits(&rig), 2, "exactly one more");
    assert_eq!(stored(&rig, 0).map(|(offset, _)| offset), Some(15));
}

/// A committer alone, a member of generation 3.
struct Alone {
    committer: Committer,
    now: Moment,
    sent: Vec<(Token, To, offset_commit::Request)>,
    told: Vec<Output>,
}

impl Alone {
    fn new() -> Self {
        let mut alone = Self {
            committer: Committer::new(Settings::new("billing")),
            now: Moment::from_ms(1_000),
            sent: Vec::new(),
            told: Vec::new(),
        };
        alone.give(Input::Coordinator(true));
        alone.give(Input::Standing(Standing::Stable(identity(3))));
        alone
    }

    fn give(&mut self, input: Input) {
        self.committer.handle(input, Draw(5), self.now);
        while let Some(output) = self.committer.poll_output() {
            if let Output::Send {
                to,
                request: Request::OffsetCommit(request),
                token,
                ..
            } = output
            {
                self.sent.push((token, to, request));
            } else {
                self.told.push(output);
            }
        }
    }

    fn observe(&mut self, index: i32, offset: i64) {
        self.give(Input::Observed(state(index, offset), Due::Interval));
    }

    fn tick_at(&mut self, ms: u64) {
        self.now = Moment::from_ms(ms);
        self.give(Input::Tick);
    }

    /// Lets time pass until something is sent, and takes it.
    fn next_sent(&mut self) -> (Token, offset_commit::Request) {
        while self.sent.is_empty() {
            self.now = self.committer.next_deadline().unwrap();
            self.give(Input::Tick);
        }
        let (token, _, request) = self.sent.remove(0);
        (token, request)
    }

    fn answer(&mut self, token: Token, request: &offset_commit::Request, error: ErrorCode) {
        let rows = request
            .partitions
            .iter()
            .map(|row| offset_commit::Committed {
                topic: row.topic.clone(),
                partition: row.partition,
                error,
            });
        let answer = offset_commit::Response {
            throttle: Duration::ZERO,
            partitions: rows.collect(),
        };
        self.give(Input::Answer {
            token,
            result: Ok(answer.into()),
        });
    }
}

fn identity(generation: i32) -> Identity {
    Identity {
        member: "m".into(),
        generation: Generation(generation),
        instance: None,
    }
}

fn state(index: i32, offset: i64) -> Observed {
    Observed {
        partition: partition(index),
        assignment_epoch: AssignmentEpoch(1),
        generation: PositionGeneration(0),
        offset: Offset(offset),
        leader_epoch: None,
    }
}

fn assigned(index: i32) -> Assigned {
    Assigned {
        partition: partition(index),
        epoch: AssignmentEpoch(1),
    }
}

fn indexes(request: &offset_commit::Request) -> Vec<i32> {
    request
        .partitions
        .iter()
        .map(|row| row.partition.0)
        .collect()
}

/// runtime.md 18, 27.
#[test]
fn twenty_thousand_partitions_are_committed_in_bounded_requests_over_the_interval() {
    let mut alone = Alone::new();
    for index in 0..20_000 {
        alone.observe(index, 7);
    }
    let (mut rows, mut moments) = (0, std::collections::BTreeSet::new());
    while rows < 20_000 {
        while alone.sent.is_empty() {
            alone.now = alone.committer.next_deadline().unwrap();
            alone.give(Input::Tick);
        }
        assert!(alone.sent.len() <= 4, "{} requests out", alone.sent.len());
        moments.insert(alone.now.as_ms());
        for (token, _, request) in std::mem::take(&mut alone.sent) {
            let bytes: usize = request
                .partitions
                .iter()
                .map(|row| row.topic.as_str().len() + row.metadata.len() + "billing".len() + 60)
                .sum();
            assert!(
                bytes <= 256 * 1_024 && request.partitions.len() <= 5_000,
                "{bytes}"
            );
            rows += request.partitions.len();
            alone.answer(token, &request, ErrorCode::NONE);
        }
    }
    assert_eq!(rows, 20_000, "each once");
    assert_eq!(alone.committer.dirty(), 0);
    let span = moments.last().unwrap() - moments.first().unwrap();
    assert!(
        moments.len() >= 8 && span >= 4_000,
        "spread over the interval: {moments:?}"
    );
}

/// runtime.md 18, 36.
#[test]
fn a_commit_refused_by_a_rebalance_waits_for_the_sync_and_then_only_what_stayed_is_sent() {
    let mut alone = Alone::new();
    alone.observe(0, 5);
    alone.observe(1, 5);
    alone.give(Input::Flush {
        id: FlushId(1),
        partitions: vec![assigned(0), assigned(1)],
        until: Moment::from_ms(60_000),
    });
    while let Some((token, _, request)) = alone.sent.pop() {
        alone.answer(token, &request, ErrorCode::REBALANCE_IN_PROGRESS);
    }
    let refused = alone
        .told
        .iter()
        .filter(|told| matches!(told, Output::Refused { .. }))
        .count();
    assert!(refused >= 1, "the member is told");
    alone.give(Input::Standing(Standing::Joining(identity(3))));
    alone.give(Input::Standing(Standing::Syncing));
    alone.tick_at(20_000);
    assert!(alone.sent.is_empty(), "held until the sync");
    alone.give(Input::Forget(vec![assigned(1)]));
    alone.give(Input::Standing(Standing::Stable(identity(4))));
    let (token, request) = alone.next_sent();
    assert_eq!(
        (indexes(&request), request.generation),
        (vec![0], Some(Generation(4)))
    );
    alone.answer(token, &request, ErrorCode::NONE);
    assert!(alone.sent.is_empty());
    assert_eq!(alone.committer.dirty(), 0);
}

/// The leader of a round whose SyncGroup was lost joins and syncs again, and the coordinator
/// repeats the generation. runtime.md 5.3: a commit refused meanwhile is held until the sync, no
/// longer.
#[test]
fn a_commit_refused_between_two_syncs_of_one_generation_leaves_after_the_second() {
    let mut alone = Alone::new();
    alone.give(Input::Standing(Standing::Joining(identity(3))));
    alone.give(Input::Standing(Standing::Syncing));
    alone.give(Input::Standing(Standing::Joining(identity(4))));
    alone.give(Input::Observed(state(0, 5), Due::Now));
    let (token, request) = alone.next_sent();
    alone.answer(token, &request, ErrorCode::REBALANCE_IN_PROGRESS);
    alone.give(Input::Standing(Standing::Syncing));
    alone.tick_at(20_000);
    assert!(alone.sent.is_empty(), "held until the sync");
    alone.give(Input::Standing(Standing::Stable(identity(4))));
    let [(token, To::Coordinator, request)] = &alone.sent[..] else {
        panic!("{:?}", alone.sent);
    };
    assert_eq!(request.generation, Some(Generation(4)));
    let (token, request) = (*token, request.clone());
    alone.answer(token, &request, ErrorCode::NONE);
    assert_eq!(alone.committer.dirty(), 0);
}

#[test]
fn a_commit_that_is_due_while_joining_goes_by_the_control_connection() {
    let mut alone = Alone::new();
    alone.give(Input::Standing(Standing::Joining(identity(3))));
    alone.give(Input::Observed(state(0, 5), Due::Now));
    let [(_, To::CoordinatorControl, request)] = &alone.sent[..] else {
        panic!("{:?}", alone.sent);
    };
    assert_eq!(request.generation, Some(Generation(3)));
}

/// kafka.md 4.1.
#[test]
fn a_request_refused_whole_for_its_size_is_halved_until_it_fits() {
    for code in [-1, 10, 18, 28] {
        let mut alone = Alone::new();
        for index in 0..100 {
            alone.observe(index, 7);
        }
        let partitions = (0..100).map(assigned).collect();
        alone.give(Input::Flush {
            id: FlushId(1),
            partitions,
            until: Moment::from_ms(60_000),
        });
        let mut sizes = Vec::new();
        while alone.committer.dirty() > 0 {
            let (token, request) = alone.next_sent();
            sizes.push(request.partitions.len());
            let fits = request.partitions.len() <= 30;
            let error = if fits {
                ErrorCode::NONE
            } else {
                ErrorCode(code)
            };
            alone.answer(token, &request, error);
            assert!(sizes.len() < 50, "code {code}: {sizes:?}");
        }
        assert_eq!(sizes, [100, 50, 50, 25, 25, 25, 25], "code {code}");
    }
}

#[test]
fn a_state_of_a_former_assignment_or_generation_is_dropped() {
    let mut alone = Alone::new();
    let newer = |epoch, generation, offset| Observed {
        assignment_epoch: AssignmentEpoch(epoch),
        generation: PositionGeneration(generation),
        ..state(0, offset)
    };
    alone.give(Input::Observed(newer(2, 1, 40), Due::Now));
    for stale in [newer(1, 9, 99), newer(2, 0, 99), newer(2, 1, 39)] {
        alone.give(Input::Observed(stale, Due::Now));
    }
    let stale = |told: &&Output| matches!(told, Output::Event(Event::StaleObservation(_)));
    assert_eq!(alone.told.iter().filter(stale).count(), 3);
    let (token, request) = alone.next_sent();
    assert_eq!(request.partitions[0].offset, Offset(40));
    alone.answer(token, &request, ErrorCode::NONE);
    // A confirmed truncation raises the position generation: a lower commit is right then.
    alone.give(Input::Observed(newer(2, 2, 30), Due::Now));
    assert_eq!(alone.next_sent().1.partitions[0].offset, Offset(30));
}

#[test]
fn a_flush_ends_when_all_is_stored_or_its_time_is_over() {
    let mut alone = Alone::new();
    alone.observe(0, 5);
    alone.observe(1, 5);
    alone.give(Input::Flush {
        id: FlushId(1),
        partitions: vec![assigned(0)],
        until: Moment::from_ms(6_000),
    });
    let (token, request) = alone.next_sent();
    assert_eq!(indexes(&request), [0], "the other one waits for its turn");
    alone.answer(token, &request, ErrorCode::NONE);
    let ended = |alone: &Alone, id| {
        alone.told.iter().find_map(|told| {
            let Output::Flushed { id: at, unfinished } = told else {
                return None;
            };
            (*at == FlushId(id)).then(|| unfinished.clone())
        })
    };
    assert_eq!(ended(&alone, 1), Some(vec![]));
    alone.give(Input::Flush {
        id: FlushId(2),
        partitions: vec![assigned(1)],
        until: Moment::from_ms(6_000),
    });
    let (token, request) = alone.next_sent();
    alone.answer(token, &request, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    assert_eq!(ended(&alone, 2), None);
    alone.tick_at(6_000);
    assert_eq!(ended(&alone, 2), Some(vec![assigned(1)]));
}

/// runtime.md 5.3: a deleted topic must not hold a rebalance.
#[test]
fn a_deleted_topic_ends_its_flush_at_once() {
    let mut alone = Alone::new();
    alone.observe(0, 5);
    alone.give(Input::Flush {
        id: FlushId(1),
        partitions: vec![assigned(0)],
        until: Moment::from_ms(60_000),
    });
    let (token, request) = alone.next_sent();
    alone.answer(token, &request, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert!(
        alone.told.iter().any(
            |told| matches!(told, Output::Flushed { unfinished, .. } if unfinished.len() == 1)
        )
    );
}

#[test]
fn nothing_leaves_for_a_lost_partition_or_outside_a_membership() {
    let mut alone = Alone::new();
    alone.observe(0, 5);
    alone.observe(1, 5);
    alone.give(Input::Forget(vec![assigned(0)]));
    alone.give(Input::Standing(Standing::Outside));
    alone.tick_at(30_000);
    assert!(alone.sent.is_empty());
    alone.give(Input::Flush {
        id: FlushId(1),
        partitions: vec![assigned(1)],
        until: Moment::from_ms(60_000),
    });
    assert!(
        matches!(alone.told.last(), Some(Output::Flushed { .. })),
        "nobody to commit for"
    );
    alone.give(Input::Standing(Standing::Stable(identity(4))));
    assert_eq!(indexes(&alone.next_sent().1), [1]);
}

/// runtime.md L9.
#[test]
fn commits_without_an_accepted_one_for_three_intervals_are_told_as_late() {
    let mut alone = Alone::new();
    alone.observe(0, 5);
    let mut late = 0;
    while alone.now < Moment::from_ms(40_000) {
        alone.now = alone.committer.next_deadline().unwrap();
        alone.give(Input::Tick);
        for (token, _, request) in std::mem::take(&mut alone.sent) {
            alone.answer(token, &request, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        }
        late = alone
            .told
            .iter()
            .filter(|told| matches!(told, Output::Event(Event::CommitLate { partitions: 1 })))
            .count();
        assert!(
            late == 0 || alone.now >= Moment::from_ms(16_000),
            "{:?}",
            alone.now
        );
    }
    assert_eq!(late, 1);
}

#[test]
fn ten_thousand_finished_records_do_not_wait_for_the_interval() {
    let mut alone = Alone::new();
    alone.give(Input::Observed(state(0, 100), Due::Now));
    let (token, request) = alone.next_sent();
    alone.answer(token, &request, ErrorCode::NONE);
    alone.observe(0, 10_099);
    assert!(alone.sent.is_empty());
    alone.observe(0, 10_100);
    assert_eq!(alone.sent.len(), 1);
}
