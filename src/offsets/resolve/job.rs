//! One open question: what to ask next, and what an answer means.

use std::time::Duration;

use super::io::{Outcome, Question, Reset, ResetCause, Settings};
use crate::ids::{AssignmentEpoch, LeaderEpoch, Moment, Offset, PositionGeneration, TopicId};
use crate::wire::api::Isolation;
use crate::wire::api::list_offsets::At;

/// An open question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    /// Tells this question from a former one of the same partition.
    pub(super) serial: u64,
    pub(super) assignment_epoch: AssignmentEpoch,
    pub(super) generation: PositionGeneration,
    pub(super) question: Question,
    pub(super) ask: Ask,
    pub(super) since: Moment,
    pub(super) late: bool,
    /// Its place among the delayed, if it is there.
    pub(super) delayed_to: Option<Moment>,
    /// When its leader's answer is overdue, if the leader owes one.
    pub(super) owed_by: Option<Moment>,
    /// Failed attempts in a row.
    pub(super) failures: u32,
    /// Answers in a row that know only older epochs.
    pub(super) behind: u32,
    /// The policy that decides if nothing else does.
    policy: Reset,
    unix_ms: i64,
    cause: Option<ResetCause>,
    log_start: Option<Offset>,
    topic_id: Option<TopicId>,
    above_since: Option<Moment>,
    divergence: Option<Divergence>,
}

/// What to ask of whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// OffsetFetch at the coordinator.
    Commit,
    /// ListOffsets at the leader.
    List(At, Isolation),
    /// OffsetForLeaderEpoch at the leader.
    EpochEnd(LeaderEpoch),
}

/// What an answer leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Ask(Ask),
    Later(Ask, Duration),
    Done(Outcome),
}

/// Where a leader of this epoch says that an epoch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Divergence {
    epoch: Option<LeaderEpoch>,
    end: Offset,
    leader_epoch: Option<LeaderEpoch>,
}

/// Where a question comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) serial: u64,
    pub(super) assignment_epoch: AssignmentEpoch,
    pub(super) generation: PositionGeneration,
    pub(super) unix_ms: i64,
    pub(super) policy: Reset,
    /// Epoch of the leader as known now.
    pub(super) leader_epoch: Option<LeaderEpoch>,
    /// The topic's id as known now.
    pub(super) topic_id: Option<TopicId>,
}

impl Job {
    /// Opens a question, or answers it at once.
    pub(super) fn open(
        question: Question,
        origin: Origin,
        settings: &Settings,
        now: Moment,
    ) -> (Self, Next) {
        let Origin {
            serial,
            assignment_epoch,
            generation,
            unix_ms,
            policy,
            leader_epoch,
            topic_id,
        } = origin;
        let mut job = Self {
            serial,
            assignment_epoch,
            generation,
            question,
            ask: Ask::Commit,
            since: now,
            late: false,
            delayed_to: None,
            owed_by: None,
            failures: 0,
            behind: 0,
            policy,
            unix_ms,
            cause: None,
            log_start: None,
            topic_id,
            above_since: None,
            divergence: None,
        };
        let next = job.first(settings, leader_epoch);
        (job, next)
    }

    fn first(&mut self, settings: &Settings, leader_epoch: Option<LeaderEpoch>) -> Next {
        match self.question {
            Question::Start if settings.group.is_some() => Next::Ask(Ask::Commit),
            Question::Start => self.reset(ResetCause::NoCommit, settings),
            Question::Reset(policy) => self.policy_ask(policy, settings),
            Question::Timestamp(ms) => Next::Ask(Ask::List(At::Timestamp(ms), settings.isolation)),
            Question::End => Next::Ask(Ask::List(At::Latest, settings.isolation)),
            Question::Validate { epoch, told, .. } => {
                let told = told.map(|(epoch, end)| (Some(epoch), end));
                self.divergence = told.map(|(epoch, end)| Divergence {
                    epoch,
                    end,
                    leader_epoch,
                });
                let ask = Ask::EpochEnd(epoch);
                match self.divergence {
                    Some(_) => Next::Later(ask, settings.confirm_after),
                    None => Next::Ask(ask),
                }
            }
            Question::OutOfRange {
                epoch: Some(epoch), ..
            } => Next::Ask(Ask::EpochEnd(epoch)),
            Question::OutOfRange { epoch: None, .. } => Next::Ask(Self::bound(At::Earliest)),
        }
    }

    /// Whether a leader of this epoch is older than the one the question is about.
    pub(super) fn is_ahead_of(&self, epoch: Option<LeaderEpoch>) -> bool {
        match self.question {
            Question::Validate { leader_epoch, .. } => epoch.is_some() && epoch < leader_epoch,
            Question::Start
            | Question::Reset(_)
            | Question::Timestamp(_)
            | Question::OutOfRange { .. }
            | Question::End => false,
        }
    }

    /// A good answer came: failures before it count no more.
    pub(super) fn settle(&mut self) {
        self.failures = 0;
        self.behind = 0;
    }

