//! Connections in virtual time: nearside's own connection machines on one side, the embedded
//! cluster on the other, half a round trip between them. The rig and the simulator share it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use nearside::embedded::{self, Cluster, ConnectError, ConnectionId};
use nearside::ids::{BrokerId, Draw, Moment};
use nearside::routing::{Link, LinkChange};
use nearside::wire::{
    ApiKey, Class, Completion, Connection, Event, Input, Output, Reason, Request, Settings,
    SocketId, StateName, Target, Token,
};

/// One connection machine by its broker and class.
pub(crate) type Wire = (BrokerId, Class);

/// What the network tells the rig.
#[derive(Debug)]
pub(crate) enum News {
    /// A request ended.
    Completed(Wire, Completion),
    /// A connection changed.
    Link(LinkNews),
    /// The broker asked for silence, over this connection.
    Throttled(Wire, Moment),
}

/// How a connection stands now, in the words of routes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkNews {
    pub(crate) wire: Wire,
    pub(crate) link: Link,
    /// What routes hear of it; `None` for steps that none waits for, and for an idle close.
    pub(crate) change: Option<LinkChange>,
    /// The Fetch version in use, once it is known.
    pub(crate) fetch_version: Option<i16>,
    /// The lowest Fetch version the broker serves, once it is known.
    pub(crate) fetch_min: Option<i16>,
}

/// What stands between this client and one broker; by default nothing. Packets held up arrive when
/// the path is open again, as TCP retransmits them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Path {
    /// New connections are refused.
    pub(crate) refused: bool,
    /// Requests and dials do not pass.
    pub(crate) mute: bool,
    /// Answers do not pass.
    pub(crate) deaf: bool,
    /// Answers take this much longer.
    pub(crate) late: Duration,
}

/// Something between two ends of a connection.
#[derive(Debug)]
pub(crate) enum Transit {
    Dial(Wire, SocketId),
    Request(Wire, SocketId, Bytes),
    Answer(Wire, SocketId, Bytes),
    Gone(Wire, SocketId),
}

/// All connections of one client.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) machines: BTreeMap<Wire, Connection>,
    /// Machines that may have outputs.
    stirred: BTreeSet<Wire>,
    /// When each machine wants to be woken.
    pub(crate) due: BTreeMap<Wire, Moment>,
    pub(crate) sockets: BTreeMap<ConnectionId, (Wire, SocketId)>,
    pub(crate) paths: BTreeMap<BrokerId, Path>,
    pub(crate) held: Vec<Transit>,
    pub(crate) transit: BTreeMap<(Moment, u64), Transit>,
    /// When the last answer of a wire arrives: none overtakes another.
    arrivals: BTreeMap<Wire, Moment>,
    sent: u64,
    round_trip: Duration,
    news: VecDeque<News>,
    /// Of all its connections.
    pub(crate) settings: Settings,
    /// Every socket ever dialled.
    pub(crate) dials: Vec<(Moment, Wire)>,
}

impl Net {
    pub(crate) fn new(round_trip: Duration) -> Self {
        Self {
            machines: BTreeMap::new(),
            stirred: BTreeSet::new(),
            due: BTreeMap::new(),
            sockets: BTreeMap::new(),
            paths: BTreeMap::new(),
            held: Vec::new(),
            transit: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            sent: 0,
            round_trip,
            news: VecDeque::new(),
            settings: Settings::default(),
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
        self.feed(wire, input, draw, now);
    }

    /// Hands one connection machine an input.
    pub(crate) fn feed(&mut self, wire: Wire, input: Input, draw: Draw, now: Moment) {
        self.machine(wire).handle(input, draw, now);
    }

    /// Ends a connection from our side.
    pub(crate) fn hang_up(&mut self, wire: Wire, cluster: &mut Cluster, draw: Draw, now: Moment) {
        let open = self.sockets.iter().filter(|(_, (of, _))| *of == wire);
        let open: Vec<_> = open.map(|(id, (_, socket))| (*id, *socket)).collect();
        for (id, socket) in open {
            cluster.disconnect(id, now);
            self.sockets.remove(&id);
            self.lose(wire, socket, "hung up", draw, now);
        }
    }

    pub(crate) fn poll(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let transit = self.transit.keys().next().map(|(at, _)| *at);
        self.due.values().copied().chain(transit).min()
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
            // As in a real host: a connection may be lost with the very next packet, and what it
            // could while it was ready has to be read before.
            self.run(cluster, draw, now);
        }
        let late = self.due.iter().filter(|(_, due)| **due <= now);
        let late: Vec<Wire> = late.map(|(wire, _)| *wire).collect();
        for wire in late {
            self.feed(wire, Input::Tick, draw, now);
        }
        self.run(cluster, draw, now);
    }

