//! The idempotent producer: batching, sequences, retries of identical bytes (wire.md 9 and 10).
//!
//! [`Producer`] is one machine for all partitions. Records go in with [`Input::Append`]; requests
//! come out as [`Output::Send`] and each record's fate as [`Output::Acked`] or [`Output::Failed`],
//! exactly once. Who leads a partition is asked of the [`Leaders`] handed in with every input,
//! usually the cluster snapshot.
//!
//! Per partition the order of the log is the order of the appends, without gaps: a batch that may
//! have been written is only ever sent again with the same bytes, producer id, epoch and sequence.

mod asked;
mod batch;
mod identity;
mod leaders;
pub mod letters;
mod machine;
mod message;
mod outstanding;
mod packing;
mod partitioner;
mod placing;
mod queue;
mod sending;
mod settings;
mod settle;
mod silence;
mod verdict;

pub use asked::Asked;
pub use leaders::{Leader, Leaders};
pub use machine::Producer;
pub use message::{Counts, Input, Outcome, Output, ProduceError, Record, RecordToken, SendToken};
pub use outstanding::Outstanding;
pub use partitioner::{murmur2, partition_of_key};
pub use settings::{Kind, Settings};
pub use silence::Silence;
