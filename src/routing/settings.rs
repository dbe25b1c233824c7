//! Settings of the route machine (routing.md 17), already parsed and checked.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::ids::Rack;
use crate::wire::api::Isolation;

/// Which hints are followed: `route.follow.hints`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowHints {
    /// Every hint, also those that come without a rack of our own.
    #[default]
    Always,
    /// Only while `client.rack` is set.
    Rack,
    /// None; the rack is not sent either.
    Never,
}

/// What the ISR list is worth: `route.isr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsrPolicy {
    /// Nothing is read from a replica outside the ISR view.
    #[default]
    Require,
    /// A hint outside the view is followed under a trial lease: for clusters whose lists are
    /// synthetic.
    Advise,
}

/// Whether a partition whose leader is silent is read from another in-sync replica:
/// `route.refuge`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefugePolicy {
    /// From any in-sync replica that can be reached.
    #[default]
    Isr,
    /// It waits for its leader.
    Never,
}

/// How long a failed replica is left alone: `route.cooldown.policy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CooldownPolicy {
    /// Base of the reason, doubling, with jitter and early ends.
    #[default]
    Exponential,
    /// Exactly `route.cooldown.max.ms`, for every reason, with no early end.
    Fixed,
}

/// `route.cooldown.<reason>.ms`: the first cooldown of each reason, from which the next ones double
/// up to `route.cooldown.max.ms`. The last three do not grow; unless given they last the maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CooldownBases {
    /// Default 1 s.
    pub transport: Duration,
    /// Default 1 s.
    pub not_replica: Duration,
    /// Default 30 s.
    pub storage: Duration,
    /// Default 30 s.
    pub unknown_code: Duration,
    /// Default 5 s.
    pub range: Duration,
    /// Default 10 s.
    pub slow: Duration,
    /// Default 10 s.
    pub server_error: Duration,
    /// Default the maximum.
    pub corruption: Option<Duration>,
    /// Default the maximum.
    pub authorization: Option<Duration>,
    /// Default the maximum.
    pub version: Option<Duration>,
}

impl Default for CooldownBases {
    fn default() -> Self {
        Self {
            transport: Duration::from_secs(1),
            not_replica: Duration::from_secs(1),
            storage: Duration::from_secs(30),
            unknown_code: Duration::from_secs(30),
            range: Duration::from_secs(5),
            slow: Duration::from_secs(10),
            server_error: Duration::from_secs(10),
            corruption: None,
            authorization: None,
            version: None,
        }
    }
}

/// Everything the route machine may be told. `Default` is routing.md 17.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// `client.rack`; no request carries a rack while it is `None`.
    pub client_rack: Option<Rack>,
    /// `route.follow.hints`, default always.
    pub follow_hints: FollowHints,
    /// `route.isr`, default require.
    pub isr: IsrPolicy,
    /// `isolation.level`, default read_uncommitted: which end of the log is the end.
    pub isolation: Isolation,
    /// `fetch.max.wait.ms`, default 500 ms.
    pub max_wait: Duration,
    /// `max.partition.fetch.bytes`, default 1 MiB.
    pub partition_bytes: i32,
    /// `metadata.max.age.ms`, default 5 min: caps the lease and the ladder of ISR questions.
    pub metadata_max_age: Duration,
    /// `route.lease.max.ms`, default 5 min.
    pub lease_max: Duration,
    /// `route.lease.jitter`, default 0.10, applied after the cap.
    pub lease_jitter: f64,
    /// `route.lease.trial.ms`, default 30 s.
    pub lease_trial: Duration,
    /// `route.lease.stop.factor`, default 2: the hard stop lies this many leases after the grant.
    pub lease_stop_factor: u32,
    /// `route.cooldown.policy`, default exponential.
    pub cooldown_policy: CooldownPolicy,
    /// `route.cooldown.max.ms`, default 5 min.
    pub cooldown_max: Duration,
    /// `route.cooldown.<reason>.ms`.
    pub cooldown_bases: CooldownBases,
    /// `route.cooldown.reset.ms`, default 60 s of healthy reading.
    pub cooldown_reset: Duration,
    /// `route.hint.pending.max.ms`, default 30 s.
    pub pending_max: Duration,
    /// `route.connect.grace.ms`, default 250 ms.
    pub connect_grace: Duration,
    /// `route.hedge.ms`, default 2 s on top of `max_wait`.
    pub hedge: Duration,
    /// How long a hedge may take before a refuge is sought, 500 ms.
    pub hedge_patience: Duration,
    /// `route.refuge`, default isr.
    pub refuge: RefugePolicy,
    /// On a refuge: time between probes of the leader, `route.refuge.probe.ms`, default 5 s,
    /// doubling with each return after which the leader was silent again, up to
    /// `route.refuge.probe.max.ms`, default 5 min.
    pub refuge_probe: Backoff,
    /// `route.notyet.max.ms`, default 1 s.
    pub not_yet_max: Duration,
    /// `route.notyet.hold.ms`, default 5 s.
    pub not_yet_hold: Duration,
    /// `route.flap.max`, default 3 adoptions per window.
    pub flap_max: usize,
    /// `route.flap.window.ms`, default 60 s.
    pub flap_window: Duration,
    /// Hold after a flap: 1 s doubling up to `route.flap.hold.max.ms`, default 60 s.
    pub flap_hold: Backoff,
    /// Hold after a leader hinted itself twice, 30 s.
    pub self_hint_hold: Duration,
    /// How long a former leader is not followed after the epoch rose, 1 s (KAFKA-14704).
    pub former_leader_hold: Duration,
    /// How long a passed hard stop waits for its probe after a resume, 2 s.
    pub resume_grace: Duration,
    /// While a replica cools and another one of our rack is in sync: time between probes, 30 s.
    pub alternative_probe: Duration,
    /// `route.starve.count` and `route.starve.ms`, default 3 empty answers or 1 s.
    pub starve_count: u8,
    /// `route.starve.ms`, default 1 s.
    pub starve: Duration,
    /// Hold of a starved partition: 5 s doubling up to 60 s.
    pub starve_hold: Backoff,
    /// `route.starve.quiet.ms`, default 30 s without any row of the leader until it is probed.
    pub starve_quiet: Duration,
    /// `route.stuck.ms`, default 10 s at an end that stands still until the leader is sampled.
    pub stuck: Duration,
    /// `route.stuck.probe.ms`, default 30 s between samples.
    pub stuck_probe: Duration,
    /// `route.stuck.grace.ms`, default 2 s for the replica to reach a sampled end.
    pub stuck_grace: Duration,
    /// Backoff of a leader-scoped code: 50 ms x2 up to 1 s.
    pub leader_backoff: Backoff,
    /// Backoff of server errors and unknown codes: 100 ms x2 up to 5 s.
    pub error_backoff: Backoff,
    /// Backoff of 75 and 78 on a follower: 20 ms x2 up to 500 ms.
    pub not_yet_backoff: Backoff,
    /// Backoff of a refused topic at the leader: 5 s x2 up to 60 s.
    pub authorization_backoff: Backoff,
    /// Retry of a failed probe: 1 s x2 up to 30 s.
    pub probe_backoff: Backoff,
    /// `route.hint.free.per.sec`, default 5 retries without backoff per second (metadata.md 10).
    pub free_retries: u8,
}

