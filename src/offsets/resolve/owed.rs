//! Answers that leaders owe: a question that waits for its coordinator says nothing of the leader
//! (routing.md 18, `leader_unreachable`).

use std::collections::{BTreeMap, BTreeSet};

use super::io::Output;
use super::lanes::{Key, Slot};
use super::resolver::{Facts, Resolver, SentRow};
use crate::ids::{BrokerId, Moment};

/// Which questions wait for their leader, and until when that is nothing unusual.
#[derive(Debug, Default)]
pub(super) struct Owed {
    due: BTreeSet<(Moment, Key)>,
    /// When each leader last answered: it may have many questions before ours.
    heard: BTreeMap<BrokerId, Moment>,
}

impl Owed {
    /// The leader is to answer by `due`, unless it owes the answer already.
    pub(super) fn owe(&mut self, key: &Key, owed_by: &mut Option<Moment>, due: Moment) {
        if owed_by.is_none() && key.slot == Slot::Position {
            *owed_by = Some(due);
            self.due.insert((due, key.clone()));
        }
    }

    /// The answer came, or nobody waits for it.
    pub(super) fn forget(&mut self, key: &Key, owed_by: Option<Moment>) {
        if let Some(due) = owed_by {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// When the next answer is overdue.
    pub(super) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(due, _)| *due)
    }
}

impl Resolver {
    /// A leader answered these questions, whatever it said.
    pub(super) fn on_heard(&mut self, leader: BrokerId, rows: &[SentRow], now: Moment) {
        self.owed.heard.insert(leader, now);
        for SentRow { key, .. } in rows {
            if let Some(job) = self.jobs.get_mut(key) {
                let owed_by = job.owed_by.take();
                self.owed.forget(key, owed_by);
            }
        }
    }

    /// Tells of answers that are overdue. Those of a leader that answers others meanwhile are in
    /// its queue.
    pub(super) fn tell_unanswered(&mut self, facts: Facts<'_>) {
        let patience = self.settings.unanswered_after;
        while self.owed.next().is_some_and(|due| due <= facts.now) {
            let Some((_, key)) = self.owed.due.pop_first() else {
                return;
            };
            let Some(job) = self.jobs.get_mut(&key) else {
                continue;
            };
            let leader = facts.view.leader(&key.partition);
            let heard = leader.and_then(|(leader, _)| self.owed.heard.get(&leader));
            if let Some(due) = heard
                .map(|at| *at + patience)
                .filter(|due| *due > facts.now)
            {
                job.owed_by = Some(due);
                self.owed.due.insert((due, key));
                continue;
            }
            let (assignment_epoch, generation) = (job.assignment_epoch, job.generation);
            self.push(Output::Unanswered {
                partition: key.partition,
                assignment_epoch,
                generation,
            });
        }
    }
}
