//! R1 assigned, R37 to R39 seek, pause and resume, R41 revoked.

use crate::cluster;
use crate::ids::{LeaderEpoch, Offset};
use crate::routing::event::Reason;
use crate::routing::input::Assigned;
use crate::routing::output::{Output, Resolve};
use crate::routing::refuge::seed_of;
use crate::routing::route::{Context, Gates, Route, View};
use crate::routing::state::{Position, State, Wish};
use crate::routing::timer::Timer;

impl Route {
    /// R1.
    pub(in crate::routing) fn on_assigned(&mut self, assigned: Assigned, context: Context<'_>) {
        self.assignment = assigned.assignment;
        self.seed = seed_of(&assigned.partition);
        self.incarnation = assigned.incarnation;
        self.topic_id = assigned.topic_id;
        self.cluster = View {
            leadership: assigned.leadership,
            former: None,
            isr: assigned.isr,
            isr_epoch: assigned.isr_epoch,
            replicas: assigned.replicas,
            offline: [].into(),
            version: assigned.version,
            lost: false,
        };
        self.gates = Gates::open(assigned.paused);
        self.position_generation.0 += 1;
        self.position = Position::Ready;
        match assigned.position {
            Some((offset, epoch)) => self.set_position(offset, epoch),
            None => self.resolve(Resolve::Start),
        }
        if assigned.leadership.addressable && assigned.leadership.leader.is_some() {
            self.change(State::Leader, Reason::Assigned, context);
            self.validate(None);
        } else {
            self.emit(Output::Refresh(cluster::Reason::NotLeader));
        }
    }

    /// R37: the route stays, the position is another one.
    pub(in crate::routing) fn on_seek(&mut self, offset: Offset, epoch: Option<LeaderEpoch>) {
        match self.position {
            Position::Unset => {}
            Position::Resolving | Position::Ready | Position::Validating | Position::Halted => {
                self.position_generation.0 += 1;
                self.position = Position::Ready;
                self.gates.unindexed = None;
                self.retry.served();
                self.retry.corrupt = false;
                self.timers.clear(Timer::Backoff);
                self.set_position(offset, epoch);
            }
        }
    }

    /// R39 after a pause.
    pub(in crate::routing) fn on_resume(&mut self, context: Context<'_>) {
        let was_readable = self.is_readable();
        self.gates.paused = false;
        self.on_readable(was_readable, context);
    }

    /// R39 after back-pressure.
    pub(in crate::routing) fn on_room(&mut self, room: bool, context: Context<'_>) {
        let was_readable = self.is_readable();
        self.gates.room = room;
        self.on_readable(was_readable, context);
    }

    pub(crate) fn is_readable(&self) -> bool {
        !self.gates.paused && self.gates.room
    }

    /// Reading goes on after a stop. A lease that ran out meanwhile is asked about first, so that a
    /// storm of resumes does not become a bulk read from the leader.
    fn on_readable(&mut self, was_readable: bool, context: Context<'_>) {
        if was_readable || !self.is_readable() {
            return;
        }
        // On a refuge the wish of R44 was kept, and goes out now.
        let (Some(lease), now) = (self.state.lease(), context.now) else {
            return;
        };
        if lease.ask_at <= now {
            self.want_probe(Wish::Lease);
        }
        if lease.stop_at <= now {
            self.timers
                .set(Timer::Resume, now + self.settings.resume_grace);
        }
    }

    /// R41.
    pub(in crate::routing) fn on_revoked(&mut self, context: Context<'_>) {
        self.position = Position::Unset;
        self.position_generation.0 += 1;
        self.gates.unindexed = None;
        self.gates.fenced = false;
        self.change(State::Parked, Reason::Revoked, context);
        self.forget_everything();
    }
}
