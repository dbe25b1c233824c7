//! Staying a member, losing the membership, leaving.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Cause;
use super::answer::{NoAnswer, open};
use super::classic::{ClassicMember, Facts, Failures, Phase, Timer, What};
use super::input::{Event, Output, To, Token};
use super::verdict::Verdict;
use crate::error::{Error, ErrorKind};
use crate::ids::{Generation, TopicName};
use crate::wire::api::{heartbeat, leave_group};
use crate::wire::{ErrorCode, Response};

impl ClassicMember {
    pub(super) fn on_answer(
        &mut self,
        token: Token,
        result: Result<Response, NoAnswer>,
        facts: Facts<'_>,
    ) {
        let Some(asked) = self.asked.remove(&token) else {
            self.tell(Event::StaleAnswer);
            return;
        };
        if matches!(result, Err(NoAnswer::Unsupported)) && asked.what != What::Leave {
            let error = ErrorCode::UNSUPPORTED_VERSION;
            if let Verdict::Fatal(kind, text) = Verdict::of(error) {
                self.fail(kind, text, error, facts);
            }
            return;
        }
        match asked.what {
            What::Find => self.on_found(token, open!(result, FindCoordinator), facts),
            What::Join => self.on_joined(token, open!(result, JoinGroup), facts),
            What::Sync => self.on_synced(token, open!(result, SyncGroup), facts),
            What::Heartbeat => {
                let answer = open!(result, Heartbeat);
                self.on_heartbeat(asked.generation, answer.map(|answer| answer.error), facts);
            }
            What::Leave => self.on_left(token),
        }
    }

    /// A heartbeat is due.
    pub(super) fn heartbeat(&mut self, facts: Facts<'_>) {
        let member_now = match self.phase {
            Phase::Waiting
            | Phase::Leading(..)
            | Phase::Stable
            | Phase::Draining
            | Phase::Stopping => true,
            Phase::Idle
            | Phase::Joining(_)
            | Phase::Syncing(..)
            | Phase::Losing
            | Phase::Leaving(_)
            | Phase::Ended => false,
        };
        let (Some(member), Some(generation)) = (self.member.clone(), self.generation) else {
            return;
        };
        if !member_now || self.is_blocked() {
            return;
        }
        self.set_timer(
            Timer::Heartbeat,
            facts.now + self.settings.heartbeat_interval,
        );
        let out = self
            .asked
            .values()
            .any(|asked| asked.what == What::Heartbeat);
        if out || self.finder.known.is_none() {
            return;
        }
        let request = heartbeat::Request {
            group: self.settings.group.clone(),
            generation,
            member,
            instance: self.settings.instance.clone(),
        };
        let timeout = self
            .settings
            .request_timeout
            .min(self.settings.session_timeout / 3);
        self.send(To::Coordinator, What::Heartbeat, request.into(), timeout);
    }

    /// The coordinator is found again: a heartbeat that was skipped meanwhile goes out now.
    pub(super) fn catch_up_heartbeat(&mut self, facts: Facts<'_>) {
        let interval = self.settings.heartbeat_interval;
        if self
            .alive_at
            .is_some_and(|alive| facts.now.since(alive) >= interval)
        {
            self.heartbeat(facts);
        }
    }

    fn on_heartbeat(
        &mut self,
        sent: Option<Generation>,
        answer: Result<ErrorCode, String>,
        facts: Facts<'_>,
    ) {
        let current = sent.is_some() && sent == self.generation;
        let error = match answer {
            Ok(error) => error,
            Err(why) => {
                self.missed = self.missed.saturating_add(1);
                self.tell(Event::Retrying {
                    what: "Heartbeat",
                    why,
                });
                if self.missed >= MISSES_MAX {
                    self.forget_coordinator();
                }
                return;
            }
        };
        if !current {
            // An error for a former generation says no more than that the group moved on (G1).
            self.tell(Event::StaleAnswer);
            if error.is_err() {
                self.rejoin_if_stable(Cause::Group, facts);
            }
            return;
        }
        self.missed = 0;
        self.coordinator_answered();
        match Verdict::of(error) {
            Verdict::Good => self.alive(facts),
            Verdict::Rejoin => {
                self.alive(facts);
                self.rejoin_if_stable(Cause::Group, facts);
            }
            Verdict::Find => self.forget_coordinator(),
            Verdict::Backoff | Verdict::TakeId | Verdict::Unexpected => {
                self.tell(Event::Retrying {
                    what: "Heartbeat",
                    why: error.to_string(),
                });
            }
            verdict @ (Verdict::LoseGeneration | Verdict::LoseId | Verdict::Fatal(..)) => {
                self.follow("Heartbeat", verdict, error, facts);
            }
        }
    }

