//! Carries out what the membership machine decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::asking::Machine;
use super::{CoordinatorActor, Leave, Solved};
use crate::actors::metadata::Need;
use crate::actors::partition::Lot;
use crate::actors::supervise::Command;
use crate::actors::telemetry::bump;
use crate::fleet::{Event, StopReason};
use crate::group::{self, Input, Output, Standing};
use crate::ids::TopicName;
use crate::offsets::{commit, resolve};

impl CoordinatorActor {
    /// Feeds the membership and performs what it asks for.
    pub(super) fn feed_member(&mut self, input: Input) {
        let (draw, now) = (self.entropy.draw(), self.now());
        let snapshot = Arc::clone(&self.snapshot);
        self.member.handle(input, &*snapshot, draw, now);
        while let Some(output) = self.member.poll_output() {
            self.carry_out(output);
        }
    }

    /// Starts to leave: the member drains through its own queue first.
    pub(super) fn leave(&mut self, leave: Leave) {
        let Leave { until, reason } = leave;
        if self.started {
            self.feed_member(Input::Stop { until, reason });
        } else {
            self.left();
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send {
                to,
                request,
                token,
                timeout,
            } => {
                self.ask((Machine::Member, token), to, request, timeout);
            }
            Output::Coordinator(endpoint) => {
                let known = endpoint.is_some();
                self.move_port(endpoint);
                self.feed_committer(commit::Input::Coordinator(known));
                self.feed_resolver(resolve::Input::Coordinator(known));
            }
            Output::Standing(standing) => self.stand(standing),
            Output::Starts(safe) => self.threads.post_all(|| Lot::SessionSafe(safe)),
            Output::Step(step) => self.run_step(step),
            Output::Lead(lead) => self.solve(*lead),
            Output::WantTopics(topics) => {
                self.to_metadata
                    .post(Need::Topics(topics.into_iter().collect()));
            }
            Output::Event(event) => self.tell(event),
            Output::Fatal(error) => {
                self.telemetry.emit(Event::MemberFatal {
                    error: error.to_string(),
                });
                let reason = StopReason::GroupFatal(error);
                drop(self.commands.send(Command::Stop {
                    reason,
                    deadline: None,
                }));
                self.left();
            }
            Output::Left => {
                self.telemetry.emit(Event::MemberLeft);
                self.left();
            }
        }
    }

    fn stand(&mut self, standing: Standing) {
        let generation = standing.identity().map(|identity| identity.generation);
        if let Some(generation) = generation.filter(|current| *current != self.generation) {
            self.generation = generation;
            self.threads.post_all(|| Lot::Generation(generation));
        }
        let member = standing
            .identity()
            .map(|one| (one.member.clone(), one.generation));
        self.telemetry.set_member(member);
        self.feed_committer(commit::Input::Standing(standing.clone()));
        self.feed_resolver(resolve::Input::Standing(standing));
    }

    /// Solves an assignment on the compute pool.
    fn solve(&self, lead: group::Lead) {
        let me = self.solved.clone();
        let solving = tokio::task::spawn_blocking(move || lead.solve());
        crate::actors::spawn::local("assign", async move {
            if let Ok(led) = solving.await {
                // A coordinator that is gone needs no solution.
                me.send(Solved(led)).await.ok();
            }
        });
    }

    fn left(&self) {
        drop(self.commands.send(Command::Left));
    }

    fn tell(&self, event: group::Event) {
        match event {
            group::Event::Joined {
                generation,
                member,
                assignor,
                leader,
            } => {
                tracing::info!(%generation, %member, ?assignor, leader, "joined");
                self.telemetry
                    .emit(Event::MemberJoined { member, generation });
            }
            group::Event::Rebalancing(cause) => {
                tracing::info!(?cause, "rebalancing");
                bump(&self.telemetry.counts.rebalances, 1);
            }
            group::Event::DrainOverrun(partitions) => {
                let partitions = partitions.into_iter().map(|one| one.partition).collect();
                self.telemetry.emit(Event::DrainOverrun { partitions });
            }
            group::Event::Fenced(error) => tracing::warn!(%error, "expelled from the group"),
            group::Event::SessionExpired => tracing::warn!("session expired"),
            group::Event::Retrying { what, why } => tracing::info!(what, %why, "retrying"),
            group::Event::Led {
                members,
                partitions,
                withheld,
            } => {
                tracing::info!(members, partitions, withheld, "led the assignment");
            }
            group::Event::Unreadable(what) => tracing::warn!(what, "unreadable group data"),
            group::Event::StaleAnswer => bump(&self.telemetry.counts.mismatched, 1),
            group::Event::Left => {}
        }
    }

    /// The topics of all subscriptions, patterns resolved against the snapshot.
    pub(super) fn subscribed_topics(&self) -> BTreeSet<TopicName> {
        let mut topics = BTreeSet::new();
        for subscription in &self.subscriptions {
            if subscription.names.is_empty() {
                let known = self.snapshot.topics().map(|topic| &topic.name);
                topics.extend(
                    known
                        .filter(|name| subscription.matcher.matches(name))
                        .cloned(),
                );
            } else {
                topics.extend(subscription.names.iter().cloned());
            }
        }
        topics
    }
}
