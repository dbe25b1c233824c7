//! Restart intensity, backoff and escalation: the decisions of supervision, without an actor in sight.
//!
//! A supervisor keeps one [`Budget`] per child and asks it at every death (runtime.md 12). Broker errors, outages
//! and rebalances are transitions of the machines and never get here.

use std::collections::VecDeque;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::ids::{Draw, Moment};

/// What is supervised; each level has an intensity, a window and a backoff of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Level {
    /// One partition's actor, or a handler host.
    PartitionActor,
    /// The link to one broker.
    BrokerLink,
    /// The metadata actor or a producer.
    Metadata,
    /// The coordinator of a group.
    Coordinator,
}

/// What to do about a death.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Start the child again after this time.
    Restart {
        /// Backoff with full jitter; zero is possible.
        after: Duration,
    },
    /// The child died too often: let the level above decide.
    Escalate,
}

/// The restart budget of one child.
#[derive(Clone, Debug)]
pub struct Budget {
    level: Level,
    deaths: VecDeque<Moment>,
    step: u32,
}

impl Budget {
    /// A full budget.
    pub fn new(level: Level) -> Self {
        Self {
            level,
            deaths: VecDeque::new(),
            step: 0,
        }
    }

    /// Judges a death at `now`. After five minutes without one, the budget and the backoff start afresh.
    pub fn died(&mut self, draw: Draw, now: Moment) -> Verdict {
        let Rule {
            intensity,
            window,
            backoff,
        } = self.level.rule();
        if self
            .deaths
            .back()
            .is_some_and(|last| now.since(*last) >= HEALTHY)
        {
            self.deaths.clear();
            self.step = 0;
        }
        self.deaths.retain(|at| now.since(*at) < window);
        self.deaths.push_back(now);
        if self.deaths.len() > intensity {
            return Verdict::Escalate;
        }
        let after = backoff.full_jitter(self.step, draw);
        self.step = self.step.saturating_add(1);
        Verdict::Restart { after }
    }
}

/// Restarts allowed per window, and the pause before each.
struct Rule {
    intensity: usize,
    window: Duration,
    backoff: Backoff,
}

impl Level {
    const fn rule(self) -> Rule {
        let (intensity, window_s, base_ms, cap_ms) = match self {
            Self::PartitionActor => (3, 60, 100, 30_000),
            Self::BrokerLink => (10, 60, 50, 5_000),
            Self::Metadata => (5, 60, 100, 10_000),
            Self::Coordinator => (5, 300, 100, 5_000),
        };
        Rule {
            intensity,
            window: Duration::from_secs(window_s),
            backoff: Backoff::from_ms(base_ms, cap_ms),
        }
    }
}

/// Time without a death after which a child counts as healthy.
const HEALTHY: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Draw = Draw(u64::MAX);

    fn restarts_after(verdict: Verdict) -> u128 {
        match verdict {
            Verdict::Restart { after } => after.as_millis(),
            Verdict::Escalate => panic!("escalated"),
        }
    }

    #[test]
    fn the_fourth_death_of_a_partition_within_a_minute_escalates() {
        let mut budget = Budget::new(Level::PartitionActor);
        for second in 0..3 {
            let verdict = budget.died(LAST, Moment::from_ms(second * 1_000));
            assert!(matches!(verdict, Verdict::Restart { .. }));
        }
        assert_eq!(budget.died(LAST, Moment::from_ms(3_000)), Verdict::Escalate);
    }

    #[test]
    fn deaths_outside_the_window_do_not_count() {
        let mut budget = Budget::new(Level::PartitionActor);
        for minute in 0..20 {
            let verdict = budget.died(LAST, Moment::from_ms(minute * 60_000));
            assert!(matches!(verdict, Verdict::Restart { .. }), "death {minute}");
        }
    }

    #[test]
    fn the_pause_doubles_and_falls_back_after_five_healthy_minutes() {
        let mut budget = Budget::new(Level::BrokerLink);
        assert_eq!(restarts_after(budget.died(LAST, Moment::from_ms(0))), 49);
        assert_eq!(restarts_after(budget.died(LAST, Moment::from_ms(10))), 99);
        assert_eq!(
            restarts_after(budget.died(LAST, Moment::from_ms(300_010))),
            49
        );
        assert_eq!(
            restarts_after(budget.died(Draw(0), Moment::from_ms(300_020))),
            0
        );
    }
}
