//! Carries out what the handler machine decided.

use std::sync::Arc;

use super::HandlerHost;
use crate::actors::partition::{HostNews, HostSaid};
use crate::actors::supervise::Command;
use crate::actors::telemetry::bump;
use crate::fleet::{Event, StopReason};
use crate::handler::{
    Cause, ErasedHandler, Event as HostEvent, Output as HostOutput, Pool, Stint, StintId,
};
use crate::ids::{AssignmentEpoch, TopicPartition};

impl HandlerHost {
    /// Performs one output. Nothing is decided here.
    pub(super) fn carry_out(&mut self, output: HostOutput) {
        match output {
            HostOutput::Start {
                stint,
                pool,
                handler,
                work,
            } => self.start(stint, pool, handler, work),
            HostOutput::Abort { stint } => {
                if let Some(task) = self.running.get(&stint) {
                    task.abort();
                }
            }
            HostOutput::Finished {
                partition,
                epoch,
                from,
                to,
                leader_epoch,
            } => {
                bump(&self.thread.telemetry.counts.attempts_done, 1);
                self.say(
                    partition,
                    epoch,
                    HostSaid::Finished {
                        from,
                        to,
                        leader_epoch,
                    },
                );
            }
            HostOutput::Full { partition, epoch } => {
                self.say(partition, epoch, HostSaid::Room(false));
            }
            HostOutput::Room { partition, epoch } => {
                self.say(partition, epoch, HostSaid::Room(true));
            }
            HostOutput::Drained {
                partition,
                epoch,
                abandoned,
            } => {
                let abandoned = abandoned.is_some();
                self.say(partition, epoch, HostSaid::Drained { abandoned });
            }
            HostOutput::Ended { partition, epoch } => self.say(partition, epoch, HostSaid::Ended),
            HostOutput::Unreadable {
                partition,
                epoch,
                error,
            } => {
                self.say(partition, epoch, HostSaid::Unreadable(error));
            }
            HostOutput::Stop(reason) => {
                let reason = StopReason::Handler {
                    partition: reason.partition,
                    offset: reason.offset,
                    reason: reason.reason,
                };
                drop(self.commands.send(Command::Stop {
                    reason,
                    deadline: None,
                }));
            }
            HostOutput::Event(event) => self.tell(event),
        }
    }

    fn start(&mut self, stint: StintId, pool: Pool, handler: Arc<dyn ErasedHandler>, work: Stint) {
        let settled = self.settled.clone();
        let abort = self.pools.run(pool, handler.start(work), move |end| {
            // A host that is gone needs no report.
            drop(settled.send((stint, end)));
        });
        self.running.insert(stint, abort);
    }

    fn say(&mut self, partition: TopicPartition, epoch: AssignmentEpoch, said: HostSaid) {
        let rewinds = self.rewinds.get(&partition).copied().unwrap_or(0);
        self.news.push(HostNews {
            partition,
            epoch,
            rewinds,
            said,
        });
    }

    fn tell(&self, event: HostEvent) {
        let telemetry = &self.thread.telemetry;
        match event {
            HostEvent::Retrying {
                partition,
                offset,
                attempt,
                cause,
                text,
                delay,
            } => {
                bump(&telemetry.counts.attempts_retry, 1);
                tracing::warn!(%partition, %offset, attempt, cause = cause.label(), %text, ?delay,
                    "attempt failed, retrying");
                if cause == Cause::Panic {
                    bump(&telemetry.counts.attempts_panicked, 1);
                    telemetry.emit(Event::AttemptPanicked {
                        partition,
                        offset,
                        attempt,
                        text,
                    });
                }
            }
            HostEvent::Overdue { partition } => {
                telemetry.emit(Event::AttemptDeadline { partition });
            }
            HostEvent::Abandoned { partition, offset } => {
                telemetry.emit(Event::AttemptAbandoned { partition, offset });
            }
            HostEvent::Stuck { partition, offset } => {
                telemetry.emit(Event::AttemptStuck { partition, offset });
            }
            HostEvent::LateResult { partition } => {
                bump(&telemetry.counts.late_results, 1);
                tracing::debug!(%partition, "late result dropped");
            }
            HostEvent::Stale { partition, epoch } => {
                bump(&telemetry.counts.mismatched, 1);
                tracing::debug!(%partition, %epoch, "stale message dropped");
            }
        }
    }
}