    pub(super) fn on_refused(&mut self, sent: Generation, error: ErrorCode, facts: Facts<'_>) {
        if self.generation != Some(sent) {
            self.tell(Event::StaleAnswer);
            return;
        }
        let rejoins = matches!(self.phase, Phase::Waiting | Phase::Joining(_));
        match Verdict::of(error) {
            // The group went on while our join was out: its answer tells where we stand.
            Verdict::LoseGeneration if rejoins => self.tell(Event::StaleAnswer),
            Verdict::Rejoin => self.rejoin_if_stable(Cause::Group, facts),
            Verdict::Find => self.forget_coordinator(),
            verdict @ (Verdict::LoseGeneration | Verdict::LoseId | Verdict::Fatal(..)) => {
                self.follow("OffsetCommit", verdict, error, facts);
            }
            Verdict::Good | Verdict::Backoff | Verdict::TakeId | Verdict::Unexpected => {}
        }
    }

    fn rejoin_if_stable(&mut self, cause: Cause, facts: Facts<'_>) {
        if self.phase == Phase::Stable {
            self.prepare_join(cause, Duration::ZERO, facts);
        }
    }

    /// Does what a failed join, sync, heartbeat or commit asks for.
    pub(super) fn follow(
        &mut self,
        what: &'static str,
        verdict: Verdict,
        error: ErrorCode,
        facts: Facts<'_>,
    ) {
        match verdict {
            Verdict::Good => {}
            Verdict::Find => self.find_and_rejoin(what, error.to_string(), facts),
            Verdict::Backoff => self.rejoin_later(what, error.to_string(), facts),
            Verdict::Rejoin | Verdict::TakeId => {
                self.tell(Event::Rebalancing(Cause::Retry));
                self.phase = Phase::Waiting;
            }
            Verdict::LoseGeneration => self.lose(error, facts),
            Verdict::LoseId => {
                self.member = None;
                self.lose(error, facts);
            }
            Verdict::Fatal(kind, text) => self.fail(kind, text, error, facts),
            Verdict::Unexpected => self.endure(what, error, facts),
        }
    }

    pub(super) fn find_and_rejoin(&mut self, what: &'static str, why: String, facts: Facts<'_>) {
        self.forget_coordinator();
        self.rejoin_later(what, why, facts);
    }

    pub(super) fn rejoin_later(&mut self, what: &'static str, why: String, facts: Facts<'_>) {
        self.tell(Event::Retrying { what, why });
        self.phase = Phase::Waiting;
        let delay = self.settings.retry.delay(self.failures.count, facts.draw);
        self.failures.count = self.failures.count.saturating_add(1);
        self.delay_join(delay, facts);
    }

    /// A code outside the table: retried for a while, then surfaced.
    fn endure(&mut self, what: &'static str, error: ErrorCode, facts: Facts<'_>) {
        let since = *self.failures.unexpected_since.get_or_insert(facts.now);
        if facts.now.since(since) < UNEXPECTED_MAX {
            self.rejoin_later(what, error.to_string(), facts);
        } else {
            let text =
                "the coordinator keeps refusing the member; see the code and the broker's log";
            self.fail(ErrorKind::Group, text, error, facts);
        }
    }

    /// Expelled: everything is lost, then joined again.
    fn lose(&mut self, error: ErrorCode, facts: Facts<'_>) {
        self.tell(Event::Fenced(error));
        let delay = if self.failures.count == 0 {
            Duration::ZERO
        } else {
            self.settings.retry.delay(self.failures.count, facts.draw)
        };
        self.failures.count = self.failures.count.saturating_add(1);
        self.lose_all(Cause::Fenced, delay, facts);
    }

    fn lose_all(&mut self, cause: Cause, delay: Duration, facts: Facts<'_>) {
        self.drop_generation();
        self.queue.lose_all(facts.now);
        if self.is_stopping() {
            self.phase = Phase::Stopping;
        } else {
            self.tell(Event::Rebalancing(cause));
            self.delay_join(delay, facts);
            self.phase = Phase::Losing;
        }
    }

    fn drop_generation(&mut self) {
        self.generation = None;
        self.held = None;
        self.baseline = None;
        self.alive_at = None;
        self.stop_timers(&[Timer::Heartbeat, Timer::Topics, Timer::Late, Timer::Session]);
        self.open_starts(true);
    }

