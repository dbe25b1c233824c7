//! A host without sockets: runs one connection in virtual time against a broker played by the test.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable};
use nearside::ids::{BrokerId, Draw, Moment};
use nearside::wire::{
    ApiKey, Class, Completion, Connection, Event, Input, Outcome, Output, Reason, Request,
    RequestFailure, Settings, SocketId, StateName, Target, Tier, Token,
};

use crate::samples;

/// A request as the broker sees it.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) socket: SocketId,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    pub(crate) body: Bytes,
    pub(crate) tier: Tier,
    /// Bytes of its socket before it.
    pub(crate) start: u64,
}

/// What became of a request, its answer left out.
pub(crate) type End = Result<(), (Outcome, RequestFailure)>;

/// The host, the clock and what came out.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) connection: Connection,
    pub(crate) now: Moment,
    draw: Draw,
    sent: (Option<SocketId>, u64),
    pub(crate) resolves: usize,
    pub(crate) dials: VecDeque<(SocketId, SocketAddr)>,
    pub(crate) asks: VecDeque<Ask>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) events: Vec<Event>,
    pub(crate) closed: Vec<SocketId>,
    pub(crate) others: Vec<Output>,
}

impl Rig {
    pub(crate) fn new(class: Class, settings: Settings) -> Self {
        Self::to(Some(BrokerId(1)), class, settings)
    }

    /// A connection to a bootstrap address.
    pub(crate) fn bootstrap(class: Class) -> Self {
        Self::to(None, class, Settings::default())
    }

    fn to(broker: Option<BrokerId>, class: Class, settings: Settings) -> Self {
        let target = Target {
            broker,
            host: "a.kafka".into(),
            port: 9092,
        };
        Self {
            connection: Connection::new(class, target, settings, 0),
            now: Moment::from_ms(1_000),
            draw: Draw(7),
            sent: (None, 0),
            resolves: 0,
            dials: VecDeque::new(),
            asks: VecDeque::new(),
            completions: Vec::new(),
            events: Vec::new(),
            closed: Vec::new(),
            others: Vec::new(),
        }
    }

    /// A connection of `class` that is ready: its first request waits for an answer as token 0.
    pub(crate) fn ready(class: Class) -> Self {
        let mut rig = Self::new(class, Settings::default());
        rig.request(0, crate::asking::request(ApiKey::Heartbeat));
        rig.set_up();
        rig
    }

    /// Like [`ready`](Self::ready), with that first request answered.
    pub(crate) fn proven(class: Class) -> Self {
        let mut rig = Self::ready(class);
        let ask = rig.ask();
        rig.answer_sample(&ask);
        assert!(rig.completions.remove(0).result.is_ok());
        rig
    }

    pub(crate) fn feed(&mut self, input: Input) {
        self.draw = self.draw.split();
        self.connection.handle(input, self.draw, self.now);
        while let Some(output) = self.connection.poll_output() {
            self.sort(output);
        }
    }

    fn sort(&mut self, output: Output) {
        match output {
            Output::Resolve { .. } => self.resolves += 1,
            Output::Dial { socket, address } => self.dials.push_back((socket, address)),
            Output::Write {
                socket,
                bytes,
                tier,
            } => self.wrote(socket, bytes, tier),
            Output::Completed(completion) => self.completions.push(completion),
            Output::Event(event) => self.events.push(event),
            Output::Close { socket } => self.closed.push(socket),
            Output::StartTls { .. }
            | Output::Sasl { .. }
            | Output::Throttled { .. }
            | Output::Returned(_)
            | Output::TwinWanted => self.others.push(output),
        }
    }

    fn wrote(&mut self, socket: SocketId, bytes: Bytes, tier: Tier) {
        if self.sent.0 != Some(socket) {
            self.sent = (Some(socket), 0);
        }
        let start = self.sent.1;
        self.sent.1 += u64::try_from(bytes.len()).unwrap();
        self.asks.push_back(Ask {
            start,
            ..read(socket, bytes, tier)
        });
    }

    pub(crate) fn request(&mut self, token: u64, request: Request) {
        self.feed(Input::Request {
            token: Token(token),
            request,
        });
    }

    /// Moves the clock, ticking at every deadline on the way.
    pub(crate) fn advance(&mut self, by: Duration) {
        let target = self.now + by;
        let mut turns = 0;
        while let Some(due) = self.connection.next_deadline().filter(|due| *due <= target) {
            self.now = self.now.max(due);
            self.feed(Input::Tick);
            turns += 1;
            assert!(turns < 10_000, "a deadline does not move on");
        }
        self.now = target;
    }

