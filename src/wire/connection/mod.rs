//! The connection machine: the only way to a socket (wire.md 5).
//!
//! One per broker and class. Feed it one [`Input`], drain [`Connection::poll_output`], then sleep
//! until [`Connection::next_deadline`] and feed [`Input::Tick`]. See [`crate::wire`] for the whole
//! contract.

mod addresses;
mod auth;
mod ending;
mod input;
mod link;
mod output;
mod ready;
mod requests;
mod settings;
mod setup;
mod state;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use self::addresses::Addresses;
use self::link::{Entry, Head, Link, Pending, Reply, encode_frame};
use self::state::State;
use crate::ids::{Draw, Moment};
use crate::timers::DeadlineTable;
use crate::wire::api_key::ApiKey;
use crate::wire::error::EncodeError;
use crate::wire::frame::Tier;
use crate::wire::message::Request;
use crate::wire::versions::VersionTable;

pub use self::input::{DrainReason, Input, SaslStep, SocketId, TlsFailure, Token};
pub use self::link::Carried;
pub use self::output::{
    Challenge, Completion, Event, Outcome, Output, Reason, RequestError, RequestFailure,
};
pub use self::settings::{Class, Security, Settings, Target};
pub use self::state::StateName;

/// When something happens, and one random sample for it.
#[derive(Clone, Copy, Debug)]
struct At {
    draw: Draw,
    now: Moment,
}

/// A timer of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    Setup,
    Step,
    Stable,
    Idle,
    Backoff,
    Mute,
    Reauth,
    Expiry,
    Drain,
}

impl Timer {
    const ALL: [Self; 9] = [
        Self::Setup,
        Self::Step,
        Self::Stable,
        Self::Idle,
        Self::Backoff,
        Self::Mute,
        Self::Reauth,
        Self::Expiry,
        Self::Drain,
    ];

    const fn index(self) -> usize {
        match self {
            Self::Setup => 0,
            Self::Step => 1,
            Self::Stable => 2,
            Self::Idle => 3,
            Self::Backoff => 4,
            Self::Mute => 5,
            Self::Reauth => 6,
            Self::Expiry => 7,
            Self::Drain => 8,
        }
    }
}

/// How long the next attempt waits, and what the failure counts for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Wait {
    /// A failure: doubling.
    Failure,
    /// A connection lost in good standing: the first step, and no failure.
    Settled,
    /// Refused credentials: a schedule of its own, and the queue ends.
    Trust(String),
    /// Another protocol: flat.
    Mixup,
}

/// Trust that was lost. Whoever makes a new machine for the same place, because the one before had
/// to go, hands it on: a place that refuses us is dialled no sooner for that (C4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Distrust {
    failures: u32,
    until: Moment,
}

/// One connection to one broker.
#[derive(Debug)]
pub struct Connection {
    class: Class,
    target: Target,
    settings: Settings,
    client_id: StrBytes,
    state: State,
    link: Option<Link>,
    queue: VecDeque<Pending>,
    outputs: VecDeque<Output>,
    timers: DeadlineTable<9>,
    addresses: Addresses,
    versions: VersionTable,
    next_socket: u64,
    next_correlation: i32,
    failures: u32,
    trust_failures: u32,
    hang_ups: u32,
    ever_ready: bool,
    muted_until: Moment,
    malformed_at: VecDeque<Moment>,
    exchange_began: Moment,
    lifetime: Option<Duration>,
    /// Why the exchange that still runs has failed already.
    refused: Option<String>,
    /// Somebody wants the connection open although no request waits.
    wanted: bool,
}

impl Connection {
    /// A connection that dials when the first request comes.
    ///
    /// `failures` is 0, or the [`failures`](Self::failures) of the connection it replaces when the
    /// broker's address changed: the count is carried over, the waiting time is not (C7).
    pub fn new(class: Class, target: Target, settings: Settings, failures: u32) -> Self {
        let client_id = StrBytes::from_string(settings.client_id.as_ref().to_owned());
        Self {
            class,
            target,
            settings,
            client_id,
            state: State::Idle,
            link: None,
            queue: VecDeque::new(),
            outputs: VecDeque::new(),
            timers: DeadlineTable::new(),
            addresses: Addresses::default(),
            versions: VersionTable::default(),
            next_socket: 0,
            next_correlation: 0,
            failures,
            trust_failures: 0,
            hang_ups: 0,
            ever_ready: false,
            muted_until: Moment::ZERO,
            malformed_at: VecDeque::new(),
            exchange_began: Moment::ZERO,
            lifetime: None,
            refused: None,
            wanted: false,
        }
    }

    /// Has a machine that is new wait as long as the one before it would have.
    pub fn inherit(&mut self, distrust: Distrust) {
        let Distrust { failures, until } = distrust;
        (self.failures, self.trust_failures) = (failures, failures);
        self.state = State::Backoff { until };
        self.set(Timer::Backoff, until);
    }

    /// The trust that this machine has lost, while it waits to try again.
    pub fn distrust_left(&self) -> Option<Distrust> {
        match self.state {
            State::Backoff { until } if self.trust_failures > 0 => Some(Distrust {
                failures: self.trust_failures,
                until,
            }),
            State::Backoff { .. }
            | State::Idle
            | State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Authenticate { .. }
            | State::Ready { .. }
            | State::Reauth { .. }
            | State::Draining { .. }
            | State::Closed { .. } => None,
        }
    }

