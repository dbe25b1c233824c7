//! Joining a generation: JoinGroup, leading it, SyncGroup.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Cause;
use super::classic::{ClassicMember, Facts, Phase, Round, Timer, What};
use super::input::{Event, Output, To, Token};
use super::lead::{Lead, Led, Roster};
use super::protocol::{MemberSubscription, PROTOCOL_TYPE, decode_assignment, user_data};
use super::verdict::Verdict;
use crate::assign::Assignor;
use crate::error::ErrorKind;
use crate::ids::TopicName;
use crate::wire::ErrorCode;
use crate::wire::api::{join_group, sync_group};

impl ClassicMember {
    /// Goes to join, after `delay`. Eager members give everything up first.
    pub(super) fn prepare_join(&mut self, cause: Cause, delay: Duration, facts: Facts<'_>) {
        self.tell(Event::Rebalancing(cause));
        self.delay_join(delay, facts);
        if self.is_cooperative() || self.queue.claims().is_empty() {
            self.phase = Phase::Waiting;
        } else {
            self.phase = Phase::Draining;
            self.queue
                .revoke_all(self.settings.revoke_budget, facts.now);
        }
    }

    pub(super) fn delay_join(&mut self, delay: Duration, facts: Facts<'_>) {
        self.stop_timers(&[Timer::Join]);
        if delay > Duration::ZERO {
            self.set_timer(Timer::Join, facts.now + delay);
        }
    }

    /// Sends the JoinGroup once nothing holds it back.
    pub(super) fn try_join(&mut self, _facts: Facts<'_>) {
        let held_back = self.is_waiting_for(Timer::Join) || self.is_blocked();
        if self.phase != Phase::Waiting || held_back || self.finder.known.is_none() {
            return;
        }
        self.told = (self.topics.clone(), self.queue.claims());
        let assignors = self.settings.assignors.iter();
        let request = join_group::Request {
            group: self.settings.group.clone(),
            session_timeout: self.settings.session_timeout,
            rebalance_timeout: self.settings.rebalance_timeout,
            member: self.member.clone(),
            instance: self.settings.instance.clone(),
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols: assignors.map(|assignor| self.protocol(*assignor)).collect(),
            reason: None,
        };
        let timeout = self.join_timeout();
        let token = self.send(To::Coordinator, What::Join, request.into(), timeout);
        self.pause_session();
        self.phase = Phase::Joining(token);
    }

    /// The coordinator answers when all members joined, or the rebalance timeout is over.
    fn join_timeout(&self) -> Duration {
        let waited = self.settings.rebalance_timeout.saturating_add(JOIN_SLACK);
        waited.max(self.settings.request_timeout)
    }

    fn protocol(&self, assignor: Assignor) -> join_group::Protocol {
        let (topics, claims) = &self.told;
        let held = self.held.as_ref();
        let generation = held.map(|(generation, _)| *generation);
        let before: Vec<_> = match held {
            // An eager member owns nothing when it joins; what it had is told to the sticky
            // assignor.
            Some((_, partitions)) if claims.is_empty() => partitions.iter().cloned().collect(),
            Some(_) | None => claims.iter().cloned().collect(),
        };
        let subscription = MemberSubscription {
            topics: topics.iter().cloned().collect(),
            user_data: user_data(assignor, &before, generation),
            owned: claims.iter().cloned().collect(),
            generation,
            rack: self.settings.rack.clone(),
        };
        join_group::Protocol {
            name: assignor.name().to_owned(),
            metadata: subscription.encode(),
        }
    }

    pub(super) fn on_joined(
        &mut self,
        token: Token,
        answer: Result<join_group::Response, String>,
        facts: Facts<'_>,
    ) {
        if let Ok(join_group::Response {
            member: Some(member),
            error,
            ..
        }) = &answer
        {
            // Also when we are leaving by now: the leave must name it (KIP-394).
            if error.is_ok() || *error == ErrorCode::MEMBER_ID_REQUIRED {
                self.member = Some(member.clone());
            }
        }
        if self.phase != Phase::Joining(token) {
            return;
        }
        self.resume_session(facts);
        match answer {
            Err(why) => self.find_and_rejoin("JoinGroup", why, facts),
            Ok(answer) => match Verdict::of(answer.error) {
                Verdict::Good => self.enter_round(&answer, facts),
                Verdict::TakeId => self.phase = Phase::Waiting,
                verdict @ (Verdict::Find
                | Verdict::Backoff
                | Verdict::Rejoin
                | Verdict::LoseGeneration
                | Verdict::LoseId
                | Verdict::Fatal(..)
                | Verdict::Unexpected) => {
                    self.follow("JoinGroup", verdict, answer.error, facts);
                }
            },
        }
    }

    fn enter_round(&mut self, answer: &join_group::Response, facts: Facts<'_>) {
        let assignor = answer
            .protocol
            .as_deref()
            .and_then(|name| name.parse::<Assignor>().ok());
        let (Some(generation), Some(assignor)) = (answer.generation, assignor) else {
            let text = "the group chose an assignor that is not in partition.assignment.strategy";
            self.fail(
                ErrorKind::Group,
                text,
                ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
                facts,
            );
            return;
        };
        self.generation = Some(generation);
        let leader = answer.leader.is_some() && answer.leader == self.member;
        let round = Round {
            generation,
            assignor,
            leader,
        };
        if !leader {
            self.baseline = None;
            self.sync(round, Vec::new());
            return;
        }
        let roster = Roster::read(&answer.members, assignor);
        if let Some(field) = roster.unreadable {
            self.tell(Event::Unreadable(field));
        }
        if answer.skip_assignment {
            // A static leader that came back leaves all as it is, but goes on watching (KIP-814).
            self.watch(roster.topics(), facts);
            self.sync(round, Vec::new());
            return;
        }
        let unknown: BTreeSet<TopicName> = roster
            .topics()
            .into_iter()
            .filter(|topic| facts.view.partition_count(topic).is_none())
            .collect();
        self.phase = Phase::Leading(round, Some(roster));
        if unknown.is_empty() {
            self.lead_on(facts);
        } else {
            self.set_timer(Timer::Topics, facts.now + self.settings.topics_timeout);
            self.push(Output::WantTopics(unknown));
        }
    }

