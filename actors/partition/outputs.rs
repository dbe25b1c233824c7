//! Carries out what the route machine decided.

use actix::prelude::*;

use super::messages::{Ask, Question, Told};
use super::{PartitionActor, open};
use crate::actors::handler::HostRequest;
use crate::actors::metadata::Need;
use crate::actors::oddities;
use crate::fleet::{Event, RouteChange};
use crate::routing::{self, Count, Delivery, Output, Role, broker};
use crate::wire::ErrorCode;

impl PartitionActor {
    /// Performs one output. Nothing is decided here.
    pub(super) fn carry_out(&mut self, output: Output, ctx: &mut Context<Self>) {
        let partition = self.partition.clone();
        match output {
            Output::Want(_)
            | Output::Withdraw { .. }
            | Output::Drain { .. }
            | Output::Probe { .. }
            | Output::CancelProbe { .. }
            | Output::Hedge { .. }
            | Output::CancelHedge { .. }
            | Output::Dial { .. }
            | Output::DropLane { .. }
            | Output::Cooling { .. } => {
                if let Some((broker, input)) = broker::Input::of_route(partition, &output) {
                    self.thread.ask_link(broker, input);
                }
            }
            Output::Sample { generation } => self.question(Ask::Sample { generation }),
            Output::Refresh(reason) => {
                self.thread
                    .ask_metadata(Need::of_route(partition, reason, self.route.leadership()))
            }
            Output::Resolve { generation, what } => {
                self.question(Ask::Resolve { generation, what });
            }
            Output::Validate {
                generation,
                offset,
                epoch,
                leader_epoch,
                told,
            } => {
                self.question(Ask::Validate {
                    generation,
                    offset,
                    epoch,
                    leader_epoch,
                    told,
                });
            }
            Output::Deliver(delivery) => self.deliver(&delivery, ctx),
            // The fetch end moved back; `position_moved` has dropped what lay beyond it.
            Output::Truncate { .. } => {}
            Output::Event(event) => self.tell(event),
            Output::Count(count) => self.count(count),
        }
    }

    fn question(&self, ask: Ask) {
        let (partition, assignment) = (self.partition.clone(), self.assignment);
        self.thread.ask_coordinator(Question {
            partition,
            assignment,
            ask,
        });
    }

    /// Indexes the records of a row, tells the route how far they reach, and passes them on.
    fn deliver(&mut self, delivery: &Delivery, ctx: &mut Context<Self>) {
        if self.found_sought(delivery) {
            return;
        }
        let (partition_bytes, bytes_max) = (
            self.thread.routing.partition_bytes,
            self.reading.settings.inflated_bytes_max,
        );
        let room = self.opening.room_at_once(partition_bytes, bytes_max);
        let index = open::index(delivery, &self.reading, room);
        self.thread.telemetry.note_inflated(index.inflated_bytes());
        oddities::of_batches(index.counts);
        self.damage = index.damage.map(|error| self.damage_in(delivery, error));
        self.owed.push_back(routing::Input::Indexed(index.indexed));
        for (from, to) in index.gaps {
            self.cell.finish(from, to, index.epoch);
        }
        if self.draining {
            return;
        }
        self.opening.push(index.views);
        self.open_next(ctx);
    }

    /// Hands on what is open, and has the batch behind it inflated unless the handler has enough.
    pub(super) fn open_next(&mut self, ctx: &mut Context<Self>) {
        self.deliver_ready();
        if self.draining || !self.room {
            return;
        }
        let bytes_max = self.reading.settings.inflated_bytes_max;
        let Some(job) = self.opening.next_job(bytes_max) else {
            return;
        };
        let (me, seat, clock) = (ctx.address(), self.reading.seat.clone(), self.thread.clock);
        crate::actors::spawn::local("inflate", async move {
            if let Some(opened) = open::elsewhere(job, seat, open::Job::run, clock).await {
                // A partition that has ended meanwhile needs no batch.
                me.send(Told::Opened(opened)).await.ok();
            }
        });
    }

