//! Hosts one connection machine: dials, reads and writes for it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinHandle;

use super::lapses::{Hearsay, Lapses};
use super::login::{self, Login};
use super::meter::Meter;
use super::socket::{Order, Run};
use super::tls::Tls;
use super::tokens::TokenProvider;
use super::transport::{Tcp, Transport};
use crate::actors::clock::Clock;
use crate::actors::entropy::Entropy;
use crate::actors::spawn;
use crate::config::Config;
use crate::error::Error;
use crate::ids::{BrokerId, Moment};
use crate::wire::sasl::{Bearer, Credentials, Exchange, SaltedPassword, Step};
use crate::wire::{
    Caps, Carried, Challenge, Class, Completion, Connection, Deframer, Distrust, DrainReason,
    Event, Input, Output, Request, SaslStep, Settings, SocketId, Target, Token,
};

/// What all ports of a fleet have in common.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) settings: Settings,
    pub(crate) caps: Caps,
    pub(crate) clock: Clock,
    pub(crate) login: Option<Arc<Login>>,
    pub(crate) tls: Option<Arc<Tls>>,
    lapses: Lapses,
}

impl Net {
    /// Connections as configured, over `transport`, or TCP. Reads certificates and keys.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::error::ErrorKind::Config) about certificates and keys that
    /// cannot be used.
    pub(crate) fn new(
        config: &Config,
        transport: Option<Arc<dyn Transport>>,
        tokens: Option<Arc<dyn TokenProvider>>,
    ) -> Result<Self, Error> {
        let (clock, settings) = (Clock::start(), config.connection_settings());
        let (send, receive) = (
            config.connection.send_buffer.0,
            config.connection.receive_buffer.0,
        );
        let tcp = Tcp::giving_up_after(settings.request_timeout).buffers(send, receive);
        let tcp = || Arc::new(tcp) as Arc<dyn Transport>;
        Ok(Self {
            transport: transport.unwrap_or_else(tcp),
            settings,
            caps: config.frame_caps(),
            clock,
            login: Login::of(config, tokens, clock)?.map(Arc::new),
            tls: Tls::of(config)?.map(Arc::new),
            lapses: Lapses::default(),
        })
    }
}

/// Names a port within its actor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PortId(pub(crate) u32);

/// What an I/O task brings to the actor that hosts the port.
pub(crate) type IoInput = (PortId, IoNews);

/// One thing an I/O task has to say.
#[derive(Debug)]
pub(crate) enum IoNews {
    /// For the connection machine.
    Input(Input),
    /// A password has been hashed for the exchange on this socket.
    Salted(SocketId, SaltedPassword),
    /// A token for the exchange on this socket, or why there is none.
    Token(SocketId, Result<Bearer, String>),
    /// Bytes of an answer came in that is not whole yet. Told at most every 100 ms, and not of
    /// answers that are whole sooner.
    Progress,
}

/// What a port tells its actor.
#[derive(Debug)]
pub(crate) enum Said {
    /// A request ended.
    Completed(Completion),
    /// The broker's other data and control connections are to be muted.
    Throttled(Moment),
    /// Something for logs, counters and facts.
    Event(Event),
    /// A second port of the class is wanted, to take over once it is ready.
    TwinWanted,
    /// A request for the port that took over.
    Returned(Carried),
}

/// One connection with its sockets. Lives on the thread of its actor.
pub(crate) struct Port {
    id: PortId,
    class: Class,
    connection: Connection,
    hearsay: Hearsay,
    meter: Meter,
    net: Net,
    entropy: Entropy,
    // Unbounded, yet bounded: a socket sends one input per frame, and frames are bounded by
    // requests in flight.
    to_actor: UnboundedSender<IoInput>,
    socket: Option<Socket>,
    resolving: Option<JoinHandle<()>>,
    /// The authentication that runs, and on which socket.
    exchange: Option<(SocketId, Exchange)>,
    /// Tells of newer tokens.
    renewing: Option<JoinHandle<()>>,
}

/// A socket being dialled, or open.
struct Socket {
    id: SocketId,
    orders: UnboundedSender<Order>,
    /// Bytes handed to the system so far.
    written: Rc<Cell<u64>>,
    task: JoinHandle<()>,
}

