//! Three brokers with two partitions, replicated in no time, that check sequences as brokers do.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use nearside::ids::{
    BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicIncarnation, TopicName,
    TopicPartition,
};
use nearside::producer::{Leader, Leaders, Outcome, SendToken};
use nearside::records::{BatchSet, ReadSettings};
use nearside::wire::ErrorCode;
use nearside::wire::api::produce::{Produced, Request, Response};
use nearside::wire::api::{CurrentLeader, TopicRef};

pub(super) const TOPIC: &str = "orders";
pub(super) const BROKERS: i32 = 3;
pub(super) const PARTITIONS: usize = 2;
/// Batches a broker remembers per producer.
const REMEMBERED: usize = 5;
/// Requests in flight on a connection.
const IN_FLIGHT_MAX: usize = 5;
/// Where the sequence, the epoch and the id lie in a batch.
const ID: usize = 43;
const EPOCH: usize = 51;
const SEQUENCE: usize = 53;

/// What a broker does with a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    Append,
    /// Nothing is written.
    Refuse(i16),
    /// Written, but not answered so.
    AppendAndDoubt(i16),
}

/// Sequence, count and offset of a batch.
type Written = (i32, i32, i64);

/// Id and epoch of a producer.
pub(super) type Sender = (i64, i16);

/// A partition's records, and what its leader knows of the producer.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) records: Vec<u64>,
    leader: (i32, i32),
    start: i64,
    /// Id and epoch of the producer, and its last batches.
    state: Option<(Sender, VecDeque<Written>)>,
}

/// A request on its connection, and the answer once there is one.
#[derive(Debug)]
struct Pending {
    token: SendToken,
    batches: Vec<(TopicName, PartitionIndex, Bytes)>,
    answer: Option<Vec<Produced>>,
}

/// Leaders as the producer knows them.
#[derive(Debug, Default)]
pub(super) struct View(Vec<(i32, i32)>);

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) view: View,
    pub(super) logs: Vec<Log>,
    /// Batches that were written although they were there.
    pub(super) repeated: u64,
    /// Most records of a batch.
    pub(super) limit: usize,
    /// Whether a producer that was forgotten is told so.
    strict: bool,
    connections: BTreeMap<i32, VecDeque<Pending>>,
}

impl View {
    /// Leader and epoch of a partition, as far as the producer knows.
    pub(super) fn led(&self, partition: usize) -> (i32, i32) {
        self.0[partition]
    }
}

impl Leaders for View {
    fn partition_count(&self, _topic: &TopicName) -> Option<i32> {
        Some(PARTITIONS as i32)
    }

    fn refusal(&self, _topic: &TopicName) -> Option<ErrorCode> {
        None
    }

    fn is_absent(&self, _topic: &TopicName) -> bool {
        false
    }

    fn topic_id(&self, _topic: &TopicName) -> Option<TopicId> {
        None
    }

    fn incarnation(&self, _topic: &TopicName) -> TopicIncarnation {
        TopicIncarnation(0)
    }

    fn leader(&self, partition: &TopicPartition) -> Option<Leader> {
        let (broker, epoch) = self.0[partition.partition.0 as usize];
        Some(Leader {
            broker: BrokerId(broker),
            epoch: Some(LeaderEpoch(epoch)),
        })
    }
}

impl Cluster {
    pub(super) fn new(strict: bool) -> Self {
        let log = || Log {
            leader: (1, 5),
            ..Log::default()
        };
        Self {
            view: View(vec![(1, 5); PARTITIONS]),
            logs: (0..PARTITIONS).map(|_| log()).collect(),
            repeated: 0,
            limit: usize::MAX,
            strict,
            connections: BTreeMap::new(),
        }
    }

    pub(super) fn lead(&mut self, partition: usize, broker: i32) {
        let leader = &mut self.logs[partition].leader;
        *leader = (broker, leader.1 + 1);
    }

    /// The producer learns who leads.
    pub(super) fn publish(&mut self) {
        self.view = View(self.logs.iter().map(|log| log.leader).collect());
    }

    /// All records grow old, and with them what is known of the producer. A broker that would not
    /// tell can break the order under any client (KAFKA-15591), so only one that tells forgets.
    pub(super) fn forget(&mut self, partition: usize) {
        if !self.strict {
            return;
        }
        let log = &mut self.logs[partition];
        log.start = log.records.len() as i64;
        log.state = None;
    }

    /// Records of the batch that began the sequence, as long as the broker remembers it.
    pub(super) fn first_batch(&self, partition: usize) -> &[u64] {
        let log = &self.logs[partition];
        let batches = log.state.iter().flat_map(|(_, batches)| batches);
        let mut first = batches.filter(|(sequence, ..)| *sequence == 0);
        first.next().map_or(&[], |(_, count, base)| {
            let base = *base as usize;
            &log.records[base..base + *count as usize]
        })
    }

    /// A broker that would tell has lost what it knows of the producer, and no record.
    pub(super) fn lose_state(&mut self, partition: usize) {
        if self.strict {
            self.logs[partition].state = None;
        }
    }

    pub(super) fn receive(&mut self, broker: i32, token: SendToken, request: &Request) {
        let batches = request.partitions.iter();
        let batches = batches.map(|row| (row.topic.clone(), row.partition, row.records.clone()));
        let connection = self.connections.entry(broker).or_default();
        connection.push_back(Pending {
            token,
            batches: batches.collect(),
            answer: None,
        });
        assert!(connection.len() <= IN_FLIGHT_MAX, "too many in flight");
    }

    pub(super) fn is_asked(&self, broker: i32) -> bool {
        self.connections
            .get(&broker)
            .is_some_and(|it| !it.is_empty())
    }

