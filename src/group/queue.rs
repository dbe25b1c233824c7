//! The rebalance queue: one step of assigning and giving up at a time (runtime.md G2).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::ids::{AssignmentEpoch, Moment, TopicPartition};

/// Names a [`Step`] in its report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct StepId(pub u64);

/// A partition with the epoch of its assignment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Assigned {
    /// The partition.
    pub partition: TopicPartition,
    /// Raised at each new assignment of it; every message about it carries this number.
    pub epoch: AssignmentEpoch,
}

/// One thing for the host to do; reported back by its id when all of it is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Start these partitions, each after its former actor and attempts ended (G4), and tell the
    /// listener `assigned`, also with an empty set (G3). Done when the listener returned.
    Assign {
        /// For the report.
        id: StepId,
        /// What is new.
        added: Vec<Assigned>,
    },
    /// Drain, commit and release these partitions, by the steps of runtime.md 8. Still owned until
    /// reported.
    Revoke {
        /// For the report.
        id: StepId,
        /// What is given up; never empty.
        partitions: Vec<Assigned>,
        /// When the budget ends (D1): the member goes on then, and fences not dead by then must
        /// die.
        until: Moment,
    },
    /// These partitions belong to others already: no commit, no `revoked`. May come while another
    /// step runs and ends that step without a report; what that step was revoking is among the
    /// lost.
    Lost {
        /// For the report.
        id: StepId,
        /// What is gone; never empty.
        partitions: Vec<Assigned>,
    },
}

impl Step {
    /// The id to report.
    pub const fn id(&self) -> StepId {
        match self {
            Self::Assign { id, .. } | Self::Revoke { id, .. } | Self::Lost { id, .. } => *id,
        }
    }
}

/// What the queue tells its member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    /// Hand this step to the host.
    Step(Step),
    /// What the group waits for is released.
    Released,
    /// The latest target is reached.
    Reached,
    /// Nothing is owned any more, after [`RebalanceQueue::revoke_all`] or
    /// [`RebalanceQueue::lose_all`].
    Empty,
    /// The budget of a revoke is over; it counts as released.
    Overrun(Vec<Assigned>),
}

/// Turns targets into steps, one running at a time. Owns the assignment epochs: nothing else raises
/// them.
#[derive(Clone, Debug)]
pub(super) struct RebalanceQueue {
    budget: Duration,
    owned: BTreeMap<TopicPartition, AssignmentEpoch>,
    goal: Option<Goal>,
    /// When everything must be given up, however many steps that takes.
    latest: Option<Moment>,
    running: Option<Step>,
    last_epoch: u64,
    last_step: u64,
    notices: VecDeque<Notice>,
}

/// What is to be reached when the running step is done; a newer one replaces it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Goal {
    Own {
        target: BTreeSet<TopicPartition>,
        owed: bool,
    },
    Nothing,
}

impl RebalanceQueue {
    pub(super) fn new(budget: Duration) -> Self {
        Self {
            budget,
            owned: BTreeMap::new(),
            goal: None,
            latest: None,
            running: None,
            last_epoch: 0,
            last_step: 0,
            notices: VecDeque::new(),
        }
    }

    /// Aims at owning exactly `target`: first what is not in it is revoked, then what is new is
    /// assigned. `owed` says that the group waits for something we claimed and are not given:
    /// [`Notice::Released`] follows once it is gone.
    pub(super) fn aim(&mut self, target: BTreeSet<TopicPartition>, owed: bool, now: Moment) {
        self.latest = None;
        self.goal = Some(Goal::Own { target, owed });
        self.go_on(now);
    }

    /// Gives everything up in good order within `budget`, all steps together; [`Notice::Empty`]
    /// follows, at once if nothing is owned.
    pub(super) fn revoke_all(&mut self, budget: Duration, now: Moment) {
        self.budget = budget;
        if let Some(Step::Revoke { until, .. }) = &mut self.running {
            *until = (*until).min(now + budget);
        }
        let latest = now + budget;
        let latest = self.latest.map_or(latest, |known| known.min(latest));
        self.latest = Some(latest);
        self.goal = Some(Goal::Nothing);
        self.go_on(now);
    }

    /// Everything is lost: overtakes what waits, and ends a running step. [`Notice::Empty`]
    /// follows.
    pub(super) fn lose_all(&mut self, now: Moment) {
        if matches!(self.running, Some(Step::Lost { .. })) {
            self.goal = Some(Goal::Nothing);
            return;
        }
        self.running = None;
        self.goal = Some(Goal::Nothing);
        if self.owned.is_empty() {
            self.go_on(now);
            return;
        }
        let id = self.fresh_step();
        let partitions = self.all_owned();
        self.run(Step::Lost { id, partitions });
    }

