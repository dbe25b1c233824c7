//! The machine of one broker's link.

use std::collections::VecDeque;
use std::sync::Arc;

use super::asked::Flight;
use super::breaker::{Action, Breaker};
use super::hedges::Hedges;
use super::input::Input;
use super::lane::FetchLane;
use super::output::{Output, Ticket};
use super::probes::Probes;
use super::round_trip::RoundTrip;
use super::settings::Settings;
use super::vigil::Alert;
use crate::ids::{BrokerId, Draw, Moment, TopicPartition};
use crate::routing::cooldown::Fault;
use crate::routing::facts::Class;
use crate::routing::output::Demand;
use crate::routing::stamp::{Lane, Stamp};
use crate::wire::api::fetch::Request;

/// Carries the demand of all routes to one broker, and its answers back.
///
/// Give it inputs, then drain [`poll_output`](Self::poll_output) until `None`: a lot of demands
/// handed in before the outputs are drained leaves in one request. Idle partitions cost nothing: an
/// answer costs work per row in it, a request per partition that changed.
#[derive(Clone, Debug)]
pub struct Broker {
    pub(super) id: BrokerId,
    pub(super) settings: Arc<Settings>,
    pub(super) rack: FetchLane,
    pub(super) no_rack: FetchLane,
    pub(super) probes: Probes,
    pub(super) hedges: Hedges,
    breaker: Breaker,
    round_trip: RoundTrip,
    links: Links,
    muted_until: Moment,
    next_ticket: Ticket,
    now: Moment,
    outputs: VecDeque<Output>,
}

/// State of the three connections.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    rack: LinkState,
    no_rack: LinkState,
    control: LinkState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum LinkState {
    #[default]
    Down,
    Dialling,
    Ready,
}

impl Broker {
    /// A link to `id` with no demand and no connection.
    pub fn new(id: BrokerId, settings: Arc<Settings>) -> Self {
        Self {
            id,
            rack: FetchLane::new(Class::Rack, &settings),
            no_rack: FetchLane::new(Class::NoRack, &settings),
            probes: Probes::new(&settings),
            hedges: Hedges::default(),
            breaker: Breaker::new(),
            round_trip: RoundTrip::default(),
            links: Links::default(),
            muted_until: Moment::ZERO,
            next_ticket: Ticket(1),
            now: Moment::ZERO,
            settings,
            outputs: VecDeque::new(),
        }
    }

    /// The broker.
    pub fn id(&self) -> BrokerId {
        self.id
    }

    /// Number of standing demands on the rack lane and on the no-rack lane.
    pub fn demands(&self) -> (usize, usize) {
        (self.rack.members.wants(), self.no_rack.members.wants())
    }

    /// Whether nothing is wanted, in flight or waiting here.
    pub fn is_idle(&self) -> bool {
        let quiet = |lane: &FetchLane| lane.members.is_idle() && !lane.is_flying();
        let asked = self.probes.is_waiting() || self.hedges.is_waiting();
        quiet(&self.rack) && quiet(&self.no_rack) && !asked
    }

    /// Takes one input.
    pub fn handle(&mut self, input: Input, draw: Draw, now: Moment) {
        self.now = now;
        match input {
            Input::Want { partition, demand } => self.on_want(&partition, demand),
            Input::Withdraw { partition, lane } => self.lane(lane).withdraw(&partition),
            Input::Drain { partition, lane } => {
                if let Some(stamp) = self.lane(lane).drain(&partition) {
                    self.emit(Output::Drained { partition, stamp });
                }
            }
            Input::Probe {
                partition,
                question,
            } => self.probes.ask(partition, question),
            Input::CancelProbe { partition } => self.probes.cancel(&partition),
            Input::Hedge {
                partition,
                question,
            } => self.hedges.ask(partition, question),
            Input::CancelHedge { partition } => self.hedges.cancel(&partition),
            Input::Progress(class) => self.on_progress(class),
            Input::Cooling { partition, fault } => self.on_cooling(partition, fault, draw),
            Input::DropLane => self.set_v10(true),
            Input::Dial(class) => self.dial(class),
            Input::LinkReady { class, .. } => self.on_link_ready(class),
            Input::LinkLost { class, idle } => self.on_link_lost(class, idle, draw),
            Input::Answered { ticket, response } => self.on_answered(ticket, &response),
            Input::Failed { ticket } => self.on_failed(ticket),
            Input::Muted(until) => self.on_muted(until),
            Input::RoundTrip(time) => {
                let told = self.round_trip.measured(time);
                self.outputs.extend(told.map(Output::RoundTrip));
            }
            Input::ProbeShare(share) => self.probes.set_share(share, now),
            Input::Budget(class) => self.fetch_lane(class).on_budget(),
            Input::Renew => [&mut self.rack, &mut self.no_rack]
                .into_iter()
                .for_each(FetchLane::renew_session),
            Input::Close => self.close(),
            Input::Tick => self.on_tick(),
        }
        self.run_breaker();
        let followers = self.rack.members.followers();
        if let Some(need) = self.probes.news(followers, now) {
            self.emit(Output::Probing(need));
        }
    }