    /// The coordinator's answer.
    pub(super) fn on_commit(
        &mut self,
        committed: Option<(Offset, Option<LeaderEpoch>)>,
        settings: &Settings,
    ) -> Next {
        match committed {
            Some((offset, epoch)) => Next::Done(Outcome::Committed { offset, epoch }),
            None => self.reset(ResetCause::NoCommit, settings),
        }
    }

    /// The leader's answer to ListOffsets.
    pub(super) fn on_listed(
        &mut self,
        offset: Option<Offset>,
        settings: &Settings,
        now: Moment,
    ) -> Next {
        let Some(offset) = offset else {
            // No record is that young: the end it is.
            return Next::Ask(Ask::List(At::Latest, settings.isolation));
        };
        match (self.question, self.cause) {
            (_, Some(cause)) => Next::Done(Outcome::Reset { offset, cause }),
            (Question::End, None) => Next::Done(Outcome::End(offset)),
            (
                Question::OutOfRange {
                    offset: refused, ..
                },
                None,
            ) => self.on_bound(refused, offset, settings, now),
            (
                Question::Start
                | Question::Reset(_)
                | Question::Timestamp(_)
                | Question::Validate { .. },
                None,
            ) => Next::Done(Outcome::At(offset)),
        }
    }

    /// One bound of the leader's log, for an offset out of range.
    fn on_bound(
        &mut self,
        refused: Offset,
        bound: Offset,
        settings: &Settings,
        now: Moment,
    ) -> Next {
        if self.log_start.is_none() {
            if refused < bound {
                return self.reset(ResetCause::BelowStart { log_start: bound }, settings);
            }
            self.log_start = Some(bound);
            // Latest without isolation: a valid position may lie between the last stable offset and
            // the end.
            return Next::Ask(Self::bound(At::Latest));
        }
        if refused <= bound {
            return Next::Done(Outcome::Inside);
        }
        let since = *self.above_since.get_or_insert(now);
        if now.since(since) >= settings.above_max {
            return self.reset(ResetCause::AboveEnd { log_end: bound }, settings);
        }
        let waited = u32::try_from(now.since(since).as_millis()).unwrap_or(u32::MAX);
        // Doubling delays: the next one is as long as all before it.
        let delay =
            Duration::from_millis(waited.into()).clamp(settings.retry.base, settings.retry.cap);
        Next::Later(Self::bound(At::Latest), delay)
    }

    /// The leader's answer to OffsetForLeaderEpoch: the epoch and its end, given by a leader of
    /// `leader_epoch` while the topic had the id `topic_id`.
    pub(super) fn on_epoch_end(
        &mut self,
        (epoch, end): (Option<LeaderEpoch>, Option<Offset>),
        leader_epoch: Option<LeaderEpoch>,
        topic_id: Option<TopicId>,
        settings: &Settings,
    ) -> Next {
        let position = match self.question {
            Question::Validate { offset, .. } | Question::OutOfRange { offset, .. } => offset,
            Question::Start | Question::Reset(_) | Question::Timestamp(_) | Question::End => {
                return Next::Done(Outcome::Unknown);
            }
        };
        let Some(end) = end else {
            return self.undecided(Outcome::Unknown);
        };
        if end >= position {
            return self.undecided(Outcome::Agrees);
        }
        let found = Divergence {
            epoch,
            end,
            leader_epoch,
        };
        if topic_id != self.topic_id {
            // The history of another topic of that name says nothing about ours (KIP-516).
            return self.undecided(Outcome::Unknown);
        }
        if self.divergence == Some(found) {
            return Next::Done(match self.policy {
                Reset::None => Outcome::Halt,
                Reset::Earliest | Reset::Latest | Reset::ByDuration(_) => {
                    Outcome::Truncated { to: end, epoch }
                }
            });
        }
        // One answer alone has been seen to be wrong on a healthy log.
        self.divergence = Some(found);
        Next::Later(self.ask, settings.confirm_after)
    }

    /// The epochs do not decide: a validation ends, a range is judged by its bounds.
    pub(super) fn undecided(&mut self, outcome: Outcome) -> Next {
        match self.question {
            Question::OutOfRange { .. } => Next::Ask(Self::bound(At::Earliest)),
            Question::Start
            | Question::Reset(_)
            | Question::Timestamp(_)
            | Question::Validate { .. }
            | Question::End => Next::Done(outcome),
        }
    }

    fn reset(&mut self, cause: ResetCause, settings: &Settings) -> Next {
        self.cause = Some(cause);
        match (self.policy, cause) {
            (Reset::Earliest, ResetCause::BelowStart { log_start }) => Next::Done(Outcome::Reset {
                offset: log_start,
                cause,
            }),
            (policy, _) => self.policy_ask(policy, settings),
        }
    }

    fn policy_ask(&self, policy: Reset, settings: &Settings) -> Next {
        let at = match policy {
            Reset::Earliest => At::Earliest,
            Reset::Latest => At::Latest,
            Reset::None => return Next::Done(Outcome::Halt),
            Reset::ByDuration(age) => {
                let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                At::Timestamp(self.unix_ms.saturating_sub(age_ms).max(0))
            }
        };
        Next::Ask(Ask::List(at, settings.isolation))
    }

    const fn bound(at: At) -> Ask {
        Ask::List(at, Isolation::ReadUncommitted)
    }
}
