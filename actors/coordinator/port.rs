//! The coordinator's own connection.

use std::sync::Arc;

use actix::prelude::Recipient;
use tokio::sync::mpsc::UnboundedSender;

use super::CoordinatorActor;
use super::asking::answer_of;
use crate::actors::broker::Answer;
use crate::actors::net::{IoInput, IoNews, Net, Port, PortId, Said, target};
use crate::cluster::{self, Target};
use crate::fleet;
use crate::group;
use crate::ids::{BrokerId, Moment};
use crate::routing::LinkChange;
use crate::wire::api::Endpoint;
use crate::wire::{
    self, Class, Distrust, DrainReason, Event, Input, Reason, Request, StateName, Token,
};

/// The connection to the group coordinator, while its place is known.
pub(super) struct CoordinatorPort {
    net: Net,
    io: UnboundedSender<IoInput>,
    /// How answers of other connections come back.
    pub(super) me: Recipient<Answer>,
    current: Option<(BrokerId, Port)>,
    /// Takes over once it is ready: the session of the current one ends before its requests do
    /// (KIP-368).
    twin: Option<Port>,
    /// Was taken over from; what is in flight may take its time.
    former: Option<Port>,
    last_port: u32,
    /// Trust that a port of the past has lost, and where.
    distrust: Option<(wire::Target, Distrust)>,
}

impl CoordinatorPort {
    pub(super) fn new(net: Net, io: UnboundedSender<IoInput>, me: Recipient<Answer>) -> Self {
        Self {
            net,
            io,
            me,
            current: None,
            twin: None,
            former: None,
            last_port: 0,
            distrust: None,
        }
    }

    /// The node that coordinates, if it is known.
    pub(super) fn node(&self) -> Option<BrokerId> {
        self.current.as_ref().map(|(node, _)| *node)
    }

    /// When the port must be woken at the latest.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let current = self.current.iter().map(|(_, port)| port);
        let ports = current.chain(&self.twin).chain(&self.former);
        ports.filter_map(Port::next_deadline).min()
    }

    /// Where the current port leads.
    fn place(&self) -> Option<&wire::Target> {
        let (_, port) = self.current.as_ref()?;
        Some(port.connection().target())
    }

    fn port(&mut self) -> Option<&mut Port> {
        self.current.as_mut().map(|(_, port)| port)
    }

    /// The next port to this place.
    fn open(&mut self, place: wire::Target) -> Port {
        self.last_port += 1;
        let id = PortId(self.last_port);
        let (net, io) = (self.net.clone(), self.io.clone());
        let distrust = self.distrust.as_ref().filter(|(of, _)| *of == place);
        let distrust = distrust.map(|(_, distrust)| *distrust);
        let mut port = Port::new(id, Class::Coordinator, place, net, io, 0);
        if let Some(distrust) = distrust {
            port.inherit(distrust);
        }
        port
    }

    /// Takes the current port out of use. That the place it leads to has refused us is remembered:
    /// the group finds the same place again sooner than that may be asked.
    fn retire(&mut self) -> Option<Port> {
        let (_, port) = self.current.take()?;
        let connection = port.connection();
        let distrust = connection.distrust_left();
        self.distrust = distrust.map(|distrust| (connection.target().clone(), distrust));
        Some(port)
    }
}

impl CoordinatorActor {
    /// Moves the connection to where the coordinator is; requests of the old one end.
    pub(super) fn move_port(&mut self, endpoint: Option<Endpoint>) {
        let current = self.port.retire();
        let former = self.port.former.take();
        self.port.twin = None;
        if let Some(endpoint) = endpoint {
            let place = target(Some(endpoint.broker), &endpoint.host, endpoint.port);
            let port = self.port.open(place);
            self.port.current = Some((endpoint.broker, port));
            let address = cluster::Endpoint::new(Arc::clone(&endpoint.host), endpoint.port);
            self.links
                .ensure_address(Target::Broker(endpoint.broker), address);
        }
        for mut former in current.into_iter().chain(former) {
            let mut said = former.drain(DrainReason::AddressChanged);
            // Nobody will read the answers of what is in flight: every request ends here and now.
            said.extend(former.hang_up());
            // Its end is no news: it was wanted.
            said.retain(|said| matches!(said, Said::Completed(_)));
            self.port_said(said);
        }
    }

    /// Sends over the coordinator connection; `false` if there is none.
    pub(super) fn port_request(&mut self, token: u64, request: Request) -> bool {
        let Some(port) = self.port.port() else {
            return false;
        };
        let said = port.request(Token(token), request);
        self.port_said(said);
        true
    }

