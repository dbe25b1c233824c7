//! The queue: deadlines, bound, refusals, and the end of every request.

use std::time::Duration;

use super::input::{DrainReason, Token};
use super::link::{Carried, Entry, Link, Pending, Reply};
use super::output::{Completion, Outcome, Output, RequestError, RequestFailure};
use super::state::State;
use super::{At, Connection, Reason};
use crate::ids::Moment;
use crate::wire::api_key::ApiKey;
use crate::wire::message::{Request, Response};

/// Most requests that wait on one connection (F7).
const QUEUE_MAX: usize = 64;

impl Connection {
    /// Dials at once, or once the wait is over; a connection that is up or on its way is left
    /// alone.
    pub(super) fn on_open(&mut self, at: At) {
        match &self.state {
            State::Idle => self.start(Reason::Requested, at),
            State::Backoff { .. } => self.wanted = true,
            State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Authenticate { .. }
            | State::Ready { .. }
            | State::Reauth { .. }
            | State::Draining { .. }
            | State::Closed { .. } => {}
        }
    }

    pub(super) fn on_request(&mut self, token: Token, request: Request, at: At) {
        let deadline = at.now + self.time_for(&request) + self.muted_until.since(at.now);
        let pending = Pending {
            token,
            request,
            deadline,
            retried: false,
        };
        self.take(pending, at);
    }

    /// Queues a request, or refuses it where nothing is written any more.
    pub(super) fn take(&mut self, pending: Pending, at: At) {
        match &self.state {
            State::Closed { reason } => {
                let reason = reason.clone();
                self.refuse(&pending, RequestFailure::Closed(reason));
            }
            State::Draining { reason } => {
                let reason = *reason;
                self.refuse(&pending, RequestFailure::Moved(reason));
            }
            State::Idle
            | State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Authenticate { .. }
            | State::Ready { .. }
            | State::Reauth { .. }
            | State::Backoff { .. } => self.enqueue(pending, at),
        }
    }

    fn enqueue(&mut self, pending: Pending, at: At) {
        if self.queue.len() >= QUEUE_MAX {
            return self.refuse(&pending, RequestFailure::Busy);
        }
        self.queue.push_back(pending);
        match self.state {
            State::Idle => self.start(Reason::Requested, at),
            State::Ready { .. } => self.flush(at.now),
            State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Authenticate { .. }
            | State::Reauth { .. }
            | State::Draining { .. }
            | State::Backoff { .. }
            | State::Closed { .. } => {}
        }
    }

    /// How long a request may take from being queued (F5).
    fn time_for(&self, request: &Request) -> Duration {
        match request {
            Request::Fetch(fetch) => fetch.max_wait + self.settings.fetch_grace,
            Request::JoinGroup(join) => join.rebalance_timeout + self.settings.join_grace,
            Request::Produce(_)
            | Request::ListOffsets(_)
            | Request::Metadata(_)
            | Request::OffsetCommit(_)
            | Request::OffsetFetch(_)
            | Request::FindCoordinator(_)
            | Request::Heartbeat(_)
            | Request::LeaveGroup(_)
            | Request::SyncGroup(_)
            | Request::SaslHandshake(_)
            | Request::ApiVersions(_)
            | Request::CreateTopics(_)
            | Request::InitProducerId(_)
            | Request::OffsetForLeaderEpoch(_)
            | Request::DescribeConfigs(_)
            | Request::SaslAuthenticate(_)
            | Request::ConsumerGroupHeartbeat(_) => self.settings.request_timeout,
        }
    }

    /// Ends queued requests whose deadline passed.
    pub(super) fn expire_queue(&mut self, now: Moment) {
        while let Some(index) = self
            .queue
            .iter()
            .position(|pending| pending.deadline <= now)
        {
            if let Some(pending) = self.queue.remove(index) {
                self.refuse(&pending, RequestFailure::TimedOut);
            }
        }
    }

    /// Ends every queued request.
    pub(super) fn refuse_queue(&mut self, failure: &RequestFailure) {
        while let Some(pending) = self.queue.pop_front() {
            self.refuse(&pending, failure.clone());
        }
    }

