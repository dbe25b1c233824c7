//! What a cluster asks of its clients before it serves them (KIP-152, KIP-368).

mod scram;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use self::scram::Scram;
use super::cluster::Cluster;
use super::{Api, ConnectionId};
use crate::ids::Moment;
use crate::secret::Secret;
use crate::wire::sasl::{ITERATIONS_MIN, Mechanism};

/// The SASL listener of a [`Cluster`]. Every broker has the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sasl {
    /// `sasl.enabled.mechanisms`. Default: all that nearside speaks.
    pub mechanisms: Vec<Mechanism>,
    /// Names and passwords, for PLAIN and SCRAM. Default: none.
    pub users: BTreeMap<String, Secret>,
    /// Tokens that OAUTHBEARER accepts. Default: none.
    pub tokens: Vec<Secret>,
    /// Rounds of hashing SCRAM asks for. Default 4096.
    pub iterations: u32,
    /// `connections.max.reauth.ms`: how long a session lives. Default: without end.
    pub session_max: Option<Duration>,
}

impl Sasl {
    /// A listener that knows one user.
    pub fn user(name: impl Into<String>, password: Secret) -> Self {
        Self {
            users: BTreeMap::from([(name.into(), password)]),
            ..Self::default()
        }
    }

    /// A listener that accepts one token.
    pub fn token(token: Secret) -> Self {
        Self {
            tokens: vec![token],
            ..Self::default()
        }
    }
}

impl Default for Sasl {
    fn default() -> Self {
        Self {
            mechanisms: Mechanism::ALL.to_vec(),
            users: BTreeMap::new(),
            tokens: Vec::new(),
            iterations: ITERATIONS_MIN,
            session_max: None,
        }
    }
}

/// How far a connection is in proving who it is.
#[derive(Debug)]
pub(super) enum Standing {
    /// Nobody asks.
    Open,
    /// Unknown; `told`: an ApiVersions was answered, another one is an illegal state.
    Stranger { told: bool },
    /// Has named a mechanism.
    Proving { server: Box<Server> },
    /// Known until then.
    Known {
        mechanism: Mechanism,
        until: Option<Moment>,
    },
    /// Has failed; the next request closes it.
    Refused,
}

impl Standing {
    pub(super) fn new(sasl: Option<&Sasl>) -> Self {
        match sasl {
            Some(_) => Self::Stranger { told: false },
            None => Self::Open,
        }
    }

    /// Whether a request may be looked at now.
    pub(super) fn admits(&self, api: Api, now: Moment) -> bool {
        match (self, api) {
            (Self::Open, _) | (Self::Stranger { .. }, Api::SaslHandshake) => true,
            (Self::Stranger { told }, Api::ApiVersions) => !told,
            (Self::Proving { .. }, _) => api == Api::SaslAuthenticate,
            (Self::Known { .. }, Api::SaslHandshake) => true,
            (Self::Known { until, .. }, _) => {
                until.is_none_or(|until| now < until) && api != Api::SaslAuthenticate
            }
            (Self::Stranger { .. } | Self::Refused, _) => false,
        }
    }
}

/// The broker's side of one exchange.
#[derive(Debug)]
pub(super) struct Server {
    mechanism: Mechanism,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    First,
    Scram(Scram),
    /// The token was refused; the client's last word is awaited.
    Refusing,
}

/// What the broker says to a token.
#[derive(Debug)]
pub(super) enum Verdict {
    Challenge(Bytes),
    Accepted(Bytes),
    Refused(String),
}

impl Server {
    pub(super) fn new(mechanism: Mechanism) -> Self {
        let stage = Stage::First;
        Self { mechanism, stage }
    }

    pub(super) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Takes one token. `connection` makes the nonce differ.
    pub(super) fn step(&mut self, sasl: &Sasl, token: &[u8], connection: ConnectionId) -> Verdict {
        match (&mut self.stage, self.mechanism) {
            (Stage::First, Mechanism::Plain) => plain(sasl, token),
            (Stage::First, Mechanism::OAuthBearer) => {
                let accepted = bearer(token).is_some_and(|token| {
                    let known = |known: &Secret| known.expose().as_bytes() == token;
                    sasl.tokens.iter().any(known)
                });
                if accepted {
                    return Verdict::Accepted(Bytes::new());
                }
                self.stage = Stage::Refusing;
                Verdict::Challenge(Bytes::from_static(br#"{"status":"invalid_token"}"#))
            }
            (Stage::First, Mechanism::ScramSha256 | Mechanism::ScramSha512) => {
                match Scram::begin(self.mechanism, sasl, token, connection) {
                    Some((scram, challenge)) => {
                        self.stage = Stage::Scram(scram);
                        Verdict::Challenge(challenge)
                    }
                    None => refused(self.mechanism),
                }
            }
            (Stage::Scram(scram), _) => match scram.finish(token) {
                Some(last) => Verdict::Accepted(last),
                None => refused(self.mechanism),
            },
            (Stage::Refusing, _) => Verdict::Refused("{\"status\":\"invalid_token\"}".to_owned()),
        }
    }
}

fn plain(sasl: &Sasl, token: &[u8]) -> Verdict {
    let mut parts = token.split(|byte| *byte == 0);
    let (_identity, name, password) = (parts.next(), parts.next(), parts.next());
    let known = name
        .and_then(|name| std::str::from_utf8(name).ok())
        .and_then(|name| sasl.users.get(name));
    match (known, password, parts.next()) {
        (Some(known), Some(password), None) if known.expose().as_bytes() == password => {
            Verdict::Accepted(Bytes::new())
        }
        _ => Verdict::Refused("Authentication failed: Invalid username or password".to_owned()),
    }
}

fn refused(mechanism: Mechanism) -> Verdict {
    Verdict::Refused(format!(
        "Authentication failed during authentication due to invalid credentials with SASL \
         mechanism {mechanism}"
    ))
}

/// The token of an OAUTHBEARER message.
fn bearer(message: &[u8]) -> Option<&[u8]> {
    let rest = message.strip_prefix(b"n,,\x01auth=Bearer ")?;
    let end = rest.iter().position(|byte| *byte == 1)?;
    rest.get(..end)
}

/// SASL.
impl Cluster {
    /// Sets what clients have to prove from now on. Connections that stand are not asked again
    /// until their session ends.
    pub fn set_sasl(&mut self, sasl: Option<Sasl>) {
        self.settings.sasl = sasl;
    }
}
