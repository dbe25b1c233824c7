//! A producer, a view of the cluster, and everything that came out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nearside::cluster::{HintLot, Want};
use nearside::ids::{
    BrokerId, Draw, LeaderEpoch, Moment, Offset, PartitionIndex, TopicId, TopicIncarnation,
    TopicName, TopicPartition,
};
use nearside::producer::{
    Input, Leader, Leaders, Outcome, Output, ProduceError, Producer, Record, RecordToken,
    SendToken, Settings,
};
use nearside::wire::ErrorCode;
use nearside::wire::api::produce::{Produced, Request, Response};
use nearside::wire::api::{CurrentLeader, TopicRef, init_producer_id};

pub(crate) const TOPIC: &str = "orders";
pub(crate) const ID: init_producer_id::Producer = init_producer_id::Producer { id: 40, epoch: 0 };

/// What the producer may know about the cluster.
#[derive(Default)]
pub(crate) struct View {
    pub(crate) partitions: i32,
    pub(crate) leaders: BTreeMap<i32, (i32, i32)>,
    pub(crate) incarnation: u64,
    pub(crate) refusal: Option<i16>,
}

impl Leaders for View {
    fn partition_count(&self, _topic: &TopicName) -> Option<i32> {
        Some(self.partitions).filter(|count| *count > 0)
    }

    fn refusal(&self, _topic: &TopicName) -> Option<ErrorCode> {
        self.refusal.map(ErrorCode)
    }

    fn is_absent(&self, _: &TopicName) -> bool {
        false
    }

    fn topic_id(&self, _topic: &TopicName) -> Option<TopicId> {
        None
    }

    fn incarnation(&self, _topic: &TopicName) -> TopicIncarnation {
        TopicIncarnation(self.incarnation)
    }

    fn leader(&self, partition: &TopicPartition) -> Option<Leader> {
        let (broker, epoch) = self.leaders.get(&partition.partition.0)?;
        Some(Leader {
            broker: BrokerId(*broker),
            epoch: Some(LeaderEpoch(*epoch)),
        })
    }
}

/// A request that waits for its fate.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) token: SendToken,
    pub(crate) broker: i32,
    pub(crate) request: Request,
}

/// The producer and what it did.
pub(crate) struct Rig {
    pub(crate) producer: Producer,
    pub(crate) view: View,
    pub(crate) now: Moment,
    pub(crate) sent: VecDeque<Sent>,
    pub(crate) acked: Vec<(u64, Option<i64>)>,
    pub(crate) failed: Vec<(u64, ProduceError)>,
    pub(crate) hints: Vec<HintLot>,
    pub(crate) refreshes: Vec<Want>,
    pub(crate) abandoned: Vec<i32>,
    /// Producer ids are handed out from here; empty means that nobody answers.
    pub(crate) identities: VecDeque<init_producer_id::Producer>,
    next_record: u64,
}

impl Rig {
    /// One partition, led by broker 1 at epoch 5, batches of one record that do not linger.
    pub(crate) fn new() -> Self {
        Self::with(Settings {
            linger: Duration::ZERO,
            batch_bytes: 1,
            ..Settings::default()
        })
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let view = View {
            partitions: 1,
            leaders: [(0, (1, 5))].into(),
            ..View::default()
        };
        Self {
            producer: Producer::new(settings),
            view,
            now: Moment::from_ms(1_000),
            sent: VecDeque::new(),
            acked: Vec::new(),
            failed: Vec::new(),
            hints: Vec::new(),
            refreshes: Vec::new(),
            abandoned: Vec::new(),
            identities: [ID].into(),
            next_record: 0,
        }
    }

