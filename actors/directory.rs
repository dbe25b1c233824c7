//! Who is where: the addresses that actors on several threads need.

use std::sync::{Arc, OnceLock};

use actix::prelude::Recipient;
use arc_swap::ArcSwapOption;
use dashmap::{DashMap, DashSet};

use super::broker::LinkLot;
use super::mailbox::{Outbox, Posted};
use super::metadata::Need;
use super::partition::{Lot, Note};
use super::placement::{DataThread, Placement};
use super::producer::Mail;
use crate::cluster::Target;
use crate::ids::TopicPartition;

/// The fleet's address book. Fixed parts are filled in once at the start; links come and go.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) placement: Placement,
    pub(crate) metadata: OnceLock<Recipient<Need>>,
    pub(crate) coordinator: OnceLock<Recipient<Note>>,
    pub(crate) threads: OnceLock<Vec<Recipient<Lot>>>,
    /// The producer of dead letters, in fleets that may write some. Its latest life.
    pub(crate) producer: ArcSwapOption<Recipient<Mail>>,
    pub(crate) links: DashMap<Target, Recipient<LinkLot>>,
    /// Peers whose control connection is Ready. Written by their links.
    pub(crate) ready: Arc<DashSet<Target>>,
}

impl Directory {
    /// An empty book.
    pub(crate) fn new(placement: Placement) -> Self {
        Self {
            placement,
            metadata: OnceLock::new(),
            coordinator: OnceLock::new(),
            threads: OnceLock::new(),
            producer: ArcSwapOption::empty(),
            links: DashMap::new(),
            ready: Arc::default(),
        }
    }

    /// The link to a peer, if one runs.
    pub(crate) fn link(&self, target: Target) -> Option<Recipient<LinkLot>> {
        self.links.get(&target).map(|entry| entry.value().clone())
    }
}

/// One sender's way to all data threads.
#[derive(Debug)]
pub(crate) struct Threads {
    placement: Placement,
    outboxes: Vec<Outbox<Lot>>,
}

impl Threads {
    /// The way to the threads of `directory`, which must be complete by now.
    pub(crate) fn new(directory: &Directory) -> Self {
        let threads = directory
            .threads
            .get()
            .map(Vec::as_slice)
            .unwrap_or_default();
        Self {
            placement: directory.placement.clone(),
            outboxes: threads.iter().cloned().map(Outbox::new).collect(),
        }
    }

    /// Where a partition lives.
    pub(crate) fn of(&self, partition: &TopicPartition) -> DataThread {
        self.placement.of_partition(partition)
    }

    /// Sends a lot to one thread.
    pub(crate) fn post(&mut self, thread: DataThread, lot: Lot) {
        if let Some(outbox) = self.outboxes.get_mut(thread.0) {
            outbox.post(lot);
        }
    }

    /// Sends each thread what `lot` makes for it.
    pub(crate) fn post_all(&mut self, mut lot: impl FnMut() -> Lot) {
        for outbox in &mut self.outboxes {
            outbox.post(lot());
        }
    }

    /// Splits `items` by the thread of their partition and sends each thread its share, in order.
    pub(crate) fn scatter<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        partition: impl Fn(&T) -> &TopicPartition,
        lot: impl Fn(Vec<T>) -> Lot,
    ) {
        let mut shares: Vec<Vec<T>> = self.outboxes.iter().map(|_| Vec::new()).collect();
        for item in items {
            let thread = self.of(partition(&item));
            if let Some(share) = shares.get_mut(thread.0) {
                share.push(item);
            }
        }
        for (outbox, share) in self.outboxes.iter_mut().zip(shares) {
            if !share.is_empty() {
                outbox.post(lot(share));
            }
        }
    }

    /// Offers again what did not fit; whether everything is sent now.
    pub(crate) fn flush(&mut self) -> bool {
        let mut sent = true;
        for outbox in &mut self.outboxes {
            sent &= outbox.flush() != Posted::Kept;
        }
        sent
    }
}
