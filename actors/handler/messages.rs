//! What a handler host is asked for.

use actix::prelude::Message;

use crate::handler::Handling;
use crate::ids::{AssignmentEpoch, Generation, Moment, TopicId, TopicPartition};
use crate::records::BatchView;

/// One request to the handler host of the thread, in order.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) enum HostRequest {
    /// A partition was assigned.
    Assign {
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        generation: Generation,
        topic_id: Option<TopicId>,
        /// Index of the subscription whose handler takes its records.
        subscription: usize,
        handling: Handling,
    },
    /// Open batches, in order.
    Deliver {
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        views: Vec<BatchView>,
    },
    /// Finish what is in hand, start nothing.
    Drain {
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        until: Moment,
    },
    /// The assignment is over.
    End {
        partition: TopicPartition,
        epoch: AssignmentEpoch,
    },
    /// The position moved back: drop the queue, fence what is in hand.
    Rewind {
        partition: TopicPartition,
        epoch: AssignmentEpoch,
    },
    /// The group moved to another generation.
    Generation(Generation),
    /// Whether the session is too near its end to start anything.
    SessionGate {
        partition: TopicPartition,
        shut: bool,
    },
    /// Panic.
    Crash,
}
