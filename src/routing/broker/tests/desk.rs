//! A link machine on a desk: inputs in by hand, outputs out by hand.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::FetchResponse;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::protocol::{Encodable, StrBytes};

use crate::ids::{
    AssignmentEpoch, BrokerId, Draw, LeaderEpoch, Moment, Offset, PositionGeneration,
    RouteGeneration, TopicIncarnation, TopicPartition,
};
use crate::routing::broker::{Broker, Input, Output, Settings, Ticket};
use crate::routing::{Class, Demand, Kind, Lane, Role, Stamp};
use crate::wire::api::fetch::{Request, Response};

/// A link to broker 2 whose connections are Ready.
pub(super) struct Desk {
    pub(super) broker: Broker,
    pub(super) now: Moment,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(super) fn with(settings: Settings) -> Self {
        let broker = Broker::new(BrokerId(2), Arc::new(settings));
        let mut desk = Self {
            broker,
            now: Moment::from_ms(1_000_000),
        };
        for class in [Class::Rack, Class::NoRack, Class::Control] {
            desk.say(Input::LinkReady {
                class,
                fetch_version: 12,
            });
        }
        desk
    }

    pub(super) fn say(&mut self, input: Input) {
        self.broker.handle(input, Draw(1), self.now);
    }

    pub(super) fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.broker.poll_output()).collect()
    }

    pub(super) fn want(&mut self, index: i32, offset: i64) -> Stamp {
        let demand = demand(offset);
        self.say(Input::Want {
            partition: partition(index),
            demand,
        });
        demand.stamp
    }

    /// The one request that is due.
    pub(super) fn sent(&mut self) -> (Ticket, Request) {
        let sends = self.outputs().into_iter().filter_map(|output| {
            let Output::Send {
                request, ticket, ..
            } = output
            else {
                return None;
            };
            Some((ticket, request))
        });
        let mut sends: Vec<_> = sends.collect();
        assert_eq!(sends.len(), 1, "{sends:?}");
        sends.remove(0)
    }

    /// The same, with one other output before it.
    pub(super) fn sent_beside(&mut self, other: &Output) -> (Ticket, Request) {
        assert_eq!(self.broker.poll_output().as_ref(), Some(other));
        self.sent()
    }

    /// What follows from an answer, but for the news that there was one.
    pub(super) fn answer(
        &mut self,
        ticket: Ticket,
        session: i32,
        rows: &[(i32, usize)],
    ) -> Vec<Output> {
        let response = response(session, rows);
        self.say(Input::Answered { ticket, response });
        let mut outputs = self.outputs();
        outputs.retain(|output| !matches!(output, Output::Answered(_)));
        outputs
    }

    pub(super) fn pass(&mut self, ms: u64) -> Vec<Output> {
        self.now = self.now + Duration::from_millis(ms);
        self.say(Input::Tick);
        self.outputs()
    }
}

pub(super) fn partition(index: i32) -> TopicPartition {
    TopicPartition::new("orders", index)
}

pub(super) fn demand(offset: i64) -> Demand {
    let stamp = Stamp {
        assignment: AssignmentEpoch(1),
        topic: TopicIncarnation(0),
        position: PositionGeneration(1),
        route: RouteGeneration(1),
        broker: BrokerId(2),
        role: Role::Follower,
        lane: Lane::Rack,
        kind: Kind::Reading,
        epoch: Some(LeaderEpoch(5)),
        offset: Offset(offset),
    };
    Demand {
        stamp,
        topic_id: None,
        last_fetched_epoch: None,
        max_bytes: 1 << 20,
    }
}

/// An answer with rows of so many record bytes.
pub(super) fn response(session: i32, rows: &[(i32, usize)]) -> Response {
    let rows = rows.iter().map(|(index, bytes)| {
        PartitionData::default()
            .with_partition_index(*index)
            .with_high_watermark(1_000)
            .with_records(Some(Bytes::from(vec![0; *bytes])))
    });
    let message = FetchResponse::default().with_session_id(session);
    encoded(message, rows.collect())
}

/// An answer with a top-level code, and one row with a code of its own.
pub(super) fn refusal(whole: i16, row: i16) -> Response {
    let row = PartitionData::default().with_error_code(row);
    let message = FetchResponse::default()
        .with_session_id(7)
        .with_error_code(whole);
    encoded(message, vec![row])
}

fn encoded(message: FetchResponse, rows: Vec<PartitionData>) -> Response {
    let topic = FetchableTopicResponse::default()
        .with_topic(kafka_protocol::messages::TopicName(
            StrBytes::from_static_str("orders"),
        ))
        .with_partitions(rows);
    let message = message.with_responses(vec![topic]);
    let mut body = BytesMut::new();
    message.encode(&mut body, 12).unwrap();
    Response::decode(12, &body.freeze()).unwrap()
}

pub(super) fn indexes(request: &Request) -> Vec<i32> {
    request
        .partitions
        .iter()
        .map(|row| row.partition.0)
        .collect()
}

pub(super) fn rows(outputs: &[Output]) -> Vec<(i32, Stamp)> {
    let rows = outputs.iter().filter_map(|output| {
        let Output::Row {
            partition, stamp, ..
        } = output
        else {
            return None;
        };
        Some((partition.partition.0, *stamp))
    });
    rows.collect()
}
