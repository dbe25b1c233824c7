//! The life of the producer actor: started with the fleet, started again when it dies.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::mpsc::UnboundedSender;

use super::death::{Death, DeathReason, DeathWatch};
use super::fleet::FleetSupervisor;
use crate::actors::partition::Lot;
use crate::actors::producer::{Mail, ProducerActor, ProducerParts};
use crate::actors::telemetry::bump;
use crate::fleet::Event;
use crate::ids::Incarnation;
use crate::supervision::{Budget, Level, Verdict};

/// The factory of the producer actor, and its restart budget.
pub(super) struct ProducerCrew {
    parts: ProducerParts,
    deaths: UnboundedSender<Death<&'static str>>,
    incarnation: Incarnation,
    budget: Budget,
}

impl ProducerCrew {
    /// A crew whose actors report their deaths to `deaths`.
    pub(super) fn new(parts: ProducerParts, deaths: UnboundedSender<Death<&'static str>>) -> Self {
        Self {
            parts,
            deaths,
            incarnation: Incarnation(0),
            budget: Budget::new(Level::Producer),
        }
    }

    /// Starts the next life on the calling thread.
    pub(super) fn start(&mut self) {
        self.incarnation.0 += 1;
        let watch = DeathWatch::new(NAME, self.incarnation, self.deaths.clone());
        let parts = self.parts.clone();
        let addr = ProducerActor::create(|ctx| ProducerActor::build(parts, watch, ctx));
        // What is missing later is waited for.
        self.parts.letters.required.clear();
        let directory = &self.parts.links.directory;
        directory.producer.store(Some(Arc::new(addr.recipient())));
    }

    /// Ends it. It holds its own address, and the thread it lives on may outlast the fleet.
    pub(super) fn stop(&self) {
        if let Some(producer) = self.parts.links.directory.producer.swap(None) {
            #[expect(
                clippy::disallowed_methods,
                reason = "nobody is left to try again, and it is the last message"
            )]
            producer.do_send(Mail::Stop);
        }
    }
}

impl FleetSupervisor {
    /// The producer died. Nothing it had not told is finished: once it is back the partitions send
    /// their letters again.
    fn producer_died(&mut self, death: Death<&'static str>, ctx: &mut Context<Self>) {
        let DeathReason::Panicked(reason) = death.reason else {
            return;
        };
        let (draw, now) = (self.entropy.draw(), self.clock.now());
        let Some(crew) = self.producer.as_mut().filter(|_| !self.finished) else {
            return;
        };
        bump(&self.telemetry.counts.restarts, 1);
        let after = match crew.budget.died(draw, now) {
            Verdict::Restart { after } => after,
            Verdict::Escalate => {
                let detail = format!("the {NAME} died too often: {reason}");
                self.telemetry.note_fault(FAULT, NAME.into(), Some(detail));
                PAUSE
            }
        };
        let actor = NAME.to_owned();
        self.telemetry.emit(Event::ActorRestarted { actor, reason });
        ctx.run_later(after, Self::restart_producer);
    }

    fn restart_producer(&mut self, ctx: &mut Context<Self>) {
        if let Some(crew) = self.producer.as_mut().filter(|_| !self.finished) {
            crew.start();
            // Its next life tells anew what is still wrong.
            self.telemetry.clear_faults(FAULT);
            self.threads.post_all(|| Lot::LettersLost);
            self.flush(ctx);
        }
    }
}

impl StreamHandler<Death<&'static str>> for FleetSupervisor {
    fn handle(&mut self, death: Death<&'static str>, ctx: &mut Self::Context) {
        self.producer_died(death, ctx);
    }

    // The crew holds a sender; the stream ends with it.
    fn finished(&mut self, _: &mut Self::Context) {}
}

const NAME: &str = "producer of dead letters";
const FAULT: &str = "dead_letter_down";
/// Pause of a producer that used up its restarts.
const PAUSE: Duration = Duration::from_secs(60);
