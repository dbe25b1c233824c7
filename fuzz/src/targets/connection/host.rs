//! Plays the host of a connection and checks all it is told.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use nearside::ids::{BrokerId, Draw, Moment};
use nearside::wire::{
    ApiKey, Carried, Class, Completion, Connection, DrainReason, Event, FrameError, Input, Outcome,
    Output, RequestFailure, SaslStep, Settings, SocketId, StateName, Target, Tier, TlsFailure,
    Token,
};

use super::answers::frame;
use super::requests::{request, time_for, token_in};

/// Most requests that wait on one connection (wire.md 4.1 F7).
const QUEUE_MAX: usize = 64;
/// Times a machine may have something to do at one moment.
const TICKS_MAX: usize = 16;

/// A request as the broker sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) api: ApiKey,
    pub(super) version: i16,
    correlation: i32,
    token: Option<u64>,
}

/// A request that has not ended.
#[derive(Debug)]
struct Waiting {
    deadline: Moment,
    /// Where its frames began, and whether a byte of them may have left us.
    frames: Vec<(SocketId, u64, bool)>,
}

/// The socket in use.
#[derive(Debug)]
struct Socket {
    id: SocketId,
    /// Where each frame ends, from 0 on.
    ends: Vec<u64>,
    open: bool,
    secure: bool,
    /// The mechanism is to take a step, with a challenge or without.
    sasl: Option<bool>,
    asks: VecDeque<Ask>,
}

/// A host that keeps books.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) connection: Connection,
    pub(super) now: Moment,
    settings: Settings,
    draw: Draw,
    waiting: BTreeMap<u64, Waiting>,
    /// Requests that another connection is to take.
    carried: Vec<(Carried, Waiting)>,
    socket: Option<Socket>,
    newest: Option<SocketId>,
    state: StateName,
    /// Whose answer is handed in.
    answered: Option<u64>,
    next: u64,
}

impl Host {
    pub(super) fn new(class: Class, known: bool, settings: Settings) -> Self {
        let target = Target {
            broker: known.then_some(BrokerId(1)),
            host: "a.kafka".into(),
            port: 9092,
        };
        Self {
            connection: Connection::new(class, target, settings.clone(), 0),
            now: super::START,
            settings,
            draw: Draw(7),
            waiting: BTreeMap::new(),
            carried: Vec::new(),
            socket: None,
            newest: None,
            state: StateName::Idle,
            answered: None,
            next: 0,
        }
    }

    /// Hands one input in and acts on all that follows.
    pub(super) fn feed(&mut self, input: Input) {
        let muted = self.muted();
        self.draw = self.draw.split();
        self.connection.handle(input, self.draw, self.now);
        while let Some(output) = self.connection.poll_output() {
            self.act(output);
        }
        let extra = self.muted().since(muted);
        for waiting in self.waiting.values_mut() {
            waiting.deadline = waiting.deadline + extra;
        }
        self.check();
    }

    fn muted(&self) -> Moment {
        self.connection.muted_until(self.now).unwrap_or(self.now)
    }

