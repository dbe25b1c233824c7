//! The connections of a link, one per class.

use super::{BrokerLink, exchange::Waiting};
use crate::actors::metadata::Need;
use crate::actors::net::{IoNews, Port, PortId, Said, target};
use crate::actors::partition::{BrokerNews, Lot};
use crate::cluster::LinkState;
use crate::fleet;
use crate::ids::Moment;
use crate::routing::{self, Link, LinkChange, broker};
use crate::wire::{
    ApiKey, Carried, Class, Completion, DrainReason, Event, Input, Reason, StateName, Token,
};

impl BrokerLink {
    /// The port of a class, made if there is none.
    pub(super) fn port(&mut self, class: Class) -> Option<&mut Port> {
        let id = match self.current.get(&class) {
            Some(id) => *id,
            None => self.new_port(class, 0),
        };
        self.ports.get_mut(&id)
    }

    fn new_port(&mut self, class: Class, failures: u32) -> PortId {
        self.last_port += 1;
        let id = PortId(self.last_port);
        let target = target(self.broker_id(), &self.endpoint.host, self.endpoint.port);
        let port = Port::new(
            id,
            class,
            target,
            self.net.clone(),
            self.io.clone(),
            failures,
        );
        self.ports.insert(id, port);
        self.current.insert(class, id);
        id
    }

    /// Feeds one port and deals with what it says.
    pub(super) fn port_input(&mut self, id: PortId, input: Input) {
        let Some(port) = self.ports.get_mut(&id) else {
            return;
        };
        let class = port.class();
        let said = port.input(input);
        self.said(id, class, said);
    }

    /// An input from an I/O task.
    pub(super) fn io_input(&mut self, id: PortId, news: IoNews) {
        match news {
            IoNews::Progress => self.progress(id),
            IoNews::Input(_) | IoNews::Salted(..) | IoNews::Token(..) => {
                if let Some(port) = self.ports.get_mut(&id) {
                    let (class, said) = (port.class(), port.news(news));
                    self.said(id, class, said);
                }
            }
        }
    }

    /// An answer is coming in: the plan is not to take the broker for silent meanwhile.
    fn progress(&mut self, id: PortId) {
        let class = self.ports.get(&id).map(Port::class);
        let in_use = class.filter(|class| self.current.get(class) == Some(&id));
        if let Some(class) = in_use.and_then(routing_class) {
            self.feed(broker::Input::Progress(class));
        }
    }

