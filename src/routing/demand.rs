//! Keeps what stands at the broker links in step with what the route wants.
//!
//! Transitions never send a fetch: they change the state, and this file compares what should stand
//! at a link with what does. So there is one reading fetch at most, on the lane of the state,
//! whatever the order of inputs.

use super::output::{Demand, Output};
use super::route::{Awaits, Context, Route};
use super::stamp::{Kind, Lane, Role};
use super::state::{Position, Probe, State, Until, Wish};
use super::timer::Timer;
use crate::ids::BrokerId;
use crate::invariants;

/// What stands at a broker link in our name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Registered {
    /// Nothing.
    None,
    /// A demand; its fetch may be in flight.
    Standing(Demand),
    /// A demand whose row came: the link holds its lane until we want again or withdraw.
    Consumed(BrokerId, Lane),
    /// A demand we take back, though a row in flight is still welcome.
    Draining(Demand),
}

impl Registered {
    pub(super) const fn standing(&self) -> Option<&Demand> {
        match self {
            Self::Standing(demand) => Some(demand),
            Self::None | Self::Consumed(..) | Self::Draining(_) => None,
        }
    }

    pub(super) const fn may_be_in_flight(&self) -> bool {
        match self {
            Self::Standing(_) | Self::Draining(_) => true,
            Self::None | Self::Consumed(..) => false,
        }
    }

    /// Where it stands.
    pub(super) const fn place(&self) -> Option<(BrokerId, Lane)> {
        match self {
            Self::None => None,
            Self::Standing(demand) | Self::Draining(demand) => {
                Some((demand.stamp.broker, demand.stamp.lane))
            }
            Self::Consumed(broker, lane) => Some((*broker, *lane)),
        }
    }
}

/// Why nothing is to be fetched now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Block {
    /// Nothing fetched now could be used.
    Useless,
    /// A row in flight is welcome, further ones are not.
    Enough,
    /// Only for a moment: the link may hold its lane for us.
    Brief,
}

impl Route {
    /// The end of every call: brings demand and probe in step with the state.
    pub(super) fn settle(&mut self, stays: bool, context: Context<'_>) {
        if !stays {
            self.leave_legacy(context);
        }
        self.recall_stale_hedge();
        self.stop_waiting(context);
        self.judge_silence(stays, context);
        match self.desired() {
            Ok(demand) => self.want(demand),
            Err(block) => self.release(block),
        }
        self.keep_asking(context);
        self.send_probe(context);
        self.watch_rows(context);
        self.watch_end(context);
        debug_assert!(invariants::routing::demand_is_lawful(self, context.now));
    }

    /// A leader found to compute no hints needs no lane that avoids them.
    fn leave_legacy(&mut self, context: Context<'_>) {
        if let (State::Forced { .. }, Some(leader)) = (self.state, self.leader())
            && context.brokers.is_legacy(leader)
        {
            self.change(State::Leader, super::event::Reason::HoldEnded, context);
        }
    }

    /// Whether a fetch is to stand now.
    pub(super) fn wants_fetch(&self) -> bool {
        self.desired().is_ok()
    }

    fn desired(&self) -> Result<Demand, Block> {
        let Some((broker, lane)) = self.served else {
            return Err(Block::Useless);
        };
        if self.position != Position::Ready || self.gates.fenced {
            return Err(Block::Useless);
        }
        let connecting = self.state == State::Leader
            && self
                .pending
                .is_some_and(|pending| pending.awaits == Awaits::Link);
        let waiting = self.timers.is_set(Timer::Backoff) || self.timers.is_set(Timer::Resume);
        if self.deferred.is_some() || connecting || waiting || self.gates.paused {
            return Err(Block::Enough);
        }
        if self.gates.unindexed.is_some() || !self.gates.room {
            return Err(Block::Brief);
        }
        let role = match self.state.follower() {
            Some(_) => Role::Follower,
            None => Role::Leader,
        };
        Ok(self.demand(broker, lane, role, Kind::Reading))
    }

    fn demand(&self, broker: BrokerId, lane: Lane, role: Role, kind: Kind) -> Demand {
        let omit = self.retry.omit_epoch && kind == Kind::Reading;
        Demand {
            stamp: self.stamp(broker, lane, role, kind),
            topic_id: self.topic_id,
            last_fetched_epoch: self.fetched_epoch.filter(|_| !omit),
            max_bytes: self.retry.limit,
        }
    }