    /// New metadata came while a leader waits for topics.
    pub(super) fn lead_when_known(&mut self, facts: Facts<'_>) {
        let Phase::Leading(_, Some(roster)) = &self.phase else {
            return;
        };
        if roster
            .topics()
            .iter()
            .all(|topic| facts.view.partition_count(topic).is_some())
        {
            self.lead_on(facts);
        }
    }

    /// Has the assignment computed, with the topics that are known by now.
    pub(super) fn lead_on(&mut self, facts: Facts<'_>) {
        let Phase::Leading(round, roster) = &mut self.phase else {
            return;
        };
        let Some(roster) = roster.take() else { return };
        let topics = roster.topics();
        let lead = Lead {
            generation: round.generation,
            assignor: round.assignor,
            candidates: roster.candidates,
            topics: topics
                .iter()
                .filter_map(|topic| facts.view.topic(topic))
                .collect(),
        };
        self.stop_timers(&[Timer::Topics]);
        self.watch(topics, facts);
        self.push(Output::Lead(Box::new(lead)));
    }

    /// Remembers how many partitions these topics have: a change calls for a rebalance.
    fn watch(&mut self, topics: BTreeSet<TopicName>, facts: Facts<'_>) {
        let count = |topic: TopicName| {
            let count = facts.view.partition_count(&topic);
            (topic, count)
        };
        self.baseline = Some(topics.into_iter().map(count).collect());
    }

    pub(super) fn on_led(&mut self, led: Led, _facts: Facts<'_>) {
        match &self.phase {
            Phase::Leading(round, None) if round.generation == led.generation => {
                let round = round.clone();
                self.tell(Event::Led {
                    members: led.assignments.len(),
                    partitions: led.partitions,
                    withheld: led.withheld,
                });
                self.sync(round, led.assignments);
            }
            Phase::Leading(..)
            | Phase::Idle
            | Phase::Waiting
            | Phase::Joining(_)
            | Phase::Syncing(..)
            | Phase::Stable
            | Phase::Draining
            | Phase::Losing
            | Phase::Stopping
            | Phase::Leaving(_)
            | Phase::Ended => self.tell(Event::StaleAnswer),
        }
    }

    fn sync(&mut self, round: Round, assignments: Vec<sync_group::Assignment>) {
        let Some(member) = self.member.clone() else {
            return;
        };
        let request = sync_group::Request {
            group: self.settings.group.clone(),
            generation: round.generation,
            member,
            instance: self.settings.instance.clone(),
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocol: round.assignor.name().to_owned(),
            assignments,
        };
        let timeout = self.join_timeout();
        let token = self.send(To::Coordinator, What::Sync, request.into(), timeout);
        self.pause_session();
        self.phase = Phase::Syncing(round, token);
    }

    pub(super) fn on_synced(
        &mut self,
        token: Token,
        answer: Result<sync_group::Response, String>,
        facts: Facts<'_>,
    ) {
        let round = match &self.phase {
            Phase::Syncing(round, out) if *out == token => round.clone(),
            Phase::Syncing(..)
            | Phase::Idle
            | Phase::Waiting
            | Phase::Joining(_)
            | Phase::Leading(..)
            | Phase::Stable
            | Phase::Draining
            | Phase::Losing
            | Phase::Stopping
            | Phase::Leaving(_)
            | Phase::Ended => return,
        };
        self.resume_session(facts);
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return self.find_and_rejoin("SyncGroup", why, facts),
        };
        match Verdict::of(answer.error) {
            Verdict::Good => {}
            verdict @ (Verdict::Find
            | Verdict::Backoff
            | Verdict::Rejoin
            | Verdict::TakeId
            | Verdict::LoseGeneration
            | Verdict::LoseId
            | Verdict::Fatal(..)
            | Verdict::Unexpected) => {
                return self.follow("SyncGroup", verdict, answer.error, facts);
            }
        }
        match decode_assignment(&answer.assignment) {
            Ok(partitions) => {
                self.enter_generation(&round, partitions.into_iter().collect(), facts)
            }
            Err(field) => {
                self.tell(Event::Unreadable(field));
                self.rejoin_later(
                    "SyncGroup",
                    "its assignment cannot be read".to_owned(),
                    facts,
                );
            }
        }
    }

    fn enter_generation(
        &mut self,
        round: &Round,
        target: BTreeSet<crate::ids::TopicPartition>,
        facts: Facts<'_>,
    ) {
        let Some(member) = self.member.clone() else {
            return;
        };
        self.phase = Phase::Stable;
        self.failures = super::classic::Failures::default();
        self.held = Some((round.generation, target.clone()));
        self.tell(Event::Joined {
            generation: round.generation,
            member,
            assignor: round.assignor,
            leader: round.leader,
        });
        if self.is_stopping() {
            self.phase = Phase::Stopping;
            return;
        }
        // What we claimed and are not given is withheld for others until a join no longer claims it
        // (KIP-429).
        let owed = self.told.1.iter().any(|claim| !target.contains(claim));
        self.queue
            .aim(target, owed && self.is_cooperative(), facts.now);
        self.compare(facts);
    }
}

/// How much longer than the rebalance timeout a JoinGroup or SyncGroup may take.
const JOIN_SLACK: Duration = Duration::from_secs(5);
