//! Connections in virtual time: nearside's own connection machines on one side, the embedded
//! cluster on the other, half a round trip between them.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use nearside::embedded::{self, Cluster, ConnectError, ConnectionId};
use nearside::ids::{BrokerId, Draw, Moment};
use nearside::wire::{
    Class, Completion, Connection, Event, Input, Output, Reason, Request, Settings, SocketId,
    StateName, Target, Token,
};

/// One connection machine by its broker and class.
pub(crate) type Wire = (BrokerId, Class);

/// What the network tells the rig.
#[derive(Debug)]
pub(crate) enum News {
    /// A request ended.
    Completed(Wire, Completion),
    /// A connection is Ready and speaks this Fetch version.
    Ready(Wire, i16),
    /// A connection that was Ready ended; `idle` if for want of use.
    Lost(Wire, bool),
    /// A dial failed.
    Failed(Wire),
    /// The broker asked for silence.
    Throttled(BrokerId, Moment),
}

#[derive(Debug)]
enum Transit {
    Dial(Wire, SocketId),
    Request(ConnectionId, Bytes),
    Answer(Wire, SocketId, Bytes),
    Gone(Wire, SocketId),
}

/// All connections of one client.
#[derive(Debug)]
pub(crate) struct Net {
    machines: BTreeMap<Wire, Connection>,
    sockets: BTreeMap<ConnectionId, (Wire, SocketId)>,
    transit: BTreeMap<(Moment, u64), Transit>,
    sent: u64,
    round_trip: Duration,
    news: VecDeque<News>,
    /// Every socket ever dialled.
    pub(crate) dials: Vec<(Moment, Wire)>,
}

impl Net {
    pub(crate) fn new(round_trip: Duration) -> Self {
        Self {
            machines: BTreeMap::new(),
            sockets: BTreeMap::new(),
            transit: BTreeMap::new(),
            sent: 0,
            round_trip,
            news: VecDeque::new(),
            dials: Vec::new(),
        }
    }

    pub(crate) fn request(
        &mut self,
        wire: Wire,
        token: Token,
        request: Request,
        draw: Draw,
        now: Moment,
    ) {
        let input = Input::Request { token, request };
        self.machine(wire).handle(input, draw, now);
    }

    /// Ends a connection from our side.
    pub(crate) fn hang_up(&mut self, wire: Wire, cluster: &mut Cluster, draw: Draw, now: Moment) {
        let open: Vec<_> = self
            .sockets
            .iter()
            .filter(|(_, (of, _))| *of == wire)
            .collect();
        let open: Vec<_> = open
            .into_iter()
            .map(|(id, (_, socket))| (*id, *socket))
            .collect();
        for (id, socket) in open {
            cluster.disconnect(id, now);
            self.sockets.remove(&id);
            let reason = "hung up".to_owned();
            let lost = Input::Lost {
                socket,
                written: u64::MAX,
                reason,
            };
            self.machine(wire).handle(lost, draw, now);
        }
    }

    pub(crate) fn poll(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let transit = self.transit.keys().next().map(|(at, _)| *at);
        let machines = self.machines.values().filter_map(Connection::next_deadline);
        machines.chain(transit).min()
    }

    /// Moves everything that is due, then runs the machines until they are quiet.
    pub(crate) fn advance(&mut self, cluster: &mut Cluster, draw: Draw, now: Moment) {
        while let Some(entry) = self
            .transit
            .first_entry()
            .filter(|entry| entry.key().0 <= now)
        {
            let transit = entry.remove();
            self.arrive(transit, cluster, draw, now);
        }
        for machine in self.machines.values_mut() {
            if machine.next_deadline().is_some_and(|due| due <= now) {
                machine.handle(Input::Tick, draw, now);
            }
        }
        self.run(cluster, draw, now);
    }

    /// Carries out the outputs of the machines and of the cluster.
    pub(crate) fn run(&mut self, cluster: &mut Cluster, draw: Draw, now: Moment) {
        while let Some(output) = cluster.poll_output() {
            self.answer(output, now);
        }
        let wires: Vec<Wire> = self.machines.keys().copied().collect();
        for wire in wires {
            while let Some(output) = self.machine(wire).poll_output() {
                self.carry_out(wire, output, cluster, draw, now);
            }
        }
    }

