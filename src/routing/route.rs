//! The route machine: one per assigned partition.

use std::collections::VecDeque;
use std::sync::Arc;

use super::cooldown::Ledger;
use super::demand::Registered;
use super::facts::Brokers;
use super::input::{Input, Leadership};
use super::marks::{CaughtUp, Lag, Watermarks};
use super::output::{Count, Demand, Output};
use super::refuge::{Absence, Candidate};
use super::retry::Retry;
use super::settings::Settings;
use super::stamp::{Current, HedgeId, Kind, Lane, ProbeId, Role, Stamp};
use super::state::{Position, Probe, State, Why};
use super::timer::{Timer, Timers};
use super::watch::Watch;
use crate::ids::{
    AssignmentEpoch, BrokerId, Draw, LeaderEpoch, MetadataVersion, Moment, Offset,
    PositionGeneration, RouteGeneration, TopicId, TopicIncarnation,
};

/// Decides from which broker one partition is read.
///
/// Give it one input, then drain [`poll_output`](Self::poll_output) until `None`; hand in
/// [`Input::Tick`] when
/// [`next_deadline`](Self::next_deadline) has passed. See the [module](super) for the duties of
/// its host.
#[derive(Clone, Debug)]
pub struct Route {
    pub(super) settings: Arc<Settings>,
    pub(super) assignment: AssignmentEpoch,
    pub(super) incarnation: TopicIncarnation,
    pub(super) topic_id: Option<TopicId>,
    /// The partition's name, as far as refuges are chosen by it.
    pub(super) seed: u64,
    pub(super) cluster: View,
    pub(super) state: State,
    pub(super) since: Moment,
    pub(super) generation: RouteGeneration,
    pub(super) served: Option<(BrokerId, Lane)>,
    pub(super) deferred: Option<Box<Deferred>>,
    pub(super) pending: Option<Pending>,
    pub(super) hints: Hints,
    pub(super) ledger: Ledger,
    pub(super) permit: Option<BrokerId>,
    pub(super) position: Position,
    pub(super) position_generation: PositionGeneration,
    pub(super) fetch_end: Offset,
    pub(super) fetched_epoch: Option<LeaderEpoch>,
    pub(super) gates: Gates,
    pub(super) registered: Registered,
    pub(super) probe: Probe,
    pub(super) probe_id: ProbeId,
    /// Where the probe in flight went, and about which position.
    pub(super) probed: Option<(BrokerId, PositionGeneration)>,
    pub(super) hedge: Hedge,
    pub(super) candidate: Option<Box<Candidate>>,
    pub(super) absence: Option<Box<Absence>>,
    /// The leader is absent: links of all in-sync replicas matter.
    pub(super) alert: bool,
    pub(super) gauges: Gauges,
    pub(super) watch: Watch,
    pub(super) retry: Retry,
    pub(super) timers: Timers,
    pub(super) marks: Watermarks,
    pub(super) caught_up: CaughtUp,
    outputs: VecDeque<Output>,
}

/// What metadata says of the partition.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) leadership: Leadership,
    /// The leader before the last epoch rise, and when that was.
    pub(super) former: Option<(BrokerId, Moment)>,
    pub(super) isr: Arc<[BrokerId]>,
    pub(super) isr_epoch: Option<LeaderEpoch>,
    pub(super) replicas: Arc<[BrokerId]>,
    /// Replicas listed offline.
    pub(super) offline: Arc<[BrokerId]>,
    pub(super) version: MetadataVersion,
    /// R4: the row of the present epoch names no leader, and the one it named is out of reach.
    pub(super) lost: bool,
}

/// A change that waits for the reading fetch in flight, so that no paid byte is wasted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Deferred {
    pub(super) state: State,
    pub(super) cause: super::change::Cause,
}

/// A hint that cannot be followed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pending {
    pub(super) broker: BrokerId,
    pub(super) since: Moment,
    pub(super) awaits: Awaits,
}

/// What a pending hint waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Awaits {
    Link,
    Isr,
}

