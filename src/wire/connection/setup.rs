//! From a name to a ready connection: resolve, dial, TLS, ApiVersions; and back off when it fails.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;

use super::input::{SocketId, TlsFailure};
use super::link::{Link, Reply};
use super::output::{Event, Output, RequestFailure};
use super::state::{Phase, State};
use super::{At, Connection, Reason, Timer, Wait};
use crate::ids::Moment;
use crate::wire::api::api_versions;
use crate::wire::api_key::ApiKey;
use crate::wire::error_code::ErrorCode;
use crate::wire::frame::PortMixup;
use crate::wire::message::Request;
use crate::wire::versions::{VersionTable, ours};

/// Name of this client in ApiVersions (KIP-511).
const SOFTWARE_NAME: &str = env!("CARGO_PKG_NAME");
/// Release of this client in ApiVersions (KIP-511).
const SOFTWARE_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Hang-ups after the first request that make a mix-up of a listener that never worked: a single
/// one is what a broker that shuts down does.
const HANG_UPS: u32 = 2;
/// The same at a broker that metadata named: some ten seconds of them, at the usual waits.
const HANG_UPS_OF_A_BROKER: u32 = 8;

impl Connection {
    /// Begins an attempt: resolves, unless the addresses are a second young.
    pub(super) fn start(&mut self, reason: Reason, at: At) {
        self.wanted = false;
        let budget = self.settings.setup.delay(self.failures, at.draw.split());
        self.set(Timer::Setup, at.now + budget);
        if self.addresses.is_fresh(at.now) {
            return self.dial_first(reason, at);
        }
        self.set(Timer::Step, at.now + self.settings.dns_timeout);
        let (host, port) = (self.target.host.clone(), self.target.port);
        self.outputs.push_back(Output::Resolve { host, port });
        self.go(State::Resolving, reason);
    }

    pub(super) fn on_resolved(&mut self, result: Result<Vec<SocketAddr>, String>, at: At) {
        let State::Resolving = self.state else {
            return;
        };
        match result.map(|list| self.addresses.store(list, at.now)) {
            Ok(true) => self.dial_first(Reason::Progress, at),
            Ok(false) => self.resolve_failed("no address".to_owned(), at),
            Err(reason) => self.resolve_failed(reason, at),
        }
    }

    /// The last good list serves while it is young enough (wire.md 5.4).
    pub(super) fn resolve_failed(&mut self, reason: String, at: At) {
        if self.addresses.is_younger(self.settings.dns_stale, at.now) {
            self.emit(Event::StaleAddresses { reason });
            self.dial_first(Reason::Progress, at);
        } else {
            self.back_off(Wait::Failure, Reason::Resolve(reason), at);
        }
    }

    fn dial_first(&mut self, reason: Reason, at: At) {
        let mut walk = self.addresses.walk();
        match walk.pop_front() {
            Some(address) => self.dial(address, walk, reason, at.now),
            None => self.back_off(Wait::Failure, Reason::Resolve("no address".to_owned()), at),
        }
    }

    fn dial(
        &mut self,
        address: SocketAddr,
        rest: VecDeque<SocketAddr>,
        reason: Reason,
        now: Moment,
    ) {
        let socket = SocketId(self.next_socket);
        self.next_socket = self.next_socket.wrapping_add(1);
        self.link = Some(Link::new(socket, address));
        self.clear(&[Timer::Step]);
        if self.addresses.len() > 1 {
            self.set(Timer::Step, now + self.settings.address_timeout);
        }
        self.outputs.push_back(Output::Dial { socket, address });
        self.go(State::Connecting { rest }, reason);
    }

    pub(super) fn on_dialed(&mut self, result: Result<(), String>, at: At) {
        let State::Connecting { rest } = &mut self.state else {
            return;
        };
        let rest = std::mem::take(rest);
        if let Err(reason) = result {
            return self.next_address(rest, reason, at);
        }
        self.clear(&[Timer::Step]);
        let Some(link) = &self.link else {
            return;
        };
        if self.settings.security.tls {
            let (socket, host) = (link.socket, self.target.host.clone());
            self.outputs.push_back(Output::StartTls { socket, host });
            self.go(State::Tls { rest }, Reason::Progress);
        } else {
            self.ask_versions(Phase::Pre { client_auth: false }, at);
        }
    }