    fn want(&mut self, demand: Demand) {
        if self.registered == Registered::Standing(demand) {
            return;
        }
        let place = (demand.stamp.broker, demand.stamp.lane);
        if self.registered.place().is_some_and(|old| old != place) {
            self.withdraw();
        }
        self.registered = Registered::Standing(demand);
        self.emit(Output::Want(demand));
    }

    fn release(&mut self, block: Block) {
        let moved = self
            .registered
            .place()
            .is_some_and(|place| Some(place) != self.served);
        match (block, self.registered) {
            (_, Registered::None) => {}
            (Block::Useless, _) => self.withdraw(),
            (Block::Enough | Block::Brief, _) if moved => self.withdraw(),
            (Block::Enough | Block::Brief, Registered::Standing(demand)) => {
                self.registered = Registered::Draining(demand);
                let (broker, lane) = (demand.stamp.broker, demand.stamp.lane);
                self.emit(Output::Drain { broker, lane });
            }
            (Block::Enough, Registered::Consumed(..)) => self.withdraw(),
            (Block::Enough | Block::Brief, Registered::Draining(_))
            | (Block::Brief, Registered::Consumed(..)) => {}
        }
    }

    fn withdraw(&mut self) {
        if let Some((broker, lane)) = self.registered.place() {
            self.emit(Output::Withdraw { broker, lane });
        }
        self.registered = Registered::None;
    }

    /// A change waits for the row in flight no longer once that row can be of no use.
    fn stop_waiting(&mut self, context: Context<'_>) {
        let useful = match self.registered {
            Registered::Standing(demand) | Registered::Draining(demand) => {
                demand.stamp.position == self.position_generation
            }
            Registered::None | Registered::Consumed(..) => false,
        };
        if !useful {
            self.apply_deferred(context);
        }
    }

    /// A hold that only a probe can end has one, whatever became of the last; and an epoch that was
    /// fenced is asked about until it rises, whatever ended the pause in between.
    fn keep_asking(&mut self, context: Context<'_>) {
        if self.gates.fenced && self.served.is_some() && !self.timers.is_set(Timer::Backoff) {
            self.fence(context);
        }
        let decided = self.pending.is_some() || self.deferred.is_some();
        match self.state {
            State::Forced {
                until: Until::Probe,
                ..
            } if !decided => self.want_probe(Wish::HoldEnded),
            State::Forced { .. } | State::Parked | State::Leader | State::Follower { .. } => {}
        }
    }

    fn send_probe(&mut self, context: Context<'_>) {
        let Some(leader) = self.leader() else {
            return;
        };
        self.recall_stale_probe();
        let Probe::Wanted(wish) = self.probe else {
            return;
        };
        let possible = self.position == Position::Ready
            && !self.gates.paused
            && self.gates.room
            && self.state != State::Parked
            && !self.timers.is_set(Timer::ProbeRetry)
            && !context.brokers.is_legacy(leader);
        if possible {
            self.probe_id.0 = self.probe_id.0.wrapping_add(1);
            let id = self.probe_id;
            self.probe = Probe::InFlight(id, wish);
            let question = self.demand(leader, Lane::Rack, Role::Leader, Kind::Probe(id));
            self.probed = Some((leader, self.position_generation));
            self.emit(Output::Probe { question, wish });
        }
    }

    /// The leader is asked for records on the connection that no long poll holds up.
    pub(super) fn send_hedge(&mut self, leader: BrokerId, context: Context<'_>) {
        let lane = match context.brokers.is_v10(leader) {
            true => Lane::V10,
            false => Lane::NoRack,
        };
        self.hedge.id.0 = self.hedge.id.0.wrapping_add(1);
        self.hedge.out = Some((leader, self.position_generation));
        let question = self.demand(leader, lane, Role::Leader, Kind::Hedge(self.hedge.id));
        let patience = self.settings.hedge_patience;
        self.timers.set(Timer::Hedge, context.now + patience);
        self.emit(Output::Hedge { question });
    }

    /// A hedge about another position could only be dropped.
    fn recall_stale_hedge(&mut self) {
        if self
            .hedge
            .out
            .is_some_and(|(_, generation)| generation != self.position_generation)
        {
            self.drop_hedge("dropped");
        }
    }

    /// A probe about another position could only be dropped: ask anew.
    fn recall_stale_probe(&mut self) {
        if let (Probe::InFlight(_, wish), Some((broker, generation))) = (self.probe, self.probed)
            && generation != self.position_generation
        {
            self.probe = Probe::Wanted(wish);
            self.emit(Output::CancelProbe { broker });
        }
    }
}