    /// Takes what an I/O task says. That of a port which was replaced concerns nobody.
    pub(super) fn port_news(&mut self, from: PortId, news: IoNews) {
        let is_from = |port: &&mut Port| port.id() == from;
        if let Some(port) = self.port.port().filter(is_from) {
            let said = port.news(news);
            self.port_said(said);
        } else if let Some(twin) = self.port.twin.as_mut().filter(is_from) {
            let said = twin.news(news);
            self.twin_said(&said);
        } else if let Some(former) = self.port.former.as_mut().filter(is_from) {
            let said = former.news(news);
            self.former_said(said);
        }
    }

    fn open_twin(&mut self) {
        let Some(place) = self.port.place().cloned() else {
            return;
        };
        let mut twin = self.port.open(place);
        let said = twin.open();
        self.port.twin = Some(twin);
        self.twin_said(&said);
    }

    /// A twin that is ready takes over; one that fails is given up.
    fn twin_said(&mut self, said: &[Said]) {
        for said in said {
            match said {
                Said::Event(Event::Transition {
                    to: StateName::Ready,
                    ..
                }) => {
                    self.take_over();
                }
                Said::Event(Event::Transition {
                    to: StateName::Backoff,
                    ..
                }) => {
                    self.port.twin = None;
                }
                Said::Event(_)
                | Said::Completed(_)
                | Said::Throttled(_)
                | Said::TwinWanted
                | Said::Returned(_) => {}
            }
        }
    }

    fn take_over(&mut self) {
        let (Some((node, mut former)), Some(twin)) =
            (self.port.current.take(), self.port.twin.take())
        else {
            return;
        };
        self.port.current = Some((node, twin));
        let said = former.drain(DrainReason::CredentialsReplaced);
        self.port.former = Some(former);
        self.former_said(said);
    }

    /// What was taken over from has answers left, and requests it will not write.
    fn former_said(&mut self, said: Vec<Said>) {
        for said in said {
            match said {
                Said::Completed(_) => self.port_said(vec![said]),
                Said::Returned(carried) => self.port_input(Input::Adopt(carried)),
                Said::Event(Event::Transition {
                    to: StateName::Closed,
                    ..
                }) => {
                    self.port.former = None;
                }
                Said::Event(_) | Said::Throttled(_) | Said::TwinWanted => {}
            }
        }
    }

    fn port_input(&mut self, input: Input) {
        if let Some(port) = self.port.port() {
            let said = port.input(input);
            self.port_said(said);
        }
    }

    pub(super) fn tick_port(&mut self) {
        let now = self.now();
        let due = |port: &&mut Port| port.next_deadline().is_some_and(|due| due <= now);
        if self.port.port().filter(due).is_some() {
            self.port_input(Input::Tick);
        }
        if let Some(twin) = self.port.twin.as_mut().filter(due) {
            let said = twin.input(Input::Tick);
            self.twin_said(&said);
        }
        if let Some(former) = self.port.former.as_mut().filter(due) {
            let said = former.input(Input::Tick);
            self.former_said(said);
        }
    }

    fn report(&self, place: &wire::Target, state: StateName, reason: &Reason) {
        if let Some(broker) = place.broker {
            self.telemetry.emit(fleet::Event::BrokerLink {
                broker,
                class: Class::Coordinator.to_string(),
                state: state.to_string(),
                reason: reason.to_string(),
            });
        }
        let endpoint = cluster::Endpoint::new(Arc::clone(&place.host), place.port);
        self.telemetry.note_failure(&endpoint, reason);
    }

    fn port_said(&mut self, said: Vec<Said>) {
        // What a request's end leads to may replace the port before its own end is told.
        let place = self.port.place().cloned();
        for said in said {
            match said {
                Said::Completed(completion) => {
                    let Token(token) = completion.token;
                    self.complete(token, answer_of(completion));
                }
                // The machine mutes its own connection; fetching is not concerned.
                Said::Throttled(_) => {}
                Said::TwinWanted => self.open_twin(),
                Said::Returned(carried) => self.port_input(Input::Adopt(carried)),
                Said::Event(Event::Transition { from, to, reason }) => {
                    tracing::debug!(%from, %to, %reason, "coordinator connection");
                    match LinkChange::between(from, to, &reason) {
                        Some(LinkChange::Lost | LinkChange::Failed) => {
                            if let Some(place) = &place {
                                self.report(place, to, &reason);
                            }
                            self.owed.push_back(group::Input::CoordinatorLost);
                        }
                        Some(LinkChange::Ready) | None => {}
                    }
                }
                Said::Event(event) => tracing::debug!(?event, "coordinator connection"),
            }
        }
    }
}
