//! What the answers of coordinator and leaders lead to.

use std::collections::BTreeMap;

use super::io::{Event, Outcome, Output};
use super::job::{Ask, Next};
use super::judge::{FetchVerdict, LeaderVerdict};
use super::lanes::{Key, Target};
use super::resolver::{Facts, Resolver, Sent, SentRow};
use crate::group::{NoAnswer, Token};
use crate::ids::{LeaderEpoch, Offset, TopicPartition};
use crate::wire::api::{list_offsets, offset_fetch, offset_for_leader_epoch};
use crate::wire::{ErrorCode, Response};

/// What a leader said of one partition.
#[derive(Clone, Copy, Debug)]
struct Said {
    error: ErrorCode,
    offset: Option<Offset>,
    epoch: Option<LeaderEpoch>,
}

impl Resolver {
    pub(super) fn on_answer(
        &mut self,
        token: Token,
        result: Result<Response, NoAnswer>,
        facts: Facts<'_>,
    ) {
        let Some(mut sent) = self.out.remove(&token) else {
            return;
        };
        sent.rows.retain(|row| {
            let current = self
                .jobs
                .get(&row.key)
                .is_some_and(|job| job.serial == row.serial);
            if !current {
                self.push(Output::Event(Event::StaleAnswer(row.key.partition.clone())));
            }
            current
        });
        if let (Target::Leader(leader), Ok(_)) = (sent.lane.target, &result) {
            self.on_heard(leader, &sent.rows, facts.now);
        }
        match (sent.lane.target, result) {
            (_, Ok(Response::OffsetFetch(answer))) => self.on_fetched(&sent, answer, facts),
            (_, Ok(Response::ListOffsets(answer))) => {
                self.on_said(&sent, &listed(answer), ErrorCode::REQUEST_TIMED_OUT, facts);
            }
            (_, Ok(Response::OffsetForLeaderEpoch(answer))) => {
                self.on_said(&sent, &ended(answer), ErrorCode::REQUEST_TIMED_OUT, facts);
            }
            (Target::Coordinator, Err(NoAnswer::Unsupported)) => {
                self.on_fetch_error(&sent, ErrorCode::UNSUPPORTED_VERSION, facts);
            }
            (Target::Coordinator, Ok(_) | Err(NoAnswer::Lost(_))) => {
                self.on_fetch_error(&sent, ErrorCode::NOT_COORDINATOR, facts);
            }
            (Target::Leader(_), Err(NoAnswer::Unsupported)) => {
                self.on_said(
                    &sent,
                    &BTreeMap::new(),
                    ErrorCode::UNSUPPORTED_VERSION,
                    facts,
                );
            }
            (Target::Leader(_), Ok(_) | Err(NoAnswer::Lost(_))) => {
                self.on_said(
                    &sent,
                    &BTreeMap::new(),
                    ErrorCode::BROKER_NOT_AVAILABLE,
                    facts,
                );
            }
        }
    }

    fn on_fetch_error(&mut self, sent: &Sent, error: ErrorCode, facts: Facts<'_>) {
        match FetchVerdict::of(error) {
            FetchVerdict::Find => {
                self.reachable = false;
                self.push(Output::CoordinatorMoved);
            }
            FetchVerdict::Fatal => self.push(Output::Refused(error)),
            FetchVerdict::Good
            | FetchVerdict::Backoff
            | FetchVerdict::Unknown
            | FetchVerdict::Forbidden => {}
        }
        for row in &sent.rows {
            self.on_commit_refused(&row.key, error, facts);
        }
    }

    fn on_fetched(&mut self, sent: &Sent, answer: offset_fetch::Response, facts: Facts<'_>) {
        if answer.error.is_err() {
            self.on_fetch_error(sent, answer.error, facts);
            return;
        }
        let mut rows: BTreeMap<TopicPartition, offset_fetch::Committed> = answer
            .partitions
            .into_iter()
            .map(|row| {
                (
                    TopicPartition {
                        topic: row.topic.clone(),
                        partition: row.partition,
                    },
                    row,
                )
            })
            .collect();
        for SentRow { key, .. } in &sent.rows {
            // A row that was left out says nothing, least of all that there is no commit.
            let Some(row) = rows.remove(&key.partition) else {
                self.retry(key, facts);
                continue;
            };
            if row.error.is_err() {
                self.on_commit_refused(key, row.error, facts);
                continue;
            }
            if !row.metadata.is_empty() {
                self.push(Output::Event(Event::ForeignMetadata(key.partition.clone())));
            }
            let committed = row.offset.map(|offset| (offset, row.leader_epoch));
            let settings = &self.settings;
            let Some(job) = self.jobs.get_mut(key) else {
                continue;
            };
            job.settle();
            let next = job.on_commit(committed, settings);
            self.follow(key, next, facts);
        }
    }