    /// Carries out the outputs of the machines.
    pub(crate) fn run(&mut self, cluster: &mut Cluster, draw: Draw, now: Moment) {
        while let Some(wire) = self.stirred.pop_first() {
            while let Some(output) = self.machine_output(wire) {
                self.carry_out(wire, output, cluster, draw, now);
            }
            let machine = self.machines.get(&wire);
            match machine.and_then(Connection::next_deadline) {
                Some(due) => self.due.insert(wire, due),
                None => self.due.remove(&wire),
            };
        }
    }

    /// Takes what the cluster sends; `false` if it is for another client.
    pub(crate) fn take(&mut self, output: &embedded::Output, now: Moment) -> bool {
        let later = now + self.round_trip / 2;
        match output {
            embedded::Output::Answer { connection, frame } => {
                let Some((wire, socket)) = self.sockets.get(connection).copied() else {
                    return false;
                };
                self.send(Transit::Answer(wire, socket, frame.clone()), later);
            }
            embedded::Output::Closed { connection } => {
                let Some((wire, socket)) = self.sockets.remove(connection) else {
                    return false;
                };
                self.send(Transit::Gone(wire, socket), later);
            }
        }
        true
    }

    /// Puts something on its way to arrive at `at`, unless the path holds it up.
    pub(crate) fn send(&mut self, transit: Transit, at: Moment) {
        let wire = transit.wire();
        let path = self.paths.get(&wire.0).copied().unwrap_or_default();
        let (held, at) = match transit {
            Transit::Dial(..) => (path.mute || path.deaf, at + path.late),
            Transit::Request(..) => (path.mute, at),
            Transit::Answer(..) | Transit::Gone(..) => {
                let before = self.arrivals.entry(wire).or_default();
                *before = (at + path.late).max(*before);
                (path.deaf, *before)
            }
        };
        if held {
            self.held.push(transit);
            return;
        }
        self.sent += 1;
        self.transit.insert((at, self.sent), transit);
    }

    fn machine(&mut self, wire: Wire) -> &mut Connection {
        self.stirred.insert(wire);
        let settings = &self.settings;
        self.machines.entry(wire).or_insert_with(|| {
            let (broker, class) = wire;
            let host = format!("broker-{broker}.embedded").into();
            let target = Target {
                broker: Some(broker),
                host,
                port: 9092,
            };
            Connection::new(class, target, settings.clone(), 0)
        })
    }

