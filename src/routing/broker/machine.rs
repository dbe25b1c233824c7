//! The machine of one broker's link.

use std::collections::VecDeque;
use std::sync::Arc;

use super::breaker::{Action, Breaker};
use super::input::Input;
use super::lane::FetchLane;
use super::output::{Output, Ticket};
use super::probes::{Asked, Probes};
use super::settings::Settings;
use crate::ids::{BrokerId, Draw, Moment, TopicPartition};
use crate::routing::cooldown::Fault;
use crate::routing::facts::Class;
use crate::routing::output::Demand;
use crate::routing::stamp::{Lane, Stamp};

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
    breaker: Breaker,
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
enum LinkState {
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
            breaker: Breaker::new(),
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
        quiet(&self.rack) && quiet(&self.no_rack) && !self.probes.is_waiting()
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
            } => self.emit(Output::HedgeFailed {
                partition,
                stamp: question.stamp,
            }),
            Input::CancelHedge { .. } | Input::Progress(_) => {}
            Input::Cooling { partition, fault } => self.on_cooling(partition, fault, draw),
            Input::DropLane => self.set_v10(true),
            Input::Dial(class) => self.dial(class),
            Input::LinkReady { class, .. } => self.on_link_ready(class),
            Input::LinkLost { class, idle } => self.on_link_lost(class, idle, draw),
            Input::Answered { ticket, response } => self.on_answered(ticket, &response),
            Input::Failed { ticket } => self.on_failed(ticket),
            Input::Muted(until) => self.on_muted(until),
            Input::ProbeShare(per_second) => self.probes.set_rate(per_second),
            Input::Close => self.close(),
            Input::Tick => self.on_tick(),
        }
        self.run_breaker();
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
        let muted = Some(self.muted_until).filter(|until| *until > self.now);
        let lanes = [&self.rack, &self.no_rack].map(|lane| lane.next_deadline(&self.settings));
        let [rack, no_rack] = lanes;
        let others = [
            self.probes.next_deadline(),
            self.breaker.next_deadline(),
            muted,
        ];
        [rack, no_rack].into_iter().chain(others).flatten().min()
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn now(&self) -> Moment {
        self.now
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

    pub(super) fn probes_failed(&mut self, failed: Vec<Asked>) {
        for Asked {
            partition, stamp, ..
        } in failed
        {
            self.emit(Output::ProbeFailed { partition, stamp });
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

    /// Everything that is due to leave: good-byes, fetches, probes, dials.
    fn fill(&mut self) {
        if self.now < self.muted_until {
            return;
        }
        let settings = Arc::clone(&self.settings);
        for class in [Class::Rack, Class::NoRack] {
            self.fill_lane(class, &settings);
        }
        self.fill_probes(&settings);
    }

    fn fill_lane(&mut self, class: Class, settings: &Settings) {
        let (now, ticket) = (self.now, self.next_ticket);
        if self.link(class) != LinkState::Ready {
            if self.fetch_lane(class).has_work() {
                self.dial(class);
            }
            return;
        }
        let lane = self.fetch_lane(class);
        let request = if lane.is_abandoned(settings, now) {
            lane.good_bye(settings)
        } else {
            lane.next_request(ticket, settings, now)
        };
        if let Some(request) = request {
            self.next_ticket.0 += 1;
            self.emit(Output::Send {
                class,
                request,
                ticket,
            });
        }
    }

    fn fill_probes(&mut self, settings: &Settings) {
        if !self.probes.is_waiting() {
            return;
        }
        let (now, ticket) = (self.now, self.next_ticket);
        if self.links.control != LinkState::Ready {
            if self.probes.is_out_of_patience(settings, now) {
                let failed = self.probes.fail_all();
                self.probes_failed(failed);
            } else {
                self.dial(Class::Control);
            }
            return;
        }
        if let Some(request) = self.probes.next_request(ticket, settings, now) {
            self.next_ticket.0 += 1;
            self.emit(Output::Send {
                class: Class::Control,
                request,
                ticket,
            });
        }
    }

    pub(super) fn fetch_lane(&mut self, class: Class) -> &mut FetchLane {
        match class {
            Class::Rack | Class::Control => &mut self.rack,
            Class::NoRack => &mut self.no_rack,
        }
    }

    fn link(&self, class: Class) -> LinkState {
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
    fn dial(&mut self, class: Class) {
        if self.link(class) == LinkState::Down {
            self.set_link(class, LinkState::Dialling);
            self.emit(Output::Dial(class));
        }
    }

    fn on_link_ready(&mut self, class: Class) {
        self.set_link(class, LinkState::Ready);
        let settings = Arc::clone(&self.settings);
        self.breaker.reached(&settings, self.now);
    }

    fn on_link_lost(&mut self, class: Class, idle: bool, draw: Draw) {
        self.set_link(class, LinkState::Down);
        match class {
            Class::Rack | Class::NoRack => {
                let drained = self.fetch_lane(class).failed();
                self.drained(drained);
            }
            Class::Control => {
                let failed = self.probes.fail_all();
                self.probes_failed(failed);
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
                let drained = self.fetch_lane(class).failed();
                self.drained(drained);
            }
        }
        if let Some(failed) = self.probes.answered(ticket) {
            self.probes_failed(failed);
        }
    }

    fn on_muted(&mut self, until: Moment) {
        let mute = until.since(self.muted_until.max(self.now));
        self.muted_until = self.muted_until.max(until);
        self.rack.extend(mute);
        self.no_rack.extend(mute);
        self.probes.extend(mute);
    }

    fn close(&mut self) {
        let settings = Arc::clone(&self.settings);
        for class in [Class::Rack, Class::NoRack] {
            if self.link(class) != LinkState::Ready || self.fetch_lane(class).is_flying() {
                continue;
            }
            if let Some(request) = self.fetch_lane(class).good_bye(&settings) {
                let ticket = self.next_ticket;
                self.next_ticket.0 += 1;
                self.emit(Output::Send {
                    class,
                    request,
                    ticket,
                });
            }
        }
    }

    fn on_tick(&mut self) {
        let (settings, now) = (Arc::clone(&self.settings), self.now);
        for class in [Class::Rack, Class::NoRack] {
            if self.fetch_lane(class).end_hold(now) {
                self.emit(Output::Count(super::Count::HoldEnded));
            }
            if self.fetch_lane(class).is_overdue(now) {
                self.emit(Output::Hangup(class));
                self.fetch_lane(class).extend(HANGUP_PAUSE);
            }
        }
        if let Some(failed) = self.probes.overdue(now) {
            self.probes_failed(failed);
            self.emit(Output::Hangup(Class::Control));
        }
        self.breaker.tick(&settings, now);
    }

    fn run_breaker(&mut self) {
        while let Some(action) = self.breaker.poll() {
            match action {
                Action::Changed(view) => self.emit(Output::Breaker(view)),
                Action::Permit(partition) => self.emit(Output::Permit(partition)),
                Action::Dial if self.links.rack == LinkState::Ready => {
                    let settings = Arc::clone(&self.settings);
                    self.breaker.reached(&settings, self.now);
                }
                Action::Dial => self.dial(Class::Rack),
            }
        }
    }
}

/// Time a connection has to end before it is hung up again.
const HANGUP_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