/// What a route remembers of the hints it got.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    /// When followers were adopted, oldest first; at most `flap_max` are kept.
    pub(super) adoptions: VecDeque<Moment>,
    pub(super) flaps: u32,
    /// Empty answers in a row in which the leader hinted itself.
    pub(super) own: u8,
    /// Step of the refresh ladder for one replica outside the ISR view.
    pub(super) ladder: Option<(BrokerId, u32)>,
    /// When a refresh for an unknown broker was last asked for.
    pub(super) unknown_asked: Option<Moment>,
    /// Whether any hint was ever seen.
    pub(super) seen: bool,
    /// The metadata version a probe was last spent on.
    pub(super) probed_version: Option<MetadataVersion>,
    /// Probes in a row that failed.
    pub(super) probe_failures: u32,
}

/// The hedge of the reading fetch (routing.md 8.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Hedge {
    /// Number of the last one.
    pub(super) id: HedgeId,
    /// To whom one is out, and about which position.
    pub(super) out: Option<(BrokerId, PositionGeneration)>,
}

/// Gauges as last told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Gauges {
    /// The lease is past its hard stop.
    pub(super) overdue: bool,
    /// The leader is silent and nobody may be read instead.
    pub(super) unreachable: bool,
    /// Nothing comes, not even at v10.
    pub(super) starving: bool,
}

/// Reasons not to fetch that are no part of the route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gates {
    pub(super) paused: bool,
    pub(super) room: bool,
    /// Records are with the host, who owes an [`Input::Indexed`].
    pub(super) unindexed: Option<Stamp>,
    /// A broker fenced our epoch: nothing is fetched until a newer leader is known.
    pub(super) fenced: bool,
    /// The offset the leader refused, while its replacement is being resolved.
    pub(super) refused: Option<Offset>,
    /// The topic is another one, and no position in it was found yet: commits are the old one's.
    pub(super) anew: bool,
    /// The topic does not exist any more.
    pub(super) gone: bool,
}

impl Gates {
    pub(super) const fn open(paused: bool) -> Self {
        Self {
            paused,
            room: true,
            unindexed: None,
            fenced: false,
            refused: None,
            anew: false,
            gone: false,
        }
    }
}

/// The arguments of one call.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) brokers: &'a Brokers,
    pub(super) draw: Draw,
    pub(super) now: Moment,
}

