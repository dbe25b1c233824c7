//! The coordinator's own connection.

use std::sync::Arc;

use actix::prelude::Recipient;
use tokio::sync::mpsc::UnboundedSender;

use super::CoordinatorActor;
use super::asking::answer_of;
use crate::actors::broker::{Answer, change_of};
use crate::actors::net::{IoInput, Net, Port, PortId, Said, target};
use crate::cluster::Target;
use crate::group;
use crate::ids::{BrokerId, Moment};
use crate::routing::LinkChange;
use crate::wire::api::Endpoint;
use crate::wire::{Class, DrainReason, Event, Input, Request, Token};

/// The connection to the group coordinator, while its place is known.
pub(super) struct CoordinatorPort {
    net: Net,
    io: UnboundedSender<IoInput>,
    /// How answers of other connections come back.
    pub(super) me: Recipient<Answer>,
    current: Option<(BrokerId, Port)>,
    last_port: u32,
}

impl CoordinatorPort {
    pub(super) fn new(net: Net, io: UnboundedSender<IoInput>, me: Recipient<Answer>) -> Self {
        Self {
            net,
            io,
            me,
            current: None,
            last_port: 0,
        }
    }

    /// The node that coordinates, if it is known.
    pub(super) fn node(&self) -> Option<BrokerId> {
        self.current.as_ref().map(|(node, _)| *node)
    }

    /// When the port must be woken at the latest.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.current
            .as_ref()
            .and_then(|(_, port)| port.next_deadline())
    }

    fn port(&mut self) -> Option<&mut Port> {
        self.current.as_mut().map(|(_, port)| port)
    }
}

impl CoordinatorActor {
    /// Moves the connection to where the coordinator is; requests of the old one end.
    pub(super) fn move_port(&mut self, endpoint: Option<Endpoint>) {
        let former = self.port.current.take();
        if let Some(endpoint) = endpoint {
            self.port.last_port += 1;
            let id = PortId(self.port.last_port);
            let place = target(Some(endpoint.broker), &endpoint.host, endpoint.port);
            let net = self.port.net.clone();
            let port = Port::new(id, Class::Coordinator, place, net, self.port.io.clone(), 0);
            self.port.current = Some((endpoint.broker, port));
            let address = crate::cluster::Endpoint::new(Arc::clone(&endpoint.host), endpoint.port);
            self.links
                .ensure_address(Target::Broker(endpoint.broker), address);
        }
        if let Some((_, mut former)) = former {
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

    pub(super) fn port_input(&mut self, input: Input) {
        if let Some(port) = self.port.port() {
            let said = port.input(input);
            self.port_said(said);
        }
    }

    pub(super) fn tick_port(&mut self) {
        if self
            .port
            .next_deadline()
            .is_some_and(|due| due <= self.now())
        {
            self.port_input(Input::Tick);
        }
    }

    fn port_said(&mut self, said: Vec<Said>) {
        for said in said {
            match said {
                Said::Completed(completion) => {
                    let Token(token) = completion.token;
                    self.complete(token, answer_of(completion));
                }
                // The machine mutes its own connection; fetching is not concerned.
                Said::Throttled(_) => {}
                Said::Event(Event::Transition { from, to, reason }) => {
                    tracing::debug!(%from, %to, %reason, "coordinator connection");
                    match change_of(from, to, &reason) {
                        Some(LinkChange::Lost | LinkChange::Failed) => {
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
