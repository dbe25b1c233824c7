//! What happens to a membership, and what it asks for.

use std::collections::BTreeSet;
use std::time::Duration;

use super::answer::NoAnswer;
use super::lead::{Lead, Led};
use super::queue::{Assigned, Step, StepId};
use super::standing::Standing;
use crate::assign::Assignor;
use crate::error::Error;
use crate::ids::{Generation, MemberId, Moment, TopicName};
use crate::wire::api::Endpoint;
use crate::wire::{ErrorCode, Request, Response};

/// Names a request of one machine; the host keeps the machines' tokens apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Token(pub u64);

/// Which connection a request takes (wire.md 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// The control connection of any broker.
    Any,
    /// The coordinator connection of the group.
    Coordinator,
    /// The control connection of the coordinator's node: what must not wait behind a JoinGroup.
    CoordinatorControl,
}

/// One input of a [`ClassicMember`](super::ClassicMember).
#[derive(Clone, Debug)]
pub enum Input {
    /// The handlers are ready: join with these topics (patterns already resolved). Ignored when
    /// started.
    Start(BTreeSet<TopicName>),
    /// The topics are others now.
    Subscribe(BTreeSet<TopicName>),
    /// The view given along shows another cluster than before.
    MetadataChanged,
    /// A request ended, with its answer or without.
    Answer {
        /// Which.
        token: Token,
        /// How.
        result: Result<Response, NoAnswer>,
    },
    /// The compute pool solved the assignment of [`Output::Lead`].
    Led(Led),
    /// The host finished a step of [`Output::Step`].
    StepDone(StepId),
    /// Another machine was told by the coordinator's node that it is the coordinator no more, or
    /// lost it.
    CoordinatorMoved,
    /// The coordinator connection ended, other than by being idle, or could not be opened: the
    /// coordinator is looked for anew, less and less often until one answers.
    CoordinatorLost,
    /// A commit or offset fetch sent with this generation was refused with a code that concerns the
    /// membership.
    Refused {
        /// The generation it was sent with.
        generation: Generation,
        /// The code.
        error: ErrorCode,
    },
    /// Drain until `until` at the latest, then leave. An earlier moment replaces a later one.
    Stop {
        /// End of the drain, of which the leave takes no part.
        until: Moment,
        /// Told to the coordinator with the leave (KIP-800).
        reason: String,
    },
    /// A deadline passed.
    Tick,
}

/// One output of a [`ClassicMember`](super::ClassicMember).
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this request and answer with [`Input::Answer`], always once.
    Send {
        /// The connection.
        to: To,
        /// What to send.
        request: Request,
        /// For the answer.
        token: Token,
        /// When to give up.
        timeout: Duration,
    },
    /// Where the coordinator is: open, or close, the coordinator connection. The other machines are
    /// told too.
    Coordinator(Option<Endpoint>),
    /// What may be said in the group's name; for the committer and the resolver.
    Standing(Standing),
    /// Whether handlers may start new work: shut one interval before the session may be over.
    Starts(bool),
    /// Do this, then answer with [`Input::StepDone`].
    Step(Step),
    /// Solve this on the compute pool, then answer with [`Input::Led`].
    Lead(Box<Lead>),
    /// We lead: make these topics known, which we do not read ourselves. [`Input::MetadataChanged`]
    /// follows.
    WantTopics(BTreeSet<TopicName>),
    /// Something worth telling happened.
    Event(Event),
    /// The membership is over and will not be tried again; a `Lost` step went ahead if anything was
    /// owned.
    Fatal(Error),
    /// Left, or fallen silent as a static member. The last output.
    Left,
}

/// What a membership tells its observers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A rebalance of ours begins.
    Rebalancing(Cause),
    /// In a generation: the assignment arrived.
    Joined {
        /// Which generation.
        generation: Generation,
        /// Our id in it.
        member: MemberId,
        /// The assignor in use.
        assignor: Assignor,
        /// Whether we led it.
        leader: bool,
    },
    /// We led and gave an assignment.
    Led {
        /// Members of the group.
        members: usize,
        /// Partitions of all subscribed topics.
        partitions: usize,
        /// Partitions without owner until they are released (KIP-429).
        withheld: usize,
    },
    /// The coordinator expelled us; everything owned is lost.
    Fenced(ErrorCode),
    /// No heartbeat was answered for the session timeout; everything owned is lost.
    SessionExpired,
    /// The budget of a revoke ended before its partitions were done.
    DrainOverrun(Vec<Assigned>),
    /// An answer came for a generation that is over, and was dropped.
    StaleAnswer,
    /// A member's subscription, or our assignment, could not be read.
    Unreadable(&'static str),
    /// A request failed; tried again after a backoff.
    Retrying {
        /// What was asked.
        what: &'static str,
        /// What came back.
        why: String,
    },
    /// Left the group.
    Left,
}

/// Why a rebalance begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// First join.
    Start,
    /// The coordinator says that the group rebalances.
    Group,
    /// Partitions were released that others wait for (KIP-429).
    Released,
    /// Our topics changed.
    Subscription,
    /// The number of partitions changed.
    Partitions,
    /// We were expelled.
    Fenced,
    /// The session expired.
    SessionExpired,
    /// The join or sync failed half way.
    Retry,
}
