//! Moves, losses and answers in every order, against a partition that checks sequences as a broker
//! does.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nearside::ids::{Offset, PartitionIndex};
use nearside::producer::{Input, Outcome, Settings};
use nearside::records::{BatchSet, ReadSettings};
use nearside::wire::ErrorCode;
use nearside::wire::api::produce::{Produced, Response};
use proptest::prelude::*;

use super::rig::{Rig, Sent, hint, row_of, seal};

const BROKERS: i32 = 3;
/// Batches a broker remembers per producer.
const REMEMBERED: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Step {
    Append(u64),
    /// The broker carries out the next request of its connection.
    Execute(i32),
    /// The broker's oldest answer arrives.
    Deliver(i32),
    /// The connection breaks; requests not carried out never are.
    Break(i32),
    Move(i32),
    Refresh,
    Pass(u64),
}

/// A request on its connection, and its answer once the broker has carried it out.
struct Pending {
    sent: Sent,
    answer: Option<Produced>,
}

/// A batch in the log: sequence, record count, offset.
type Written = (i32, i32, i64);

/// The partition, replicated in no time, and the connections to its brokers.
struct Played {
    rig: Rig,
    leader: (i32, i32),
    log: Vec<u64>,
    /// Producer epoch and the last batches.
    state: Option<(i16, VecDeque<Written>)>,
    connections: BTreeMap<i32, VecDeque<Pending>>,
}

impl Played {
    fn new(batch_bytes: usize) -> Self {
        let settings = Settings {
            linger: Duration::ZERO,
            batch_bytes,
            delivery_timeout: Duration::from_secs(100_000),
            ..Settings::default()
        };
        Self {
            rig: Rig::with(settings),
            leader: (1, 5),
            log: Vec::new(),
            state: None,
            connections: BTreeMap::new(),
        }
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Append(count) => self.rig.append(count),
            Step::Execute(broker) => self.execute(broker),
            Step::Deliver(broker) => self.deliver(broker),
            Step::Break(broker) => self.break_off(broker),
            Step::Move(broker) => self.leader = (broker, self.leader.1 + 1),
            Step::Refresh => self.rig.lead(self.leader.0, self.leader.1),
            Step::Pass(ms) => self.rig.advance(ms),
        }
        for broker in std::mem::take(&mut self.rig.abandoned) {
            self.break_off(broker);
        }
        self.collect();
    }

    fn collect(&mut self) {
        for sent in std::mem::take(&mut self.rig.sent) {
            let connection = self.connections.entry(sent.broker).or_default();
            connection.push_back(Pending { sent, answer: None });
            assert!(connection.len() <= 5, "more than five requests in flight");
        }
    }

    fn execute(&mut self, broker: i32) {
        let waiting = |pending: &Pending| pending.answer.is_none();
        let connection = self.connections.entry(broker).or_default();
        let Some(at) = connection.iter().position(waiting) else {
            return;
        };
        let records = connection[at].sent.request.partitions[0].records.clone();
        let row = self.append(broker, &records);
        self.connections.entry(broker).or_default()[at].answer = Some(row);
    }

    fn deliver(&mut self, broker: i32) {
        let connection = self.connections.entry(broker).or_default();
        let Some(row) = connection.front_mut().and_then(|first| first.answer.take()) else {
            return;
        };
        let token = connection.pop_front().unwrap().sent.token;
        let told = row.current_leader;
        let response = Response {
            partitions: vec![row],
            throttle: Duration::ZERO,
            endpoints: Vec::new(),
        };
        self.rig.input(Input::Answered { token, response });
        if let Some(told) = told.filter(|_| !self.rig.hints.is_empty()) {
            self.rig.hints.clear();
            let (broker, epoch) = (told.leader.unwrap().0, told.epoch.unwrap().0);
            if epoch > self.rig.view.leaders[&0].1 {
                self.rig.lead(broker, epoch);
            }
        }
    }

    fn break_off(&mut self, broker: i32) {
        for pending in self.connections.remove(&broker).unwrap_or_default() {
            let (token, outcome) = (pending.sent.token, Outcome::Unknown);
            self.rig.input(Input::Lost { token, outcome });
        }
    }

    /// Appends as a broker before Kafka 4.5 does: without state it takes any sequence.
    fn append(&mut self, broker: i32, records: &bytes::Bytes) -> Produced {
        let mut row = row_of(&"orders".into(), PartitionIndex(0));
        if broker != self.leader.0 {
            row.error = ErrorCode::NOT_LEADER_OR_FOLLOWER;
            row.current_leader = hint(self.leader.0, self.leader.1);
            return row;
        }
        let (epoch, sequence) = seal(records);
        let (newest, batches) = self.state.get_or_insert((epoch, VecDeque::new()));
        if epoch < *newest {
            row.error = ErrorCode::INVALID_PRODUCER_EPOCH;
            return row;
        }
        if epoch > *newest {
            (*newest, *batches) = (epoch, VecDeque::from([(-1, 1, -1)]));
        }
        if let Some(known) = batches.iter().find(|batch| batch.0 == sequence) {
            row.base_offset = Some(Offset(known.2));
            return row;
        }
        if batches
            .back()
            .is_some_and(|last| last.0 + last.1 != sequence)
        {
            row.error = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
            return row;
        }
        let base = self.log.len();
        self.log.extend(values(records));
        let count = i32::try_from(self.log.len() - base).unwrap();
        let base = i64::try_from(base).unwrap();
        batches.push_back((sequence, count, base));
        if batches.len() > REMEMBERED {
            batches.pop_front();
        }
        row.base_offset = Some(Offset(base));
        row
    }

    /// A quiet time in which everything is answered.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.play(Step::Refresh);
            for broker in 0..BROKERS {
                while self
                    .connections
                    .get(&broker)
                    .is_some_and(|queue| !queue.is_empty())
                {
                    self.play(Step::Execute(broker));
                    self.play(Step::Deliver(broker));
                }
            }
            self.play(Step::Pass(1_200));
        }
        assert!(self.rig.producer.is_idle(), "something is stuck");
    }
}