    /// Goes on with the next address, or ends the attempt with the last one.
    pub(super) fn next_address(&mut self, mut rest: VecDeque<SocketAddr>, why: String, at: At) {
        if let Some(link) = self.link.take() {
            self.addresses.lost(link.address);
        }
        match rest.pop_front() {
            Some(address) => self.dial(address, rest, Reason::Dial(why), at.now),
            None => self.back_off(Wait::Failure, Reason::Dial(why), at),
        }
    }

    pub(super) fn on_tls(&mut self, result: Result<bool, TlsFailure>, at: At) {
        let State::Tls { rest } = &mut self.state else {
            return;
        };
        let rest = std::mem::take(rest);
        match result {
            Ok(client_auth) => self.ask_versions(Phase::Pre { client_auth }, at),
            Err(TlsFailure::Lost(why)) => self.next_address(rest, why, at),
            Err(TlsFailure::HungUp(why)) => match self.hung_up() {
                Some(wait) => self.not_tls(wait, at),
                None => self.next_address(rest, why, at),
            },
            Err(TlsFailure::Trust(why)) => {
                self.close();
                self.back_off(Wait::Trust(why.clone()), Reason::Trust(why), at);
            }
            Err(TlsFailure::NotTls) => self.not_tls(Wait::Mixup, at),
        }
    }

    fn not_tls(&mut self, wait: Wait, at: At) {
        self.close();
        self.back_off(wait, Reason::Mixup(PortMixup::Plaintext), at);
    }

    /// Counts a listener that hung up before a word, at an address that never worked. Once it looks
    /// like a mix-up of ports, how long to wait.
    fn hung_up(&mut self) -> Option<Wait> {
        if self.ever_ready {
            return None;
        }
        self.hang_ups = self.hang_ups.saturating_add(1);
        let (enough, wait) = match self.target.broker {
            None => (HANG_UPS, Wait::Mixup),
            // Its cluster has spoken with us, so it is more likely on its way down or up, behind
            // a proxy that accepts for it; 30 s would be an outage of our own making.
            Some(_) => (HANG_UPS_OF_A_BROKER, Wait::Failure),
        };
        (self.hang_ups >= enough).then_some(wait)
    }

    /// Begins an ApiVersions exchange with our highest version (KIP-511).
    pub(super) fn ask_versions(&mut self, phase: Phase, at: At) {
        self.send_versions(
            phase,
            ours(ApiKey::ApiVersions).max,
            false,
            Reason::Progress,
            at,
        );
    }

    fn send_versions(&mut self, phase: Phase, version: i16, retried: bool, reason: Reason, at: At) {
        let request = Request::ApiVersions(api_versions::Request {
            software_name: SOFTWARE_NAME.to_owned(),
            software_version: SOFTWARE_VERSION.to_owned(),
        });
        self.go(
            State::Versions {
                phase,
                version,
                retried,
            },
            reason,
        );
        self.send_setup(version, &request, at);
    }

    /// Sends a request of the setup itself.
    pub(super) fn send_setup(&mut self, version: i16, request: &Request, at: At) {
        match self.encode(version, request) {
            Ok((head, bytes)) => self.send(head, bytes, Reply::Setup, at.now),
            Err(error) => self.setup_failed(Reason::Lost(error.to_string()), at),
        }
    }

    /// Reads an answer to ApiVersions: the code first, since a refusal comes in version 0 (wire.md
    /// 5.5).
    pub(super) fn versions_answered(&mut self, body: &Bytes, at: At) {
        let State::Versions {
            phase,
            version,
            retried,
        } = self.state
        else {
            return;
        };
        let code = body
            .first_chunk::<2>()
            .map_or(0, |bytes| i16::from_be_bytes(*bytes));
        match ErrorCode(code) {
            ErrorCode::NONE => match api_versions::Response::decode(version, body) {
                Ok(response) => self.versions_known(phase, &response, at),
                Err(error) => self.setup_malformed(error, at),
            },
            ErrorCode::UNSUPPORTED_VERSION if version > 0 => {
                let listed = listed_maximum(body).filter(|max| !retried && *max < version);
                self.send_versions(phase, listed.unwrap_or(0), true, Reason::Progress, at);
            }
            ErrorCode::INVALID_REQUEST if version > 0 => {
                self.emit(Event::NameDisliked);
                self.send_versions(phase, 0, true, Reason::Progress, at);
            }
            refusal => self.setup_failed(Reason::VersionsRefused(refusal), at),
        }
    }