    /// A rig whose leader has accepted a first record: the gate is open.
    pub(crate) fn proven() -> Self {
        let mut rig = Self::new();
        rig.append(1);
        rig.answer(0, Some(0));
        rig
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.producer
            .handle(input, &self.view, Draw(u64::MAX / 2), self.now);
        while let Some(output) = self.producer.poll_output() {
            match output {
                Output::Send {
                    broker,
                    request,
                    token,
                } => {
                    self.sent.push_back(Sent {
                        token,
                        broker: broker.0,
                        request,
                    });
                }
                Output::Identify { token, .. } => {
                    if let Some(producer) = self.identities.pop_front() {
                        let response = Some(init_producer_id::Response {
                            throttle: Duration::ZERO,
                            error: ErrorCode::NONE,
                            producer: Some(producer),
                        });
                        self.input(Input::Identified { token, response });
                    }
                }
                Output::Refresh { want, .. } => self.refreshes.push(want),
                Output::Hints(lot) => self.hints.push(lot),
                Output::Abandon { broker } => self.abandoned.push(broker.0),
                Output::Acked { token, offset, .. } => {
                    self.acked.push((token.0, offset.map(|offset| offset.0)));
                }
                Output::Failed { token, error } => self.failed.push((token.0, error)),
            }
        }
    }

    /// Appends `count` records to partition 0; their values are their tokens.
    pub(crate) fn append(&mut self, count: u64) {
        for _ in 0..count {
            let token = RecordToken(self.next_record);
            self.next_record += 1;
            let record = Record::new(TOPIC, token.0.to_string());
            let record = record.to_partition(PartitionIndex(0));
            self.input(Input::Append { token, record });
        }
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn advance(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while let Some(due) = self.producer.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
            assert!(
                self.producer
                    .next_deadline()
                    .is_none_or(|next| next > self.now),
                "a deadline that passed stays due"
            );
        }
        self.now = end;
    }

    pub(crate) fn lead(&mut self, broker: i32, epoch: i32) {
        self.view.leaders.insert(0, (broker, epoch));
        self.input(Input::ClusterChanged);
    }

    /// Answers the oldest request with one code for all its rows.
    pub(crate) fn answer(&mut self, code: i16, base: Option<i64>) {
        self.answer_with(|row| {
            row.error = ErrorCode(code);
            row.base_offset = base.map(Offset);
        });
    }

    pub(crate) fn answer_with(&mut self, edit: impl Fn(&mut Produced)) {
        let sent = self.sent.pop_front().unwrap();
        let rows = sent.request.partitions.iter().map(|partition| {
            let mut row = row_of(&partition.topic, partition.partition);
            edit(&mut row);
            row
        });
        let response = Response {
            partitions: rows.collect(),
            throttle: Duration::ZERO,
            endpoints: Vec::new(),
        };
        self.input(Input::Answered {
            token: sent.token,
            response,
        });
    }

    /// Ends the oldest request without an answer.
    pub(crate) fn lose(&mut self, outcome: Outcome) {
        let token = self.sent.pop_front().unwrap().token;
        self.input(Input::Lost { token, outcome });
    }

    /// The sequences of the batches that are out, oldest request first.
    pub(crate) fn sequences(&self) -> Vec<(i16, i32)> {
        self.sent
            .iter()
            .flat_map(|sent| &sent.request.partitions)
            .map(|p| seal(&p.records))
            .collect()
    }
}

pub(crate) fn row_of(topic: &TopicName, partition: PartitionIndex) -> Produced {
    Produced {
        topic: TopicRef::Name(topic.clone()),
        partition,
        error: ErrorCode::NONE,
        base_offset: None,
        log_append_time_ms: None,
        log_start: Some(Offset(0)),
        record_errors: Vec::new(),
        message: None,
        current_leader: None,
    }
}

pub(crate) fn hint(broker: i32, epoch: i32) -> Option<CurrentLeader> {
    Some(CurrentLeader {
        leader: Some(BrokerId(broker)),
        epoch: Some(LeaderEpoch(epoch)),
    })
}

/// Producer epoch and base sequence of a sealed batch.
pub(crate) fn seal(records: &[u8]) -> (i16, i32) {
    let epoch = i16::from_be_bytes(records[51..53].try_into().unwrap());
    (
        epoch,
        i32::from_be_bytes(records[53..57].try_into().unwrap()),
    )
}