impl Route {
    /// A route that waits for its [`Input::Assigned`].
    pub fn new(settings: Arc<Settings>) -> Self {
        let limit = settings.partition_bytes;
        Self {
            settings,
            assignment: AssignmentEpoch::default(),
            incarnation: TopicIncarnation::default(),
            topic_id: None,
            seed: 0,
            cluster: View::default(),
            state: State::Parked,
            since: Moment::ZERO,
            generation: RouteGeneration::default(),
            served: None,
            deferred: None,
            pending: None,
            hints: Hints::default(),
            ledger: Ledger::default(),
            permit: None,
            position: Position::Unset,
            position_generation: PositionGeneration::default(),
            fetch_end: Offset(0),
            fetched_epoch: None,
            gates: Gates::open(false),
            registered: Registered::None,
            probe: Probe::None,
            probe_id: ProbeId::default(),
            probed: None,
            hedge: Hedge::default(),
            candidate: None,
            absence: None,
            alert: false,
            gauges: Gauges::default(),
            watch: Watch::default(),
            retry: Retry::new(limit),
            timers: Timers::new(),
            marks: Watermarks::default(),
            caught_up: CaughtUp::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. `brokers` are the facts of this moment, the change the input tells of
    /// included.
    pub fn handle(&mut self, input: Input, brokers: &Brokers, draw: Draw, now: Moment) {
        let context = Context { brokers, draw, now };
        let stays = self.is_told_to_stay(&input);
        match input {
            Input::Assigned(assigned) => self.on_assigned(assigned, context),
            Input::LeaderChanged(leadership) => self.on_leader_changed(leadership, context),
            Input::LeaderLost => self.on_leader_lost(context),
            Input::IsrChanged { isr, epoch } => self.on_isr_changed(isr, epoch, context),
            Input::ReplicasChanged { replicas, offline } => {
                self.on_replicas_changed(replicas, offline, context);
            }
            Input::MetadataVersion(version) => self.on_version(version),
            Input::Row {
                stamp,
                row,
                inconclusive,
            } => {
                self.on_row(&stamp, row, inconclusive, context);
            }
            Input::ProbeRow { stamp, row } => self.on_probe_row(&stamp, &row, context),
            Input::ProbeFailed { stamp } => self.on_probe_failed(&stamp, context),
            Input::Drained { stamp } => self.on_drained(&stamp, context),
            Input::Indexed(indexed) => self.on_indexed(indexed, context),
            Input::LinkChanged {
                broker,
                class,
                change,
            } => {
                self.on_link_changed(broker, class, change, context);
            }
            Input::LinkRestarted { broker } => self.on_link_restarted(broker, context),
            Input::BreakerOpened { broker } => self.on_breaker_opened(broker, context),
            Input::BreakerClosed { broker } => self.on_breaker_closed(broker, context),
            Input::Readmitted { broker } => self.on_readmitted(broker, context),
            Input::Resolved { generation, found } => self.on_resolved(generation, found, context),
            Input::Validated {
                generation,
                verdict,
            } => self.on_validated(generation, verdict),
            Input::Seek { offset, epoch } => self.on_seek(offset, epoch),
            Input::Pause => self.gates.paused = true,
            Input::Resume => self.on_resume(context),
            Input::Room(room) => self.on_room(room, context),
            Input::Throttled { broker, until } => self.on_throttled(broker, until, context),
            Input::Revoked => self.on_revoked(context),
            Input::TopicRecreated { incarnation, id } => {
                self.on_recreated(incarnation, id, context);
            }
            Input::TopicGone => self.on_gone(context),
            Input::LaneDropped { broker } | Input::LaneRestored { broker } => {
                self.on_lane_changed(broker, context);
            }
            Input::Silent { broker, class } => self.on_silent(broker, class, context),
            Input::Quiet { broker, class } => self.on_quiet(broker, class, context),
            Input::HedgeRow { stamp, row } => self.on_hedge_row(&stamp, row, context),
            Input::HedgeFailed { stamp } => self.on_hedge_failed(&stamp),
            Input::Sampled {
                generation,
                leader_end,
            } => {
                self.on_sampled(generation, leader_end, now);
            }
            Input::Unanswered { generation } => self.on_unanswered(generation),
            Input::Tick => self.on_tick(context),
        }
        self.settle(stays, context);
    }

    /// The next output, in the order in which they are to be carried out.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() {
            // A hundred thousand idle partitions would each keep an empty buffer.
            self.outputs = VecDeque::new();
        }
        output
    }

    /// When to hand in [`Input::Tick`]. An idle partition's deadlines are minutes away and may be
    /// judged late.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// What it was told to do.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// From whom the partition is read, and why.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The broker and lane that serve.
    pub fn served(&self) -> Option<(BrokerId, Lane)> {
        self.served
    }

    /// The position facet.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The probe facet.
    pub fn probe(&self) -> Probe {
        self.probe
    }

    /// Next offset to request: the end of what was accepted.
    pub fn fetch_end(&self) -> Offset {
        self.fetch_end
    }

    /// Epoch of the last record before [`fetch_end`](Self::fetch_end), if known.
    pub fn fetched_epoch(&self) -> Option<LeaderEpoch> {
        self.fetched_epoch
    }

    /// +1 on every change of (serving broker, lane).
    pub fn generation(&self) -> RouteGeneration {
        self.generation
    }

    /// +1 on seek, reset, truncation and start of validation.
    pub fn position_generation(&self) -> PositionGeneration {
        self.position_generation
    }

    /// Id of the topic, if known.
    pub fn topic_id(&self) -> Option<TopicId> {
        self.topic_id
    }