    /// Takes one input that happened at `now`. `draw` is a fresh random sample.
    pub fn handle(&mut self, input: Input, draw: Draw, now: Moment) {
        let at = At { draw, now };
        if input
            .socket()
            .is_some_and(|socket| !self.is_current(socket))
        {
            return;
        }
        match input {
            Input::Request { token, request } => self.on_request(token, request, at),
            Input::Open => self.on_open(at),
            Input::Adopt(Carried(pending)) => self.take(pending, at),
            Input::Renew => self.on_renew(at),
            Input::Resolved(result) => self.on_resolved(result, at),
            Input::Dialed { result, .. } => self.on_dialed(result, at),
            Input::Tls { result, .. } => self.on_tls(result, at),
            Input::Sasl { step, .. } => self.on_sasl(step, at),
            Input::Frame { frame, .. } => self.on_frame(&frame, at),
            Input::Broken { error, .. } => self.on_broken(error, at),
            Input::Written { bytes, .. } => self.on_written(bytes, now),
            Input::Lost {
                written, reason, ..
            } => self.on_lost(written, reason, at),
            Input::Mute { until } => self.on_mute(until, at),
            Input::Malformed { at } => self.note_malformed(at, now),
            Input::Drain(reason) => self.on_drain(reason, now),
            Input::Tick => self.on_tick(at),
        }
    }

    /// The next thing to act on; `None` once all is said.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to hand in [`Input::Tick`] at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let queued = self.queue.iter().map(|pending| pending.deadline);
        let flying = self
            .link
            .iter()
            .flat_map(|link| &link.entries)
            .filter_map(Entry::deadline);
        self.timers
            .next()
            .into_iter()
            .chain(queued)
            .chain(flying)
            .min()
    }

    /// Where the connection stands.
    pub fn state(&self) -> StateName {
        self.state.name()
    }

    /// What the broker serves, once the connection is ready.
    pub fn versions(&self) -> Option<&VersionTable> {
        let told = matches!(self.state(), StateName::Ready | StateName::Reauth);
        told.then_some(&self.versions)
    }

    /// The purpose of the connection.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Whom it reaches.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Failures since the last good connection.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Number of requests that wait to be written.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Number of requests written and not yet answered, those of the setup included.
    pub fn in_flight(&self) -> usize {
        self.link.as_ref().map_or(0, |link| link.entries.len())
    }

    /// Until when the broker asked us to be quiet, if that lies ahead of `now`.
    pub fn muted_until(&self, now: Moment) -> Option<Moment> {
        (self.muted_until > now).then_some(self.muted_until)
    }

    fn is_current(&self, socket: SocketId) -> bool {
        self.link.as_ref().is_some_and(|link| link.socket == socket)
    }

    /// Enters `to` and reports it.
    fn go(&mut self, to: State, reason: Reason) {
        let (from, name) = (self.state.name(), to.name());
        self.state = to;
        self.emit(Event::Transition {
            from,
            to: name,
            reason,
        });
    }

    fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn set(&mut self, timer: Timer, due: Moment) {
        self.timers.set(timer.index(), due);
    }

    fn clear(&mut self, timers: &[Timer]) {
        for timer in timers {
            self.timers.clear(timer.index());
        }
    }

    /// Stops every timer but the mute's, which belongs to the broker, not to the socket.
    fn clear_socket_timers(&mut self) {
        for timer in Timer::ALL {
            match timer {
                Timer::Mute => {}
                Timer::Setup
                | Timer::Step
                | Timer::Stable
                | Timer::Idle
                | Timer::Backoff
                | Timer::Reauth
                | Timer::Expiry
                | Timer::Drain => self.timers.clear(timer.index()),
            }
        }
    }

    /// Encodes one request under the next correlation id.
    fn encode(&self, version: i16, request: &Request) -> Result<(Head, Bytes), EncodeError> {
        let head = Head {
            correlation: self.next_correlation,
            api: request.api(),
            version,
        };
        encode_frame(&self.client_id, head, request).map(|bytes| (head, bytes))
    }

    /// Hands one frame to the socket and remembers who waits for its answer.
    fn send(&mut self, head: Head, bytes: Bytes, reply: Reply, now: Moment) {
        let Some(link) = &mut self.link else {
            return;
        };
        self.next_correlation = following(self.next_correlation);
        let tier = match &reply {
            Reply::Setup => Tier::Setup,
            Reply::Caller(_) if head.api == ApiKey::Fetch => Tier::Fetch,
            Reply::Caller(_) => Tier::Other,
        };
        link.sent(head, bytes.len(), reply, now);
        self.outputs.push_back(Output::Write {
            socket: link.socket,
            bytes,
            tier,
        });
    }
}

/// The correlation id after `id`: they wrap to 0 (F4).
const fn following(id: i32) -> i32 {
    match id.checked_add(1) {
        Some(next) => next,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_ids_wrap_to_zero() {
        assert_eq!(following(0), 1);
        assert_eq!(following(i32::MAX), 0);
    }
}
