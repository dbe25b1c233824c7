//! The protocol: each function is one step, or one for each broker.

mod brokers;
mod group;
mod leaders;
mod paths;
mod retention;

use super::stage::Stage;
use crate::cli::kafka::KafkaError;

/// One entry of the protocol.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// What `--step` calls it.
    pub(super) name: &'static str,
    pub(super) run: fn(&mut Stage<'_>) -> Result<(), KafkaError>,
}

/// The whole protocol in its order.
pub(super) const PROTOCOL: [Entry; 12] = [
    entry("steady", brokers::steady),
    entry("kill", brokers::kill_each),
    entry("preferred", leaders::preferred_election),
    entry("rolling", brokers::rolling_restart),
    entry("freeze", brokers::freeze),
    entry("refused", paths::refused),
    entry("vanishing", paths::vanishing),
    entry("late", paths::late),
    entry("moves", leaders::moves),
    entry("reassign", leaders::reassignment),
    entry("rack", brokers::rack_down),
    entry("retention", retention::passing_a_slow_reader),
];

/// Comes last: it costs repeats.
pub(super) const DEATH: Entry = entry("death", group::death);

const fn entry(name: &'static str, run: fn(&mut Stage<'_>) -> Result<(), KafkaError>) -> Entry {
    Entry { name, run }
}
