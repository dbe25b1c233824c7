//! One member loses one broker while the cluster stays healthy.

use std::time::Duration;

use super::brokers::{FOLLOWED, FOLLOWER_LIMIT, HEDGE};
use crate::cli::chaos::stage::Stage;
use crate::cli::chaos::step::Promise;
use crate::cli::kafka::{Fault, KafkaError};

/// Connections are refused.
pub(super) fn refused(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    let words = "is refused by";
    each_role(stage, words, Fault::Refuse, Duration::ZERO, FOLLOWER_LIMIT)
}

/// Packets vanish, connections stay open.
pub(super) fn vanishing(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    let words = "loses all packets from and to";
    each_role(stage, words, Fault::Vanish, HEDGE, FOLLOWER_LIMIT)
}

/// Answers come late, but come: no reason to leave. A record waits for an answer under way, and
/// then for its own.
pub(super) fn late(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    const DELAY: Duration = Duration::from_secs(2);
    let words = "hears 2 s late from";
    let within = DELAY * 2 + FOLLOWER_LIMIT;
    each_role(stage, words, Fault::Late(DELAY), Duration::ZERO, within)
}

/// Once for a broker that is read as a follower, once for one that leads what is read from it.
fn each_role(
    stage: &mut Stage<'_>,
    words: &str,
    fault: Fault,
    unknown: Duration,
    within: Duration,
) -> Result<(), KafkaError> {
    for led in [false, true] {
        let before = stage.picture()?;
        let Some((member, broker)) = before.busiest(led) else {
            continue;
        };
        let role = if led { "leader" } else { "follower" };
        let rack = stage.crew.rack(member).to_owned();
        let mut step = stage.begin(format!("member {rack} {words} broker {broker} ({role})"));
        let since = step.fault + unknown;
        let followed = before.read_by(member, broker, false);
        step.promise(Promise::new(FOLLOWED, followed, since, within));
        let from_leader = before.read_by(member, broker, true);
        step.promise(Promise::new(READ_FROM_LEADER, from_leader, since, within));
        stage.cluster.proxy_of(member, broker)?.set(fault);
        stage.let_run(stage.pace.fault);
        stage.cluster.proxy_of(member, broker)?.set(Fault::None);
        step.healed = stage.book.now();
        stage.finish(step)?;
    }
    Ok(())
}

const READ_FROM_LEADER: &str = "read from it as their leader";
