//! What can happen at the link to one broker.

use std::time::Duration;

use super::output::Ticket;
use super::share::ProbeShare;
use crate::ids::{BrokerId, Moment, TopicPartition};
use crate::routing::cooldown::Fault;
use crate::routing::facts::Class;
use crate::routing::output::{self, Demand};
use crate::routing::stamp::Lane;
use crate::wire::api::fetch::Response;

/// An input of the broker machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// A route wants a partition fetched; replaces its earlier demand on that lane.
    Want {
        /// Whose partition.
        partition: TopicPartition,
        /// What it wants; the lane is in the stamp.
        demand: Demand,
    },
    /// A route wants a partition fetched no more.
    Withdraw {
        /// Which partition.
        partition: TopicPartition,
        /// On which lane.
        lane: Lane,
    },
    /// As `Withdraw`, but the route waits for the end of a fetch in flight.
    Drain {
        /// Which partition.
        partition: TopicPartition,
        /// On which lane.
        lane: Lane,
    },
    /// A route asks the leader, that is this broker, whom it recommends.
    Probe {
        /// Whose partition.
        partition: TopicPartition,
        /// What to ask with.
        question: Demand,
    },
    /// The route lost interest in its probe.
    CancelProbe {
        /// Whose probe.
        partition: TopicPartition,
    },
    /// A route fetches beside its reading fetch, because that one stays away; this broker is the
    /// leader (routing.md 8.5).
    Hedge {
        /// Whose partition.
        partition: TopicPartition,
        /// What to ask with.
        question: Demand,
    },
    /// The route lost interest in its hedge.
    CancelHedge {
        /// Whose hedge.
        partition: TopicPartition,
    },
    /// Bytes of an answer came in; its Fetch is not silent meanwhile. Told at most every 100 ms.
    Progress(Class),
    /// A route left this broker, or waits for its breaker.
    Cooling {
        /// Which partition.
        partition: TopicPartition,
        /// Why; `None` if the breaker itself was the reason.
        fault: Option<Fault>,
    },
    /// A row on the no-rack lane carried a hint: go on at Fetch v10.
    DropLane,
    /// A route wants a connection opened.
    Dial(Class),
    /// A connection is Ready.
    LinkReady {
        /// Which.
        class: Class,
        /// Highest Fetch version both sides speak.
        fetch_version: i16,
    },
    /// A connection ended, or could not be opened. Every ticket on it is answered by this: no
    /// `Failed` follows.
    LinkLost {
        /// Which.
        class: Class,
        /// Whether it ended without a fault, being idle.
        idle: bool,
    },
    /// A Fetch was answered.
    Answered {
        /// Which Fetch.
        ticket: Ticket,
        /// The answer.
        response: Response,
    },
    /// A Fetch failed while its connection lives: refused at encoding, or cancelled.
    Failed {
        /// Which Fetch.
        ticket: Ticket,
    },
    /// How long an answer took on the control connection.
    RoundTrip(Duration),
    /// The broker asked for silence until then (KIP-219); tickets in flight wait that much longer.
    Muted(Moment),
    /// This link's share of the client's probe budget (routing.md 8.2).
    ProbeShare(ProbeShare),
    /// The byte budget has more for the lane that waits for it.
    Budget(Class),
    /// The client begins anew at its bootstrap addresses: fetch sessions do, too (metadata.md 9).
    Renew,
    /// Reading ends: say good-bye to the sessions (metadata.md 12).
    Close,
    /// A deadline passed.
    Tick,
}

impl Input {
    /// What the output of a route asks of a link, and of whose; `None` if it is for others.
    pub fn of_route(
        partition: TopicPartition,
        output: &output::Output,
    ) -> Option<(BrokerId, Self)> {
        use output::Output;
        match *output {
            Output::Want(demand) => Some((demand.stamp.broker, Self::Want { partition, demand })),
            Output::Withdraw { broker, lane } => Some((broker, Self::Withdraw { partition, lane })),
            Output::Drain { broker, lane } => Some((broker, Self::Drain { partition, lane })),
            Output::Probe { question, wish: _ } => {
                let broker = question.stamp.broker;
                Some((
                    broker,
                    Self::Probe {
                        partition,
                        question,
                    },
                ))
            }
            Output::CancelProbe { broker } => Some((broker, Self::CancelProbe { partition })),
            Output::Hedge { question } => {
                let broker = question.stamp.broker;
                Some((
                    broker,
                    Self::Hedge {
                        partition,
                        question,
                    },
                ))
            }
            Output::CancelHedge { broker } => Some((broker, Self::CancelHedge { partition })),
            Output::Dial { broker, class } => Some((broker, Self::Dial(class))),
            Output::DropLane { broker } => Some((broker, Self::DropLane)),
            Output::Cooling { broker, fault } => Some((broker, Self::Cooling { partition, fault })),
            Output::Refresh(_)
            | Output::Sample { .. }
            | Output::Resolve { .. }
            | Output::Validate { .. }
            | Output::Deliver(_)
            | Output::Truncate { .. }
            | Output::Event(_)
            | Output::Count(_) => None,
        }
    }
}
