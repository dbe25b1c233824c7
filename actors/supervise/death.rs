//! Noticing that an actor ended, at once and with the reason.
//!
//! actix restarts nothing after a panic, and a second panic while it unwinds would abort the
//! process. So every handler runs inside [`guarded`], which catches, marks the actor failed and
//! stops it, and every actor holds a [`DeathWatch`], whose drop reports the end however it came
//! (runtime.md S1, S2).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use actix::prelude::{Actor, ActorContext, Context};
use tokio::sync::mpsc::UnboundedSender;

use crate::ids::Incarnation;

/// Why an actor ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DeathReason {
    /// It was told to, or its work was done.
    Stopped,
    /// It panicked; the panic's text.
    Panicked(String),
}

/// The report of one actor's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Death<I> {
    /// Which actor.
    pub(crate) id: I,
    /// Which of its lives.
    pub(crate) incarnation: Incarnation,
    /// Why.
    pub(crate) reason: DeathReason,
}

/// Held by an actor; reports its end when dropped.
#[derive(Debug)]
pub(crate) struct DeathWatch<I: Clone> {
    id: I,
    incarnation: Incarnation,
    reason: DeathReason,
    // Unbounded on purpose: at most one report per life, and a drop can neither wait nor retry.
    report_to: UnboundedSender<Death<I>>,
}

impl<I: Clone> DeathWatch<I> {
    /// A watch over life `incarnation` of actor `id`.
    pub(crate) fn new(
        id: I,
        incarnation: Incarnation,
        report_to: UnboundedSender<Death<I>>,
    ) -> Self {
        Self {
            id,
            incarnation,
            reason: DeathReason::Stopped,
            report_to,
        }
    }

    fn fail(&mut self, text: String) {
        self.reason = DeathReason::Panicked(text);
    }
}

impl<I: Clone> Drop for DeathWatch<I> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.reason == DeathReason::Stopped {
            self.fail("panicked outside a guarded handler".into());
        }
        let death = Death {
            id: self.id.clone(),
            incarnation: self.incarnation,
            reason: self.reason.clone(),
        };
        // A supervisor that is gone already needs no report.
        drop(self.report_to.send(death));
    }
}

/// An actor under supervision.
pub(crate) trait Watched: Actor<Context = Context<Self>> {
    /// What names the actor to its supervisor.
    type Id: Clone;

    /// The watch it holds.
    fn watch(&mut self) -> &mut DeathWatch<Self::Id>;
}

/// Runs `work`; a panic in it marks the actor failed and stops it, and nothing unwinds into actix.
pub(crate) fn guarded<A, F>(actor: &mut A, ctx: &mut Context<A>, work: F)
where
    A: Watched,
    F: FnOnce(&mut A, &mut Context<A>),
{
    let outcome = catch_unwind(AssertUnwindSafe(|| work(actor, ctx)));
    if let Err(payload) = outcome {
        actor.watch().fail(panic_text(payload.as_ref()));
        ctx.terminate();
    }
}

/// The text of a panic, if it carried one.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without text".into())
}
