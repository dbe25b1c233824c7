//! A client in a few lines: encodes requests, keeps answers, moves the clock.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{
    FetchRequest, FetchResponse, RequestHeader, ResponseHeader, TopicName as WireTopic,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use crate::embedded::{Cluster, ConnectionId, Output, Record, Settings, encode_batch};
use crate::ids::{BrokerId, Moment, TopicPartition};

pub(super) struct Rig {
    pub(super) cluster: Cluster,
    pub(super) now: Moment,
    answers: VecDeque<(ConnectionId, Bytes)>,
    pub(super) closed: Vec<ConnectionId>,
    correlation: i32,
}

impl Rig {
    /// Three brokers in racks a, b, c; partition `t-0` led by 1 at epoch 5 with ten records, each a
    /// batch, on all replicas.
    pub(super) fn new() -> Self {
        let mut rig = Self::of(Settings::default());
        rig.cluster
            .create_topic_on("t", &[[1, 2, 3].map(BrokerId).to_vec()])
            .unwrap();
        rig.cluster
            .raise_epoch(&t0(), crate::ids::LeaderEpoch(5))
            .unwrap();
        for n in 0..10 {
            rig.preload(&format!("value-{n}"));
        }
        rig.run_to(1_000);
        rig
    }

    pub(super) fn of(settings: Settings) -> Self {
        Self {
            cluster: Cluster::new(settings),
            now: Moment::ZERO,
            answers: VecDeque::new(),
            closed: Vec::new(),
            correlation: 0,
        }
    }

    pub(super) fn preload(&mut self, value: &str) {
        let batch = encode_batch(&[Record::of(value.to_owned())]);
        self.cluster.preload(&t0(), batch).unwrap();
    }

    pub(super) fn connect(&mut self, broker: i32) -> ConnectionId {
        self.cluster.connect(BrokerId(broker), self.now).unwrap()
    }

    /// Moves the clock, step by step as deadlines demand.
    pub(super) fn run_to(&mut self, ms: u64) {
        self.cluster.advance(Moment::from_ms(ms));
        self.now = Moment::from_ms(ms);
        self.drain();
    }

    pub(super) fn run_for(&mut self, ms: u64) {
        self.run_to(self.now.as_ms() + ms);
    }

    pub(super) fn drain(&mut self) {
        while let Some(output) = self.cluster.poll_output() {
            match output {
                Output::Answer { connection, frame } => self.answers.push_back((connection, frame)),
                Output::Closed { connection } => self.closed.push(connection),
            }
        }
    }

    /// Sends a request without waiting for its answer.
    pub(super) fn send<R: Request>(&mut self, to: ConnectionId, version: i16, request: &R) {
        self.correlation += 1;
        let mut frame = BytesMut::new();
        RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("rig")))
            .encode(&mut frame, R::header_version(version))
            .unwrap();
        request.encode(&mut frame, version).unwrap();
        self.cluster.deliver(to, frame.freeze(), self.now);
        self.drain();
    }

    /// The next answer on a connection, if it has come.
    pub(super) fn answer<R: Decodable + HeaderVersion>(
        &mut self,
        from: ConnectionId,
        version: i16,
    ) -> Option<R> {
        let at = self
            .answers
            .iter()
            .position(|(connection, _)| *connection == from)?;
        let (_, mut frame) = self.answers.remove(at)?;
        ResponseHeader::decode(&mut frame, R::header_version(version)).unwrap();
        let response = R::decode(&mut frame, version).unwrap();
        assert!(frame.is_empty(), "bytes left behind the answer");
        Some(response)
    }

    /// Sends a request that is answered at once.
    pub(super) fn call<R: Request>(
        &mut self,
        to: ConnectionId,
        version: i16,
        request: &R,
    ) -> R::Response {
        self.send(to, version, request);
        self.answer(to, version).expect("an answer at once")
    }

    /// The topic id of `t`.
    pub(super) fn topic_id(&self) -> uuid::Uuid {
        self.cluster.topics.by_name("t").unwrap().id
    }

    /// Sends a Fetch for `t-0`.
    pub(super) fn send_fetch(&mut self, to: ConnectionId, fetch: &Fetch) {
        let request = fetch.request(self.topic_id());
        self.send(to, fetch.version, &request);
    }

    /// The only row of the next Fetch answer, if it has come.
    pub(super) fn row(&mut self, from: ConnectionId, version: i16) -> Option<PartitionData> {
        let response: FetchResponse = self.answer(from, version)?;
        assert_eq!(response.error_code, 0);
        let mut rows = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions);
        let row = rows.next()?;
        assert!(rows.next().is_none(), "one row was asked for");
        Some(row)
    }

    /// Fetches from `t-0` at `broker` over a connection of its own; the answer must come at once.
    pub(super) fn fetch(&mut self, broker: i32, fetch: &Fetch) -> PartitionData {
        let connection = self.connect(broker);
        self.send_fetch(connection, fetch);
        self.row(connection, fetch.version)
            .expect("an answer at once")
    }
}

/// A Fetch for `t-0`, with defaults that suit most tests.
#[derive(Clone)]
pub(super) struct Fetch {
    pub(super) version: i16,
    pub(super) rack: &'static str,
    pub(super) offset: i64,
    pub(super) epoch: i32,
    pub(super) last_epoch: i32,
    pub(super) wait_ms: i32,
    pub(super) bytes_max: i32,
    pub(super) session: (i32, i32),
}

impl Default for Fetch {
    fn default() -> Self {
        Self {
            version: 17,
            rack: "",
            offset: 0,
            epoch: 5,
            last_epoch: -1,
            wait_ms: 500,
            bytes_max: 1 << 20,
            session: (0, -1),
        }
    }
}

impl Fetch {
    pub(super) fn request(&self, id: uuid::Uuid) -> FetchRequest {
        let mut row = FetchPartition::default()
            .with_partition(0)
            .with_fetch_offset(self.offset)
            .with_current_leader_epoch(self.epoch)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(self.bytes_max);
        if self.version >= 12 {
            row.last_fetched_epoch = self.last_epoch;
        }
        let topic = FetchTopic::default().with_partitions(vec![row]);
        let request = self.empty();
        let topic = if self.version >= 13 {
            topic.with_topic_id(id)
        } else {
            topic.with_topic(WireTopic(StrBytes::from_static_str("t")))
        };
        request.with_topics(vec![topic])
    }

    /// The same request without any partition.
    pub(super) fn empty(&self) -> FetchRequest {
        let request = FetchRequest::default()
            .with_max_wait_ms(self.wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(50 << 20)
            .with_session_id(self.session.0)
            .with_session_epoch(self.session.1);
        if self.version < 11 {
            return request;
        }
        request.with_rack_id(StrBytes::from_static_str(self.rack))
    }
}

pub(super) fn t0() -> TopicPartition {
    TopicPartition::new("t", 0)
}