    pub(crate) fn advance_ms(&mut self, ms: u64) {
        self.advance(Duration::from_millis(ms));
    }

    /// Resolves to one address and opens the socket.
    pub(crate) fn dial(&mut self) -> SocketId {
        self.resolve(&[1]);
        self.open()
    }

    /// Answers the resolver, if it was asked, with addresses 10.0.0.n.
    pub(crate) fn resolve(&mut self, last: &[u8]) {
        if self.connection.state() == StateName::Resolving {
            let list = last.iter().map(|last| address(*last)).collect();
            self.feed(Input::Resolved(Ok(list)));
        }
    }

    pub(crate) fn open(&mut self) -> SocketId {
        let (socket, _) = self.dials.pop_front().expect("a dial");
        self.feed(Input::Dialed {
            socket,
            result: Ok(()),
        });
        socket
    }

    pub(crate) fn refuse_dial(&mut self) {
        let (socket, _) = self.dials.pop_front().expect("a dial");
        self.feed(Input::Dialed {
            socket,
            result: Err("refused".to_owned()),
        });
    }

    /// Dials and answers ApiVersions as a broker that speaks all of our table.
    pub(crate) fn set_up(&mut self) {
        self.dial();
        let ask = self.ask();
        assert_eq!(ask.api, ApiKey::ApiVersions);
        self.answer_sample(&ask);
        assert_eq!(self.connection.state(), StateName::Ready);
    }

    /// The next request the broker sees.
    pub(crate) fn ask(&mut self) -> Ask {
        self.asks.pop_front().expect("a request on the wire")
    }

    /// Answers with a sample that asks for no quiet.
    pub(crate) fn answer_sample(&mut self, ask: &Ask) {
        self.answer(ask, &samples::body(ask.api, ask.version, 0));
    }

    pub(crate) fn answer(&mut self, ask: &Ask, body: &Bytes) {
        self.answer_as(ask, ask.correlation, body);
    }

    pub(crate) fn answer_as(&mut self, ask: &Ask, correlation: i32, body: &Bytes) {
        let mut frame = BytesMut::new();
        ResponseHeader::default()
            .with_correlation_id(correlation)
            .encode(&mut frame, ask.api.response_header(ask.version))
            .unwrap();
        frame.put_slice(body);
        self.feed(Input::Frame {
            socket: ask.socket,
            frame: frame.freeze(),
        });
    }

    /// The socket ends after `written` bytes.
    pub(crate) fn lose(&mut self, socket: SocketId, written: u64) {
        self.feed(Input::Lost {
            socket,
            written,
            reason: "end of stream".to_owned(),
        });
    }

    /// Tokens completed so far with what became of them, in order.
    pub(crate) fn ends(&self) -> Vec<(u64, End)> {
        let end = |completion: &Completion| match &completion.result {
            Ok(_) => (completion.token.0, Ok(())),
            Err(error) => (
                completion.token.0,
                Err((error.outcome, error.reason.clone())),
            ),
        };
        self.completions.iter().map(end).collect()
    }

    /// The reason of the last change of state.
    pub(crate) fn last_reason(&self) -> &Reason {
        let reason = |event: &'_ Event| matches!(event, Event::Transition { .. });
        match self.events.iter().rev().find(|event| reason(event)) {
            Some(Event::Transition { reason, .. }) => reason,
            Some(_) | None => panic!("no transition"),
        }
    }

    /// How long the machine waits until its next deadline.
    pub(crate) fn wait(&self) -> Duration {
        self.connection
            .next_deadline()
            .expect("a deadline")
            .since(self.now)
    }
}

pub(crate) fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 9092))
}

/// Reads a written frame as a broker would.
fn read(socket: SocketId, mut bytes: Bytes, tier: Tier) -> Ask {
    assert_eq!(usize::try_from(bytes.get_i32()).unwrap(), bytes.len());
    let api = ApiKey::from_code((&bytes[..2]).get_i16()).expect("an API of ours");
    let version = (&bytes[2..4]).get_i16();
    let header = RequestHeader::decode(&mut bytes, api.request_header(version)).unwrap();
    assert_eq!(header.client_id.as_deref(), Some("nearside"));
    let correlation = header.correlation_id;
    Ask {
        socket,
        api,
        version,
        correlation,
        body: bytes,
        tier,
        start: 0,
    }
}
