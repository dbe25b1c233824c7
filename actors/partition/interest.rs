//! What a partition wants to hear of: news that concern others cost it nothing.

use std::cell::{Cell, RefCell};

use crate::ids::BrokerId;
use crate::routing::Route;

/// Written by the partition's actor after every input, read by the supervisor of its thread.
#[derive(Debug)]
pub(crate) struct Interest {
    /// Nothing was published yet by this life.
    all: Cell<bool>,
    versions: Cell<bool>,
    brokers: RefCell<Vec<BrokerId>>,
}

impl Interest {
    /// Of a route that nothing is known of.
    pub(super) fn new() -> Self {
        Self {
            all: Cell::new(true),
            versions: Cell::new(true),
            brokers: RefCell::default(),
        }
    }

    /// A new life begins, of which nothing is known.
    pub(super) fn reset(&self) {
        self.all.set(true);
    }

    /// What the route wants from now on.
    pub(super) fn publish(&self, route: &Route) {
        self.all.set(false);
        self.versions.set(route.watches_versions());
        let mut brokers = self.brokers.borrow_mut();
        brokers.clear();
        brokers.extend(route.concerned());
    }

    /// Whether news of this broker matter.
    pub(super) fn heeds(&self, broker: BrokerId) -> bool {
        self.all.get() || self.brokers.borrow().contains(&broker)
    }

    /// Whether a new metadata version matters (metadata.md 7).
    pub(super) fn heeds_versions(&self) -> bool {
        self.all.get() || self.versions.get()
    }
}