    /// Hands the batches that are open to the handler host.
    fn deliver_ready(&mut self) {
        let views = self.opening.ready();
        if let Some(last) = views.last().filter(|_| !self.draining) {
            let (to, leader_epoch) = (last.next_offset(), last.leader_epoch());
            let (partition, epoch) = (self.partition.clone(), self.assignment);
            self.thread.to_host(HostRequest::Deliver {
                partition,
                epoch,
                views,
            });
            self.mark_delivered(to, leader_epoch);
        }
    }

    fn tell(&mut self, event: routing::Event) {
        let partition = self.partition.clone();
        let telemetry = &self.thread.telemetry;
        match event {
            routing::Event::RoutingChange(change) => {
                telemetry.emit(Event::RoutingChange(RouteChange::new(partition, &change)));
            }
            routing::Event::PositionReset { from, to, bound } => {
                telemetry.emit(Event::PositionReset {
                    partition,
                    from: Some(from),
                    to,
                    gap: from.0.abs_diff(to.0),
                    cause: bound.name(),
                });
            }
            routing::Event::Truncated { from, to, epochs } => {
                telemetry.emit(Event::Truncated {
                    partition,
                    from,
                    to,
                    epoch_before: epochs.0,
                    epoch: epochs.1,
                });
            }
            routing::Event::CaughtUp { with, end } => telemetry.emit(match with {
                Role::Leader => Event::CaughtUpWithLeader { partition, end },
                Role::Follower => Event::CaughtUpWithReplica { partition, end },
            }),
            routing::Event::CorruptBatch { offset } => self.judge_row(offset),
            routing::Event::Refused { code } => {
                let error = format!("the leader answers {code}");
                self.tell_topic(error, code == ErrorCode::TOPIC_AUTHORIZATION_FAILED);
            }
            routing::Event::Halted(why) => {
                self.status.fail();
                let reason = why.reason().to_owned();
                telemetry.emit(Event::PartitionFailed { partition, reason });
            }
            routing::Event::LeaseOverdue(overdue) => {
                tracing::debug!(%partition, overdue, "lease overdue");
            }
            routing::Event::LeaderUnreachable(unreachable) => {
                tracing::debug!(%partition, unreachable, "leader unreachable");
            }
            routing::Event::Starving(starving) => {
                tracing::debug!(%partition, starving, "starving");
            }
            routing::Event::TopicGone => self.tell_topic("the topic is gone".to_owned(), false),
        }
    }

    fn tell_topic(&self, error: String, denied: bool) {
        let topic = self.partition.topic.clone();
        self.thread.telemetry.emit(Event::TopicError {
            topic,
            error,
            denied,
        });
    }

    fn count(&self, count: Count) {
        match count {
            Count::Hint(outcome) => {
                self.thread.telemetry.note_hint();
                metrics::counter!("nearside_route_hints_total", "outcome" => outcome).increment(1);
            }
            Count::Probe { outcome, wish } => metrics::counter!(
                "nearside_route_probes_total", "outcome" => outcome, "wish" => wish.name()
            )
            .increment(1),
            Count::Wasted { gate, bytes } => {
                let gate = gate.map_or("probe", routing::Gate::name);
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                metrics::counter!("nearside_route_wasted_bytes_total", "gate" => gate)
                    .increment(bytes);
            }
            Count::Cooldown(fault) => {
                metrics::counter!("nearside_route_cooldowns_total", "reason" => fault.name())
                    .increment(1);
            }
            Count::UnknownCode(code) => metrics::counter!(
                "nearside_route_unknown_codes_total", "code" => code.to_string()
            )
            .increment(1),
            Count::ValidationSkipped => {
                metrics::counter!("nearside_route_validations_skipped_total").increment(1);
            }
            Count::Hedge(outcome) => {
                metrics::counter!("nearside_route_hedges_total", "outcome" => outcome).increment(1);
            }
        }
    }
}
