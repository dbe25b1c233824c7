//! The one view of the cluster: immutable snapshot, epoch-guarded merge, diff events, refresh
//! discipline.
//!
//! [`Metadata`] is the only writer. It merges Metadata responses and leadership hints (KIP-951)
//! under the fence of the highest leader epoch ever accepted, publishes an [`Snapshot`] that any
//! thread may read, and names every difference as a [`Diff`]. It decides when to ask, whom and for
//! what; its host sends the request and brings back the answer. Source: metadata.md.

mod answers;
mod asking;
mod brokers;
mod choose;
mod diff;
mod hints;
mod input;
mod isr;
mod links;
mod merge;
mod metadata;
mod needs;
mod output;
mod refresh;
mod regress;
mod settings;
mod shared;
mod snapshot;
mod topic;
mod topics;
mod view;

pub use diff::{Diff, EndpointChange, LeaderSource, RebootstrapReason};
pub use input::{Hint, HintLot, Input, Interest, LinkState, Reason, Waiter, Want};
pub use metadata::Metadata;
pub use output::{Counted, Output, RequestToken, Target};
pub use settings::{ClusterChange, HintEndpoints, RecoveryStrategy, Settings};
pub use shared::{Shard, Shared};
pub use snapshot::{Broker, BrokerSource, Endpoint, Leader, Revision, Snapshot, Witness};
pub use topic::{Leadership, Partition, Topic, TopicState};
