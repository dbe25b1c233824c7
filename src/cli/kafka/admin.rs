//! A small blocking client: what a test wants to know of the cluster, and wants done to it.
//!
//! It talks through kafka-protocol alone, so that it cannot share a mistake with the code under
//! test.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse,
    RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use super::KafkaError;

/// A connection to one broker.
#[derive(Debug)]
pub struct Admin {
    stream: TcpStream,
    correlation: i32,
}

/// One broker as Metadata lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerView {
    /// The node id.
    pub id: i32,
    /// Port of the listener that was asked.
    pub port: u16,
    /// The rack.
    pub rack: String,
}

/// One partition as Metadata lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionView {
    /// The leader, or -1.
    pub leader: i32,
    /// The leader epoch.
    pub epoch: i32,
    /// The replicas, the preferred leader first.
    pub replicas: Vec<i32>,
    /// The in-sync replicas, sorted.
    pub isr: Vec<i32>,
}

impl Admin {
    /// Connects; every later call waits at most ten seconds.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when nobody listens.
    pub fn connect(address: SocketAddr) -> Result<Self, KafkaError> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .and_then(|stream| {
                stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                stream.set_nodelay(true)?;
                Ok(stream)
            })
            .map_err(KafkaError::doing(format_args!("connecting to {address}")))?;
        Ok(Self {
            stream,
            correlation: 0,
        })
    }

    /// The brokers that are alive.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the broker does not answer.
    pub fn brokers(&mut self) -> Result<Vec<BrokerView>, KafkaError> {
        let answer = self.metadata(Vec::new())?;
        let view = |broker: kafka_protocol::messages::metadata_response::MetadataResponseBroker| {
            BrokerView {
                id: broker.node_id.0,
                port: u16::try_from(broker.port).unwrap_or(0),
                rack: broker.rack.map(|rack| rack.to_string()).unwrap_or_default(),
            }
        };
        Ok(answer.brokers.into_iter().map(view).collect())
    }

    /// The partitions of a topic by number.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the topic does not exist or the broker does not answer.
    pub fn partitions(&mut self, topic: &str) -> Result<BTreeMap<i32, PartitionView>, KafkaError> {
        let wanted = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        let answer = self.metadata(vec![wanted])?;
        let found = answer.topics.into_iter().next();
        let found = found.ok_or_else(|| KafkaError::failed("metadata names no topic"))?;
        check(format_args!("metadata of {topic}"), found.error_code)?;
        let views = found.partitions.into_iter().map(|partition| {
            let mut isr: Vec<i32> = partition.isr_nodes.iter().map(|id| id.0).collect();
            isr.sort_unstable();
            let view = PartitionView {
                leader: partition.leader_id.0,
                epoch: partition.leader_epoch,
                replicas: partition.replica_nodes.iter().map(|id| id.0).collect(),
                isr,
            };
            (partition.partition_index, view)
        });
        Ok(views.collect())
    }

    /// Creates a topic whose partition `n` lives on the brokers `replicas[n]`, the preferred leader
    /// first.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the cluster refuses.
    pub fn create_topic(
        &mut self,
        topic: &str,
        replicas: &[Vec<i32>],
        configs: &[(&str, &str)],
    ) -> Result<(), KafkaError> {
        let assignments = (0..).zip(replicas).map(|(index, brokers)| {
            CreatableReplicaAssignment::default()
                .with_partition_index(index)
                .with_broker_ids(brokers.iter().copied().map(BrokerId).collect())
        });
        let configs = configs.iter().map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(text(name))
                .with_value(Some(text(value)))
        });
        let creatable = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments(assignments.collect())
            .with_configs(configs.collect());
        let request = CreateTopicsRequest::default()
            .with_topics(vec![creatable])
            .with_timeout_ms(SERVER_TIMEOUT_MS);
        let answer = self.call(&request, 7)?;
        for result in answer.topics {
            check(format_args!("creating {topic}"), result.error_code)?;
        }
        Ok(())
    }

    /// The log end offsets of the given partitions, which this broker must lead.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the broker refuses one.
    pub fn end_offsets(
        &mut self,
        topic: &str,
        partitions: &[i32],
    ) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let wanted = partitions.iter().map(|index| {
            ListOffsetsPartition::default()
                .with_partition_index(*index)
                .with_timestamp(LATEST)
        });
        let wanted = ListOffsetsTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(wanted.collect());
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![wanted]);
        let answer = self.call(&request, 5)?;
        let mut ends = BTreeMap::new();
        for row in answer.topics.into_iter().flat_map(|topic| topic.partitions) {
            check(
                format_args!("end of {topic}-{}", row.partition_index),
                row.error_code,
            )?;
            ends.insert(row.partition_index, row.offset);
        }
        Ok(ends)
    }

    fn metadata(
        &mut self,
        topics: Vec<MetadataRequestTopic>,
    ) -> Result<MetadataResponse, KafkaError> {
        self.call(&MetadataRequest::default().with_topics(Some(topics)), 12)
    }

    /// Sets how long every later call waits for an answer.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the socket refuses, as it does for zero.
    pub fn set_answer_timeout(&mut self, limit: Duration) -> Result<(), KafkaError> {
        self.stream
            .set_read_timeout(Some(limit))
            .map_err(KafkaError::doing("setting a timeout"))
    }

    /// One request and its answer; every broker from 3.3 to 4.4 should speak the version.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when no answer comes or it cannot be read. Error codes inside are the
    /// caller's.
    pub fn call<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, KafkaError> {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("nearside-admin")));
        let mut body = BytesMut::new();
        header
            .encode(&mut body, R::header_version(version))
            .and_then(|()| request.encode(&mut body, version))
            .map_err(KafkaError::doing("encoding a request"))?;
        let mut frame = self.exchange(&body)?;
        ResponseHeader::decode(&mut frame, R::Response::header_version(version))
            .and_then(|_| R::Response::decode(&mut frame, version))
            .map_err(KafkaError::doing("decoding an answer"))
    }

    fn exchange(&mut self, body: &[u8]) -> Result<Bytes, KafkaError> {
        let length = u32::try_from(body.len()).map_err(KafkaError::doing("framing a request"))?;
        let sent = self
            .stream
            .write_all(&length.to_be_bytes())
            .and_then(|()| self.stream.write_all(body));
        sent.map_err(KafkaError::doing("sending a request"))?;
        let mut length = [0; 4];
        self.stream
            .read_exact(&mut length)
            .map_err(KafkaError::doing("reading an answer"))?;
        let length = u32::from_be_bytes(length);
        if length > FRAME_BYTES_MAX {
            return Err(KafkaError::failed(format!("an answer of {length} bytes")));
        }
        let mut frame = BytesMut::zeroed(usize::try_from(length).unwrap_or(0));
        self.stream
            .read_exact(&mut frame)
            .map_err(KafkaError::doing("reading an answer"))?;
        let frame = frame.freeze();
        let seen = frame.clone().try_get_i32().unwrap_or(-1);
        if seen != self.correlation {
            let text = format!("an answer to request {seen}, not {}", self.correlation);
            return Err(KafkaError::failed(text));
        }
        Ok(frame)
    }
}

/// An error unless `code` is 0.
pub(super) fn check(what: impl std::fmt::Display, code: i16) -> Result<(), KafkaError> {
    if code == 0 {
        return Ok(());
    }
    let name = kafka_protocol::ResponseError::try_from_code(code)
        .map_or_else(|| format!("error {code}"), |error| error.to_string());
    Err(KafkaError::failed(format!("{what}: {name}")))
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

pub(super) fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const SERVER_TIMEOUT_MS: i32 = 10_000;
const FRAME_BYTES_MAX: u32 = 256 << 20;
const LATEST: i64 = -1;