    /// The next output, in the order in which they are to be carried out.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() {
            self.fill();
        }
        self.outputs.pop_front()
    }

    /// When to hand in [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Moment> {
        let deadline = |lane: &FetchLane| lane.next_deadline(&self.settings, self.now);
        let [rack, no_rack] = [&self.rack, &self.no_rack].map(deadline);
        let others = [
            self.probes.next_deadline(),
            self.hedges.asking.next_deadline(),
            self.breaker.next_deadline(),
        ];
        let due = [rack, no_rack].into_iter().chain(others).flatten().min();
        let muted = Some(self.muted_until).filter(|until| *until > self.now);
        // Nothing leaves during a mute, so what falls due meanwhile waits for its end; and what
        // was wanted meanwhile leaves at its end, whatever else is due later.
        muted.or(due)
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn now(&self) -> Moment {
        self.now
    }

    pub(super) fn muted_until(&self) -> Moment {
        self.muted_until
    }

    pub(super) fn next_ticket(&self) -> Ticket {
        self.next_ticket
    }

    /// Sends a request under the ticket that is next.
    pub(super) fn send(&mut self, class: Class, request: Request) {
        let ticket = self.next_ticket;
        self.next_ticket.0 += 1;
        self.emit(Output::Send {
            class,
            request,
            ticket,
        });
    }

    pub(super) fn lane(&mut self, lane: Lane) -> &mut FetchLane {
        match lane {
            Lane::Rack => &mut self.rack,
            Lane::NoRack | Lane::V10 => &mut self.no_rack,
        }
    }

    pub(super) fn drained(&mut self, drained: Vec<(TopicPartition, Stamp)>) {
        for (partition, stamp) in drained {
            self.emit(Output::Drained { partition, stamp });
        }
    }

    pub(super) fn probes_failed(&mut self, failed: Vec<(TopicPartition, Stamp)>) {
        for (partition, stamp) in failed {
            self.emit(Output::ProbeFailed { partition, stamp });
        }
    }

    pub(super) fn hedges_failed(&mut self, failed: Vec<(TopicPartition, Stamp)>) {
        for (partition, stamp) in failed {
            self.emit(Output::HedgeFailed { partition, stamp });
        }
    }

    pub(super) fn alert(&mut self, class: Class, alert: impl IntoIterator<Item = Alert>) {
        for alert in alert {
            self.emit(match alert {
                Alert::Quiet => Output::Quiet(class),
                Alert::Silence(silent) => Output::Silence { class, silent },
            });
        }
    }

    fn on_progress(&mut self, class: Class) {
        let (settings, now) = (Arc::clone(&self.settings), self.now);
        match class {
            Class::Rack | Class::NoRack => self.fetch_lane(class).vigil.progress(&settings, now),
            Class::Control => self.hedges.asking.progress(&settings, now),
        }
    }

    fn on_want(&mut self, partition: &TopicPartition, demand: Demand) {
        let next = self.next_ticket;
        self.lane(demand.stamp.lane).want(partition, demand, next);
    }

    fn on_cooling(&mut self, partition: TopicPartition, fault: Option<Fault>, draw: Draw) {
        let routed = self.rack.members.followers();
        let settings = Arc::clone(&self.settings);
        match fault {
            Some(fault) if fault.concerns_the_broker() => {
                self.breaker
                    .failed(partition, routed, &settings, draw, self.now);
            }
            Some(_) => {}
            None => self.breaker.queue(partition),
        }
    }

    pub(super) fn fetch_lane(&mut self, class: Class) -> &mut FetchLane {
        match class {
            Class::Rack | Class::Control => &mut self.rack,
            Class::NoRack => &mut self.no_rack,
        }
    }

    pub(super) fn link(&self, class: Class) -> LinkState {
        match class {
            Class::Rack => self.links.rack,
            Class::NoRack => self.links.no_rack,
            Class::Control => self.links.control,
        }
    }

    fn set_link(&mut self, class: Class, state: LinkState) {
        match class {
            Class::Rack => self.links.rack = state,
            Class::NoRack => self.links.no_rack = state,
            Class::Control => self.links.control = state,
        }
    }

    /// Asks for a connection once; its own backoff paces the attempts.
    pub(super) fn dial(&mut self, class: Class) {
        if self.link(class) == LinkState::Down {
            self.set_link(class, LinkState::Dialling);
            self.emit(Output::Dial(class));
        }
    }

    fn on_link_ready(&mut self, class: Class) {
        self.set_link(class, LinkState::Ready);
        if class != Class::Control {
            let alert = self.fetch_lane(class).vigil.connected();
            self.alert(class, alert);
        }
        let settings = Arc::clone(&self.settings);
        self.breaker.reached(&settings, self.now);
    }

    fn on_link_lost(&mut self, class: Class, idle: bool, draw: Draw) {
        self.set_link(class, LinkState::Down);
        match class {
            Class::Rack | Class::NoRack => {
                let drained = self.fetch_lane(class).disconnected();
                self.drained(drained);
            }
            Class::Control => {
                let failed = self.probes.fail_all();
                self.probes_failed(failed);
                let failed = self.hedges.fail_all();
                self.hedges_failed(failed);
            }
        }
        if class == Class::NoRack && self.no_rack.is_v10() {
            // The broker may have forgotten why: the next connection starts at the negotiated
            // version.
            self.set_v10(false);
        }
        if !idle {
            let settings = Arc::clone(&self.settings);
            self.breaker.unreached(&settings, draw, self.now);
        }
    }

    fn set_v10(&mut self, v10: bool) {
        if self.no_rack.is_v10() != v10 {
            self.no_rack.set_v10(v10);
            self.emit(Output::V10(v10));
        }
    }

    fn on_failed(&mut self, ticket: Ticket) {
        for class in [Class::Rack, Class::NoRack] {
            if self.fetch_lane(class).flies(ticket) {
                let now = self.now;
                let drained = self.fetch_lane(class).refused(now);
                self.drained(drained);
            }
        }
        if let Some(flight) = self.probes.asking.answered(ticket) {
            self.probes_failed(flight.rest());
        }
        if let Some(flight) = self.hedges.asking.answered(ticket) {
            self.hedges_failed(flight.rest());
        }
    }

    fn on_muted(&mut self, until: Moment) {
        let mute = until.since(self.muted_until.max(self.now));
        self.muted_until = self.muted_until.max(until);
        self.rack.extend(mute);
        self.no_rack.extend(mute);
        self.probes.asking.extend(mute);
        self.hedges.asking.extend(mute);
    }

    fn on_tick(&mut self) {
        let (settings, now) = (Arc::clone(&self.settings), self.now);
        for class in [Class::Rack, Class::NoRack] {
            if self.fetch_lane(class).end_hold(now) {
                self.emit(Output::Count(super::Count::HoldEnded));
            }
            if self.fetch_lane(class).is_overdue(now) {
                self.emit(Output::Hangup(class));
                self.fetch_lane(class).prolong(HANGUP_PAUSE);
            }
            let alerts = self.fetch_lane(class).vigil.tick(now);
            self.alert(class, alerts);
        }
        let (probe, hedge) = (
            self.probes.asking.overdue(now),
            self.hedges.asking.overdue(now),
        );
        if probe.is_some() || hedge.is_some() {
            self.probes_failed(probe.map(Flight::rest).unwrap_or_default());
            self.hedges_failed(hedge.map(Flight::rest).unwrap_or_default());
            self.emit(Output::Hangup(Class::Control));
        }
        self.breaker.tick(&settings, now);
    }

    fn run_breaker(&mut self) {
        while let Some(action) = self.breaker.poll() {
            match action {
                Action::Changed(view) => self.emit(Output::Breaker(view)),
                Action::Permit(partition) => self.emit(Output::Permit(partition)),
                Action::Dial
                    if self.links.rack == LinkState::Ready && !self.rack.vigil.is_silent() =>
                {
                    let settings = Arc::clone(&self.settings);
                    self.breaker.reached(&settings, self.now);
                }
                // A silent connection proves nothing, and its end is as good as a failed dial.
                Action::Dial if self.links.rack == LinkState::Ready => {
                    self.emit(Output::Hangup(Class::Rack));
                }
                Action::Dial => self.dial(Class::Rack),
            }
        }
    }
}

/// Time a connection has to end before it is hung up again.
const HANGUP_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
