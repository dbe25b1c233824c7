//! Restart intensity, backoff and escalation: the decisions of supervision, without an actor in
//! sight.
//!
//! A supervisor keeps one [`Budget`] per child and asks it at every death (runtime.md 12). Broker
//! errors, outages and rebalances are transitions of the machines and never get here.

use std::collections::VecDeque;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::ids::{Draw, Moment};

/// What is supervised; each level has an intensity, a window and a backoff of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Level {
    /// The actor of one partition.
    PartitionActor,
    /// The handler host of a data arbiter.
    HandlerHost,
    /// The link to one broker.
    BrokerLink,
    /// The admin server.
    Admin,
    /// The metadata actor.
    Metadata,
    /// The producer, and with it dead letters.
    Producer,
    /// The coordinator actor of a group.
    Coordinator,
    /// A whole thread of actors.
    DataArbiter,
    /// A member with everything below it.
    Member,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 9] = [
        Self::PartitionActor,
        Self::HandlerHost,
        Self::BrokerLink,
        Self::Admin,
        Self::Metadata,
        Self::Producer,
        Self::Coordinator,
        Self::DataArbiter,
        Self::Member,
    ];

    /// How often and how fast this level restarts.
    pub const fn policy(self) -> Policy {
        match self {
            Self::PartitionActor => policy(3, 60, Some((100, 30_000)), Escalation::PartitionFailed),
            Self::HandlerHost => policy(3, 60, Some((100, 30_000)), Escalation::ReplaceArbiter),
            Self::BrokerLink | Self::Admin => policy(10, 60, Some((50, 5_000)), Escalation::Event),
            Self::Metadata => policy(5, 60, Some((100, 10_000)), Escalation::StopFleet),
            Self::Producer => policy(5, 60, Some((100, 10_000)), Escalation::DeadLetterDown),
            Self::Coordinator => policy(5, 300, Some((100, 5_000)), Escalation::RestartMember),
            Self::DataArbiter => policy(1, 600, None, Escalation::NotAlive),
            Self::Member => policy(3, 900, Some((1_000, 60_000)), Escalation::StopFleet),
        }
    }
}

/// Restart rules of a level.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Policy {
    /// Restarts allowed within the window.
    pub intensity: u32,
    /// The window.
    pub window: Duration,
    /// Delay before a restart, with full jitter; `None` restarts at once.
    pub backoff: Option<Backoff>,
    /// What happens beyond the intensity.
    pub on_excess: Escalation,
}

/// What a supervisor does about a child that dies too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escalation {
    /// The partition is failed; the others go on.
    PartitionFailed,
    /// The thread is replaced and its partitions are handed over.
    ReplaceArbiter,
    /// An event tells it; other replicas serve, the child stays down until its next use.
    Event,
    /// Gate `DeadLetterDown` closes for new records, health turns red.
    DeadLetterDown,
    /// The member leaves the group and joins anew.
    RestartMember,
    /// The fleet stops with a reason.
    StopFleet,
    /// Liveness turns red: only a new process helps.
    NotAlive,
}

/// What to do about a death.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Start the child again after this time.
    Restart {
        /// Backoff with full jitter; zero is possible.
        after: Duration,
    },
    /// The child died too often; its level says what follows ([`Policy::on_excess`]).
    Escalate,
}

/// The restart budget of one child.
#[derive(Clone, Debug)]
pub struct Budget {
    policy: Policy,
    deaths: VecDeque<Moment>,
}

impl Budget {
    /// A full budget.
    pub const fn new(level: Level) -> Self {
        Self {
            policy: level.policy(),
            deaths: VecDeque::new(),
        }
    }

    /// Judges a death at `now` that nobody ordered. After five minutes without one the budget is
    /// full again.
    pub fn died(&mut self, draw: Draw, now: Moment) -> Verdict {
        let step = self.recent(now);
        if step >= self.policy.intensity {
            // Whoever takes over starts the child with a clean record.
            self.deaths.clear();
            return Verdict::Escalate;
        }
        while self
            .deaths
            .front()
            .is_some_and(|death| !self.counts(*death, now))
        {
            self.deaths.pop_front();
        }
        self.deaths.push_back(now);
        let delay = |backoff: Backoff| backoff.full_jitter(step, draw);
        Verdict::Restart {
            after: self.policy.backoff.map_or(Duration::ZERO, delay),
        }
    }

    /// Deaths that still count at `now`.
    pub fn recent(&self, now: Moment) -> u32 {
        let recent = self
            .deaths
            .iter()
            .filter(|death| self.counts(**death, now))
            .count();
        u32::try_from(recent).unwrap_or(u32::MAX)
    }

    /// Whether a death lies in the window and no long health came after the last one.
    fn counts(&self, death: Moment, now: Moment) -> bool {
        let healthy = self
            .deaths
            .back()
            .is_some_and(|last| now.since(*last) >= HEALTH);
        !healthy && now.since(death) < self.policy.window
    }
}