    /// The broker carries out the next request of its connection.
    pub(super) fn execute(&mut self, broker: i32, effect: Effect) {
        let connection = self.connections.entry(broker).or_default();
        let next = connection.iter().position(|it| it.answer.is_none());
        let Some(at) = next else { return };
        let batches = std::mem::take(&mut connection[at].batches);
        let rows = batches
            .iter()
            .map(|(topic, partition, records)| {
                let mut row = row_of(topic, *partition);
                self.carry_out((broker, effect), records, &mut row);
                row
            })
            .collect();
        self.connections.entry(broker).or_default()[at].answer = Some(rows);
    }

    fn carry_out(&mut self, (broker, effect): (i32, Effect), records: &Bytes, row: &mut Produced) {
        let log = &mut self.logs[row.partition.0 as usize];
        let too_large = values(records).len() > self.limit;
        row.log_start = Some(Offset(log.start));
        match effect {
            Effect::Refuse(code) => row.error = ErrorCode(code),
            Effect::Append | Effect::AppendAndDoubt(_) if broker != log.leader.0 => {
                row.error = ErrorCode::NOT_LEADER_OR_FOLLOWER;
                row.current_leader = Some(CurrentLeader {
                    leader: Some(BrokerId(log.leader.0)),
                    epoch: Some(LeaderEpoch(log.leader.1)),
                });
            }
            Effect::Append | Effect::AppendAndDoubt(_) if too_large => {
                row.error = ErrorCode::MESSAGE_TOO_LARGE;
            }
            Effect::Append | Effect::AppendAndDoubt(_) => {
                match log.append(records, self.strict) {
                    Ok((base, repeats)) => {
                        row.base_offset = Some(Offset(base));
                        self.repeated += u64::from(repeats);
                    }
                    Err(code) => row.error = code,
                }
                if let (Effect::AppendAndDoubt(code), ErrorCode::NONE) = (effect, row.error) {
                    row.error = ErrorCode(code);
                }
            }
        }
    }

    /// The oldest answer of a connection.
    pub(super) fn answer(&mut self, broker: i32) -> Option<(SendToken, Response)> {
        let connection = self.connections.get_mut(&broker)?;
        let partitions = connection.front_mut()?.answer.take()?;
        let pending = connection.pop_front()?;
        let response = Response {
            partitions,
            throttle: Duration::ZERO,
            endpoints: Vec::new(),
        };
        Some((pending.token, response))
    }

    /// The connection ends. Of what was not carried out, the last may not have left at all.
    pub(super) fn break_off(&mut self, broker: i32) -> Vec<(SendToken, Outcome)> {
        let lost = self.connections.remove(&broker).unwrap_or_default();
        let last = lost.len().saturating_sub(1);
        let outcome = |(at, pending): (usize, Pending)| {
            let left = at < last || pending.answer.is_some();
            let outcome = if left {
                Outcome::Unknown
            } else {
                Outcome::NotWritten
            };
            (pending.token, outcome)
        };
        lost.into_iter().enumerate().map(outcome).collect()
    }
}

impl Log {
    /// Appends as a broker does; tells the offset, and whether the records were there already.
    fn append(&mut self, records: &Bytes, strict: bool) -> Result<(i64, bool), ErrorCode> {
        let (id, epoch) = sender(records);
        let sequence = i32::from_be_bytes(at(records, SEQUENCE));
        let values = values(records);
        let count = values.len() as i32;
        if self.state.is_none() && strict && sequence != 0 {
            return Err(ErrorCode::UNKNOWN_PRODUCER_ID);
        }
        // Before Kafka 4.5 a broker that knows nothing takes any sequence.
        let known = self.state.get_or_insert(((id, epoch), VecDeque::new()));
        let (newest, batches) = known;
        if newest.0 == id && epoch < newest.1 {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if (id, epoch) != *newest {
            if sequence != 0 {
                return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
            }
            (*newest, *batches) = ((id, epoch), VecDeque::new());
        }
        let same = |batch: &&Written| (batch.0, batch.1) == (sequence, count);
        if let Some(known) = batches.iter().find(same) {
            return Ok((known.2, false));
        }
        let next = batches.back().map(|last| last.0 + last.1);
        if next.is_some_and(|next| next != sequence) {
            return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        }
        let base = self.records.len() as i64;
        let repeats = values.iter().any(|value| self.records.contains(value));
        self.records.extend(values);
        batches.push_back((sequence, count, base));
        if batches.len() > REMEMBERED {
            batches.pop_front();
        }
        Ok((base, repeats))
    }
}

/// Whose batch it is.
pub(super) fn sender(records: &[u8]) -> Sender {
    let (id, epoch) = (at(records, ID), at(records, EPOCH));
    (i64::from_be_bytes(id), i16::from_be_bytes(epoch))
}

fn at<const N: usize>(records: &[u8], at: usize) -> [u8; N] {
    records[at..at + N].try_into().expect("a whole batch")
}

fn values(records: &Bytes) -> Vec<u64> {
    let mut set = BatchSet::new(records.clone(), Offset(0), ReadSettings::default());
    let view = set.next().expect("a batch").expect("sound");
    let text = |value: &[u8]| std::str::from_utf8(value).expect("text").parse();
    view.records()
        .map(|record| text(record.expect("sound").value.expect("a value")).expect("a number"))
        .collect()
}

fn row_of(topic: &TopicName, partition: PartitionIndex) -> Produced {
    Produced {
        topic: TopicRef::Name(topic.clone()),
        partition,
        error: ErrorCode::NONE,
        base_offset: None,
        log_append_time_ms: None,
        log_start: None,
        record_errors: Vec::new(),
        message: None,
        current_leader: None,
    }
}