    fn on_commit_refused(&mut self, key: &Key, error: ErrorCode, facts: Facts<'_>) {
        match FetchVerdict::of(error) {
            FetchVerdict::Good | FetchVerdict::Find => {
                self.follow(key, Next::Ask(Ask::Commit), facts);
            }
            FetchVerdict::Backoff | FetchVerdict::Fatal => self.retry(key, facts),
            FetchVerdict::Unknown => self.on_unknown(key, facts),
            FetchVerdict::Forbidden => self.on_forbidden(key, facts),
        }
    }

    fn on_said(
        &mut self,
        sent: &Sent,
        said: &BTreeMap<TopicPartition, Said>,
        otherwise: ErrorCode,
        facts: Facts<'_>,
    ) {
        for row in &sent.rows {
            let missing = Said {
                error: otherwise,
                offset: None,
                epoch: None,
            };
            let said = said.get(&row.key.partition).copied().unwrap_or(missing);
            self.judge(sent.lane.target, row, said, facts);
        }
    }

    fn judge(&mut self, target: Target, row: &SentRow, said: Said, facts: Facts<'_>) {
        let key = &row.key;
        let verdict = LeaderVerdict::of(said.error);
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        match verdict {
            LeaderVerdict::Good => {
                job.settle();
                let next = match row.ask {
                    Ask::List(..) => job.on_listed(said.offset, &self.settings, facts.now),
                    Ask::Commit | Ask::EpochEnd(_) => {
                        let id = facts.view.topic_id(&key.partition.topic);
                        let said = (said.epoch, said.offset);
                        job.on_epoch_end(said, row.leader_epoch, id, &self.settings)
                    }
                };
                self.follow(key, next, facts);
            }
            LeaderVerdict::Moved => {
                let tried = match target {
                    Target::Leader(broker) => Some((broker, row.leader_epoch)),
                    Target::Coordinator => None,
                };
                self.await_leader(key, tried, facts);
            }
            LeaderVerdict::Behind => {
                job.behind = job.behind.saturating_add(1);
                if job.behind % BEHIND_REFRESH == 0 {
                    self.push(Output::Refresh(key.partition.clone()));
                }
                self.retry(key, facts);
            }
            LeaderVerdict::BackoffRefresh => {
                self.push(Output::Refresh(key.partition.clone()));
                self.retry(key, facts);
            }
            LeaderVerdict::Backoff => self.retry(key, facts),
            LeaderVerdict::Unknown => self.on_unknown(key, facts),
            LeaderVerdict::Forbidden => self.on_forbidden(key, facts),
            LeaderVerdict::Unsupported => match row.ask {
                Ask::EpochEnd(_) => {
                    let next = job.undecided(Outcome::Unknown);
                    self.follow(key, next, facts);
                }
                Ask::Commit | Ask::List(..) => self.retry(key, facts),
            },
        }
    }

    /// A broker that starts knows no topics yet, so only metadata can tell that one is gone.
    fn on_unknown(&mut self, key: &Key, facts: Facts<'_>) {
        self.push(Output::Refresh(key.partition.clone()));
        self.retry(key, facts);
    }

    fn on_forbidden(&mut self, key: &Key, facts: Facts<'_>) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if job.failures == 0 {
            self.push(Output::Event(Event::Forbidden(key.partition.clone())));
        }
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let delay = self.settings.forbidden.delay(job.failures, facts.draw);
        job.failures = job.failures.saturating_add(1);
        self.delay(key, facts.now + delay);
    }
}

fn listed(answer: list_offsets::Response) -> BTreeMap<TopicPartition, Said> {
    let rows = answer.partitions.into_iter().map(|row| {
        let partition = TopicPartition {
            topic: row.topic,
            partition: row.partition,
        };
        (
            partition,
            Said {
                error: row.error,
                offset: row.offset,
                epoch: row.leader_epoch,
            },
        )
    });
    rows.collect()
}

fn ended(answer: offset_for_leader_epoch::Response) -> BTreeMap<TopicPartition, Said> {
    let rows = answer.partitions.into_iter().map(|row| {
        let partition = TopicPartition {
            topic: row.topic,
            partition: row.partition,
        };
        (
            partition,
            Said {
                error: row.error,
                offset: row.end_offset,
                epoch: row.leader_epoch,
            },
        )
    });
    rows.collect()
}

/// Every third answer of a leader that is behind calls for a refresh.
const BEHIND_REFRESH: u32 = 3;