    /// Wakes every port whose deadline passed.
    pub(super) fn tick_ports(&mut self, now: Moment) {
        let due: Vec<PortId> = self
            .ports
            .iter()
            .filter(|(_, port)| port.next_deadline().is_some_and(|due| due <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            self.port_input(id, Input::Tick);
        }
    }

    /// Opens the connection of a class if it is not open or being opened.
    pub(super) fn dial(&mut self, class: Class) {
        if let Some(port) = self.port(class) {
            let said = port.open();
            let id = self.current.get(&class).copied().unwrap_or(PortId(0));
            self.said(id, class, said);
        }
    }

    /// Closes the connection of a class at once; its requests end.
    pub(super) fn hang_up(&mut self, class: Class) {
        let Some(id) = self.current.get(&class).copied() else {
            return;
        };
        let Some(port) = self.ports.get_mut(&id) else {
            return;
        };
        let said = port.hang_up();
        self.said(id, class, said);
    }

    /// Ends every connection in good order; new ones open when needed.
    pub(super) fn drain_all(&mut self, reason: DrainReason) {
        for id in std::mem::take(&mut self.aside) {
            self.port_input(id, Input::Drain(reason));
        }
        for (class, id) in std::mem::take(&mut self.current) {
            let Some(port) = self.ports.get_mut(&id) else {
                continue;
            };
            let said = port.drain(reason);
            self.said(id, class, said);
            let replaced = self.current.contains_key(&class);
            if !replaced && !self.ports.contains_key(&id) {
                // Whoever waited for this connection has to ask for the next one.
                self.announce(class, Link::Down, None, id);
            }
        }
    }

    pub(super) fn said(&mut self, id: PortId, class: Class, said: Vec<Said>) {
        for said in said {
            match said {
                Said::Completed(completion) => self.completed(class, completion),
                Said::Throttled(until) => self.muted(class, until),
                Said::Event(event) => self.event(id, class, event),
                Said::TwinWanted => self.open_twin(class),
                Said::Returned(carried) => self.adopt(class, carried),
            }
        }
    }

    /// Opens a second port beside the one in use, which goes on until that is ready (KIP-368).
    fn open_twin(&mut self, class: Class) {
        let Some(first) = self.current.get(&class).copied() else {
            return;
        };
        let id = self.new_port(class, 0);
        self.current.insert(class, first);
        self.aside.insert(id);
        self.port_input(id, Input::Open);
    }

    /// The twin is ready: it serves from now on. Where the former one was down whoever waits for
    /// the class hears of it; where that served until now only its facts are news.
    fn take_over(&mut self, id: PortId, class: Class) {
        self.aside.remove(&id);
        let former = self.current.insert(class, id);
        let port = former.and_then(|former| self.ports.get(&former));
        let served = port.is_some_and(|port| Link::of(port.connection().state()) == Link::Ready);
        if let Some(former) = former {
            self.aside.insert(former);
            self.port_input(former, Input::Drain(DrainReason::CredentialsReplaced));
        }
        let change = (!served).then_some(LinkChange::Ready);
        self.announce(class, Link::Ready, change, id);
        if class == Class::Control && !served {
            self.note_control(LinkState::Ready);
        }
    }

    /// Hands a request to the port in use.
    fn adopt(&mut self, class: Class, carried: Carried) {
        if let Some(id) = self.port(class).map(|port| port.id()) {
            self.port_input(id, Input::Adopt(carried));
        }
    }

    fn completed(&mut self, class: Class, completion: Completion) {
        if let (Class::Control, Ok(_), Some(time)) =
            (class, &completion.result, completion.round_trip)
        {
            self.feed(broker::Input::RoundTrip(time));
        }
        let Token(token) = completion.token;
        match self.waiting.remove(&token) {
            Some(Waiting::Fetch(ticket)) => self.fetched(ticket, completion),
            Some(Waiting::Exchange {
                token,
                reply,
                api: _,
            }) => self.answer(reply, token, completion),
            None => {}
        }
    }

    /// The broker asked for silence: its data and control connections share it (KIP-219).
    fn muted(&mut self, by: Class, until: Moment) {
        for id in self.others(by) {
            self.port_input(id, Input::Mute { until });
        }
        self.feed(broker::Input::Muted(until));
        if let Some(broker) = self.broker_id() {
            self.threads
                .post_all(|| Lot::Broker(broker, BrokerNews::Muted(until)));
        }
        self.muted_until = Some(until);
        self.tell_metadata(LinkState::Throttled);
    }

    /// The ports in use but that of `class`.
    fn others(&self, class: Class) -> Vec<PortId> {
        let current = self.current.iter();
        let others = current.filter(|(other, _)| **other != class);
        others.map(|(_, id)| *id).collect()
    }

    /// Tells the metadata actor once a mute is over, so that the broker is asked again.
    pub(super) fn end_mute(&mut self, now: Moment) {
        let over = self.muted_until.take_if(|until| *until <= now).is_some();
        if over && self.ready.contains(&self.target) {
            self.tell_metadata(LinkState::Ready);
        }
    }

    fn event(&mut self, id: PortId, class: Class, event: Event) {
        match event {
            Event::Transition { from, to, reason } => self.transition(id, class, from, to, &reason),
            Event::Odd { api, oddities } => {
                tracing::debug!(target = ?self.target, %api, ?oddities, "tolerated oddities");
            }
            Event::Malformed(error) => {
                tracing::warn!(target = ?self.target, %class, %error, "malformed answer");
            }
            Event::Throttled { time } => {
                tracing::debug!(target = ?self.target, %class, ?time, "throttled");
            }
            Event::ThrottleCut { asked } => {
                tracing::warn!(target = ?self.target, ?asked, "throttle cut");
            }
            Event::NameDisliked => tracing::info!(target = ?self.target, "software name disliked"),
            Event::StaleAddresses { reason } => {
                tracing::warn!(target = ?self.target, %reason, "resolver failed: old addresses");
            }
        }
    }

    fn transition(
        &mut self,
        id: PortId,
        class: Class,
        from: StateName,
        to: StateName,
        reason: &Reason,
    ) {
        tracing::debug!(target = ?self.target, %class, %from, %to, %reason, "connection");
        let in_use = self.current.get(&class) == Some(&id);
        if to == StateName::Closed {
            self.ports.remove(&id);
            self.current.retain(|_, current| *current != id);
        }
        if self.aside.contains(&id) {
            return self.beside(id, class, to);
        }
        let (before, after) = (Link::of(from), Link::of(to));
        let change = LinkChange::between(from, to, reason);
        // The end of a connection that was replaced already is no news; its requests have their
        // answers.
        if in_use && (before != after || change.is_some()) {
            self.announce(class, after, change, id);
        }
        if change == Some(LinkChange::Lost) || change == Some(LinkChange::Failed) {
            self.report(class, to, reason);
        }
        if class == Class::Control {
            self.note_control(state_of(to, change));
        }
    }

    /// A port beside the one in use moves on.
    fn beside(&mut self, id: PortId, class: Class, to: StateName) {
        match to {
            StateName::Ready => self.take_over(id, class),
            StateName::Closed => {
                self.aside.remove(&id);
            }
            // The one in use renews its session itself, late as that may be.
            StateName::Backoff => self.port_input(id, Input::Drain(DrainReason::Shutdown)),
            StateName::Idle
            | StateName::Resolving
            | StateName::Connecting
            | StateName::Tls
            | StateName::VersionsPre
            | StateName::Handshake
            | StateName::Authenticate
            | StateName::VersionsPost
            | StateName::Reauth
            | StateName::Draining => {}
        }
    }

    /// Tells machine and routes about a connection. Facts go first.
    fn announce(&mut self, class: Class, link: Link, change: Option<LinkChange>, id: PortId) {
        let Some(route_class) = routing_class(class) else {
            return;
        };
        let versions = self
            .ports
            .get(&id)
            .and_then(|port| port.connection().versions());
        let fetch_version = versions.and_then(|versions| versions.highest(ApiKey::Fetch));
        let fetch_range = versions.and_then(|versions| versions.theirs(ApiKey::Fetch));
        let fetch_min = fetch_range.map(|range| range.min);
        if let Some(broker) = self.broker_id() {
            if let (Some(version), Some(range)) = (fetch_version, fetch_range) {
                let serves_v10 = range.min <= V10 && V10 <= range.max;
                self.telemetry.note_fetch(broker, version, serves_v10);
            }
            let class = route_class;
            self.threads.post_all(|| {
                Lot::Broker(
                    broker,
                    BrokerNews::Link {
                        class,
                        link,
                        change,
                        fetch_version,
                        fetch_min,
                    },
                )
            });
        }
        match (link, change) {
            (Link::Ready, Some(LinkChange::Ready)) => {
                let fetch_version = fetch_version.unwrap_or_default();
                self.feed(broker::Input::LinkReady {
                    class: route_class,
                    fetch_version,
                });
            }
            (Link::Down, change) => {
                self.feed(broker::Input::LinkLost {
                    class: route_class,
                    idle: change.is_none(),
                });
            }
            (Link::Dialling | Link::Ready, _) => {}
        }
    }

    fn report(&self, class: Class, state: StateName, reason: &Reason) {
        if let Some(broker) = self.broker_id() {
            self.telemetry.emit(fleet::Event::BrokerLink {
                broker,
                class: class.to_string(),
                state: state.to_string(),
                reason: reason.to_string(),
            });
        }
        self.telemetry.note_failure(&self.endpoint, reason);
    }

    /// The control connection is what others ask over.
    fn note_control(&mut self, state: LinkState) {
        self.control = state;
        if state == LinkState::Ready {
            self.telemetry.note_connected();
        }
        self.publish_control();
    }

    /// A lane went silent or spoke again. A broker that owes answers to fetches owes them to
    /// questions, too, although its connection may stand.
    pub(super) fn note_silence(&mut self, class: routing::Class, silent: bool) {
        let changed = match silent {
            true => self.silent.insert(class),
            false => self.silent.remove(&class),
        };
        if changed && self.control == LinkState::Ready {
            self.publish_control();
        }
    }

    fn publish_control(&mut self) {
        let owes = self.control == LinkState::Ready && !self.silent.is_empty();
        let state = if owes {
            LinkState::Silent
        } else {
            self.control
        };
        if state == LinkState::Ready {
            self.ready.insert(self.target);
        } else {
            self.ready.remove(&self.target);
        }
        self.tell_metadata(state);
    }

    fn tell_metadata(&mut self, state: LinkState) {
        self.to_metadata.post(Need::Link(self.target, state));
    }
}

fn state_of(state: StateName, change: Option<LinkChange>) -> LinkState {
    match (Link::of(state), change) {
        (Link::Ready, _) => LinkState::Ready,
        (Link::Dialling, _) => LinkState::Connecting,
        (Link::Down, Some(LinkChange::Lost)) => LinkState::Lost,
        (Link::Down, Some(LinkChange::Failed)) => LinkState::Failed,
        (Link::Down, Some(LinkChange::Ready) | None) => LinkState::Idle,
    }
}

/// The class as routes know it; produce and coordinator connections do not concern them.
fn routing_class(class: Class) -> Option<routing::Class> {
    match class {
        Class::Control => Some(routing::Class::Control),
        Class::FetchRack => Some(routing::Class::Rack),
        Class::FetchNoRack => Some(routing::Class::NoRack),
        Class::Produce | Class::Coordinator => None,
    }
}

/// The last Fetch version that knows no hints (KIP-392).
const V10: i16 = 10;
