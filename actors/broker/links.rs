//! Starts the links of a fleet, and starts them again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::prelude::*;
use dashmap::DashMap;
use tokio::sync::mpsc::UnboundedSender;

use super::{BrokerLink, LinkLot, LinkParts};
use crate::actors::directory::Directory;
use crate::actors::net::Net;
use crate::actors::placement::DataThread;
use crate::actors::supervise::{Death, DeathWatch};
use crate::actors::telemetry::Telemetry;
use crate::cluster::{Endpoint, Target};
use crate::ids::{Incarnation, Rack};
use crate::routing::broker;

/// The factory of all links. It remembers where each peer is, so that a link can be started again.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) directory: Arc<Directory>,
    pub(crate) net: Net,
    pub(crate) settings: Arc<broker::Settings>,
    pub(crate) client_rack: Option<Rack>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) deaths: UnboundedSender<Death<Target>>,
    pub(crate) peers: DashMap<Target, Peer>,
    /// Whether brokers were left alone because there are too many.
    pub(crate) crowded: AtomicBool,
}

/// A peer a link leads to.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    endpoint: Endpoint,
    rack: Option<Rack>,
    incarnation: Incarnation,
}

impl Links {
    /// Makes sure that a link to the peer runs and knows its address. FindCoordinator tells no
    /// rack, so an unknown one does not replace a known one.
    pub(crate) fn ensure(&self, target: Target, endpoint: Endpoint, rack: Option<Rack>) {
        let known = self.peers.get(&target).map(|peer| peer.clone());
        let rack = rack.or_else(|| known.as_ref().and_then(|peer| peer.rack.clone()));
        match known {
            Some(peer) if peer.endpoint == endpoint && peer.rack == rack => {}
            Some(peer) => {
                let incarnation = peer.incarnation;
                let lot = LinkLot::Endpoint(endpoint.clone(), rack.clone());
                // Only what the link was told is remembered: after a full mailbox the next snapshot
                // tells it again.
                if self
                    .directory
                    .link(target)
                    .is_none_or(|link| link.try_send(lot).is_ok())
                {
                    self.peers.insert(
                        target,
                        Peer {
                            endpoint,
                            rack,
                            incarnation,
                        },
                    );
                }
            }
            None if self.peers.len() >= PEERS_MAX => self.tell_crowded(),
            None => {
                let incarnation = Incarnation(0);
                self.peers.insert(
                    target,
                    Peer {
                        endpoint,
                        rack,
                        incarnation,
                    },
                );
                self.start(target);
            }
        }
    }

    /// Who names brokers without end gets no link for each of them (wire.md 13).
    fn tell_crowded(&self) {
        if !self.crowded.swap(true, Ordering::Relaxed) {
            let detail =
                format!("more than {PEERS_MAX} brokers are named; the rest are left alone");
            self.telemetry
                .note_fault("too_many_brokers", String::new(), Some(detail));
        }
    }

    /// The same with an address from an answer that names no rack: the one known stays.
    pub(crate) fn ensure_address(&self, target: Target, endpoint: Endpoint) {
        let rack = self.peers.get(&target).and_then(|peer| peer.rack.clone());
        self.ensure(target, endpoint, rack);
    }

    /// Starts the next life of a link. Without a peer of that name nothing happens.
    pub(crate) fn start(&self, target: Target) {
        let Some(mut peer) = self.peers.get_mut(&target) else {
            return;
        };
        peer.incarnation.0 += 1;
        let parts = LinkParts {
            target,
            endpoint: peer.endpoint.clone(),
            rack: peer.rack.clone(),
            client_rack: self.client_rack.clone(),
            settings: Arc::clone(&self.settings),
            net: self.net.clone(),
            directory: Arc::clone(&self.directory),
            telemetry: Arc::clone(&self.telemetry),
            watch: DeathWatch::new(target, peer.incarnation, self.deaths.clone()),
        };
        let arbiter = self.directory.placement.arbiter(self.thread(target));
        let addr = BrokerLink::start_in_arbiter(arbiter, move |ctx| BrokerLink::build(parts, ctx));
        self.directory.links.insert(target, addr.recipient());
    }

    /// Forgets a peer and ends its link.
    pub(crate) fn remove(&self, target: Target) {
        self.peers.remove(&target);
        if let Some((_, link)) = self.directory.links.remove(&target) {
            drop(link.try_send(LinkLot::Stop));
        }
    }

    /// The latest life of a link.
    pub(crate) fn incarnation(&self, target: Target) -> Option<Incarnation> {
        self.peers.get(&target).map(|peer| peer.incarnation)
    }

    /// Sends every link the same.
    pub(crate) fn tell_all(&self, lot: impl Fn() -> LinkLot) {
        for link in &self.directory.links {
            drop(link.value().try_send(lot()));
        }
    }

    fn thread(&self, target: Target) -> DataThread {
        match target {
            Target::Broker(id) => self.directory.placement.of_broker(id),
            Target::Bootstrap(_) => DataThread(0),
        }
    }
}

/// Far more than any cluster has; a link comes to some 11 KB.
const PEERS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::placement::Placement;
    use crate::config::Config;
    use crate::ids::BrokerId;

    impl Links {
        /// Without peers, on this thread, for nobody who watches.
        pub(crate) fn alone(config: &Config) -> Self {
            Self {
                directory: Arc::new(Directory::new(Placement::single())),
                net: Net::new(config, None, None).expect("no certificates"),
                settings: Arc::new(config.broker_settings()),
                client_rack: None,
                telemetry: Telemetry::new(),
                deaths: tokio::sync::mpsc::unbounded_channel().0,
                peers: DashMap::new(),
                crowded: AtomicBool::new(false),
            }
        }
    }

    #[test]
    fn who_names_brokers_without_end_gets_no_link_for_each() {
        System::new().block_on(async {
            let links = Links::alone(&Config::default());
            let ensure = |id| {
                let endpoint = Endpoint::new("broker".to_owned(), 9_092);
                links.ensure(Target::Broker(BrokerId(id)), endpoint, None);
            };
            (0..4_096).for_each(ensure);
            assert!(links.telemetry.report().diagnostics.is_empty());
            (4_000..10_000).for_each(ensure);
            assert_eq!(links.directory.links.len(), 4_096);
            let told = links.telemetry.report().diagnostics;
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].name, "too_many_brokers");
        });
    }
}