    pub(super) fn expire_session(&mut self, facts: Facts<'_>) {
        self.tell(Event::SessionExpired);
        self.forget_coordinator();
        self.lose_all(Cause::SessionExpired, Duration::ZERO, facts);
    }

    /// Over for good: everything is lost, nothing is tried again.
    pub(super) fn fail(
        &mut self,
        kind: ErrorKind,
        text: &'static str,
        error: ErrorCode,
        facts: Facts<'_>,
    ) {
        self.drop_generation();
        self.stop_timers(&Timer::ALL);
        self.asked.clear();
        self.phase = Phase::Ended;
        self.queue.lose_all(facts.now);
        let group = &self.settings.group;
        self.push(Output::Fatal(Error::new(
            kind,
            format!("group '{group}': {text} ({error})"),
        )));
    }

    /// A good answer from the coordinator: the session starts anew.
    fn alive(&mut self, facts: Facts<'_>) {
        self.alive_at = Some(facts.now);
        let session = self.settings.session_timeout;
        let late = session.saturating_sub(self.settings.heartbeat_interval);
        self.set_timer(Timer::Late, facts.now + late);
        self.set_timer(Timer::Session, facts.now + session);
        self.open_starts(true);
    }

    /// While a JoinGroup or SyncGroup is out the coordinator expels nobody, and no heartbeat
    /// leaves.
    pub(super) fn pause_session(&mut self) {
        self.stop_timers(&[Timer::Heartbeat, Timer::Late, Timer::Session]);
    }

    pub(super) fn resume_session(&mut self, facts: Facts<'_>) {
        if self.generation.is_some() || self.member.is_some() {
            self.alive(facts);
            self.set_timer(
                Timer::Heartbeat,
                facts.now + self.settings.heartbeat_interval,
            );
        }
    }

    pub(super) fn subscribe(&mut self, topics: BTreeSet<TopicName>, facts: Facts<'_>) {
        self.topics = topics;
        self.compare(facts);
    }

    pub(super) fn on_metadata(&mut self, facts: Facts<'_>) {
        self.lead_when_known(facts);
        self.compare(facts);
    }

    /// Rebalances if the topics are others than those the assignment was made for. Only the leader
    /// watches the number of partitions: every member joining for it would rebalance the group once
    /// per member.
    pub(super) fn compare(&mut self, facts: Facts<'_>) {
        if self.phase != Phase::Stable {
            return;
        }
        if self.told.0 != self.topics {
            self.prepare_join(Cause::Subscription, Duration::ZERO, facts);
            return;
        }
        let Some(baseline) = &self.baseline else {
            return;
        };
        let changed = |(topic, count): (&TopicName, &Option<usize>)| {
            let now = facts.view.partition_count(topic);
            now.is_some() && now != *count
        };
        if baseline.iter().any(changed) {
            self.prepare_join(Cause::Partitions, Duration::ZERO, facts);
        }
    }

    /// Whether a stop ends with a LeaveGroup.
    pub(super) const fn says_good_bye(&self) -> bool {
        self.settings.instance.is_none() || self.settings.leave_on_stop
    }

    /// Everything is released: says good-bye, unless the member is static and means to come back
    /// (KIP-345).
    pub(super) fn leave(&mut self, _facts: Facts<'_>) {
        self.drop_generation();
        let (Some(member), true, true) = (
            self.member.clone(),
            self.says_good_bye(),
            self.finder.known.is_some(),
        ) else {
            self.end();
            return;
        };
        let request = leave_group::Request {
            group: self.settings.group.clone(),
            member,
            instance: self.settings.instance.clone(),
            reason: self.leave_reason.clone(),
        };
        let to = if self.is_blocked() {
            To::CoordinatorControl
        } else {
            To::Coordinator
        };
        let token = self.send(to, What::Leave, request.into(), self.settings.leave_timeout);
        self.phase = Phase::Leaving(token);
    }

    fn on_left(&mut self, token: Token) {
        if self.phase == Phase::Leaving(token) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.stop_timers(&Timer::ALL);
        self.phase = Phase::Ended;
        self.failures = Failures::default();
        self.tell(Event::Left);
        self.push(Output::Left);
    }
}

/// Heartbeats without an answer in a row, after which the coordinator is looked for anew.
const MISSES_MAX: u32 = 2;
/// How long codes outside the table are endured, `default.api.timeout.ms`.
const UNEXPECTED_MAX: Duration = Duration::from_secs(60);