    fn check(&self) {
        let (class, state) = (self.connection.class(), self.connection.state());
        assert_eq!(self.state, state, "a change of state is told");
        let asks = || self.socket.iter().flat_map(|socket| &socket.asks);
        let callers = asks().filter(|ask| ask.token.is_some()).count();
        let queued = self.connection.queued();
        assert_eq!(self.waiting.len(), queued + callers, "a request is lost");
        assert_eq!(asks().count(), self.connection.in_flight());
        assert!(self.connection.in_flight() <= class.in_flight_max());
        assert!(queued <= QUEUE_MAX + class.in_flight_max());
        if matches!(state, StateName::Idle | StateName::Closed) {
            assert!(self.waiting.is_empty(), "a request waits for nothing");
        }
        if let Some(first) = self.waiting.values().map(|it| it.deadline).min() {
            assert!(first > self.now, "a request outlives its deadline");
            let due = self.connection.next_deadline();
            assert!(due.is_some_and(|due| due <= first), "a deadline is missed");
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Resolve { .. } => {}
            Output::Dial { socket, .. } => self.dial(socket),
            Output::StartTls { socket, .. } => {
                assert!(self.settings.security.tls && self.current(socket).open);
            }
            Output::Sasl { socket, challenge } => {
                let socket = self.current(socket);
                assert!(socket.secure, "the mechanism runs in the clear");
                socket.sasl = Some(challenge.is_some());
            }
            Output::Write {
                socket,
                bytes,
                tier,
            } => self.wrote_frame(socket, &bytes, tier),
            Output::Close { socket } => {
                assert_eq!(Some(socket), self.newest);
                self.socket = None;
            }
            Output::Completed(completion) => self.completed(completion),
            Output::Throttled { .. } => assert_ne!(self.connection.class(), Class::Coordinator),
            Output::TwinWanted => assert_eq!(self.state, StateName::Reauth),
            Output::Returned(carried) => {
                let waiting = self.waiting.remove(&carried.token().0);
                self.carried.push((carried, waiting.expect("waits")));
            }
            Output::Event(Event::Transition { from, to, .. }) => {
                assert_eq!(from, self.state);
                self.state = to;
            }
            Output::Event(_) => {}
        }
    }

    fn current(&mut self, id: SocketId) -> &mut Socket {
        let socket = self.socket.as_mut().expect("a socket");
        assert_eq!(socket.id, id);
        socket
    }

    fn dial(&mut self, id: SocketId) {
        assert!(self.socket.is_none(), "two sockets");
        assert!(self.newest.is_none_or(|newest| newest < id));
        self.newest = Some(id);
        self.socket = Some(Socket {
            id,
            ends: vec![0],
            open: false,
            secure: !self.settings.security.tls,
            sasl: None,
            asks: VecDeque::new(),
        });
    }

    fn wrote_frame(&mut self, id: SocketId, bytes: &[u8], tier: Tier) {
        let (class, muted) = (self.connection.class(), self.muted() > self.now);
        let number = |at: usize| i16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let api = ApiKey::from_code(number(4)).expect("ours");
        let token = token_in(bytes);
        let ask = Ask {
            api,
            version: number(6),
            correlation: i32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            token,
        };
        let socket = self.current(id);
        assert!(socket.open && socket.secure, "written too early");
        assert_eq!(tier == Tier::Setup, token.is_none());
        assert_eq!(tier == Tier::Fetch, api == ApiKey::Fetch);
        let start = *socket.ends.last().expect("0 at least");
        socket.ends.push(start + bytes.len() as u64);
        let joins = |ask: &Ask| matches!(ask.api, ApiKey::JoinGroup | ApiKey::SyncGroup);
        let joining = class == Class::Coordinator && socket.asks.iter().any(joins);
        let is_alone = socket.asks.is_empty();
        socket.asks.push_back(ask);
        match token {
            None => assert!(is_alone, "the setup is not alone on the wire"),
            Some(token) => {
                assert!(!muted, "written while mute");
                assert!(!joining, "written behind a JoinGroup or SyncGroup");
                let waiting = self.waiting.get_mut(&token).expect("waits");
                waiting.frames.push((id, start, true));
                assert!(waiting.frames.len() <= 2, "written a third time");
            }
        }
    }

    fn completed(&mut self, completion: Completion) {
        let token = completion.token.0;
        let waiting = self.waiting.remove(&token).expect("ends once");
        match completion.result {
            Ok(response) => {
                assert_eq!(self.answered, Some(token), "somebody else's answer");
                assert_eq!(response.api(), completion.api);
            }
            Err(error) => {
                let left = waiting.frames.iter().any(|(.., left)| *left);
                assert_eq!(error.outcome == Outcome::Unknown, left, "{error}");
                let late = waiting.deadline <= self.now;
                assert_eq!(error.reason == RequestFailure::TimedOut, late, "{error}");
            }
        }
    }

