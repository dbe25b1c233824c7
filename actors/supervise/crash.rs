//! Crashing an actor on purpose: the way of a [`Victim`] to the actor it names.

use crate::actors::broker::LinkLot;
use crate::actors::directory::Directory;
use crate::actors::metadata::Need;
use crate::actors::partition::{Lot, Note};
use crate::actors::producer::Mail;
use crate::cluster::Target;
use crate::fleet::Victim;

/// Sends the victim the message it panics at; whether it could be reached.
pub(super) fn send(victim: Victim, directory: &Directory) -> bool {
    let threads = directory.threads.get();
    let first = || threads.and_then(|threads| threads.first());
    match victim {
        Victim::Link(broker) => directory
            .link(Target::Broker(broker))
            .is_some_and(|link| link.try_send(LinkLot::Crash).is_ok()),
        Victim::Metadata => directory
            .metadata
            .get()
            .is_some_and(|metadata| metadata.try_send(Need::Crash).is_ok()),
        Victim::Coordinator => directory
            .coordinator
            .get()
            .is_some_and(|coordinator| coordinator.try_send(Note::Crash).is_ok()),
        Victim::Producer => directory
            .producer
            .load()
            .as_ref()
            .is_some_and(|producer| producer.try_send(Mail::Crash).is_ok()),
        Victim::FleetSupervisor => {
            on_purpose();
            true
        }
        Victim::HandlerHost | Victim::PartitionSupervisor => {
            first().is_some_and(|thread| thread.try_send(Lot::Crash(victim)).is_ok())
        }
        Victim::Partition(partition) => {
            let place = directory.placement.of_partition(&partition).0;
            let thread = threads.and_then(|threads| threads.get(place));
            let lot = Lot::Crash(Victim::Partition(partition));
            thread.is_some_and(|thread| thread.try_send(lot).is_ok())
        }
    }
}

/// The panic itself.
pub(crate) fn on_purpose() {
    std::panic::panic_any("crashed on purpose");
}