    /// The host is done with a step. Reports of ended steps are ignored.
    pub(super) fn done(&mut self, id: StepId, now: Moment) {
        if self.running.as_ref().map(Step::id) != Some(id) {
            return;
        }
        self.settle();
        self.go_on(now);
    }

    /// Ends a revoke whose budget is over.
    pub(super) fn tick(&mut self, now: Moment) {
        let Some(Step::Revoke {
            partitions, until, ..
        }) = &self.running
        else {
            return;
        };
        if *until <= now {
            self.notices.push_back(Notice::Overrun(partitions.clone()));
            self.settle();
            self.go_on(now);
        }
    }

    /// When the budget of the running revoke ends.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        match &self.running {
            Some(Step::Revoke { until, .. }) => Some(*until),
            Some(Step::Assign { .. } | Step::Lost { .. }) | None => None,
        }
    }

    pub(super) fn poll(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// What the group gave us: what is owned, what is being revoked, and what waits to be assigned.
    pub(super) fn claims(&self) -> BTreeSet<TopicPartition> {
        let waiting = match &self.goal {
            Some(Goal::Own { target, .. }) => Some(target),
            Some(Goal::Nothing) | None => None,
        };
        self.owned
            .keys()
            .chain(waiting.into_iter().flatten())
            .cloned()
            .collect()
    }

    /// What is owned, including what is being revoked.
    pub(super) fn owned(&self) -> &BTreeMap<TopicPartition, AssignmentEpoch> {
        &self.owned
    }

    /// Whether a step runs or a goal waits.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || self.goal.is_some()
    }

    /// Books the running step as done.
    fn settle(&mut self) {
        match self.running.take() {
            Some(Step::Revoke { partitions, .. } | Step::Lost { partitions, .. }) => {
                for gone in &partitions {
                    self.owned.remove(&gone.partition);
                }
            }
            Some(Step::Assign { .. }) | None => {}
        }
    }

    /// Starts the next step of the goal, unless one runs.
    fn go_on(&mut self, now: Moment) {
        if self.running.is_some() {
            return;
        }
        match self.goal.take() {
            None => {}
            Some(Goal::Nothing) if self.owned.is_empty() => {
                self.latest = None;
                self.notices.push_back(Notice::Empty);
            }
            Some(Goal::Nothing) => {
                let partitions = self.all_owned();
                self.goal = Some(Goal::Nothing);
                self.revoke(partitions, now);
            }
            Some(Goal::Own { target, owed }) => self.approach(target, owed, now),
        }
    }

    fn approach(&mut self, target: BTreeSet<TopicPartition>, owed: bool, now: Moment) {
        let surplus: Vec<Assigned> = self
            .all_owned()
            .into_iter()
            .filter(|row| !target.contains(&row.partition))
            .collect();
        if !surplus.is_empty() {
            self.goal = Some(Goal::Own { target, owed });
            self.revoke(surplus, now);
            return;
        }
        if owed {
            self.notices.push_back(Notice::Released);
        }
        let mut added = Vec::new();
        for partition in target {
            if !self.owned.contains_key(&partition) {
                self.last_epoch += 1;
                let epoch = AssignmentEpoch(self.last_epoch);
                self.owned.insert(partition.clone(), epoch);
                added.push(Assigned { partition, epoch });
            }
        }
        let id = self.fresh_step();
        self.run(Step::Assign { id, added });
        self.notices.push_back(Notice::Reached);
    }

    fn revoke(&mut self, partitions: Vec<Assigned>, now: Moment) {
        let id = self.fresh_step();
        self.run(Step::Revoke {
            id,
            partitions,
            until: self.latest.unwrap_or(now + self.budget),
        });
    }

    fn run(&mut self, step: Step) {
        self.running = Some(step.clone());
        self.notices.push_back(Notice::Step(step));
    }

    fn all_owned(&self) -> Vec<Assigned> {
        self.owned
            .iter()
            .map(|(partition, epoch)| Assigned {
                partition: partition.clone(),
                epoch: *epoch,
            })
            .collect()
    }

    fn fresh_step(&mut self) -> StepId {
        self.last_step += 1;
        StepId(self.last_step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(partitions: &[i32]) -> BTreeSet<TopicPartition> {
        partitions
            .iter()
            .map(|index| TopicPartition::new("t", *index))
            .collect()
    }

    fn queue() -> RebalanceQueue {
        RebalanceQueue::new(Duration::from_secs(75))
    }

    /// Drains the notices into one readable line.
    fn told(queue: &mut RebalanceQueue) -> String {
        let list = |rows: &[Assigned]| {
            let rows: Vec<String> = rows
                .iter()
                .map(|row| format!("{}@{}", row.partition.partition, row.epoch))
                .collect();
            rows.join(" ")
        };
        let mut lines = Vec::new();
        while let Some(notice) = queue.poll() {
            lines.push(match notice {
                Notice::Step(Step::Assign { id, added }) => {
                    format!("{} assign [{}]", id.0, list(&added))
                }
                Notice::Step(Step::Revoke { id, partitions, .. }) => {
                    format!("{} revoke [{}]", id.0, list(&partitions))
                }
                Notice::Step(Step::Lost { id, partitions }) => {
                    format!("{} lost [{}]", id.0, list(&partitions))
                }
                Notice::Released => "released".to_owned(),
                Notice::Reached => "reached".to_owned(),
                Notice::Empty => "empty".to_owned(),
                Notice::Overrun(rows) => format!("overrun [{}]", list(&rows)),
            });
        }
        lines.join("; ")
    }

    #[test]
    fn a_retained_partition_keeps_its_epoch_and_a_returning_one_gets_a_new_one() {
        let mut queue = queue();
        queue.aim(set(&[0, 1]), false, Moment::ZERO);
        assert_eq!(told(&mut queue), "1 assign [0@1 1@2]; reached");
        queue.done(StepId(1), Moment::ZERO);
        queue.aim(set(&[1, 2]), true, Moment::ZERO);
        assert_eq!(told(&mut queue), "2 revoke [0@1]");
        queue.done(StepId(2), Moment::ZERO);
        assert_eq!(told(&mut queue), "released; 3 assign [2@3]; reached");
        queue.done(StepId(3), Moment::ZERO);
        queue.aim(set(&[0, 1, 2]), false, Moment::ZERO);
        assert_eq!(told(&mut queue), "4 assign [0@4]; reached");
    }

    /// runtime.md 18, 39.
    #[test]
    fn a_newer_target_waits_for_the_running_revoke_and_then_assigns_anew() {
        let mut queue = queue();
        queue.aim(set(&[0]), false, Moment::ZERO);
        queue.done(StepId(1), Moment::ZERO);
        queue.aim(set(&[]), false, Moment::ZERO);
        told(&mut queue);
        queue.aim(set(&[0]), false, Moment::ZERO);
        assert_eq!(told(&mut queue), "", "the running step is never replaced");
        queue.done(StepId(2), Moment::ZERO);
        assert_eq!(told(&mut queue), "3 assign [0@2]; reached");
    }

    #[test]
    fn a_loss_turns_a_running_revoke_into_a_loss() {
        let mut queue = queue();
        queue.aim(set(&[0, 1]), false, Moment::ZERO);
        queue.done(StepId(1), Moment::ZERO);
        queue.aim(set(&[1]), false, Moment::ZERO);
        told(&mut queue);
        queue.lose_all(Moment::ZERO);
        assert_eq!(told(&mut queue), "3 lost [0@1 1@2]");
        queue.done(StepId(2), Moment::ZERO);
        assert_eq!(told(&mut queue), "", "the revoke no longer counts");
        queue.done(StepId(3), Moment::ZERO);
        assert_eq!(told(&mut queue), "empty");
        assert!(queue.owned().is_empty());
    }

    #[test]
    fn a_revoke_ends_with_its_budget() {
        let mut queue = queue();
        queue.aim(set(&[0]), false, Moment::ZERO);
        queue.done(StepId(1), Moment::ZERO);
        queue.revoke_all(Duration::from_secs(75), Moment::ZERO);
        told(&mut queue);
        assert_eq!(queue.next_deadline(), Some(Moment::from_ms(75_000)));
        queue.tick(Moment::from_ms(74_999));
        assert_eq!(told(&mut queue), "");
        queue.tick(Moment::from_ms(75_000));
        assert_eq!(told(&mut queue), "overrun [0@1]; empty");
    }

    #[test]
    fn a_stop_during_a_revoke_gives_everything_up_within_one_budget() {
        let mut queue = queue();
        queue.aim(set(&[0, 1]), false, Moment::ZERO);
        queue.done(StepId(1), Moment::ZERO);
        queue.aim(set(&[1]), false, Moment::ZERO);
        queue.revoke_all(Duration::from_secs(20), Moment::from_ms(1_000));
        told(&mut queue);
        queue.done(StepId(2), Moment::from_ms(15_000));
        assert_eq!(told(&mut queue), "3 revoke [1@2]");
        assert_eq!(queue.next_deadline(), Some(Moment::from_ms(21_000)));
        queue.done(StepId(3), Moment::from_ms(16_000));
        assert_eq!(told(&mut queue), "empty");
        queue.aim(set(&[0]), false, Moment::from_ms(30_000));
        told(&mut queue);
        queue.revoke_all(Duration::from_secs(20), Moment::from_ms(40_000));
        queue.done(StepId(4), Moment::from_ms(41_000));
        assert_eq!(
            queue.next_deadline(),
            Some(Moment::from_ms(60_000)),
            "a later stop has a budget of its own"
        );
    }
}
