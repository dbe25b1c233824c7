//! The machine of dead letters, against a cluster of words.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::ids::{
    AssignmentEpoch, Draw, Moment, Offset, TopicId, TopicIncarnation, TopicName, TopicPartition,
};
use crate::producer::{Leader, Leaders, ProduceError, RecordToken};
use crate::wire::ErrorCode;

/// Topics by what brokers say of them: a number of partitions, or an error.
#[derive(Default)]
struct View(BTreeMap<TopicName, Result<i32, ErrorCode>>);

impl Leaders for View {
    fn partition_count(&self, topic: &TopicName) -> Option<i32> {
        self.0.get(topic)?.ok()
    }

    fn refusal(&self, topic: &TopicName) -> Option<ErrorCode> {
        self.0.get(topic)?.err().filter(|code| *code != MISSING)
    }

    fn is_absent(&self, topic: &TopicName) -> bool {
        self.0.get(topic) == Some(&Err(MISSING))
    }

    fn topic_id(&self, _: &TopicName) -> Option<TopicId> {
        None
    }

    fn incarnation(&self, _: &TopicName) -> TopicIncarnation {
        TopicIncarnation::default()
    }

    fn leader(&self, _: &TopicPartition) -> Option<Leader> {
        None
    }
}

struct Desk {
    letters: Letters,
    view: View,
    room: usize,
    now: Moment,
}

impl Desk {
    fn new(topic: Option<Result<i32, ErrorCode>>) -> Self {
        let mut desk = Self {
            letters: Letters::new(Settings::new("g", "c")),
            view: View::default(),
            room: 1_000_000,
            now: Moment::from_ms(1_000_000),
        };
        desk.set(topic);
        desk
    }

    fn set(&mut self, topic: Option<Result<i32, ErrorCode>>) {
        self.view.0 = topic.map(|it| (dead(), it)).into_iter().collect();
    }

    fn input(&mut self, input: Input) -> Vec<Output> {
        // The middle of every jitter.
        let draw = Draw(u64::MAX / 2);
        let view = (&self.view as &dyn Leaders, self.room);
        self.letters.handle(input, view, draw, self.now);
        std::iter::from_fn(|| self.letters.poll_output()).collect()
    }

    fn post(&mut self, partition: i32, bytes: usize) -> Vec<Output> {
        self.input(Input::Post {
            ticket: ticket(partition),
            letter: Letter {
                origin: TopicPartition::new("orders", partition),
                topic_id: None,
                leader_epoch: None,
                offset: Offset(5),
                first_undelivered: Offset(6),
                next: Offset(10),
                reason: Reason::Poison,
                error: String::new(),
                value: Bytes::from(vec![0; bytes]),
            },
            unix_ms: 7,
        })
    }

    fn ended(&mut self, token: u64, result: Result<i64, ProduceError>) -> Vec<Output> {
        let place = |offset| (TopicPartition::new(dead(), 0), Some(Offset(offset)));
        self.input(Input::Ended {
            token: RecordToken(token),
            result: result.map(place),
        })
    }

    /// Lets time pass until something is due.
    fn wait(&mut self) -> Vec<Output> {
        self.now = self.letters.next_deadline().expect("something is due");
        self.input(Input::Tick)
    }
}

fn dead() -> TopicName {
    "orders.dead-letter".into()
}

fn ticket(partition: i32) -> Ticket {
    Ticket {
        partition: TopicPartition::new("orders", partition),
        assignment: AssignmentEpoch(1),
        number: 9,
    }
}

fn told(partition: i32, end: End) -> Output {
    Output::Tell {
        ticket: ticket(partition),
        end,
    }
}

fn is_down(output: &Output) -> bool {
    matches!(output, Output::Notice(Notice::Down { .. }))
}

fn appended(outputs: &[Output]) -> Vec<u64> {
    let token = |output: &Output| match output {
        Output::Append { token, .. } => Some(token.0),
        Output::Tell { .. } | Output::Want(_) | Output::Notice(_) => None,
    };
    outputs.iter().filter_map(token).collect()
}