    pub(super) fn request(&mut self, kind: u8) {
        let token = self.next;
        self.next += 1;
        let request = request(kind, token);
        let waiting = Waiting {
            deadline: self.now + time_for(&request) + self.muted().since(self.now),
            frames: Vec::new(),
        };
        self.waiting.insert(token, waiting);
        self.feed(Input::Request {
            token: Token(token),
            request,
        });
    }

    /// Lets time pass, with a tick at every deadline.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        let (mut turns, mut last) = (0, None);
        while let Some(due) = self.connection.next_deadline().filter(|due| *due <= until) {
            turns = if last == Some(due) { turns + 1 } else { 0 };
            assert!(turns < TICKS_MAX, "a deadline does not move on");
            last = Some(due);
            self.now = self.now.max(due);
            self.feed(Input::Tick);
        }
        self.now = until;
    }

    /// Goes to the next deadline.
    pub(super) fn tick(&mut self) {
        let due = self.connection.next_deadline().unwrap_or(self.now);
        self.pass(due.since(self.now));
    }

    /// Lets time pass and comes late to everything.
    pub(super) fn jump(&mut self, time: Duration) {
        self.now = self.now + time;
        self.feed(Input::Tick);
        self.pass(Duration::ZERO);
    }

    pub(super) fn dialed(&mut self, result: Result<(), String>) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        let id = socket.id;
        socket.open = result.is_ok();
        if result.is_err() {
            self.socket = None;
        }
        self.feed(Input::Dialed { socket: id, result });
    }

    pub(super) fn shaken(&mut self, result: Result<bool, TlsFailure>) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        let id = socket.id;
        socket.secure |= result.is_ok();
        if result.is_err() {
            self.socket = None;
        }
        self.feed(Input::Tls { socket: id, result });
    }

    pub(super) fn sasl_asked(&self) -> bool {
        self.socket.as_ref().is_some_and(|it| it.sasl.is_some())
    }

    pub(super) fn challenged(&self) -> bool {
        self.socket.as_ref().and_then(|it| it.sasl) == Some(true)
    }

    pub(super) fn sasl(&mut self, step: SaslStep) {
        if let Some(socket) = &mut self.socket {
            socket.sasl = None;
            let socket = socket.id;
            self.feed(Input::Sasl { socket, step });
        }
    }

    /// Answers the oldest request; whatever is in the answer, the request ends.
    pub(super) fn answer(&mut self, body: impl FnOnce(&Ask) -> Bytes) {
        let Some((id, ask)) = self.oldest() else {
            return;
        };
        let frame = frame(&ask, ask.correlation, &body(&ask));
        self.answered = ask.token;
        self.feed(Input::Frame { socket: id, frame });
        let ended = |token| !self.waiting.contains_key(&token);
        assert!(self.answered.take().is_none_or(ended), "answered in vain");
    }

    fn oldest(&mut self) -> Option<(SocketId, Ask)> {
        let socket = self.socket.as_mut()?;
        Some((socket.id, socket.asks.pop_front()?))
    }

    /// Answers another request than the oldest.
    pub(super) fn answer_wrongly(&mut self, correlation: i32) {
        let Some(socket) = &self.socket else { return };
        let Some(ask) = socket.asks.front().copied() else {
            return;
        };
        if correlation != ask.correlation {
            let frame = frame(&ask, correlation, &super::answers::good(&ask));
            self.close_by(socket.id, |socket| Input::Frame { socket, frame });
        }
    }

    /// A frame that nobody waits for.
    pub(super) fn unasked(&mut self, frame: &[u8]) {
        let Some(socket) = &self.socket else { return };
        if socket.asks.is_empty() && socket.open {
            let frame = Bytes::copy_from_slice(frame);
            self.close_by(socket.id, |socket| Input::Frame { socket, frame });
        }
    }

    pub(super) fn broken(&mut self, error: FrameError) {
        if let Some(socket) = self.socket.as_ref().filter(|socket| socket.open) {
            self.close_by(socket.id, |socket| Input::Broken { socket, error });
        }
    }

    /// Hands in what a socket must not survive.
    fn close_by(&mut self, id: SocketId, input: impl FnOnce(SocketId) -> Input) {
        self.feed(input(id));
        let current = self.socket.as_ref().map(|socket| socket.id);
        assert_ne!(current, Some(id), "a desynchronised socket is used");
    }

    /// How much left us: a share of the frames, and half of the next.
    fn left(&self, share: usize) -> Option<(SocketId, u64)> {
        let socket = self.socket.as_ref().filter(|socket| socket.open)?;
        let last = socket.ends.len() - 1;
        let whole = socket.ends[last * share / 3];
        let next = socket.ends[(last * share / 3 + 1).min(last)];
        Some((socket.id, whole + (next - whole) / 2))
    }

    pub(super) fn wrote(&mut self, share: usize) {
        if let Some((socket, bytes)) = self.left(share) {
            self.feed(Input::Written { socket, bytes });
        }
    }

    pub(super) fn lose(&mut self, share: usize) {
        let Some((socket, written)) = self.left(share) else {
            return;
        };
        for waiting in self.waiting.values_mut() {
            for (id, start, left) in &mut waiting.frames {
                *left &= *id != socket || written > *start;
            }
        }
        self.socket = None;
        self.feed(Input::Lost {
            socket,
            written,
            reason: "end of stream".to_owned(),
        });
    }

    /// Something of an earlier socket, which must be ignored.
    pub(super) fn stale(&mut self, kind: usize) {
        let current = self.socket.as_ref().map(|socket| socket.id);
        let Some(socket) = self.newest.filter(|it| Some(*it) != current) else {
            return;
        };
        let (written, reason) = (0, String::new());
        let input = match kind {
            0 => Input::Dialed {
                socket,
                result: Ok(()),
            },
            1 => Input::Tls {
                socket,
                result: Err(TlsFailure::NotTls),
            },
            2 => Input::Sasl {
                socket,
                step: SaslStep::Done,
            },
            3 => Input::Frame {
                socket,
                frame: Bytes::from_static(&[0; 12]),
            },
            4 => Input::Broken {
                socket,
                error: FrameError::Unasked,
            },
            _ => Input::Lost {
                socket,
                written,
                reason,
            },
        };
        self.connection.handle(input, self.draw, self.now);
        assert!(self.connection.poll_output().is_none(), "a dead socket");
    }

    pub(super) fn drain(&mut self, reason: DrainReason) {
        self.feed(Input::Drain(reason));
        assert!(matches!(
            self.state,
            StateName::Draining | StateName::Closed
        ));
    }

    /// Another connection takes over from one that has ended.
    pub(super) fn replace(&mut self) {
        if self.state != StateName::Closed {
            return;
        }
        let (class, target) = (self.connection.class(), self.connection.target().clone());
        let failures = self.connection.failures();
        self.connection = Connection::new(class, target, self.settings.clone(), failures);
        (self.socket, self.newest, self.state) = (None, None, StateName::Idle);
        for (carried, waiting) in std::mem::take(&mut self.carried) {
            // Its host gives up what is overdue.
            if waiting.deadline > self.now {
                self.waiting.insert(carried.token().0, waiting);
                self.feed(Input::Adopt(carried));
            }
        }
    }

    /// Nobody answers any more: all that waits ends by itself, and so does the connection.
    pub(super) fn finish(&mut self) {
        let last = self.waiting.values().map(|it| it.deadline).max();
        let last = last.unwrap_or(self.now);
        self.pass(last.since(self.now));
        assert!(self.waiting.is_empty(), "a request never ends");
        self.drain(DrainReason::Shutdown);
        self.pass(self.settings.drain);
        assert_eq!(self.state, StateName::Closed);
    }
}