/// The failed partitions of a member: many in a short time are the member's own trouble (runtime.md
/// S4).
#[derive(Clone, Debug, Default)]
pub struct FailedPartitions {
    failures: VecDeque<Moment>,
}

impl FailedPartitions {
    /// Notes that one of `assigned` partitions failed at `now`; true if the member is to be
    /// restarted.
    pub fn failed(&mut self, assigned: usize, now: Moment) -> bool {
        while self
            .failures
            .front()
            .is_some_and(|at| now.since(*at) >= HEALTH)
        {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
        let failed = self.failures.len();
        let escalate = failed >= FAILED_MIN && failed.saturating_mul(10) > assigned;
        if escalate {
            self.failures.clear();
        }
        escalate
    }
}

const fn policy(
    intensity: u32,
    window_s: u64,
    backoff_ms: Option<(u64, u64)>,
    on_excess: Escalation,
) -> Policy {
    let backoff = match backoff_ms {
        Some((base, cap)) => Some(Backoff::from_ms(base, cap)),
        None => None,
    };
    Policy {
        intensity,
        window: Duration::from_secs(window_s),
        backoff,
        on_excess,
    }
}

/// Health after which earlier deaths are forgotten, and the window of failed partitions.
const HEALTH: Duration = Duration::from_secs(300);
/// Failed partitions that never make a member's own trouble.
const FAILED_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Draw = Draw(u64::MAX);

    /// Milliseconds until the restart, `None` if there is none.
    fn crash(budget: &mut Budget, at_ms: u64) -> Option<u128> {
        match budget.died(LONGEST, Moment::from_ms(at_ms)) {
            Verdict::Restart { after } => Some(after.as_micros().div_ceil(1_000)),
            Verdict::Escalate => None,
        }
    }

    #[test]
    fn the_delay_doubles_and_the_death_beyond_the_intensity_escalates() {
        let mut budget = Budget::new(Level::PartitionActor);
        let delays: Vec<_> = (0..4).map(|n| crash(&mut budget, n * 1_000)).collect();
        assert_eq!(delays, [Some(100), Some(200), Some(400), None]);
        assert_eq!(
            crash(&mut budget, 5_000),
            Some(100),
            "a new child has a clean record"
        );
    }

    #[test]
    fn jitter_is_full() {
        let verdict = Budget::new(Level::Member).died(Draw(0), Moment::ZERO);
        assert_eq!(
            verdict,
            Verdict::Restart {
                after: Duration::ZERO
            }
        );
    }

    #[test]
    fn deaths_outside_the_window_do_not_count() {
        let mut budget = Budget::new(Level::PartitionActor);
        for n in 0..20 {
            assert!(
                crash(&mut budget, n * 21_000).is_some(),
                "three in a minute are allowed"
            );
        }
        assert!(budget.deaths.len() <= 3);
    }

    #[test]
    fn five_minutes_of_health_empty_a_long_window() {
        let mut budget = Budget::new(Level::Member);
        for n in 0..3 {
            assert!(crash(&mut budget, n * 1_000).is_some());
        }
        assert_eq!(budget.recent(Moment::from_ms(301_000)), 3);
        assert_eq!(budget.recent(Moment::from_ms(302_000)), 0);
        assert_eq!(crash(&mut budget, 302_000), Some(1_000));
    }

    #[test]
    fn an_arbiter_is_replaced_at_once_and_only_once() {
        let mut budget = Budget::new(Level::DataArbiter);
        assert_eq!(crash(&mut budget, 0), Some(0));
        assert_eq!(crash(&mut budget, 299_000), None);
        assert_eq!(Level::DataArbiter.policy().on_excess, Escalation::NotAlive);
    }

    #[test]
    fn every_level_restarts_before_it_escalates() {
        for level in Level::ALL {
            let intensity = level.policy().intensity;
            let mut budget = Budget::new(level);
            for n in 0..intensity {
                assert!(crash(&mut budget, u64::from(n)).is_some(), "{level:?}");
            }
            assert_eq!(crash(&mut budget, u64::from(intensity)), None, "{level:?}");
        }
    }

    #[test]
    fn failed_partitions_escalate_above_a_tenth_and_from_three_on() {
        let at = Moment::from_ms;
        let mut few = FailedPartitions::default();
        assert_eq!(
            [0, 1, 2].map(|n| few.failed(4, at(n))),
            [false, false, true]
        );
        let mut many = FailedPartitions::default();
        let decisions: Vec<_> = (0..11).map(|n| many.failed(100, at(n))).collect();
        assert_eq!(decisions.iter().position(|escalate| *escalate), Some(10));
        let mut slow = FailedPartitions::default();
        assert!(
            (0..50).all(|n| !slow.failed(4, at(n * 200_000))),
            "two in five minutes are few"
        );
    }
}
