//! Settings of the broker machine (routing.md 17, metadata.md 14).

use std::time::Duration;

use crate::budget::Budget;
use crate::ids::Rack;
use crate::wire::api::Isolation;

/// Everything the broker machine may be told.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Rack sent on the rack lane and in probes; `None` if unset or hints are never followed.
    pub rack: Option<Rack>,
    /// `isolation.level`, default read_uncommitted.
    pub isolation: Isolation,
    /// `fetch.max.wait.ms`, default 500 ms.
    pub max_wait: Duration,
    /// `fetch.min.bytes`, default 1.
    pub min_bytes: i32,
    /// `fetch.max.bytes`, default 16 MiB.
    pub max_bytes: i32,
    /// What the fetches of all brokers share, unlimited by default.
    pub budget: Budget,
    /// `route.hedge.ms`, default 2 s on top of `max_wait` until an unanswered Fetch makes its lane
    /// silent.
    pub hedge: Duration,
    /// `route.refuge.ms`, default 250 ms without a Ready connection until a lane with demand is
    /// silent.
    pub refuge: Duration,
    /// Time on top of `max_wait` after which an unanswered Fetch ends its connection, default 10 s.
    pub fetch_timeout: Duration,
    /// `route.session.retry.ms`, default 10 min without sessions after the broker refused one.
    pub session_retry: Duration,
    /// `route.norack.idle.ms`, default 60 s.
    pub no_rack_idle: Duration,
    /// `route.probe.timeout.ms`, default 2 s; a hedge that takes longer ends its connection, too.
    pub probe_timeout: Duration,
    /// `route.probe.batch`, default 8 partitions per probe request.
    pub probe_batch: usize,
    /// `route.probe.per.sec`, default 50 partitions per second until this link is told its share.
    /// A host that divides a [`ProbeBudget`](super::ProbeBudget) starts its links at 0.
    pub probe_per_second: f64,
    /// `route.breaker.partitions`, default 3 within the window.
    pub breaker_partitions: usize,
    /// `route.breaker.ratio`, default 0.5 of those routed here, at least 2.
    pub breaker_ratio: f64,
    /// `route.breaker.window.ms`, default 5 s.
    pub breaker_window: Duration,
    /// `route.breaker.readmit.ratio`, default 0.10 per second.
    pub breaker_readmit_ratio: f64,
    /// Clean time after the last permit until the breaker closes, 60 s.
    pub breaker_clean: Duration,
    /// `route.cooldown.transport.ms`: first step of the breaker's dial ladder, default 1 s.
    pub cooldown_base: Duration,
    /// `route.cooldown.max.ms`: cap of the breaker's dial ladder, default 5 min.
    pub cooldown_max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rack: None,
            isolation: Isolation::ReadUncommitted,
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 16 << 20,
            budget: Budget::unlimited(),
            hedge: Duration::from_secs(2),
            refuge: Duration::from_millis(250),
            fetch_timeout: Duration::from_secs(10),
            session_retry: Duration::from_secs(600),
            no_rack_idle: Duration::from_secs(60),
            probe_timeout: Duration::from_secs(2),
            probe_batch: 8,
            probe_per_second: 50.0,
            breaker_partitions: 3,
            breaker_ratio: 0.5,
            breaker_window: Duration::from_secs(5),
            breaker_readmit_ratio: 0.10,
            breaker_clean: Duration::from_secs(60),
            cooldown_base: Duration::from_secs(1),
            cooldown_max: Duration::from_secs(300),
        }
    }
}
