//! One timer per actor, armed for the earliest of its deadlines.

use actix::prelude::*;

use crate::actors::clock::Clock;
use crate::ids::Moment;

/// Wakes an actor at its next deadline. A deadline that moves later does not touch the timer: the
/// actor is woken once too early and arms it again, which costs less than moving it on every
/// answer.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    armed: Option<(Moment, SpawnHandle)>,
}

impl Alarm {
    /// Makes sure that `wake` runs at `due` or a little earlier.
    pub(crate) fn arm<A>(
        &mut self,
        due: Option<Moment>,
        clock: Clock,
        ctx: &mut Context<A>,
        wake: fn(&mut A, &mut Context<A>),
    ) where
        A: Actor<Context = Context<A>>,
    {
        let Some(due) = due else { return };
        if let Some((armed, handle)) = self.armed {
            if armed <= due {
                return;
            }
            ctx.cancel_future(handle);
        }
        let handle = ctx.run_later(due.since(clock.now()), wake);
        self.armed = Some((due, handle));
    }

    /// Says that the timer has fired.
    pub(crate) fn fired(&mut self) {
        self.armed = None;
    }
}