    fn machine(&mut self, wire: Wire) -> &mut Connection {
        self.machines.entry(wire).or_insert_with(|| {
            let (broker, class) = wire;
            let host = format!("broker-{broker}.embedded").into();
            let target = Target {
                broker: Some(broker),
                host,
                port: 9092,
            };
            Connection::new(class, target, Settings::default(), 0)
        })
    }

    fn send(&mut self, transit: Transit, at: Moment) {
        self.sent += 1;
        self.transit.insert((at, self.sent), transit);
    }

    fn carry_out(
        &mut self,
        wire: Wire,
        output: Output,
        cluster: &mut Cluster,
        draw: Draw,
        now: Moment,
    ) {
        match output {
            Output::Resolve { .. } => {
                let octet = u8::try_from(wire.0.0).unwrap();
                let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, octet)), 9092);
                self.machine(wire)
                    .handle(Input::Resolved(Ok(vec![address])), draw, now);
            }
            Output::Dial { socket, .. } => {
                self.dials.push((now, wire));
                self.send(Transit::Dial(wire, socket), now + self.round_trip);
            }
            Output::Write { socket, bytes, .. } => {
                let at = |(_, found): (&ConnectionId, &(Wire, SocketId))| *found == (wire, socket);
                let id = self
                    .sockets
                    .iter()
                    .find(|entry| at(*entry))
                    .map(|(id, _)| *id);
                let frame = bytes.slice(4..);
                self.send(
                    Transit::Request(id.unwrap(), frame),
                    now + self.round_trip / 2,
                );
            }
            Output::Close { socket } => {
                self.sockets.retain(|id, found| {
                    let keep = *found != (wire, socket);
                    if !keep {
                        cluster.disconnect(*id, now);
                    }
                    keep
                });
            }
            Output::Completed(completion) => self.news.push_back(News::Completed(wire, completion)),
            Output::Throttled { until } => self.news.push_back(News::Throttled(wire.0, until)),
            Output::Event(Event::Transition { from, to, reason }) => {
                self.transition(wire, from, to, &reason);
            }
            Output::Event(_) => {}
            Output::StartTls { .. } | Output::Sasl { .. } | Output::TwinWanted => {
                panic!("the embedded cluster has no security")
            }
        }
    }

    fn transition(&mut self, wire: Wire, from: StateName, to: StateName, reason: &Reason) {
        match (from, to) {
            (_, StateName::Ready) => {
                let versions = self.machine(wire).versions().unwrap();
                let fetch = versions.highest(nearside::wire::ApiKey::Fetch).unwrap();
                self.news.push_back(News::Ready(wire, fetch));
            }
            (StateName::Ready, _) => {
                let idle = matches!(reason, Reason::Unused);
                self.news.push_back(News::Lost(wire, idle));
            }
            (_, StateName::Backoff) => self.news.push_back(News::Failed(wire)),
            (_, _) => {}
        }
    }

    fn arrive(&mut self, transit: Transit, cluster: &mut Cluster, draw: Draw, now: Moment) {
        match transit {
            Transit::Dial(wire, socket) => match cluster.connect(wire.0, now) {
                Ok(id) => {
                    self.sockets.insert(id, (wire, socket));
                    let input = Input::Dialed {
                        socket,
                        result: Ok(()),
                    };
                    self.machine(wire).handle(input, draw, now);
                }
                Err(ConnectError::Refused) => {
                    let input = Input::Dialed {
                        socket,
                        result: Err("refused".to_owned()),
                    };
                    self.machine(wire).handle(input, draw, now);
                }
                Err(ConnectError::Silent) => {}
            },
            Transit::Request(id, frame) => cluster.deliver(id, frame, now),
            Transit::Answer(wire, socket, frame) => {
                self.machine(wire)
                    .handle(Input::Frame { socket, frame }, draw, now);
            }
            Transit::Gone(wire, socket) => {
                let reason = "closed by the broker".to_owned();
                let lost = Input::Lost {
                    socket,
                    written: u64::MAX,
                    reason,
                };
                self.machine(wire).handle(lost, draw, now);
            }
        }
    }

    fn answer(&mut self, output: embedded::Output, now: Moment) {
        let later = now + self.round_trip / 2;
        match output {
            embedded::Output::Answer { connection, frame } => {
                if let Some((wire, socket)) = self.sockets.get(&connection).copied() {
                    self.send(Transit::Answer(wire, socket, frame), later);
                }
            }
            embedded::Output::Closed { connection } => {
                if let Some((wire, socket)) = self.sockets.remove(&connection) {
                    self.send(Transit::Gone(wire, socket), later);
                }
            }
        }
    }
}
