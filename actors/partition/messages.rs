//! What partitions and their supervisor are told.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::Message;

use super::cell::{Committable, Progress};
use super::letters::LetterEnd;
use crate::cluster::{Diff, Snapshot};
use crate::fleet::Victim;
use crate::handler::Handling;
use crate::ids::{
    AssignmentEpoch, BrokerId, Generation, LeaderEpoch, Moment, Offset, PositionGeneration,
    TopicPartition,
};
use crate::producer::letters::{End, Ticket};
use crate::records::BatchError;
use crate::routing::{self, Breaker, Class, Link, LinkChange};

/// One delivery to a data thread: everything of one origin at once, in order (runtime.md T1).
///
/// The mailbox holds 256 lots; a sender whose lot does not fit keeps it and tries on its next tick.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) enum Lot {
    /// These partitions are ours from now on.
    Assign(Vec<Assignment>),
    /// Drain these: start nothing, fetch nothing, finish what is in hand. Answered per partition by
    /// [`Note::Drained`].
    Revoke {
        /// Which.
        partitions: Vec<(TopicPartition, AssignmentEpoch)>,
        /// Until when work in hand may go on.
        until: Moment,
    },
    /// End these; what is in hand is cancelled and its result dropped. Answered per partition by
    /// [`Note::Ended`].
    End(Vec<(TopicPartition, AssignmentEpoch)>),
    /// Inputs of routes, from a broker link or the coordinator.
    Routes(Vec<(TopicPartition, routing::Input)>),
    /// The snapshot and what changed since the one before.
    Diffs(Arc<Snapshot>, Arc<[Diff]>),
    /// A fact about a broker.
    Broker(BrokerId, BrokerNews),
    /// The group moved to another generation.
    Generation(Generation),
    /// Whether work may start: shut while the session nears its end.
    SessionSafe(bool),
    /// What became of letters of partitions.
    Letters(Vec<(Ticket, End)>),
    /// The producer was started again and knows of no letter.
    LettersLost,
    /// What the handler host of this thread has to say.
    Host(Vec<HostNews>),
    /// Panic, or make the actor named panic.
    Crash(Victim),
    /// Something this thread sent itself: carry out what its partitions asked for in this turn.
    Flush,
}

/// One partition to take on.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    /// Which.
    pub(crate) partition: TopicPartition,
    /// The number of this assignment.
    pub(crate) epoch: AssignmentEpoch,
    /// The generation it came with.
    pub(crate) generation: Generation,
    /// Which subscription handles it.
    pub(crate) subscription: usize,
    /// How its records are handled.
    pub(crate) handling: Handling,
    /// Where it publishes what may be committed.
    pub(crate) progress: Arc<Progress>,
}

/// A change in what is known of a broker. Facts are applied before the routes hear of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum BrokerNews {
    /// A connection changed; `change` is `None` for steps that no route waits for.
    Link {
        class: Class,
        link: Link,
        change: Option<LinkChange>,
        fetch_version: Option<i16>,
        fetch_min: Option<i16>,
    },
    /// The breaker changed.
    Breaker(Breaker),
    /// The no-rack lane went to v10 or back.
    V10(bool),
    /// A lane went silent or spoke again.
    Silence { class: Class, silent: bool },
    /// A lane gave an answer that says something about every partition in its session.
    Answered { class: Class, at: Moment },
    /// The smoothed round trip of the control connection changed by much.
    RoundTrip(Duration),
    /// No byte came from a lane for longer than it may hold a Fetch.
    Quiet(Class),
    /// The broker is mute until then (KIP-219).
    Muted(Moment),
    /// Its link actor died, and its connections with it.
    Gone,
    /// Its link actor was started again: nothing asked of it before is remembered.
    Restarted,
}

/// What the coordinator hears from the data threads.
///
/// Its mailbox holds 1 024; senders keep what does not fit.
#[derive(Message, Clone, Debug)]
#[rtype(result = "()")]
pub(crate) enum Note {
    /// Questions of routes, those of one turn together.
    Questions(Vec<Question>),
    /// A drain is over.
    Drained {
        /// Which partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
        /// What is to be committed, if the position was ever known.
        commit: Option<Committable>,
        /// Whether work had to be abandoned.
        overrun: bool,
    },
    /// Nothing of the assignment runs any more.
    Ended {
        /// Which partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
    },
    /// Panic.
    Crash,
}

/// A question about an offset that only the leader or the group can answer.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Whose.
    pub(crate) partition: TopicPartition,
    /// Its assignment.
    pub(crate) assignment: AssignmentEpoch,
    /// What.
    pub(crate) ask: Ask,
}

/// The kinds of questions.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// Where to read.
    Resolve {
        generation: PositionGeneration,
        what: routing::Resolve,
    },
    /// How far the leader's log reaches, while the replica being read stands still.
    Sample { generation: PositionGeneration },
    /// Whether our history still agrees with the leader's.
    Validate {
        generation: PositionGeneration,
        offset: Offset,
        epoch: LeaderEpoch,
        leader_epoch: Option<LeaderEpoch>,
        told: Option<(LeaderEpoch, Offset)>,
    },
}

/// What one partition actor is told. Its mailbox holds 32.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) enum Told {
    /// An input for its route.
    Route(Box<routing::Input>),
    /// The handler's queue is full, or has room again.
    Room(bool),
    /// Large batches were inflated.
    Opened(super::open::Opened),
    /// Stop fetching: the handler host is finishing what is in hand.
    Revoke,
    /// The handler host met a record that cannot be read.
    Unreadable {
        /// What is wrong with its batch.
        error: BatchError,
        /// How many rewinds of the assignment the host had seen.
        rewinds: u64,
    },
    /// What became of the letter of this number.
    Letter(u64, LetterEnd),
    /// A deadline of the route passed.
    Due,
    /// The assignment is over.
    End,
    /// Panic.
    Crash,
}

/// What the handler host says of one assignment.
#[derive(Debug)]
pub(crate) struct HostNews {
    /// Whose.
    pub(crate) partition: TopicPartition,
    /// Its assignment; news of another one is dropped and counted (runtime.md P1).
    pub(crate) epoch: AssignmentEpoch,
    /// How many rewinds of the assignment the host had seen.
    pub(crate) rewinds: u64,
    /// What.
    pub(crate) said: HostSaid,
}

/// The things a handler host says.
#[derive(Debug)]
pub(crate) enum HostSaid {
    /// These offsets are finished.
    Finished {
        from: Offset,
        to: Offset,
        leader_epoch: Option<LeaderEpoch>,
    },
    /// The queue is full (`false`), or has room again.
    Room(bool),
    /// The drain is over; whether work had to be abandoned.
    Drained { abandoned: bool },
    /// Nothing of the assignment runs any more.
    Ended,
    /// A batch cannot be read at this record.
    Unreadable(BatchError),
}
