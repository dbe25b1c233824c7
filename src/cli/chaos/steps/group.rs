//! A member dies in the eyes of its group.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cli::chaos::stage::{GROUP, Stage, TOPIC};
use crate::cli::kafka::{Fault, KafkaError, until};

/// A member is cut off from every broker past its session timeout, its partitions go to the others,
/// and then it comes back. Only what it had not committed may come twice.
pub(super) fn death(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    const VICTIM: usize = 0;
    let before = stage.picture()?;
    let owned: Vec<i32> = before
        .readings
        .iter()
        .filter(|(_, reading)| reading.member == VICTIM)
        .map(|(partition, _)| *partition)
        .collect();
    let mut step = stage.begin("member a is cut off from all brokers until the group gives it up");
    set_all(stage, VICTIM, Fault::Vanish)?;
    // A commit on its way at that moment has arrived by then, and nobody else commits yet.
    stage.let_run(Duration::from_secs(1));
    let committed = stage.cluster.committed(GROUP, TOPIC, &owned)?;
    step.repeats_from = numbers(&owned, &committed);
    until("the others owning everything", TAKEOVER_LIMIT, || {
        let readings = others(stage, VICTIM);
        if readings == stage.pace.partitions {
            return Ok(());
        }
        Err(format!("{readings} partitions"))
    })?;
    stage.let_run(stage.pace.down);
    set_all(stage, VICTIM, Fault::None)?;
    step.healed = stage.book.now();
    until("the member back in the group", TAKEOVER_LIMIT, || {
        let readings = others(stage, VICTIM);
        if readings < stage.pace.partitions {
            return Ok(());
        }
        Err(format!("{readings} partitions with the others"))
    })?;
    stage.finish(step)
}

fn set_all(stage: &Stage<'_>, member: usize, fault: Fault) -> Result<(), KafkaError> {
    for broker in stage.cluster.racks().into_keys() {
        stage.cluster.proxy_of(member, broker)?.set(fault);
    }
    Ok(())
}

/// Partitions in the hands of everybody but one.
fn others(stage: &Stage<'_>, member: usize) -> usize {
    let reports = stage.crew.reports().into_iter().enumerate();
    reports
        .filter(|(index, _)| *index != member)
        .map(|(_, report)| report.partitions.len())
        .sum()
}

/// Offsets are numbers here: one record each, written once, from 0 on.
fn numbers(owned: &[i32], committed: &BTreeMap<i32, i64>) -> BTreeMap<usize, u64> {
    let number = |partition: &i32| {
        let offset = committed.get(partition).copied().unwrap_or(0);
        Some((
            usize::try_from(*partition).ok()?,
            u64::try_from(offset).ok()?,
        ))
    };
    owned.iter().filter_map(number).collect()
}

const TAKEOVER_LIMIT: Duration = Duration::from_secs(90);
