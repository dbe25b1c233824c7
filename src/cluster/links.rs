//! How the control connections stand, as told by their hosts.

use std::collections::{BTreeMap, BTreeSet};

use super::input::LinkState;
use super::output::Target;
use crate::ids::BrokerId;

/// State of every control connection; one never told about is idle.
#[derive(Debug, Default)]
pub(super) struct Links {
    states: BTreeMap<Target, LinkState>,
    /// Peers that failed since the last good refresh.
    failed: BTreeSet<Target>,
}

impl Links {
    /// Remembers `state` and returns what it replaces.
    pub(super) fn set(&mut self, target: Target, state: LinkState) -> LinkState {
        if state == LinkState::Failed {
            self.failed.insert(target);
        }
        self.states.insert(target, state).unwrap_or(LinkState::Idle)
    }

    pub(super) fn get(&self, target: Target) -> LinkState {
        self.states.get(&target).copied().unwrap_or(LinkState::Idle)
    }

    /// Whether `broker` could not be reached when it was last tried.
    pub(super) fn is_down(&self, broker: BrokerId) -> bool {
        is_down(self.get(Target::Broker(broker)))
    }

    /// Whether nothing is reachable: every one of `known` failed when it was last tried, and no
    /// connection is up or being made. Saturated, muted and silent connections are reachable ones.
    pub(super) fn all_failed(&self, known: impl IntoIterator<Item = Target>) -> bool {
        let mut known = known.into_iter().peekable();
        known.peek().is_some()
            && known.all(|target| self.failed.contains(&target))
            && self
                .states
                .values()
                .all(|state| is_down(*state) || *state == LinkState::Idle)
    }

    /// A refresh succeeded: earlier failures no longer count towards "nothing reachable".
    pub(super) fn refreshed(&mut self) {
        self.failed.clear();
    }

    /// Forgets everything: all connections are being closed.
    pub(super) fn clear(&mut self) {
        self.states.clear();
        self.failed.clear();
    }
}

/// Whether a link in this state cannot carry a request now and recently failed to.
pub(super) const fn is_down(state: LinkState) -> bool {
    match state {
        LinkState::Lost | LinkState::Failed => true,
        LinkState::Idle
        | LinkState::Connecting
        | LinkState::Ready
        | LinkState::Throttled
        | LinkState::Silent => false,
    }
}
