//! Validation and its confirmation, with scripted leaders (KIP-320).

use std::time::Duration;

use nearside::group::Token;
use nearside::ids::{
    AssignmentEpoch, BrokerId, Draw, LeaderEpoch, Moment, Offset, PositionGeneration, TopicId,
    TopicName, TopicPartition,
};
use nearside::offsets::resolve::{
    Input, LeaderView, Outcome, Output, Question, Reset, Resolver, Settings,
};
use nearside::wire::api::offset_for_leader_epoch::{EpochEnd, Response as Ends};
use nearside::wire::{ErrorCode, Request};

/// Broker 1 leads everything.
struct View {
    epoch: LeaderEpoch,
    id: TopicId,
}

impl LeaderView for View {
    fn leader(&self, _: &TopicPartition) -> Option<(BrokerId, Option<LeaderEpoch>)> {
        Some((BrokerId(1), Some(self.epoch)))
    }

    fn partition_count(&self, _: &TopicName) -> Option<usize> {
        Some(1)
    }

    fn topic_id(&self, _: &TopicName) -> Option<TopicId> {
        Some(self.id)
    }
}

struct Script {
    resolver: Resolver,
    view: View,
    now: Moment,
    asked: Vec<(Token, LeaderEpoch)>,
    asked_at: Vec<u64>,
    outcomes: Vec<Outcome>,
    refreshes: usize,
}

impl Script {
    fn validate(reset: Reset, told: Option<(LeaderEpoch, Offset)>) -> Self {
        Self::validate_at(LeaderEpoch(4), reset, told)
    }

    /// The metadata at hand knows the leader of `epoch`; whoever asks knows that of epoch 4.
    fn validate_at(epoch: LeaderEpoch, reset: Reset, told: Option<(LeaderEpoch, Offset)>) -> Self {
        let settings = Settings {
            reset,
            ..Settings::new(None)
        };
        let mut script = Self {
            resolver: Resolver::new(settings),
            view: View {
                epoch,
                id: TopicId(uuid::Uuid::from_u128(1)),
            },
            now: Moment::ZERO,
            asked: Vec::new(),
            asked_at: Vec::new(),
            outcomes: Vec::new(),
            refreshes: 0,
        };
        let question = Question::Validate {
            offset: Offset(50),
            epoch: LeaderEpoch(3),
            leader_epoch: Some(LeaderEpoch(4)),
            told,
        };
        script.give(Input::Resolve {
            partition: TopicPartition::new("orders", 0),
            assignment_epoch: AssignmentEpoch(1),
            generation: PositionGeneration(1),
            question,
            unix_ms: 0,
        });
        script
    }

    fn give(&mut self, input: Input) {
        self.resolver.handle(input, &self.view, Draw(1), self.now);
        while let Some(output) = self.resolver.poll_output() {
            let (request, token) = match output {
                Output::Resolved { outcome, .. } => {
                    self.outcomes.push(outcome);
                    continue;
                }
                Output::Refresh(_) => {
                    self.refreshes += 1;
                    continue;
                }
                Output::Send {
                    request: Request::OffsetForLeaderEpoch(request),
                    token,
                    ..
                } => (request, token),
                other @ (Output::Send { .. }
                | Output::CoordinatorMoved
                | Output::Refused(_)
                | Output::Unanswered { .. }
                | Output::Event(_)) => panic!("{other:?}"),
            };
            let [row] = &request.partitions[..] else {
                panic!("{request:?}")
            };
            assert_eq!(row.current_leader_epoch, Some(LeaderEpoch(4)));
            self.asked.push((token, row.leader_epoch));
            self.asked_at.push(self.now.as_ms());
        }
    }

    /// Moves on to the next question and answers it.
    fn answer(&mut self, epoch: i32, end: i64) {
        while self.asked.is_empty() {
            self.now = self.resolver.next_deadline().unwrap();
            self.give(Input::Tick);
        }
        let (token, asked) = self.asked.remove(0);
        assert_eq!(asked, LeaderEpoch(3));
        let row = EpochEnd {
            topic: "orders".into(),
            partition: 0.into(),
            error: ErrorCode::NONE,
            leader_epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
            end_offset: (end >= 0).then_some(Offset(end)),
        };
        let answer = Ends {
            throttle: Duration::ZERO,
            partitions: vec![row],
        };
        self.give(Input::Answer {
            token,
            result: Ok(answer.into()),
        });
    }
}

const CUT: Outcome = Outcome::Truncated {
    to: Offset(40),
    epoch: Some(LeaderEpoch(3)),
};

/// runtime.md 18, 52 (the resolver's part).
#[test]
fn a_truncation_counts_only_when_it_is_answered_twice() {
    let mut script = Script::validate(Reset::Latest, None);
    script.answer(3, 40);
    assert_eq!(script.outcomes, []);
    script.answer(3, 40);
    assert_eq!(script.outcomes, [CUT]);
    assert!(
        script.asked_at[1] >= script.asked_at[0] + 250,
        "{:?}",
        script.asked_at
    );
}

/// routing.md 12, metadata.md 6: the request carries no topic id.
#[test]
fn a_topic_that_was_created_anew_between_the_answers_truncates_nothing() {
    let mut script = Script::validate(Reset::Latest, None);
    script.answer(3, 40);
    script.view.id = TopicId(uuid::Uuid::from_u128(2));
    script.answer(3, 40);
    assert_eq!(script.outcomes, [Outcome::Unknown]);
}

#[test]
fn a_leader_older_than_the_one_asked_about_is_not_asked() {
    let mut script = Script::validate_at(LeaderEpoch(3), Reset::Latest, None);
    for _ in 0..5 {
        script.now = script.resolver.next_deadline().unwrap();
        script.give(Input::Tick);
    }
    assert_eq!(script.asked, []);
    assert!(script.refreshes > 0, "its successor is looked for");
    script.view.epoch = LeaderEpoch(4);
    script.give(Input::MetadataChanged);
    script.answer(3, 80);
    assert_eq!(script.outcomes, [Outcome::Agrees]);
}

#[test]
fn one_wrong_answer_on_a_healthy_log_truncates_nothing() {
    let mut script = Script::validate(Reset::Latest, None);
    script.answer(3, 40);
    script.answer(3, 80);
    assert_eq!(script.outcomes, [Outcome::Agrees]);
}

#[test]
fn two_different_divergences_confirm_neither() {
    let mut script = Script::validate(Reset::Latest, None);
    script.answer(3, 30);
    script.answer(3, 40);
    assert_eq!(script.outcomes, []);
    script.answer(3, 40);
    assert_eq!(script.outcomes, [CUT]);
}

#[test]
fn a_divergence_told_by_a_fetch_row_is_the_first_of_the_two() {
    let mut script = Script::validate(Reset::Latest, Some((LeaderEpoch(3), Offset(40))));
    script.answer(3, 40);
    assert_eq!(script.outcomes, [CUT]);
}

#[test]
fn an_undefined_answer_proves_nothing() {
    let mut script = Script::validate(Reset::Latest, None);
    script.answer(-1, -1);
    assert_eq!(script.outcomes, [Outcome::Unknown]);
}

#[test]
fn the_policy_none_halts_instead_of_truncating() {
    let mut script = Script::validate(Reset::None, None);
    script.answer(3, 40);
    script.answer(3, 40);
    assert_eq!(script.outcomes, [Outcome::Halt]);
}
