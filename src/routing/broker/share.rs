//! The probe budget of one client, divided among its links (routing.md 8.2).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ids::{BrokerId, Moment};

/// What a link tells of its probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProbeNeed {
    /// Follower routes that read from this broker, in steps.
    pub followers: usize,
    /// Whether probes wait or run here, or did a moment ago.
    pub waiting: bool,
}

/// What a link may send.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ProbeShare {
    /// Partitions per second from now on, saved up for one second at most.
    pub per_second: f64,
    /// Partitions at once, besides.
    pub tokens: f64,
}

/// The token bucket of one client. While no link has probes it fills up to one second's worth; the
/// first link with probes gets what is in it, and what flows in is divided among all that have
/// some. So all links together keep to the rate and to the burst of one bucket.
#[derive(Clone, Debug)]
pub struct ProbeBudget {
    per_second: f64,
    lease: Duration,
    links: BTreeMap<BrokerId, (ProbeNeed, f64)>,
    tokens: f64,
    filled_at: Moment,
}

impl ProbeBudget {
    /// A full bucket of `route.probe.per.sec`; follower routes whose leases last `lease` at most
    /// raise the rate as far as they need it to be renewed in half that time.
    pub fn new(per_second: f64, lease: Duration) -> Self {
        Self {
            per_second,
            lease,
            links: BTreeMap::new(),
            tokens: per_second,
            filled_at: Moment::ZERO,
        }
    }

    /// Partitions per second of the whole client.
    pub fn rate(&self) -> f64 {
        let followers: usize = self.links.values().map(|(need, _)| need.followers).sum();
        #[expect(clippy::cast_precision_loss, reason = "a count of partitions")]
        let renewals = 2.0 * followers as f64 / self.lease.as_secs_f64().max(1.0);
        self.per_second.max(renewals)
    }

    /// Takes what the link of `broker` tells, and returns the shares to tell: always its own, and
    /// those that changed by it, the lowered ones first.
    pub fn report(
        &mut self,
        broker: BrokerId,
        need: ProbeNeed,
        now: Moment,
    ) -> Vec<(BrokerId, ProbeShare)> {
        self.fill(now);
        let before = self.links.get(&broker).map_or(0.0, |(_, share)| *share);
        self.links.insert(broker, (need, before));
        let tokens = match need.waiting && before <= 0.0 {
            true => std::mem::take(&mut self.tokens),
            false => 0.0,
        };
        self.divide(Some(broker), tokens)
    }

    /// Forgets the link of `broker`; returns the shares that changed by it.
    pub fn forget(&mut self, broker: BrokerId, now: Moment) -> Vec<(BrokerId, ProbeShare)> {
        self.fill(now);
        self.links.remove(&broker);
        self.divide(None, 0.0)
    }

    fn fill(&mut self, now: Moment) {
        let rate = self.rate();
        if !self.links.values().any(|(need, _)| need.waiting) {
            let earned = now.since(self.filled_at).as_secs_f64() * rate;
            self.tokens = (self.tokens + earned).min(rate);
        }
        self.filled_at = now;
    }

    fn divide(&mut self, told: Option<BrokerId>, tokens: f64) -> Vec<(BrokerId, ProbeShare)> {
        let waiting = self.links.values().filter(|(need, _)| need.waiting).count();
        #[expect(clippy::cast_precision_loss, reason = "a count of brokers")]
        let share = self.rate() / waiting.max(1) as f64;
        let mut changed = Vec::new();
        for (broker, (need, before)) in &mut self.links {
            let per_second = if need.waiting { share } else { 0.0 };
            let is_teller = told == Some(*broker);
            if is_teller || (per_second - *before).abs() > f64::EPSILON {
                let rises = per_second > *before;
                let tokens = if is_teller { tokens } else { 0.0 };
                changed.push((rises, *broker, ProbeShare { per_second, tokens }));
            }
            *before = per_second;
        }
        changed.sort_by_key(|(rises, broker, _)| (*rises, *broker));
        let shares = changed.into_iter();
        shares.map(|(_, broker, share)| (broker, share)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITING: ProbeNeed = ProbeNeed {
        followers: 0,
        waiting: true,
    };

    fn budget() -> ProbeBudget {
        ProbeBudget::new(50.0, Duration::from_secs(300))
    }

    fn share(per_second: f64, tokens: f64) -> ProbeShare {
        ProbeShare { per_second, tokens }
    }

    #[test]
    fn the_first_link_gets_the_bucket_and_later_ones_a_part_of_what_flows_in() {
        let mut budget = budget();
        let (one, two) = (BrokerId(1), BrokerId(2));
        let now = Moment::from_ms(10_000);
        assert_eq!(budget.report(one, WAITING, now), [(one, share(50.0, 50.0))]);
        let halves = [(one, share(25.0, 0.0)), (two, share(25.0, 0.0))];
        assert_eq!(budget.report(two, WAITING, now), halves);
        let done = budget.report(one, ProbeNeed::default(), now);
        assert_eq!(done, [(one, share(0.0, 0.0)), (two, share(50.0, 0.0))]);
    }

    #[test]
    fn the_bucket_fills_only_while_nobody_draws_from_it() {
        let mut budget = budget();
        let one = BrokerId(1);
        let at = |ms| Moment::from_ms(ms);
        budget.report(one, WAITING, at(0));
        budget.report(one, ProbeNeed::default(), at(10_000));
        let again = budget.report(one, WAITING, at(10_500));
        assert_eq!(again, [(one, share(50.0, 25.0))]);
        budget.report(one, ProbeNeed::default(), at(11_000));
        let again = budget.report(one, WAITING, at(60_000));
        assert_eq!(again, [(one, share(50.0, 50.0))]);
    }

    #[test]
    fn many_follower_routes_raise_the_rate_and_a_link_that_is_gone_lowers_it() {
        let mut budget = budget();
        let need = ProbeNeed {
            followers: 15_000,
            waiting: true,
        };
        budget.report(BrokerId(2), need, Moment::ZERO);
        assert!((budget.rate() - 100.0).abs() < 1e-9);
        budget.report(BrokerId(1), WAITING, Moment::ZERO);
        let left = budget.forget(BrokerId(2), Moment::ZERO);
        assert_eq!(left, [], "half of a hundred is fifty");
        assert!((budget.rate() - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_repeated_report_is_answered_again() {
        let mut budget = budget();
        let one = BrokerId(1);
        budget.report(one, WAITING, Moment::ZERO);
        let again = budget.report(one, WAITING, Moment::ZERO);
        assert_eq!(again, [(one, share(50.0, 0.0))]);
    }
}
