//! What is wrong with a set-up as a whole: racks that do not match, hints that never come, lanes
//! that have to fall back (routing.md 18).
//!
//! [`Diagnostics`] is a machine like the others: hand in [`Facts`] every few seconds, drain
//! [`poll_output`](Diagnostics::poll_output). A diagnostic is told once when it is raised and once
//! when it is over.

mod diagnostic;
mod facts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub use diagnostic::Diagnostic;
pub use facts::{BrokerSeen, Facts, Zones};

use crate::ids::{BrokerId, Moment, Rack, TopicPartition};

/// Judges the set-up of one fleet.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    rack: Option<Rack>,
    /// Whether the racks of the first snapshot were looked at.
    racks_seen: bool,
    first_bytes: Option<Moment>,
    /// Since when bytes have crossed zones although a replica of ours is in sync, and how many had
    /// by then.
    crossing: Option<(Moment, u64)>,
    hints: u64,
    outside_since: Option<Moment>,
    /// Out of reach when last judged.
    unreachable: Vec<TopicPartition>,
    raised: BTreeMap<&'static str, Diagnostic>,
    outputs: VecDeque<Output>,
}

/// What became known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// This is so from now on.
    Raised(Diagnostic),
    /// It is over, by its name.
    Cleared(&'static str),
}

impl Diagnostics {
    /// A machine for a client in `rack`; `None` if no rack is sent.
    pub fn new(rack: Option<Rack>) -> Self {
        Self {
            rack,
            racks_seen: false,
            first_bytes: None,
            crossing: None,
            hints: 0,
            outside_since: None,
            unreachable: Vec::new(),
            raised: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Judges the facts of this moment.
    pub fn handle(&mut self, facts: &Facts, now: Moment) {
        self.judge_racks(facts);
        self.judge_versions(facts);
        self.judge_traffic(facts, now);
        self.judge_hints(facts, now);
        self.judge_partitions(facts, now);
    }

    /// The next thing to tell.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What is raised at present, by name.
    pub fn raised(&self) -> impl Iterator<Item = &Diagnostic> {
        self.raised.values()
    }

    /// Raised by the first snapshot only: a broker that restarts later takes its rack along for a
    /// moment. Cleared by any.
    fn judge_racks(&mut self, facts: &Facts) {
        let Some(rack) = self.rack.clone().filter(|_| !facts.brokers.is_empty()) else {
            return;
        };
        let first = !std::mem::replace(&mut self.racks_seen, true);
        let racks: BTreeSet<Rack> = facts.racks().cloned().collect();
        let absent = !racks.is_empty() && !racks.contains(&rack);
        let missing: Vec<BrokerId> = facts.without_rack().collect();
        let absent = absent.then_some(Diagnostic::RackAbsent { rack, racks });
        let missing = (!missing.is_empty()).then_some(Diagnostic::RacksMissing {
            all: missing.len() == facts.brokers.len(),
            brokers: missing,
        });
        for (name, diagnostic) in [("rack_absent", absent), ("racks_missing", missing)] {
            if first || diagnostic.is_none() || self.raised.contains_key(name) {
                self.set(name, diagnostic);
            }
        }
    }

    /// Without a rack nobody misses hints, and no lane has to avoid them.
    fn judge_versions(&mut self, facts: &Facts) {
        if self.rack.is_none() {
            return;
        }
        let which = |test: fn(&BrokerSeen) -> bool| -> Option<Vec<BrokerId>> {
            let found: Vec<BrokerId> = facts
                .brokers
                .iter()
                .filter(|(_, seen)| test(seen))
                .map(|(id, _)| *id)
                .collect();
            (!found.is_empty()).then_some(found)
        };
        let old = which(BrokerSeen::is_legacy);
        let dropped = which(|seen| seen.v10);
        let stuck = which(|seen| seen.v10_unavailable);
        self.set(
            "fetch_below_v11",
            old.map(|brokers| Diagnostic::FetchBelowV11 { brokers }),
        );
        self.set(
            "lane_v10",
            dropped.map(|brokers| Diagnostic::LaneV10 { brokers }),
        );
        self.set(
            "lane_v10_unavailable",
            stuck.map(|brokers| Diagnostic::LaneV10Unavailable { brokers }),
        );
    }

    fn judge_traffic(&mut self, facts: &Facts, now: Moment) {
        let Some(rack) = self.rack.clone() else {
            return;
        };
        if self.first_bytes.is_none() && facts.received.sum() > 0 {
            self.first_bytes = Some(now);
        }
        let long = self
            .first_bytes
            .is_some_and(|first| now.since(first) >= PATIENCE);
        let none = long && facts.received.same == 0;
        let cross = facts.received.cross;
        self.set(
            "no_same_zone",
            none.then_some(Diagnostic::NoSameZone { rack, cross }),
        );
    }

    /// Bytes cross zones although a replica of our rack is in sync, and the leaders recommend
    /// nobody.
    fn judge_hints(&mut self, facts: &Facts, now: Moment) {
        let Some(rack) = self.rack.clone() else {
            let hints = facts.hints;
            let diagnostic = (hints > 0).then_some(Diagnostic::HintsWithoutRack);
            return self.set("hints_without_rack", diagnostic);
        };
        let hinted = std::mem::replace(&mut self.hints, facts.hints) != facts.hints;
        if hinted || !facts.replica_passed_over {
            self.crossing = None;
            return self.set("no_hints", None);
        }
        let cross = facts.read.cross;
        let (since, before) = *self.crossing.get_or_insert((now, cross));
        let bytes = cross.saturating_sub(before);
        if bytes > 0 && now.since(since) >= PATIENCE {
            self.set("no_hints", Some(Diagnostic::NoHints { rack, bytes }));
        }
    }

    fn judge_partitions(&mut self, facts: &Facts, now: Moment) {
        // A connection that is being opened right now is no news: twice in a row counts.
        let before = std::mem::replace(&mut self.unreachable, facts.unreachable.clone());
        let twice = |partition: &&TopicPartition| before.contains(partition);
        let partitions: Vec<_> = facts.unreachable.iter().filter(twice).cloned().collect();
        let diagnostic =
            (!partitions.is_empty()).then_some(Diagnostic::LeaderUnreachable { partitions });
        self.set("leader_unreachable", diagnostic);
        let (outside, all) = (facts.not_in_isr, facts.partitions);
        if outside.saturating_mul(2) <= all {
            self.outside_since = None;
        } else {
            self.outside_since.get_or_insert(now);
        }
        let long = self
            .outside_since
            .is_some_and(|since| now.since(since) >= SYNTHETIC);
        let diagnostic = long.then_some(Diagnostic::IsrSynthetic { outside, all });
        self.set("isr_synthetic", diagnostic);
    }

    fn set(&mut self, name: &'static str, diagnostic: Option<Diagnostic>) {
        match diagnostic {
            Some(diagnostic) => {
                debug_assert_eq!(diagnostic.name(), name);
                let known = self.raised.insert(name, diagnostic.clone());
                if known.is_none() {
                    self.outputs.push_back(Output::Raised(diagnostic));
                }
            }
            None => {
                if self.raised.remove(name).is_some() {
                    self.outputs.push_back(Output::Cleared(name));
                }
            }
        }
    }
}

/// How long traffic is watched before it tells something.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long most partitions must be outside the ISR view.
const SYNTHETIC: Duration = Duration::from_secs(300);
