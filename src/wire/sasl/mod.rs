//! SASL mechanisms, without sockets, clocks or chance (wire.md 11.1).
//!
//! An [`Exchange`] is one authentication: its host answers every
//! [`Output::Sasl`](super::Output::Sasl) with [`Exchange::step`]. Where that asks for a
//! [`Derivation`], the host runs it on a thread that may block, and hands the result to
//! [`Exchange::derived`]; if the connection has moved on by then, it drops it.

mod jwt;
mod oauth;
mod plain;
mod renewal;
mod scram;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod wiping;

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use zeroize::{Zeroize as _, ZeroizeOnDrop};

use self::scram::Scram;
use super::connection::SaslStep;
use crate::secret::Secret;

pub use self::jwt::token_end;
pub use self::oauth::{Bearer, BearerError};
pub use self::renewal::Renewal;
pub(crate) use self::scram::Hash;
pub use self::scram::{Derivation, ITERATIONS_MIN, SaltedPassword};

/// How we authenticate (`sasl.mechanism`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mechanism {
    /// Name and password as they are; over TLS only (S8).
    Plain,
    /// Proof of a password by SHA-256 (RFC 7677).
    ScramSha256,
    /// Proof of a password by SHA-512.
    ScramSha512,
    /// A token of somebody both sides trust (RFC 7628, KIP-255).
    OAuthBearer,
}

impl Mechanism {
    /// All mechanisms spoken.
    pub const ALL: [Self; 4] = [
        Self::Plain,
        Self::ScramSha256,
        Self::ScramSha512,
        Self::OAuthBearer,
    ];

    /// Its registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who we say we are, and what proves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credentials {
    /// For PLAIN and SCRAM.
    Password {
        /// The name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// For OAUTHBEARER.
    Bearer(Bearer),
}

/// Randomness of one SCRAM exchange, drawn outside from a source fit for secrets (S1).
#[derive(Clone, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// A nonce of these bytes.
    pub fn new(bytes: [u8; 24]) -> Self {
        Self(BASE64_STANDARD.encode(bytes))
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce([redacted])")
    }
}

/// What follows from a step.
#[derive(Debug)]
pub enum Step {
    /// Tell the connection.
    Tell(SaslStep),
    /// Run this where blocking does no harm, then call [`Exchange::derived`].
    Derive(Derivation),
}

/// One authentication, from its first token to its end. Stepping it after its end is an error, not
/// a panic (S9).
#[derive(Debug)]
pub struct Exchange {
    state: State,
}

enum State {
    /// The whole message of a mechanism that sends one; `oauth`: a challenge is a refusal.
    Opening {
        token: Bytes,
        oauth: bool,
    },
    /// That message is out.
    Sent {
        oauth: bool,
    },
    Scram(Box<Scram>),
    Ended,
}

/// The token of an exchange that has not begun is a secret.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening { .. } => "Opening",
            Self::Sent { .. } => "Sent",
            Self::Scram(_) => "Scram",
            Self::Ended => "Ended",
        })
    }
}

impl Exchange {
    /// An exchange of `mechanism`. `iterations_max` is `wire.scram.iterations.max`.
    ///
    /// # Errors
    ///
    /// Credentials that the mechanism cannot carry, in words that do not show them.
    pub fn new(
        mechanism: Mechanism,
        credentials: &Credentials,
        nonce: &Nonce,
        iterations_max: u32,
    ) -> Result<Self, String> {
        let state = match (mechanism, credentials) {
            (Mechanism::Plain, Credentials::Password { username, password }) => State::Opening {
                token: plain::message(username, password)?,
                oauth: false,
            },
            (Mechanism::OAuthBearer, Credentials::Bearer(bearer)) => State::Opening {
                token: bearer.message(),
                oauth: true,
            },
            (Mechanism::ScramSha256, Credentials::Password { username, password }) => {
                let scram = Scram::new(Hash::Sha256, username, password, nonce);
                State::Scram(Box::new(scram.accepting(iterations_max)))
            }
            (Mechanism::ScramSha512, Credentials::Password { username, password }) => {
                let scram = Scram::new(Hash::Sha512, username, password, nonce);
                State::Scram(Box::new(scram.accepting(iterations_max)))
            }
            (Mechanism::OAuthBearer, Credentials::Password { .. }) => {
                return Err("OAUTHBEARER needs a token, not a password".to_owned());
            }
            (
                Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512,
                Credentials::Bearer(_),
            ) => return Err(format!("{mechanism} needs a password, not a token")),
        };
        Ok(Self { state })
    }

    /// Takes the broker's token; `None` begins.
    pub fn step(&mut self, challenge: Option<&[u8]>) -> Step {
        match (&mut self.state, challenge) {
            (State::Opening { token, oauth }, None) => {
                let (token, oauth) = (std::mem::take(token), *oauth);
                self.state = State::Sent { oauth };
                Step::Tell(SaslStep::Token(token))
            }
            (State::Sent { oauth: true }, Some(challenge)) if !challenge.is_empty() => {
                self.state = State::Ended;
                Step::Tell(oauth::refused(challenge))
            }
            (State::Sent { .. }, Some(_)) => {
                self.state = State::Ended;
                Step::Tell(SaslStep::Done)
            }
            (State::Scram(scram), challenge) => {
                let outcome = scram.step(challenge);
                self.settle(outcome)
            }
            (State::Opening { .. }, Some(_)) | (State::Sent { .. }, None) | (State::Ended, _) => {
                self.fail("mechanism stepped out of turn".to_owned())
            }
        }
    }

    /// Takes what a [`Derivation`] computed.
    pub fn derived(&mut self, salted: &SaltedPassword) -> Step {
        match &mut self.state {
            State::Scram(scram) => {
                let outcome = scram.derived(salted);
                self.settle(outcome)
            }
            State::Opening { .. } | State::Sent { .. } | State::Ended => {
                self.fail("nothing was to be derived".to_owned())
            }
        }
    }

    fn settle(&mut self, outcome: Result<Step, String>) -> Step {
        match outcome {
            Ok(step) => {
                if matches!(step, Step::Tell(SaslStep::Done)) {
                    self.state = State::Ended;
                }
                step
            }
            Err(why) => self.fail(why),
        }
    }

    fn fail(&mut self, why: String) -> Step {
        self.state = State::Ended;
        Step::Tell(SaslStep::Failed(why))
    }
}

/// Bytes that are wiped once nobody holds them (S6).
pub(crate) fn wiped(bytes: Vec<u8>) -> Bytes {
    Bytes::from_owner(Wiped(bytes))
}

/// Owns them. A vector's own wiping also empties it, and then nobody could look.
struct Wiped(Vec<u8>);

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl ZeroizeOnDrop for Wiped {}

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.as_mut_slice().zeroize();
        #[cfg(test)]
        wiping::saw(&self.0);
    }
}

/// What a peer said, fit for a message: cut, without control characters (D3).
pub(crate) fn quoted(text: &[u8]) -> String {
    const QUOTED_MAX: usize = 256;
    /// Escaping makes control characters longer.
    const ESCAPED_MAX: usize = 1_024;
    let cut = text.get(..QUOTED_MAX).unwrap_or(text);
    shortened(
        String::from_utf8_lossy(cut).escape_debug().to_string(),
        ESCAPED_MAX,
    )
}

/// The beginning of a text that is too long.
pub(crate) fn shortened(mut text: String, bytes_max: usize) -> String {
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=bytes_max).rev().find(fits).unwrap_or(0);
    text.truncate(end);
    text
}
