//! Leaders and replicas that move without any fault.

use std::collections::{BTreeMap, BTreeSet};

use super::brokers::FOLLOWED;
use crate::cli::chaos::stage::{LEADER_LIMIT, Stage, TOPIC};
use crate::cli::chaos::step::Promise;
use crate::cli::kafka::KafkaError;

/// Every partition's lead moves to its second replica, one after the other.
pub(super) fn moves(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    let before = stage.picture()?;
    let mut step = stage.begin("every leader moves, one by one");
    let mut since = BTreeMap::new();
    for (partition, view) in &before.views {
        let next = view.replicas.iter().find(|it| **it != view.leader);
        let (Some(next), Ok(index)) = (next, usize::try_from(*partition)) else {
            continue;
        };
        stage.cluster.move_leader(TOPIC, *partition, *next)?;
        since.insert(index, stage.book.now());
    }
    step.promise(Promise {
        what: "moved",
        partitions: since.keys().copied().collect(),
        since,
        within: LEADER_LIMIT,
        under_new_leader: true,
    });
    step.healed = stage.book.now();
    stage.finish(step)
}

/// After the kills leads have drifted: all of them go back at once.
pub(super) fn preferred_election(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    let before = stage.picture()?;
    let drifted: Vec<i32> = before
        .views
        .iter()
        .filter(|(_, view)| view.replicas.first() != Some(&view.leader))
        .map(|(partition, _)| *partition)
        .collect();
    let count = drifted.len();
    let mut step = stage.begin(format!("preferred election of {count} partitions at once"));
    stage.cluster.elect_preferred(TOPIC, &drifted)?;
    step.healed = stage.book.now();
    let moved: BTreeSet<usize> = drifted
        .into_iter()
        .filter_map(|it| usize::try_from(it).ok())
        .collect();
    let promise = Promise::new("moved", moved, step.healed, LEADER_LIMIT);
    step.promise(promise.under_new_leader());
    stage.finish(step)
}

/// The follower being read loses its replicas to its neighbour in the rack.
pub(super) fn reassignment(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    let before = stage.picture()?;
    let racks = stage.cluster.racks();
    let neighbour = |broker: i32| {
        let mut others = racks.iter().filter(|(id, _)| **id != broker);
        others
            .find(|(_, rack)| Some(*rack) == racks.get(&broker))
            .map(|(id, _)| *id)
    };
    let mut wanted = BTreeMap::new();
    let mut concerned = BTreeSet::new();
    for (partition, view) in &before.views {
        let read = before.readings.get(partition).and_then(|it| it.broker);
        let followed = read.filter(|broker| *broker != view.leader);
        let (Some(old), Ok(index)) = (followed, usize::try_from(*partition)) else {
            continue;
        };
        if let Some(new) = neighbour(old) {
            let replace = |id: &i32| if *id == old { new } else { *id };
            wanted.insert(
                *partition,
                view.replicas.iter().map(replace).collect::<Vec<_>>(),
            );
            concerned.insert(index);
        }
    }
    let count = wanted.len();
    let mut step = stage.begin(format!("{count} followers being read lose their replicas"));
    stage.cluster.reassign(TOPIC, &wanted)?;
    stage
        .cluster
        .wait_partitions(TOPIC, "the new replicas alone", |view| {
            view.replicas.len() == 3 && view.isr.len() == 3
        })?;
    step.healed = stage.book.now();
    // Every one of them gets a new leader epoch besides.
    step.promise(Promise::new(FOLLOWED, concerned, step.fault, LEADER_LIMIT));
    stage.finish(step)
}