    fn machine_output(&mut self, wire: Wire) -> Option<Output> {
        self.machines.get_mut(&wire)?.poll_output()
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
                self.feed(wire, Input::Resolved(Ok(vec![address])), draw, now);
            }
            Output::Dial { socket, .. } => {
                self.dials.push((now, wire));
                self.send(Transit::Dial(wire, socket), now + self.round_trip);
            }
            Output::Write { socket, bytes, .. } => {
                let frame = bytes.slice(4..);
                let at = now + self.round_trip / 2;
                self.send(Transit::Request(wire, socket, frame), at);
            }
            Output::Close { socket } => self.close(wire, socket, cluster, now),
            Output::Completed(completion) => self.news.push_back(News::Completed(wire, completion)),
            Output::Throttled { until } => self.news.push_back(News::Throttled(wire, until)),
            Output::Event(Event::Transition { from, to, reason }) => {
                self.transition(wire, from, to, &reason);
            }
            Output::Event(_) => {}
            Output::StartTls { .. }
            | Output::Sasl { .. }
            | Output::TwinWanted
            | Output::Returned(_) => {
                panic!("the embedded cluster has no security")
            }
        }
    }

    fn close(&mut self, wire: Wire, socket: SocketId, cluster: &mut Cluster, now: Moment) {
        if let Some(id) = self.connection_of(wire, socket) {
            self.sockets.remove(&id);
            cluster.disconnect(id, now);
        }
        // A dial under way is given up with its socket.
        let dial =
            |one: &Transit| matches!(one, Transit::Dial(of, at) if (*of, *at) == (wire, socket));
        self.held.retain(|one| !dial(one));
        self.transit.retain(|_, one| !dial(one));
    }

    fn connection_of(&self, wire: Wire, socket: SocketId) -> Option<ConnectionId> {
        let mut sockets = self.sockets.iter();
        let found = sockets.find(|(_, of)| **of == (wire, socket));
        found.map(|(id, _)| *id)
    }

    fn transition(&mut self, wire: Wire, from: StateName, to: StateName, reason: &Reason) {
        let (before, link) = (Link::of(from), Link::of(to));
        let change = LinkChange::between(from, to, reason);
        if before == link && change.is_none() {
            return;
        }
        let versions = self.machines.get(&wire).and_then(Connection::versions);
        let fetch_version = versions.and_then(|known| known.highest(ApiKey::Fetch));
        let range = versions.and_then(|known| known.theirs(ApiKey::Fetch));
        let fetch_min = range.map(|range| range.min);
        self.news.push_back(News::Link(LinkNews {
            wire,
            link,
            change,
            fetch_version,
            fetch_min,
        }));
    }

    fn arrive(&mut self, transit: Transit, cluster: &mut Cluster, draw: Draw, now: Moment) {
        match transit {
            Transit::Dial(wire, socket) => self.dial(wire, socket, cluster, draw, now),
            Transit::Request(wire, socket, frame) => {
                // What is written to a connection that the other side has closed is lost.
                if let Some(id) = self.connection_of(wire, socket) {
                    cluster.deliver(id, frame, now);
                }
            }
            Transit::Answer(wire, socket, frame) => {
                self.feed(wire, Input::Frame { socket, frame }, draw, now);
            }
            Transit::Gone(wire, socket) => self.lose(wire, socket, "closed", draw, now),
        }
    }

    fn dial(
        &mut self,
        wire: Wire,
        socket: SocketId,
        cluster: &mut Cluster,
        draw: Draw,
        now: Moment,
    ) {
        let refused = self.paths.get(&wire.0).is_some_and(|path| path.refused);
        let connected = match refused {
            true => Err(ConnectError::Refused),
            false => cluster.connect(wire.0, now),
        };
        let result = match connected {
            Ok(id) => {
                self.sockets.insert(id, (wire, socket));
                Ok(())
            }
            Err(ConnectError::Refused) => Err("refused".to_owned()),
            Err(ConnectError::Silent) => return self.retransmit(wire, socket, now),
        };
        self.feed(wire, Input::Dialed { socket, result }, draw, now);
    }

    /// The first packet of a dial got lost: TCP sends it again after 1 s, 2 s, 4 s and so on.
    fn retransmit(&mut self, wire: Wire, socket: SocketId, now: Moment) {
        let mut dials = self.dials.iter().rev();
        let begun = dials.find(|(_, of)| *of == wire).map(|(at, _)| *at);
        let gone = now.since(begun.unwrap_or(now));
        self.sent += 1;
        let again = now + gone + Duration::from_secs(1);
        self.transit
            .insert((again, self.sent), Transit::Dial(wire, socket));
    }

    pub(crate) fn lose(
        &mut self,
        wire: Wire,
        socket: SocketId,
        why: &str,
        draw: Draw,
        now: Moment,
    ) {
        let lost = Input::Lost {
            socket,
            written: u64::MAX,
            reason: why.to_owned(),
        };
        self.feed(wire, lost, draw, now);
    }
}

impl Transit {
    pub(crate) fn wire(&self) -> Wire {
        match self {
            Self::Dial(wire, _)
            | Self::Request(wire, ..)
            | Self::Answer(wire, ..)
            | Self::Gone(wire, _) => *wire,
        }
    }
}