fn values(records: &bytes::Bytes) -> Vec<u64> {
    let mut set = BatchSet::new(records.clone(), Offset(0), ReadSettings::default());
    let view = set.next().unwrap().unwrap();
    let value = |value: &[u8]| std::str::from_utf8(value).unwrap().parse().unwrap();
    view.records()
        .map(|record| value(record.unwrap().value.unwrap()))
        .collect()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..4_u64).prop_map(Step::Append),
        6 => (0..BROKERS).prop_map(Step::Execute),
        6 => (0..BROKERS).prop_map(Step::Deliver),
        2 => (0..BROKERS).prop_map(Step::Break),
        1 => (0..BROKERS).prop_map(Step::Move),
        2 => Just(Step::Refresh),
        3 => (1..1_500_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// wire.md A41
    #[test]
    fn the_log_is_in_order_without_a_gap_whatever_is_lost(
        batch_bytes in prop::sample::select(&[1_usize, 120][..]),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut played = Played::new(batch_bytes);
        for step in &steps {
            played.play(*step);
        }
        played.settle();
        let counts = steps.iter().map(|step| match step {
            Step::Append(count) => *count,
            Step::Execute(_)
            | Step::Deliver(_)
            | Step::Break(_)
            | Step::Move(_)
            | Step::Refresh
            | Step::Pass(_) => 0,
        });
        let appended: u64 = counts.sum();
        prop_assert_eq!(&played.rig.failed, &[]);
        prop_assert_eq!(played.rig.acked.len() as u64, appended);
        let counts = played.rig.producer.counts();
        prop_assert_eq!(counts.possible_duplicates, 0, "{:?}", counts);
        let expected: Vec<_> = (0..appended).collect();
        prop_assert_eq!(&played.log, &expected);
        for (token, offset) in &played.rig.acked {
            prop_assert!(offset.is_none_or(|offset| offset == *token as i64));
        }
    }
}
