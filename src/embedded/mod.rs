//! An in-process Kafka-compatible cluster: brokers with racks, logs, replication with follower lag,
//! elections, groups, idempotent producers, fetch sessions, and a fault plan. Time is an argument.
//!
//! [`Cluster`] is a pure machine. Frames go in, frames come out, nothing happens between two calls:
//!
//! ```
//! use nearside::embedded::{Cluster, Output, Settings};
//! use nearside::ids::{BrokerId, Moment};
//!
//! let mut cluster = Cluster::new(Settings::default());
//! cluster.create_topic("orders", 6, 3).expect("three brokers carry three replicas");
//! let connection = cluster.connect(BrokerId(1), Moment::ZERO).expect("broker 1 is up");
//! // An ApiVersions request, version 0, correlation id 7, no client id.
//! let request = bytes::Bytes::from_static(&[0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff]);
//! cluster.deliver(connection, request, Moment::ZERO);
//! let Some(Output::Answer { frame, .. }) = cluster.poll_output() else { panic!("no answer") };
//! assert_eq!(frame[..6], [0, 0, 0, 7, 0, 0]);
//! ```
//!
//! Frames are handed over without their four length bytes, in both directions. Requests are decoded
//! and answers encoded by the `kafka-protocol` crate, so that every frame of nearside's own client
//! side passes through a second, independent implementation (`wire.md` W1).

mod api;
mod api_key;
mod batch;
mod broker;
mod call;
mod cluster;
mod connection;
mod control;
mod coordinator;
mod fault_plan;
mod faults;
mod group;
mod history;
#[cfg(feature = "runtime")]
pub mod listener;
mod log;
mod partition;
mod replication;
mod sasl;
mod serve;
mod settings;
#[cfg(test)]
mod tests;
mod topics;

pub use api_key::Api;
pub use batch::{Record, encode_batch};
pub use broker::Link;
pub use cluster::{Cluster, ConnectError, Output};
pub use connection::ConnectionId;
pub use control::ControlError;
pub use faults::{DecideRow, Effect, MetadataEdit, RowEdit, RowFacts, RowPlan, Rule, RuleId};
pub use group::{Committed, GroupPhase, GroupView};
pub use history::{FetchSeen, FetchSeenRow, Seen};
pub use partition::{PartitionView, ReplicaView};
pub use sasl::Sasl;
pub use settings::{BrokerSettings, Selector, Settings};