impl Port {
    /// A port that dials when the first request comes. `failures` carries over the count of the
    /// port it replaces.
    pub(crate) fn new(
        id: PortId,
        class: Class,
        target: Target,
        net: Net,
        to_actor: UnboundedSender<IoInput>,
        failures: u32,
    ) -> Self {
        let hearsay = net.lapses.of(&target);
        let connection = Connection::new(class, target, net.settings.clone(), failures);
        let entropy = Entropy::from_system();
        let tokens = net.login.as_ref().and_then(|login| login.tokens());
        let renewing = tokens.map(|tokens| {
            let (mut renewed, to_actor) = (tokens.renewed(), to_actor.clone());
            spawn::local("renew", async move {
                while renewed.changed().await.is_ok() {
                    drop(to_actor.send((id, IoNews::Input(Input::Renew))));
                }
            })
        });
        Self {
            id,
            class,
            connection,
            hearsay,
            meter: Meter::new(class),
            net,
            entropy,
            to_actor,
            socket: None,
            resolving: None,
            exchange: None,
            renewing,
        }
    }

    /// Says that the place has refused the port before this one.
    pub(crate) fn inherit(&mut self, distrust: Distrust) {
        self.connection.inherit(distrust);
    }

    /// Its name within its actor.
    pub(crate) fn id(&self) -> PortId {
        self.id
    }

    /// What the connection is for.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// The machine, for its state and versions.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a request; it completes exactly once.
    pub(crate) fn request(&mut self, token: Token, request: Request) -> Vec<Said> {
        self.input(Input::Request { token, request })
    }

    /// Ends the connection in good order.
    pub(crate) fn drain(&mut self, reason: DrainReason) -> Vec<Said> {
        self.input(Input::Drain(reason))
    }

    /// Feeds the machine, performs what it asks for, and returns what concerns the actor.
    pub(crate) fn input(&mut self, input: Input) -> Vec<Said> {
        if matches!(input, Input::Frame { .. }) {
            // An answer is judged by what all connections of the node know.
            for at in self.hearsay.news() {
                self.handle(Input::Malformed { at });
            }
        }
        self.handle(input);
        self.drain_outputs()
    }

    fn handle(&mut self, input: Input) {
        self.connection
            .handle(input, self.entropy.draw(), self.net.clock.now());
    }

    fn drain_outputs(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        while let Some(output) = self.connection.poll_output() {
            match output {
                Output::Resolve { host, port } => self.resolve(&host, port),
                Output::Dial { socket, address } => self.dial(socket, address),
                Output::Write {
                    socket,
                    bytes,
                    tier,
                } => self.order(socket, Order::Frame(bytes, tier)),
                Output::Close { socket } => self.close(socket),
                Output::Completed(completion) => said.push(Said::Completed(completion)),
                Output::Throttled { until } => said.push(Said::Throttled(until)),
                Output::Event(event) => {
                    let now = self.net.clock.now();
                    if matches!(event, Event::Malformed(_)) {
                        self.hearsay.tell(now);
                    }
                    self.meter.note(&event, now);
                    said.push(Said::Event(event));
                }
                Output::Sasl { socket, challenge } => self.authenticate(socket, challenge.as_ref()),
                Output::StartTls { socket, host } => self.order(socket, Order::Tls(host)),
                Output::TwinWanted => {
                    self.meter.twin_wanted();
                    said.push(Said::TwinWanted);
                }
                Output::Returned(carried) => said.push(Said::Returned(carried)),
            }
        }
        said
    }

    /// Takes what an I/O task says. How far an answer has come is told nobody.
    pub(crate) fn news(&mut self, news: IoNews) -> Vec<Said> {
        match news {
            IoNews::Input(input) => self.input(input),
            IoNews::Salted(socket, salted) => self.salted(socket, &salted),
            IoNews::Token(socket, bearer) => self.token(socket, bearer),
            IoNews::Progress => Vec::new(),
        }
    }