    /// Ends a request of which no byte left us.
    pub(super) fn refuse(&mut self, pending: &Pending, reason: RequestFailure) {
        let error = RequestError {
            outcome: Outcome::NotWritten,
            reason,
        };
        self.complete(pending.token, pending.request.api(), None, Err(error), None);
    }

    pub(super) fn complete(
        &mut self,
        token: Token,
        api: ApiKey,
        version: Option<i16>,
        result: Result<Response, RequestError>,
        round_trip: Option<Duration>,
    ) {
        let completion = Completion {
            token,
            api,
            version,
            result,
            round_trip,
        };
        self.outputs.push_back(Output::Completed(completion));
    }

    /// Ends every request in flight of a socket that is gone.
    ///
    /// `written` is the number of bytes that certainly left, if the socket's end told it. Where it
    /// is not known a request that was handed over may have been carried out: bytes and reports
    /// cross.
    pub(super) fn settle(
        &mut self,
        link: Link,
        written: Option<u64>,
        verdict: impl Fn(&Entry) -> RequestFailure,
    ) {
        let mut forgiven = Vec::new();
        for entry in link.entries {
            let untouched = written.is_some_and(|written| entry.is_untouched(written));
            let reason = verdict(&entry);
            let (api, version) = (entry.api, Some(entry.version));
            let Reply::Caller(mut pending) = entry.reply else {
                continue;
            };
            if untouched && !pending.retried {
                pending.retried = true;
                forgiven.push(pending);
                continue;
            }
            let outcome = if untouched {
                Outcome::NotWritten
            } else {
                Outcome::Unknown
            };
            let error = RequestError { outcome, reason };
            self.complete(pending.token, api, version, Err(error), None);
        }
        for pending in forgiven.into_iter().rev() {
            self.queue.push_front(pending);
        }
    }

    pub(super) fn on_drain(&mut self, reason: DrainReason, now: Moment) {
        match self.state {
            State::Draining { .. } | State::Closed { .. } => return,
            State::Idle
            | State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Authenticate { .. }
            | State::Ready { .. }
            | State::Reauth { .. }
            | State::Backoff { .. } => {}
        }
        self.leave_queue(reason);
        self.clear_socket_timers();
        if self.callers_in_flight() {
            // Nobody is kept waiting where another connection has taken over: what is in flight may
            // take as long as it ever might.
            if reason != DrainReason::CredentialsReplaced {
                self.set(super::Timer::Drain, now + self.settings.drain);
            }
            self.go(State::Draining { reason }, Reason::Drain(reason));
        } else {
            self.close_for_good(reason);
        }
    }

    /// Ends every queued request, or hands it to the connection that takes over, which is ready by
    /// now.
    fn leave_queue(&mut self, reason: DrainReason) {
        if reason == DrainReason::CredentialsReplaced {
            let queue = std::mem::take(&mut self.queue).into_iter();
            self.outputs
                .extend(queue.map(|pending| Output::Returned(Carried(pending))));
        }
        self.refuse_queue(&RequestFailure::Moved(reason));
    }

    /// Closes the socket, if there is one, and ends the machine.
    pub(super) fn close_for_good(&mut self, reason: DrainReason) {
        if let Some(link) = self.close() {
            self.settle(link, None, |_| RequestFailure::Disconnected);
        }
        // What was never written waits here again.
        self.leave_queue(reason);
        self.clear_socket_timers();
        let reason = Reason::Drain(reason);
        self.go(
            State::Closed {
                reason: reason.clone(),
            },
            reason,
        );
    }

    /// Tells the host to close the socket and forgets it.
    pub(super) fn close(&mut self) -> Option<Link> {
        let link = self.link.take()?;
        self.outputs.push_back(Output::Close {
            socket: link.socket,
        });
        Some(link)
    }

    fn callers_in_flight(&self) -> bool {
        let waits = |entry: &Entry| matches!(entry.reply, Reply::Caller(_));
        self.link.iter().flat_map(|link| &link.entries).any(waits)
    }
}
