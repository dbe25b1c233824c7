//! Telling a cluster that really went back to a lower epoch from a broker that lags (metadata.md
//! 3.2).
//!
//! A single lagging broker must not turn the fence back; a client that never turns it back stays
//! dead until restart after an unclean election or a restored cluster.

use std::collections::BTreeSet;

use super::merge::Round;
use super::output::Target;
use super::topic::Partition;
use super::view::View;
use crate::ids::{BrokerId, LeaderEpoch, Moment, TopicPartition};

/// Reports of one epoch below the floor.
#[derive(Debug)]
pub(super) struct RegressWatch {
    epoch: LeaderEpoch,
    since: Moment,
    reporters: BTreeSet<Target>,
    /// The believed leader refused us with this epoch (6) or does not know ours yet (75).
    leader_agrees: bool,
}

impl View {
    /// Notes that `round.from` reported `epoch`, and decides whether it is to be believed.
    pub(super) fn is_regression(
        &mut self,
        partition: &TopicPartition,
        ours: &Partition,
        epoch: LeaderEpoch,
        round: Round<'_>,
    ) -> bool {
        let patience = self.settings.regress;
        let unreachable = ours
            .leader()
            .is_none_or(|leader| round.links.is_down(leader));
        let watch = self.watch(partition);
        let fresh = || RegressWatch {
            epoch,
            since: round.now,
            reporters: BTreeSet::new(),
            leader_agrees: false,
        };
        let regress = match &mut watch.regress {
            Some(regress) if regress.epoch == epoch => regress,
            other => other.insert(fresh()),
        };
        regress.reporters.insert(round.from);
        let ripe =
            round.now.since(regress.since) > patience && (unreachable || regress.leader_agrees);
        let reporters = regress.reporters.clone();
        ripe && self.is_enough(&reporters, round)
    }

    /// The believed leader itself spoke against our epoch: it said `epoch` with code 6, or 75
    /// (`None`).
    pub(super) fn leader_denies(
        &mut self,
        partition: &TopicPartition,
        from: Option<BrokerId>,
        epoch: Option<LeaderEpoch>,
    ) {
        let leader = self.work.partition(partition).and_then(Partition::leader);
        if from.is_some() && from != leader {
            return;
        }
        let regress = self
            .watches
            .get_mut(partition)
            .and_then(|watch| watch.regress.as_mut());
        if let Some(regress) = regress
            && epoch.is_none_or(|epoch| epoch == regress.epoch)
        {
            regress.leader_agrees = true;
        }
    }

    /// Whether two distinct brokers, or all that can be reached if they are fewer, said the same.
    pub(super) fn is_enough(&self, reporters: &BTreeSet<Target>, round: Round<'_>) -> bool {
        let mut reachable = self
            .work
            .brokers
            .keys()
            .filter(|id| !round.links.is_down(**id));
        reporters.len() >= 2 || reachable.all(|id| reporters.contains(&Target::Broker(*id)))
    }
}
