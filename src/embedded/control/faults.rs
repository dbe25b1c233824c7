//! Dead, frozen and slow brokers, the network, and the fault plan.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::api::fetch;
use super::super::broker::{Health, Link};
use super::super::cluster::{Cluster, Timer};
use super::super::{Api, Rule, RuleId};
use crate::ids::{BrokerId, GroupId};

/// Faults.
impl Cluster {
    /// Kills a broker: connections close, new ones are refused, its sessions are lost. The
    /// controller notices after `broker_session`.
    pub fn kill(&mut self, broker: BrokerId) {
        let (slots, due) = (
            self.settings.fetch_session_slots,
            self.now + self.settings.broker_session,
        );
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        state.health = Health::Down;
        state.sessions = fetch::Sessions::new(slots);
        self.close_all(broker);
        self.lose_coordinator(broker);
        self.arm(Timer::Fence(broker), due);
    }

    /// Stops a broker as SIGSTOP does: it accepts everything and handles nothing until
    /// [`revive`](Self::revive). The controller notices after `broker_session`.
    pub fn freeze(&mut self, broker: BrokerId) {
        let due = self.now + self.settings.broker_session;
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        if state.health == Health::Up {
            state.health = Health::Frozen;
            self.arm(Timer::Fence(broker), due);
        }
    }

    /// Starts a killed broker, or lets a frozen one go on. Its replicas catch up and rejoin.
    pub fn revive(&mut self, broker: BrokerId) {
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        state.health = Health::Up;
        state.fenced = false;
        self.restart_followers(broker);
        self.resume(broker);
    }

    /// Gives a broker another address, as a restart in another place does. Open connections stay.
    pub fn readdress(&mut self, broker: BrokerId, host: impl Into<String>, port: u16) {
        let host = host.into();
        let listed = self.settings.brokers.iter_mut();
        let served = self.brokers.values_mut().map(|state| &mut state.settings);
        for settings in listed.chain(served).filter(|one| one.id == broker) {
            settings.host.clone_from(&host);
            settings.port = port;
        }
    }

    /// Makes the controller notice a dead broker now.
    pub fn notice(&mut self, broker: BrokerId) {
        self.fence(broker);
    }

    /// Changes the network between the clients and one broker. The cluster stays healthy. What is
    /// sent over a silent link arrives when it opens again, as TCP would retransmit it.
    pub fn set_link(&mut self, broker: BrokerId, link: Link) {
        let Some(state) = self.brokers.get_mut(&broker) else {
            return;
        };
        state.link = link;
        match link {
            Link::Open => self.release_packets(),
            Link::Refused => self.close_all(broker),
            Link::Silent => {}
        }
    }

    /// Closes every connection to a broker once.
    pub fn drop_connections(&mut self, broker: BrokerId) {
        self.close_all(broker);
    }

    /// Delays every further answer of a broker.
    pub fn set_answer_delay(&mut self, broker: BrokerId, delay: Duration) {
        if let Some(state) = self.brokers.get_mut(&broker) {
            state.answer_delay = delay;
        }
    }

    /// Limits the versions of an API that a broker serves; an empty range withdraws the API.
    pub fn limit_versions(&mut self, broker: BrokerId, api: Api, versions: RangeInclusive<i16>) {
        if let Some(state) = self.brokers.get_mut(&broker) {
            let low = api.min_version().max(*versions.start());
            state
                .versions
                .insert(api, (low, api.max_version().min(*versions.end())));
        }
    }

    /// Forgets all fetch sessions of a broker: the next incremental request gets code 70.
    pub fn evict_sessions(&mut self, broker: BrokerId) {
        let slots = self.settings.fetch_session_slots;
        if let Some(state) = self.brokers.get_mut(&broker) {
            state.sessions = fetch::Sessions::new(slots);
        }
    }

    /// Adds a rule to the fault plan.
    pub fn inject(&mut self, rule: Rule) -> RuleId {
        self.faults.inject(rule)
    }

    /// Takes a rule out of the fault plan; false if it has spent itself.
    pub fn withdraw(&mut self, rule: RuleId) -> bool {
        self.faults.withdraw(rule)
    }

    /// Empties the fault plan, denied groups included.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Every request about this group fails with GROUP_AUTHORIZATION_FAILED from now on.
    pub fn deny_group(&mut self, group: impl Into<GroupId>) {
        self.faults.deny_group(group.into());
    }
}