    /// Leader and epoch as this route knows them.
    pub fn leadership(&self) -> Leadership {
        self.cluster.leadership
    }

    /// The fetch that stands at a broker link, if one does.
    pub fn standing_demand(&self) -> Option<&Demand> {
        self.registered.standing()
    }

    /// Whether `broker` cools for this partition.
    pub fn is_cooling(&self, broker: BrokerId, now: Moment) -> bool {
        self.ledger.is_cooling(broker, now)
    }

    /// Until when the cooldown lasts that ends last, over or not.
    pub fn cools_until(&self) -> Option<Moment> {
        self.ledger.latest()
    }

    /// Whether a change of the route waits for the fetch in flight.
    pub fn is_leaving(&self) -> bool {
        self.deferred.is_some()
    }

    /// Whether an error is waited out before the next fetch (routing.md 16).
    pub fn backs_off(&self) -> bool {
        self.timers.is_set(Timer::Backoff)
    }

    /// Watermarks as told by leader and replica.
    pub fn watermarks(&self) -> &Watermarks {
        &self.marks
    }

    /// How far the fetch end is behind the end of the log, as far as anybody told.
    pub fn lag(&self) -> Option<Lag> {
        self.marks.lag(self.fetch_end, self.settings.isolation)
    }

    /// Whether [`Input::MetadataVersion`] would tell it something (metadata.md 7.1).
    pub fn watches_versions(&self) -> bool {
        let forced = match self.state {
            State::Forced { why, .. } => {
                matches!(why, Why::NotInIsr(_) | Why::UnknownBroker(_))
            }
            State::Parked | State::Leader | State::Follower { .. } => false,
        };
        forced
            || self
                .pending
                .is_some_and(|pending| pending.awaits == Awaits::Isr)
    }

    /// The brokers a change at which can matter to it, some more than once: news of others need
    /// not be handed in.
    pub fn concerned(&self) -> impl Iterator<Item = BrokerId> + '_ {
        let own = [
            self.leader(),
            self.served.map(|(served, _)| served),
            self.state.why().and_then(Why::broker),
            self.pending.map(|pending| pending.broker),
            self.permit,
        ];
        let havens = self.cluster.isr.iter().copied().filter(|_| self.alert);
        let own = own.into_iter().flatten();
        own.chain(self.ledger.brokers()).chain(havens)
    }

    /// Whether a change at `broker` can matter to it.
    pub fn concerns(&self, broker: BrokerId) -> bool {
        self.concerned().any(|one| one == broker)
    }

    /// Whether `broker` may be read from as far as the ISR goes: a view of another epoch than the
    /// current one is unknown and holds the leader alone.
    pub fn in_isr_view(&self, broker: BrokerId) -> bool {
        let leader = self.cluster.leadership;
        leader.leader == Some(broker)
            || (self.cluster.isr_epoch == leader.epoch && self.cluster.isr.contains(&broker))
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn count(&mut self, count: Count) {
        self.emit(Output::Count(count));
    }

    pub(super) fn leader(&self) -> Option<BrokerId> {
        self.cluster.leadership.leader
    }

    pub(crate) fn current(&self) -> Current {
        Current {
            assignment: self.assignment,
            topic: self.incarnation,
            position: self.position_generation,
            route: self.generation,
            probe: match self.probe {
                Probe::InFlight(id, _) => Some(id),
                Probe::None | Probe::Wanted(_) => None,
            },
            hedge: self.hedge.out.map(|_| self.hedge.id),
            fetch_end: self.fetch_end,
        }
    }

    /// The stamp of a request to `broker` that is about to leave.
    pub(super) fn stamp(&self, broker: BrokerId, lane: Lane, role: Role, kind: Kind) -> Stamp {
        Stamp {
            assignment: self.assignment,
            topic: self.incarnation,
            position: self.position_generation,
            route: self.generation,
            broker,
            role,
            lane,
            kind,
            epoch: self.cluster.leadership.epoch,
            offset: self.fetch_end,
        }
    }
}