#[test]
fn only_the_acknowledgement_ends_a_letter() {
    let mut desk = Desk::new(Some(Ok(1)));
    assert_eq!(appended(&desk.post(0, 10)), [1]);
    assert_eq!(desk.input(Input::ClusterChanged), []);
    assert_eq!(desk.letters.next_deadline(), None);
    desk.now = desk.now + std::time::Duration::from_secs(3);
    let outputs = desk.ended(1, Ok(4));
    assert_eq!(outputs.last(), Some(&told(0, End::Written)));
    let Some(Output::Notice(Notice::Written { from, to, took, .. })) = outputs.first() else {
        panic!("not told: {outputs:?}");
    };
    assert_eq!((*from, *to, took.as_secs()), (Offset(6), Offset(10), 3));
    assert_eq!(desk.ended(1, Ok(4)), [], "once");
}

#[test]
fn a_letter_to_a_missing_topic_waits_without_its_bytes_until_the_topic_is_there() {
    let mut desk = Desk::new(None);
    let outputs = desk.post(0, 10);
    assert!(outputs.contains(&Output::Want(dead())));
    assert_eq!(outputs.iter().filter(|it| is_down(it)).count(), 1);
    assert!(appended(&outputs).is_empty());
    for _ in 0..10 {
        let outputs = desk.wait();
        assert_eq!(outputs, [Output::Want(dead())], "told once only");
    }
    let pause = desk.letters.next_deadline().unwrap().since(desk.now);
    assert!((24..=36).contains(&pause.as_secs()), "{pause:?}");
    desk.set(Some(Ok(1)));
    assert_eq!(desk.input(Input::ClusterChanged), [told(0, End::Again)]);
    assert_eq!(appended(&desk.post(0, 10)), [1]);
    let up = Output::Notice(Notice::Up { topic: dead() });
    assert!(desk.ended(1, Ok(0)).contains(&up));
}

#[test]
fn a_topic_that_refuses_us_is_tried_again_with_growing_pauses() {
    let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    let mut desk = Desk::new(Some(Ok(1)));
    let mut pauses = Vec::new();
    for token in 1..=7 {
        assert_eq!(appended(&desk.post(0, 10)), [token]);
        let error = ProduceError::Refused {
            code: refused,
            message: None,
        };
        let outputs = desk.ended(token, Err(error));
        assert_eq!(outputs.iter().any(is_down), token == 1);
        let due = desk.letters.next_deadline().unwrap();
        pauses.push(due.since(desk.now).as_millis());
        assert_eq!(desk.wait(), [told(0, End::Again)]);
    }
    assert!(pauses.windows(2).all(|two| two[0] <= two[1]), "{pauses:?}");
    assert!(pauses[6] > 20_000, "{pauses:?}");
    desk.set(Some(Err(refused)));
    assert!(appended(&desk.post(0, 10)).is_empty());
    let outputs = desk.wait();
    assert_eq!(outputs, [Output::Want(dead())]);
}

#[test]
fn what_no_retry_mends_is_told_and_what_may_mend_is_sent_again() {
    let hopeless = [
        ProduceError::RecordTooLarge { size: 7 },
        ProduceError::Refused {
            code: ErrorCode::INVALID_RECORD,
            message: None,
        },
    ];
    for error in hopeless {
        let mut desk = Desk::new(Some(Ok(1)));
        desk.post(0, 10);
        let why = error.to_string();
        assert_eq!(desk.ended(1, Err(error)), [told(0, End::Hopeless(why))]);
    }
    for error in [ProduceError::Timeout, ProduceError::OutcomeUnknown] {
        let mut desk = Desk::new(Some(Ok(1)));
        desk.post(0, 10);
        desk.ended(1, Err(error));
        assert_eq!(desk.wait(), [told(0, End::Again)]);
    }
}