impl Settings {
    /// The rack that goes into requests, if one does.
    pub fn rack_sent(&self) -> Option<&Rack> {
        match self.follow_hints {
            FollowHints::Never => None,
            FollowHints::Always | FollowHints::Rack => self.client_rack.as_ref(),
        }
    }

    /// The longest lease before its jitter: `metadata.max.age.ms` or `route.lease.max.ms`.
    pub fn lease_cap(&self) -> Duration {
        self.metadata_max_age.min(self.lease_max)
    }

    /// The time after which an unanswered reading fetch is given up: `max_wait` + `hedge`.
    pub fn hedge_deadline(&self) -> Duration {
        self.max_wait + self.hedge
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            client_rack: None,
            follow_hints: FollowHints::default(),
            isr: IsrPolicy::default(),
            isolation: Isolation::default(),
            max_wait: Duration::from_millis(500),
            partition_bytes: 1 << 20,
            metadata_max_age: Duration::from_secs(300),
            lease_max: Duration::from_secs(300),
            lease_jitter: 0.10,
            lease_trial: Duration::from_secs(30),
            lease_stop_factor: 2,
            cooldown_policy: CooldownPolicy::default(),
            cooldown_max: Duration::from_secs(300),
            cooldown_bases: CooldownBases::default(),
            cooldown_reset: Duration::from_secs(60),
            pending_max: Duration::from_secs(30),
            connect_grace: Duration::from_millis(250),
            hedge: Duration::from_secs(2),
            hedge_patience: Duration::from_millis(500),
            refuge: RefugePolicy::default(),
            refuge_probe: Backoff {
                jitter: 0.0,
                ..Backoff::from_ms(5_000, 300_000)
            },
            not_yet_max: Duration::from_secs(1),
            not_yet_hold: Duration::from_secs(5),
            flap_max: 3,
            flap_window: Duration::from_secs(60),
            flap_hold: Backoff {
                base: Duration::from_secs(1),
                cap: Duration::from_secs(60),
                jitter: 0.0,
            },
            self_hint_hold: Duration::from_secs(30),
            former_leader_hold: Duration::from_secs(1),
            resume_grace: Duration::from_secs(2),
            alternative_probe: Duration::from_secs(30),
            starve_count: 3,
            starve: Duration::from_secs(1),
            starve_hold: Backoff {
                jitter: 0.0,
                ..Backoff::from_ms(5_000, 60_000)
            },
            starve_quiet: Duration::from_secs(30),
            stuck: Duration::from_secs(10),
            stuck_probe: Duration::from_secs(30),
            stuck_grace: Duration::from_secs(2),
            leader_backoff: Backoff::from_ms(50, 1_000),
            error_backoff: Backoff::from_ms(100, 5_000),
            not_yet_backoff: Backoff {
                jitter: 0.0,
                ..Backoff::from_ms(20, 500)
            },
            authorization_backoff: Backoff {
                jitter: 0.0,
                ..Backoff::from_ms(5_000, 60_000)
            },
            probe_backoff: Backoff::from_ms(1_000, 30_000),
            free_retries: 5,
        }
    }
}
