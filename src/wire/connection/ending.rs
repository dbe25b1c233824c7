//! How a socket ends, what its end means in each state, and the timers of the machine.

use super::link::{Entry, Link};
use super::output::{Output, RequestFailure};
use super::state::{ReauthStep, State};
use super::{At, Connection, Reason, Timer, Wait};
use crate::ids::Moment;
use crate::wire::frame::FrameError;

impl Connection {
    pub(super) fn on_broken(&mut self, error: FrameError, at: At) {
        match error {
            FrameError::Mixup(mixup) => {
                if let Some(link) = self.close() {
                    self.settle(link, None, |_| RequestFailure::Disconnected);
                }
                self.back_off(Wait::Mixup, Reason::Mixup(mixup), at);
            }
            FrameError::TooShort(_) | FrameError::TooLong { .. } | FrameError::Unasked => {
                self.break_off(Reason::Frame(error), &RequestFailure::Disconnected, at);
            }
        }
    }

    pub(super) fn on_lost(&mut self, written: u64, why: String, at: At) {
        if let Some(link) = self.link.take() {
            let verdict = |_: &Entry| RequestFailure::Disconnected;
            self.ended(link, Some(written), verdict, Reason::Lost(why), at);
        }
    }

    /// Closes the socket because it cannot go on; every request in flight ends with `failure`.
    pub(super) fn break_off(&mut self, reason: Reason, failure: &RequestFailure, at: At) {
        if let Some(link) = self.close() {
            self.ended(link, None, |_| failure.clone(), reason, at);
        }
    }

    /// The socket is gone: settles its requests and decides what comes next (the fourth column of
    /// 5.2).
    fn ended(
        &mut self,
        link: Link,
        written: Option<u64>,
        verdict: impl Fn(&Entry) -> RequestFailure,
        reason: Reason,
        at: At,
    ) {
        self.addresses.lost(link.address);
        let heard = link.heard;
        self.settle(link, written, verdict);
        match &mut self.state {
            State::Connecting { rest } | State::Tls { rest } => {
                let rest = std::mem::take(rest);
                self.next_address(rest, reason.to_string(), at);
            }
            State::Versions { phase, .. } => {
                let phase = *phase;
                if let Reason::Lost(why) = reason {
                    self.versions_lost(phase, heard, why, at);
                } else {
                    self.back_off(Wait::Failure, reason, at);
                }
            }
            State::Handshake | State::Authenticate { .. } => {
                self.back_off(Wait::Failure, reason, at);
            }
            State::Ready { stable: true }
            | State::Reauth {
                step: ReauthStep::Drain,
            } => {
                self.settled_loss(reason, at);
            }
            State::Ready { stable: false } => self.back_off(Wait::Failure, reason, at),
            State::Reauth { .. } => {
                let why = reason.to_string();
                self.back_off(Wait::Trust(why), reason, at);
            }
            State::Draining { reason } => {
                let reason = *reason;
                self.close_for_good(reason);
            }
            State::Idle | State::Resolving | State::Backoff { .. } | State::Closed { .. } => {}
        }
    }

    /// A connection in good standing is gone: dial again only if somebody waits.
    fn settled_loss(&mut self, reason: Reason, at: At) {
        if self.queue.is_empty() {
            self.clear_socket_timers();
            self.go(State::Idle, reason);
        } else {
            self.back_off(Wait::Settled, reason, at);
        }
    }

    pub(super) fn on_tick(&mut self, at: At) {
        self.expire_queue(at.now);
        self.expire_flight(at);
        for timer in Timer::ALL {
            let due = self
                .timers
                .due(timer.index())
                .is_some_and(|due| due <= at.now);
            if due {
                self.clear(&[timer]);
                self.on_timer(timer, at);
            }
        }
    }

    /// A request in flight that is overdue closes the connection: its late answer would
    /// desynchronise (F6).
    fn expire_flight(&mut self, at: At) {
        let overdue = |entry: &Entry| entry.deadline().is_some_and(|due| due <= at.now);
        let late = self
            .link
            .iter()
            .flat_map(|link| &link.entries)
            .find(|entry| overdue(entry));
        let Some(api) = late.map(|entry| entry.api) else {
            return;
        };
        let Some(link) = self.close() else {
            return;
        };
        let verdict = |entry: &Entry| {
            if overdue(entry) {
                RequestFailure::TimedOut
            } else {
                RequestFailure::Disconnected
            }
        };
        self.ended(link, None, verdict, Reason::RequestTimeout(api), at);
    }

    fn on_timer(&mut self, timer: Timer, at: At) {
        match timer {
            Timer::Setup => self.setup_failed(Reason::SetupTimeout, at),
            Timer::Step => self.step_overdue(at),
            Timer::Stable => self.proven(),
            Timer::Idle => {
                self.close();
                self.clear_socket_timers();
                self.go(State::Idle, Reason::Unused);
            }
            Timer::Backoff if self.queue.is_empty() && !self.wanted => {
                self.go(State::Idle, Reason::WaitOver)
            }
            Timer::Backoff => self.start(Reason::WaitOver, at),
            Timer::Mute => self.flush_if_ready(at.now),
            Timer::Reauth => self.begin_reauth(at),
            Timer::Expiry => self.session_expires(),
            Timer::Drain => {
                if let State::Draining { reason } = self.state {
                    self.close_for_good(reason);
                }
            }
        }
    }

    fn flush_if_ready(&mut self, now: Moment) {
        if matches!(self.state, State::Ready { .. }) {
            self.flush(now);
        }
    }

    /// One step of the setup took too long.
    fn step_overdue(&mut self, at: At) {
        match &mut self.state {
            State::Resolving => self.resolve_failed("resolver does not answer".to_owned(), at),
            State::Connecting { rest } => {
                let rest = std::mem::take(rest);
                if let Some(link) = &self.link {
                    self.outputs.push_back(Output::Close {
                        socket: link.socket,
                    });
                }
                self.next_address(rest, "no answer to the dial".to_owned(), at);
            }
            State::Reauth { .. } => self.distrust("the exchange took too long".to_owned(), at),
            State::Idle
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Authenticate { .. }
            | State::Ready { .. }
            | State::Draining { .. }
            | State::Backoff { .. }
            | State::Closed { .. } => {}
        }
    }
}
