//! OAUTHBEARER (RFC 7628, KIP-255): a token, and extensions (KIP-342).

use std::fmt;

use bytes::Bytes;

use super::{quoted, wiped};
use crate::secret::Secret;
use crate::wire::connection::SaslStep;

/// A token that a message can carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bearer {
    token: Secret,
    extensions: Vec<(String, Secret)>,
}

/// Why a token cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BearerError {
    /// It is empty, or has a character that no token has (RFC 6750).
    Token,
    /// It lives for no time at all.
    Ended,
    /// This extension's name is not letters alone, is `auth`, or its value is not printable.
    Extension(String),
}

impl fmt::Display for BearerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token => f.write_str("the token is empty or has characters that no token has"),
            Self::Ended => f.write_str("the token has ended already"),
            Self::Extension(name) => write!(f, "the extension `{name}` cannot be sent"),
        }
    }
}

impl std::error::Error for BearerError {}

impl Bearer {
    /// A token as the message carries it.
    ///
    /// # Errors
    ///
    /// A token with characters outside those of RFC 6750: they could end the message early.
    pub fn new(token: Secret) -> Result<Self, BearerError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if token.expose().is_empty() || !token.expose().bytes().all(fits) {
            return Err(BearerError::Token);
        }
        Ok(Self {
            token,
            extensions: Vec::new(),
        })
    }

    /// Adds an extension (KIP-342).
    ///
    /// # Errors
    ///
    /// A name or value that the message cannot carry.
    pub fn extension(mut self, name: &str, value: Secret) -> Result<Self, BearerError> {
        let letters = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        let printable = value
            .expose()
            .bytes()
            .all(|byte| matches!(byte, 0x20..=0x7e | b'\t' | b'\r' | b'\n'));
        if !letters || name.eq_ignore_ascii_case("auth") || !printable {
            return Err(BearerError::Extension(quoted(name.as_bytes())));
        }
        self.extensions.push((name.to_owned(), value));
        Ok(self)
    }

    /// The one message of the mechanism.
    pub(super) fn message(&self) -> Bytes {
        const HEAD: &[u8] = b"n,,\x01auth=Bearer ";
        let of = |(name, value): &(String, Secret)| name.len() + value.expose().len() + 2;
        let extensions: usize = self.extensions.iter().map(of).sum();
        let size = HEAD.len() + self.token.expose().len() + extensions + 2;
        let mut message = Vec::with_capacity(size);
        message.extend_from_slice(HEAD);
        message.extend_from_slice(self.token.expose().as_bytes());
        message.push(SEPARATOR);
        for (name, value) in &self.extensions {
            message.extend_from_slice(name.as_bytes());
            message.push(b'=');
            message.extend_from_slice(value.expose().as_bytes());
            message.push(SEPARATOR);
        }
        message.push(SEPARATOR);
        wiped(message)
    }
}

/// A challenge is a refusal: one 0x01 asks for the error itself (S7). Of the challenge only the
/// status is told, since the rest is the broker's choice.
pub(super) fn refused(challenge: &[u8]) -> SaslStep {
    #[derive(serde::Deserialize)]
    struct Refusal {
        status: String,
    }
    let status = serde_json::from_slice::<Refusal>(challenge).map(|refusal| refusal.status);
    let why = match status {
        Ok(status) => format!(
            "the broker refused the token: {}",
            quoted(status.as_bytes())
        ),
        Err(_) => "the broker refused the token without a status".to_owned(),
    };
    SaslStep::Refused {
        token: Bytes::from_static(&[SEPARATOR]),
        why,
    }
}

const SEPARATOR: u8 = 1;

#[cfg(test)]
impl Bearer {
    /// Compiles while everything secret in it is wiped on drop (S6).
    pub(super) fn assert_wiped(self) {
        let Self { token, extensions } = self;
        crate::secret::is_wiped(&token);
        let values = extensions.iter().map(|(_name, value)| value);
        values.for_each(crate::secret::is_wiped);
    }
}
