//! SASL: handshake, exchange, and renewal on a live socket (wire.md 11.2, KIP-368).
//!
//! The mechanism itself runs outside; tokens pass through and are never kept.

use std::time::Duration;

use bytes::Bytes;

use super::input::SaslStep;
use super::output::{Challenge, Output};
use super::state::{Phase, ReauthStep, State};
use super::{At, Connection, Reason, Timer, Wait};
use crate::wire::api::{sasl_authenticate, sasl_handshake};
use crate::wire::api_key::ApiKey;
use crate::wire::error::DecodeError;
use crate::wire::error_code::ErrorCode;
use crate::wire::message::Request;
use crate::wire::sasl::{Mechanism, quoted, shortened};
use crate::wire::versions::{UnsupportedVersion, ours};

/// Most tokens we send in one exchange (S9).
const ROUNDS_MAX: u8 = 4;
/// Longest token either way, in bytes (S9).
const TOKEN_MAX: usize = 64 * 1_024;
/// Most mechanisms of a broker that are told.
const NAMES_MAX: usize = 16;
/// Longest message about what a broker offers, in bytes (D3).
const MESSAGE_MAX: usize = 1_024;
/// Least time between two exchanges, and before the end of a session.
const MARGIN: Duration = Duration::from_secs(2);

impl Connection {
    /// Names the mechanism to the broker.
    pub(super) fn begin_handshake(&mut self, at: At) {
        self.go(State::Handshake, Reason::Progress);
        self.send_handshake(at);
    }

    fn send_handshake(&mut self, at: At) {
        let security = self.settings.security;
        let Some(mechanism) = security.sasl else {
            return self.distrust("no SASL mechanism is set".to_owned(), at);
        };
        // Configuration refuses it too; a password must not depend on one check (S8).
        if mechanism == Mechanism::Plain && !security.tls && !security.plain_in_clear {
            return self.distrust("PLAIN without TLS would show the password".to_owned(), at);
        }
        self.exchange_began = at.now;
        self.refused = None;
        let mechanism = mechanism.name().to_owned();
        let request = Request::SaslHandshake(sasl_handshake::Request { mechanism });
        self.send_setup(ours(ApiKey::SaslHandshake).max, &request, at);
    }

    pub(super) fn handshake_answered(&mut self, version: i16, body: &Bytes, at: At) {
        let response = match sasl_handshake::Response::decode(version, body) {
            Ok(response) => response,
            Err(error) => return self.exchange_malformed(error, at),
        };
        if response.error == ErrorCode::UNSUPPORTED_SASL_MECHANISM {
            return self.distrust(not_offered(&response.mechanisms), at);
        }
        // What a listener without SASL answers to a first handshake.
        let first = matches!(self.state, State::Handshake);
        if first && response.error == ErrorCode::ILLEGAL_SASL_STATE {
            let works = if self.settings.security.tls {
                "SSL"
            } else {
                "PLAINTEXT"
            };
            let why = format!("listener does not use SASL; try `security.protocol` {works}");
            return self.distrust(why, at);
        }
        if response.error.is_err() {
            return self.distrust(response.error.to_string(), at);
        }
        match self.state {
            State::Handshake => self.go(State::Authenticate { round: 1 }, Reason::Progress),
            State::Reauth {
                step: ReauthStep::Handshake,
            } => {
                self.state = State::Reauth {
                    step: ReauthStep::Authenticate { round: 1 },
                };
            }
            State::Idle
            | State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Authenticate { .. }
            | State::Ready { .. }
            | State::Reauth { .. }
            | State::Draining { .. }
            | State::Backoff { .. }
            | State::Closed { .. } => return,
        }
        self.step_mechanism(None);
    }

    fn step_mechanism(&mut self, challenge: Option<Challenge>) {
        if let Some(link) = &self.link {
            self.outputs.push_back(Output::Sasl {
                socket: link.socket,
                challenge,
            });
        }
    }

    /// The round of the exchange, if one is on.
    fn round(&mut self) -> Option<&mut u8> {
        match &mut self.state {
            State::Authenticate { round }
            | State::Reauth {
                step: ReauthStep::Authenticate { round },
            } => Some(round),
            State::Idle
            | State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Ready { .. }
            | State::Reauth { .. }
            | State::Draining { .. }
            | State::Backoff { .. }
            | State::Closed { .. } => None,
        }
    }

    pub(super) fn on_sasl(&mut self, step: SaslStep, at: At) {
        let awaiting_broker = self.in_flight() > 0;
        let Some(round) = self.round() else {
            return;
        };
        match step {
            SaslStep::Failed(why) => self.distrust(why, at),
            SaslStep::Token(_) | SaslStep::Refused { .. } | SaslStep::Done if awaiting_broker => {
                self.distrust("mechanism stepped out of turn".to_owned(), at);
            }
            SaslStep::Token(_) if *round > ROUNDS_MAX => {
                self.distrust(format!("no end after {ROUNDS_MAX} rounds"), at);
            }
            SaslStep::Token(token) if token.len() > TOKEN_MAX => {
                self.distrust("our token is above 64 KiB".to_owned(), at);
            }
            SaslStep::Token(token) => {
                *round += 1;
                self.send_token(token, at);
            }
            SaslStep::Refused { token, why } => {
                *round = round.saturating_add(1);
                self.refused = Some(why);
                self.send_token(token, at);
            }
            SaslStep::Done if *round == 1 => {
                self.distrust("mechanism ended before its first token".to_owned(), at);
            }
            SaslStep::Done => self.authenticated(at),
        }
    }

