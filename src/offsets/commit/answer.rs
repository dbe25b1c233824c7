//! What the coordinator's answers lead to, row by row.

use std::collections::{BTreeMap, BTreeSet};

use super::committer::{Committer, Request};
use super::io::{Event, Output};
use super::judge::Verdict;
use crate::group::{NoAnswer, Token};
use crate::ids::{Draw, Generation, Moment, TopicPartition};
use crate::wire::{ErrorCode, Response};

impl Committer {
    pub(super) fn on_answer(
        &mut self,
        token: Token,
        result: Result<Response, NoAnswer>,
        draw: Draw,
        now: Moment,
    ) {
        let Some(request) = self.out.remove(&token) else {
            return;
        };
        let errors: BTreeMap<TopicPartition, ErrorCode> = match result {
            Ok(Response::OffsetCommit(answer)) => answer
                .partitions
                .into_iter()
                .map(|row| {
                    (
                        TopicPartition {
                            topic: row.topic,
                            partition: row.partition,
                        },
                        row.error,
                    )
                })
                .collect(),
            Err(NoAnswer::Unsupported) => request
                .rows
                .iter()
                .map(|row| (row.clone(), ErrorCode::UNSUPPORTED_VERSION))
                .collect(),
            // Committing twice is harmless, so an unknown outcome is simply tried again.
            Ok(_) | Err(NoAnswer::Lost(_)) => request
                .rows
                .iter()
                .map(|row| (row.clone(), ErrorCode::NOT_COORDINATOR))
                .collect(),
        };
        self.split_if_too_large(&request, &errors);
        let mut told = BTreeSet::new();
        for partition in &request.rows {
            // A row the answer leaves out is as good as refused.
            let error = errors
                .get(partition)
                .copied()
                .unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR);
            self.judge(partition, error, &request, draw, now);
            if told.insert(error) {
                self.tell_once(error, request.generation);
            }
        }
        self.note_progress(told.contains(&ErrorCode::NONE).then_some(now));
    }

    /// A request refused whole for its size is tried again in halves.
    fn split_if_too_large(
        &mut self,
        request: &Request,
        errors: &BTreeMap<TopicPartition, ErrorCode>,
    ) {
        let too_large = |error: &ErrorCode| Verdict::of(*error) == Verdict::Split;
        let Some(error) = errors
            .values()
            .next()
            .filter(|_| errors.values().all(too_large))
        else {
            return;
        };
        let partitions = request.rows.len();
        for partition in &request.rows {
            if let Some(row) = self.rows.get_mut(partition) {
                row.rows_max = Some(partitions.div_ceil(2));
            }
        }
        if partitions > 1 {
            self.outputs.push_back(Output::Event(Event::CommitSplit {
                partitions,
                error: *error,
            }));
        }
    }

    /// Consequences that concern the whole request.
    fn tell_once(&mut self, error: ErrorCode, generation: Generation) {
        match Verdict::of(error) {
            Verdict::Find => {
                self.reachable = false;
                self.outputs.push_back(Output::CoordinatorMoved);
            }
            Verdict::Hold | Verdict::Member => {
                self.held_at = self.held_at.max(Some(generation));
                self.outputs
                    .push_back(Output::Refused { generation, error });
            }
            Verdict::Stored
            | Verdict::Backoff
            | Verdict::Split
            | Verdict::Deleted
            | Verdict::Forbidden => {}
        }
    }

    fn judge(
        &mut self,
        partition: &TopicPartition,
        error: ErrorCode,
        request: &Request,
        draw: Draw,
        now: Moment,
    ) {
        let settings = &self.settings;
        let Some(row) = self.rows.get_mut(partition) else {
            return;
        };
        if row
            .out
            .as_ref()
            .is_none_or(|(out, _)| *out != request.token)
        {
            return;
        }
        let verdict = Verdict::of(error);
        let at = match verdict {
            Verdict::Stored => {
                let stored = row.accept();
                self.outputs.extend(stored.map(Output::Committed));
                if row.is_clean() {
                    for flush in self.flushes.values_mut() {
                        flush.waiting.remove(partition);
                    }
                } else {
                    self.schedule(partition, self.is_flushing(partition), now);
                }
                return;
            }
            Verdict::Find | Verdict::Hold | Verdict::Member => {
                row.take_back();
                now
            }
            Verdict::Split if request.rows.len() > 1 => {
                row.take_back();
                now
            }
            Verdict::Split | Verdict::Backoff | Verdict::Deleted => {
                row.reject(now);
                now + settings.retry.delay(row.failures - 1, draw)
            }
            Verdict::Forbidden => {
                row.reject(now);
                now + settings.forbidden.delay(row.failures - 1, draw)
            }
        };
        if row.turns_stuck(now) {
            let event = Event::CommitStuck {
                partition: partition.clone(),
                error,
            };
            self.outputs.push_back(Output::Event(event));
        } else if row.failures == 1 {
            let event = Event::CommitFailed {
                partition: partition.clone(),
                error,
            };
            self.outputs.push_back(Output::Event(event));
        }
        self.line_up(partition, at);
        if matches!(verdict, Verdict::Deleted | Verdict::Forbidden) {
            self.fail_in_flushes(partition);
        }
    }
}
