//! What can be set about metadata (metadata.md 14).

use std::time::Duration;

use crate::backoff::Backoff;

/// Settings of the [`Metadata`](super::Metadata) machine. The default is the specification's.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// `metadata.max.age.ms`: everything subscribed is asked for at least this often.
    pub age_max: Duration,
    /// `route.meta.debounce.ms`: how long an urgent need waits for company.
    pub debounce: Duration,
    /// `route.meta.attempt.ms`: an answer later than this counts as a failure.
    pub attempt: Duration,
    /// 100 ms to `route.meta.noprogress.max.ms`: pace while answers bring nothing that is wanted.
    pub no_progress: Backoff,
    /// `route.meta.unconfirmed.ms`: how long a topic or an id must be contested before we believe
    /// it.
    pub unconfirmed: Duration,
    /// `route.meta.regress.ms`: how long a lower epoch must be repeated before we believe it.
    pub regress: Duration,
    /// `route.hint.endpoints`: whether addresses in hints are used.
    pub hint_endpoints: HintEndpoints,
    /// Host suffixes trusted under [`HintEndpoints::KnownHosts`].
    pub hint_suffixes: Vec<String>,
    /// `route.hint.distrust.ms`: how long hints of a partition are ignored after they went in
    /// circles.
    pub hint_distrust: Duration,
    /// `route.cluster.change`: what to do when another cluster answers.
    pub cluster_change: ClusterChange,
    /// `metadata.recovery.strategy`.
    pub recovery: RecoveryStrategy,
    /// `metadata.recovery.rebootstrap.trigger.ms`: time without a refresh since one became due.
    pub rebootstrap_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            age_max: Duration::from_secs(300),
            debounce: Duration::from_millis(50),
            attempt: Duration::from_millis(2_000),
            no_progress: Backoff::from_ms(100, 5_000),
            unconfirmed: Duration::from_secs(30),
            regress: Duration::from_secs(30),
            hint_endpoints: HintEndpoints::Accept,
            hint_suffixes: Vec::new(),
            hint_distrust: Duration::from_secs(60),
            cluster_change: ClusterChange::Fail,
            recovery: RecoveryStrategy::Rebootstrap,
            rebootstrap_after: Duration::from_secs(300),
        }
    }
}

/// Whether addresses in hints are used (`route.hint.endpoints`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HintEndpoints {
    /// Any address.
    Accept,
    /// A host Metadata has named, or one with a configured suffix.
    KnownHosts,
    /// None: the leader's id comes from the hint, its address from Metadata.
    IdsOnly,
}

/// What to do when another cluster answers (`route.cluster.change`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterChange {
    /// Refuse the answer and stop.
    Fail,
    /// Start afresh on the other cluster.
    Follow,
}

/// What to do when the known nodes do not answer (`metadata.recovery.strategy`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryStrategy {
    /// Keep trying the known nodes.
    None,
    /// Go back to the bootstrap names (KIP-899).
    Rebootstrap,
}