    fn send_token(&mut self, token: Bytes, at: At) {
        let api = ApiKey::SaslAuthenticate;
        let Some(version) = self.versions.highest(api) else {
            let theirs = self.versions.theirs(api);
            let missing = UnsupportedVersion {
                api,
                ours: ours(api),
                theirs,
            };
            return self.setup_failed(Reason::Unsupported(missing), at);
        };
        let request = Request::SaslAuthenticate(sasl_authenticate::Request { token });
        self.send_setup(version, &request, at);
    }

    pub(super) fn token_answered(&mut self, version: i16, body: &Bytes, at: At) {
        let response = match sasl_authenticate::Response::decode(version, body) {
            Ok(response) => response,
            Err(error) => return self.exchange_malformed(error, at),
        };
        if let Some(why) = self.refused.take() {
            return self.distrust(why, at);
        }
        if response.error.is_err() {
            let why = response
                .message
                .unwrap_or_else(|| response.error.to_string());
            return self.distrust(why, at);
        }
        if response.token.len() > TOKEN_MAX {
            return self.distrust("the broker's token is above 64 KiB".to_owned(), at);
        }
        self.lifetime = response.lifetime;
        self.step_mechanism(Some(Challenge(response.token)));
    }

    pub(super) fn exchange_malformed(&mut self, error: DecodeError, at: At) {
        let why = self.count_malformed(error, at.now);
        self.distrust(why.unwrap_or_else(|| error.to_string()), at);
    }

    /// The exchange succeeded.
    fn authenticated(&mut self, at: At) {
        match self.state {
            State::Authenticate { .. } => self.ask_versions(Phase::Post, at),
            State::Reauth { .. } => {
                self.clear(&[Timer::Step]);
                self.schedule_reauth(at);
                self.go(State::Ready { stable: true }, Reason::Progress);
                self.flush(at.now);
            }
            State::Idle
            | State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Ready { .. }
            | State::Draining { .. }
            | State::Backoff { .. }
            | State::Closed { .. } => {}
        }
    }

    /// Plans the renewal at 80 % to 92 % of the session's life, early enough for an exchange
    /// (KIP-368).
    pub(super) fn schedule_reauth(&mut self, at: At) {
        self.clear(&[Timer::Reauth, Timer::Expiry]);
        let Some(lifetime) = self.lifetime else {
            return;
        };
        let took = at.now.since(self.exchange_began);
        let margin = MARGIN.max(took.saturating_mul(3));
        let share = lifetime.mul_f64(at.draw.split().uniform(0.80, 0.92));
        let due = share.min(lifetime.saturating_sub(margin)).max(MARGIN);
        // A twin needs some time of its own before the session ends.
        let late = lifetime.saturating_sub(margin / 2).max(due);
        self.set(Timer::Reauth, at.now + due);
        self.set(Timer::Expiry, at.now + late);
    }

    /// Newer credentials are there. A broker whose sessions do not end knows no renewal, either.
    pub(super) fn on_renew(&mut self, at: At) {
        if matches!(self.state, State::Ready { .. }) && self.lifetime.is_some() {
            self.clear(&[Timer::Reauth]);
            self.begin_reauth(at);
        }
    }

    /// The session must be renewed: what is in flight drains first.
    pub(super) fn begin_reauth(&mut self, at: At) {
        self.clear(&[Timer::Idle, Timer::Stable]);
        self.go(
            State::Reauth {
                step: ReauthStep::Drain,
            },
            Reason::Reauthentication,
        );
        self.continue_reauth(at);
    }

    /// Starts the exchange once it is alone on the wire.
    pub(super) fn continue_reauth(&mut self, at: At) {
        if self.in_flight() == 0 {
            self.set(Timer::Step, at.now + self.settings.request_timeout);
            self.state = State::Reauth {
                step: ReauthStep::Handshake,
            };
            self.send_handshake(at);
        }
    }

    /// Requests still in flight when the session ends: the host opens a second connection.
    pub(super) fn session_expires(&mut self) {
        if matches!(
            self.state,
            State::Reauth {
                step: ReauthStep::Drain
            }
        ) {
            self.outputs.push_back(Output::TwinWanted);
        }
    }

    /// Closes the connection for want of trust.
    pub(super) fn distrust(&mut self, why: String, at: At) {
        if let Some(link) = self.close() {
            self.settle(link, None, |_| super::RequestFailure::Disconnected);
        }
        self.back_off(Wait::Trust(why.clone()), Reason::Trust(why), at);
    }
}

/// That the broker does not offer our mechanism, and what it does, fit for a message (D3).
fn not_offered(mechanisms: &[String]) -> String {
    let names = mechanisms.iter().take(NAMES_MAX);
    let names: Vec<String> = names.map(|name| quoted(name.as_bytes())).collect();
    let text = format!("mechanism not offered; broker offers {}", names.join(", "));
    shortened(text, MESSAGE_MAX)
}
