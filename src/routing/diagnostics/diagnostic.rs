//! The diagnostics themselves.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use crate::ids::{BrokerId, Rack, TopicPartition};

/// Something about the set-up that an operator would want to know. Prints as a sentence that says
/// what is wrong and what to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Diagnostic {
    /// No broker is in our rack.
    RackAbsent {
        /// `client.rack`.
        rack: Rack,
        /// The racks there are.
        racks: BTreeSet<Rack>,
    },
    /// Brokers report no rack.
    RacksMissing {
        /// Which.
        brokers: Vec<BrokerId>,
        /// Whether none reports one.
        all: bool,
    },
    /// Brokers speak no Fetch that computes hints.
    FetchBelowV11 {
        /// Which.
        brokers: Vec<BrokerId>,
    },
    /// Brokers recommend replicas to requests without a rack, so Fetch v10 is used there.
    LaneV10 {
        /// Which.
        brokers: Vec<BrokerId>,
    },
    /// The same, and they serve no v10.
    LaneV10Unavailable {
        /// Which.
        brokers: Vec<BrokerId>,
    },
    /// The leaders recommend nobody, although a replica of our rack is in sync.
    NoHints {
        /// `client.rack`.
        rack: Rack,
        /// Bytes that crossed zones meanwhile.
        bytes: u64,
    },
    /// Nothing comes from our rack.
    NoSameZone {
        /// `client.rack`.
        rack: Rack,
        /// Bytes that came from other racks.
        cross: u64,
    },
    /// Leaders recommend replicas although we name no rack.
    HintsWithoutRack,
    /// Nothing can be read of these partitions.
    LeaderUnreachable {
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// The ISR lists of this cluster say nothing about replicas that serve.
    IsrSynthetic {
        /// Partitions whose replica is outside the list.
        outside: usize,
        /// Partitions in all.
        all: usize,
    },
}

impl Diagnostic {
    /// Its name in events and reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RackAbsent { .. } => "rack_absent",
            Self::RacksMissing { .. } => "racks_missing",
            Self::FetchBelowV11 { .. } => "fetch_below_v11",
            Self::LaneV10 { .. } => "lane_v10",
            Self::LaneV10Unavailable { .. } => "lane_v10_unavailable",
            Self::NoHints { .. } => "no_hints",
            Self::NoSameZone { .. } => "no_same_zone",
            Self::HintsWithoutRack => "hints_without_rack",
            Self::LeaderUnreachable { .. } => "leader_unreachable",
            Self::IsrSynthetic { .. } => "isr_synthetic",
        }
    }
}

impl Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RackAbsent { rack, racks } => write!(
                f,
                "client.rack is `{rack}`, but the brokers are in {}; a zone's name is not its id",
                list(racks)
            ),
            Self::RacksMissing { all: true, .. } => {
                f.write_str("no broker reports a rack; set broker.rack, or unset client.rack")
            }
            Self::RacksMissing { brokers, .. } => {
                write!(
                    f,
                    "brokers {} report no rack; set broker.rack there",
                    list(brokers)
                )
            }
            Self::FetchBelowV11 { brokers } => write!(
                f,
                "brokers {} speak no Fetch v11: they recommend nobody and serve as leaders only",
                list(brokers)
            ),
            Self::LaneV10 { brokers } => write!(
                f,
                "brokers {} recommend replicas to requests without a rack; asked at Fetch v10 they \
                 serve",
                list(brokers)
            ),
            Self::LaneV10Unavailable { brokers } => write!(
                f,
                "brokers {} recommend replicas to requests without a rack and serve no Fetch v10: \
                 partitions may starve there; look at replica.selector.class",
                list(brokers)
            ),
            Self::NoHints { rack, bytes } => write!(
                f,
                "{bytes} bytes crossed zones although a replica in `{rack}` is in sync: leaders \
                 recommend nobody; is replica.selector.class set, and has the replica an endpoint \
                 on this listener?"
            ),
            Self::NoSameZone { rack, cross } => write!(
                f,
                "nothing was read inside `{rack}` so far, and {cross} bytes from other racks"
            ),
            Self::HintsWithoutRack => f.write_str(
                "leaders recommend replicas although client.rack is unset; route.follow.hints=rack \
                 would not follow them",
            ),
            Self::LeaderUnreachable { partitions } => write!(
                f,
                "{} partitions cannot be read, their leaders are out of reach and no replica may \
                 stand in: {}",
                partitions.len(),
                list(partitions.iter().take(SHOWN_MAX))
            ),
            Self::IsrSynthetic { outside, all } => write!(
                f,
                "the recommended replica of {outside} of {all} partitions is outside the ISR list; \
                 if these lists are synthetic, set route.isr=advise"
            ),
        }
    }
}

fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    words.join(", ")
}

/// Partitions named in a sentence.
const SHOWN_MAX: usize = 5;