    /// Takes a hashed password; one for an earlier socket or exchange is dropped.
    fn salted(&mut self, socket: SocketId, salted: &SaltedPassword) -> Vec<Said> {
        match &mut self.exchange {
            Some((of, exchange)) if *of == socket => {
                let step = exchange.derived(salted);
                self.stepped(socket, step);
                self.drain_outputs()
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Takes one step of the authentication; without a challenge a new one begins.
    fn authenticate(&mut self, socket: SocketId, challenge: Option<&Challenge>) {
        if challenge.is_none() {
            self.exchange = None;
            let (id, to_actor) = (self.id, self.to_actor.clone());
            let later = move |bearer| drop(to_actor.send((id, IoNews::Token(socket, bearer))));
            let begun = match &self.net.login {
                Some(login) => login.begin(later),
                None => Some(Err("no credentials are set".to_owned())),
            };
            if let Some(begun) = begun {
                self.begun(socket, begun);
            }
            return;
        }
        let challenge = challenge.map(|Challenge(bytes)| bytes.as_ref());
        if let Some((of, exchange)) = &mut self.exchange
            && *of == socket
        {
            let step = exchange.step(challenge);
            self.stepped(socket, step);
        }
    }

    /// An exchange can begin, or not at all.
    fn begun(&mut self, socket: SocketId, begun: Result<Exchange, String>) {
        let step = match begun {
            Ok(mut exchange) => {
                let step = exchange.step(None);
                self.exchange = Some((socket, exchange));
                step
            }
            Err(why) => Step::Tell(SaslStep::Failed(why)),
        };
        self.stepped(socket, step);
    }

    /// Takes a token that had to be fetched; the machine ignores it if the socket is gone.
    fn token(&mut self, socket: SocketId, bearer: Result<Bearer, String>) -> Vec<Said> {
        if self.socket.as_ref().is_none_or(|open| open.id != socket) {
            return Vec::new();
        }
        let credentials = bearer.map(Credentials::Bearer);
        let begun = credentials.and_then(|credentials| match &self.net.login {
            Some(login) => login.exchange(&credentials),
            None => Err("no credentials are set".to_owned()),
        });
        self.begun(socket, begun);
        self.drain_outputs()
    }

    fn stepped(&mut self, socket: SocketId, step: Step) {
        match step {
            Step::Derive(derivation) => {
                let (id, to_actor) = (self.id, self.to_actor.clone());
                login::derive(derivation, move |salted| {
                    drop(to_actor.send((id, IoNews::Salted(socket, salted))));
                });
            }
            Step::Tell(step) => {
                if matches!(step, SaslStep::Done | SaslStep::Failed(_)) {
                    self.exchange = None;
                }
                self.handle(Input::Sasl { socket, step });
            }
        }
    }

    /// Opens the connection although no request waits for it.
    pub(crate) fn open(&mut self) -> Vec<Said> {
        self.input(Input::Open)
    }

    /// Gives the socket up at once; the machine judges what was on it.
    pub(crate) fn hang_up(&mut self) -> Vec<Said> {
        let Some(open) = self.socket.take() else {
            return Vec::new();
        };
        open.task.abort();
        let (socket, written) = (open.id, open.written.get());
        self.input(Input::Lost {
            socket,
            written,
            reason: "hung up".to_owned(),
        })
    }

    /// When to feed [`Input::Tick`] at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.connection.next_deadline()
    }

    fn resolve(&mut self, host: &str, port: u16) {
        let answer = self.net.transport.resolve(host.to_owned(), port);
        let (id, to_actor) = (self.id, self.to_actor.clone());
        let task = spawn::local("resolve", async move {
            let result = answer.await.map_err(|error| error.to_string());
            drop(to_actor.send((id, IoNews::Input(Input::Resolved(result)))));
        });
        if let Some(former) = self.resolving.replace(task) {
            former.abort();
        }
    }

    fn dial(&mut self, socket: SocketId, address: std::net::SocketAddr) {
        let (orders, ordered) = mpsc::unbounded_channel();
        let written = Rc::new(Cell::new(0));
        let run = Run {
            port: self.id,
            socket,
            to_actor: self.to_actor.clone(),
            deframer: Deframer::new(self.net.caps),
            written: Rc::clone(&written),
            clock: self.net.clock,
            tls: self.net.tls.clone(),
        };
        let dial = self.net.transport.dial(address);
        let task = spawn::local("socket", run.run(dial, ordered));
        self.socket = Some(Socket {
            id: socket,
            orders,
            written,
            task,
        });
    }

    fn order(&mut self, socket: SocketId, order: Order) {
        if let Some(open) = self.socket.as_ref().filter(|open| open.id == socket) {
            // A task that has ended has told why; the machine will hear of it.
            drop(open.orders.send(order));
        }
    }

    fn close(&mut self, socket: SocketId) {
        if let Some(open) = self.socket.take_if(|open| open.id == socket) {
            open.task.abort();
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(open) = self.socket.take() {
            open.task.abort();
        }
        for task in self
            .resolving
            .take()
            .into_iter()
            .chain(self.renewing.take())
        {
            task.abort();
        }
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port")
            .field("class", &self.class)
            .field("state", &self.connection.state())
            .finish_non_exhaustive()
    }
}

/// The target of a broker's connection.
pub(crate) fn target(broker: Option<BrokerId>, host: &str, port: u16) -> Target {
    Target {
        broker,
        host: host.into(),
        port,
    }
}