#[test]
fn a_letter_for_which_there_is_no_room_comes_again_and_one_alone_is_never_refused() {
    let mut desk = Desk::new(Some(Ok(8)));
    desk.room = 10;
    assert_eq!(appended(&desk.post(0, 10_000)), [1]);
    let outputs = desk.post(1, 10_000);
    assert_eq!(outputs, [], "nothing is wrong with the topic");
    assert_eq!(desk.wait(), [told(1, End::Again)]);
    desk.post(1, 10_000);
    desk.ended(1, Ok(0));
    assert_eq!(desk.wait(), [told(1, End::Again)]);
    assert_eq!(appended(&desk.post(1, 10_000)), [2]);
}

#[test]
fn a_required_topic_that_is_missing_for_long_at_the_start_is_told_once_and_later_not_at_all() {
    let unusable = Output::Notice(Notice::Unusable {
        topic: dead(),
        code: MISSING,
    });
    let begin = |topic| {
        let mut desk = Desk::new(topic);
        desk.letters = Letters::new(Settings {
            required: vec![dead()],
            ..Settings::new("g", "c")
        });
        assert_eq!(desk.input(Input::ClusterChanged), []);
        desk
    };
    let mut desk = begin(None);
    assert_eq!(desk.letters.next_deadline(), None, "nobody has answered");
    desk.set(Some(Err(MISSING)));
    assert_eq!(desk.input(Input::ClusterChanged), []);
    assert_eq!(desk.wait(), [unusable]);
    assert_eq!(desk.letters.next_deadline(), None);
    let mut desk = begin(Some(Err(MISSING)));
    desk.set(Some(Ok(1)));
    assert_eq!(desk.wait(), [], "it came in time");
    desk.set(Some(Err(MISSING)));
    assert_eq!(desk.input(Input::ClusterChanged), []);
    assert_eq!(desk.letters.next_deadline(), None);
}

#[test]
fn a_partition_waits_for_its_last_letter_only() {
    let mut desk = Desk::new(None);
    desk.post(0, 10);
    desk.post(1, 10);
    desk.post(0, 10);
    desk.set(Some(Ok(2)));
    let outputs = desk.input(Input::ClusterChanged);
    assert_eq!(outputs, [told(1, End::Again), told(0, End::Again)]);
}

#[test]
fn a_topic_that_nobody_waits_for_any_more_is_not_told_down_for_ever() {
    let up = || Output::Notice(Notice::Up { topic: dead() });
    let mut desk = Desk::new(Some(Ok(1)));
    desk.post(0, 10);
    desk.ended(1, Err(ProduceError::Timeout));
    assert_eq!(desk.wait(), [told(0, End::Again)]);
    let sent_back = desk.now;
    assert_eq!(desk.wait(), [up()], "it was revoked");
    assert_eq!(desk.now.since(sent_back), MINUTE);
    assert_eq!(desk.letters.next_deadline(), None);
    desk.post(0, 10);
    let outputs = desk.ended(2, Err(ProduceError::Timeout));
    assert_eq!(outputs.iter().filter(|it| is_down(it)).count(), 1, "anew");
    desk.wait();
    desk.post(0, 10);
    desk.now = desk.now + MINUTE;
    assert_eq!(desk.input(Input::Tick), [], "one is out");
}

#[test]
fn who_waits_long_for_a_missing_topic_is_asked_whether_it_still_does() {
    let mut desk = Desk::new(None);
    desk.post(0, 10);
    let since = desk.now;
    let mut told_again = Vec::new();
    while told_again.is_empty() {
        let outputs = desk.wait();
        told_again = outputs;
        told_again.retain(|it| *it == told(0, End::Again));
    }
    let waited = desk.now.since(since);
    assert!((MINUTE * 5..MINUTE * 6).contains(&waited), "{waited:?}");
    let outputs = desk.post(0, 10);
    assert!(!outputs.iter().any(is_down), "it is told already");
}

const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);
const MISSING: ErrorCode = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