    fn versions_known(&mut self, phase: Phase, response: &api_versions::Response, at: At) {
        self.versions = VersionTable::new(&response.apis);
        self.throttled(response.throttle, at);
        match (phase, self.settings.security.sasl.is_some()) {
            (Phase::Pre { .. }, true) => self.begin_handshake(at),
            (Phase::Pre { .. } | Phase::Post, _) => match self.versions.missing_required() {
                Some(missing) => self.setup_failed(Reason::Unsupported(missing), at),
                None => self.set_up(at),
            },
        }
    }

    /// Everything is set up: requests flow.
    fn set_up(&mut self, at: At) {
        self.clear(&[Timer::Setup, Timer::Step]);
        self.set(Timer::Stable, at.now + STABLE_AFTER);
        self.trust_failures = 0;
        self.hang_ups = 0;
        self.ever_ready = true;
        self.schedule_reauth(at);
        self.go(State::Ready { stable: false }, Reason::SetUp);
        self.flush(at.now);
    }

    /// Ends a failed attempt by closing the socket.
    pub(super) fn setup_failed(&mut self, reason: Reason, at: At) {
        if let Some(link) = self.close() {
            self.addresses.lost(link.address);
        }
        self.back_off(Wait::Failure, reason, at);
    }

    /// The socket ended while ApiVersions was out: says what that means (T5, wire.md 12.2).
    pub(super) fn versions_lost(&mut self, phase: Phase, heard: bool, why: String, at: At) {
        let refused_certificate = matches!(phase, Phase::Pre { client_auth: true });
        if !heard && refused_certificate {
            let why = format!("client certificate not accepted: {why}");
            return self.back_off(Wait::Trust(why.clone()), Reason::Trust(why), at);
        }
        if heard || self.settings.security.tls {
            return self.back_off(Wait::Failure, Reason::Lost(why), at);
        }
        match self.hung_up() {
            Some(wait) => self.back_off(wait, Reason::Mixup(PortMixup::HangUp), at),
            None => self.back_off(Wait::Failure, Reason::Lost(why), at),
        }
    }

    /// Waits before the next attempt. The socket must be gone.
    pub(super) fn back_off(&mut self, wait: Wait, reason: Reason, at: At) {
        let delay = match wait {
            Wait::Failure => self.settings.reconnect.delay(self.failures, at.draw),
            Wait::Settled => self.settings.reconnect.delay(0, at.draw),
            Wait::Trust(_) => self.settings.auth.delay(self.trust_failures, at.draw),
            Wait::Mixup => self.settings.mixup,
        };
        match wait {
            Wait::Settled => {}
            Wait::Failure | Wait::Mixup => self.failures = self.failures.saturating_add(1),
            Wait::Trust(why) => {
                self.failures = self.failures.saturating_add(1);
                self.trust_failures = self.trust_failures.saturating_add(1);
                self.refuse_queue(&RequestFailure::Authentication(why));
            }
        }
        self.clear_socket_timers();
        let until = at.now + delay;
        self.set(Timer::Backoff, until);
        self.go(State::Backoff { until }, reason);
    }
}

/// How long a ready connection must live without an answer to count as good (C2).
const STABLE_AFTER: std::time::Duration = std::time::Duration::from_secs(5);

/// The highest ApiVersions version a refusal offers, if its body can be read.
fn listed_maximum(body: &Bytes) -> Option<i16> {
    let refusal = api_versions::Response::decode(0, body).ok()?;
    let row = refusal
        .apis
        .iter()
        .find(|row| row.api == ApiKey::ApiVersions.code())?;
    (row.max >= 0).then_some(row.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_software_name_and_release_are_what_brokers_accept() {
        let pattern = regex::Regex::new(r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$").unwrap();
        assert!(pattern.is_match(SOFTWARE_NAME));
        assert!(pattern.is_match(SOFTWARE_VERSION));
    }
}
