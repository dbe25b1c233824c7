//! SCRAM from the broker's side (RFC 5802).

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;

use super::Sasl;
use crate::embedded::ConnectionId;
use crate::wire::sasl::{Hash, Mechanism};

/// One exchange after its first message.
pub(super) struct Scram {
    hash: Hash,
    salted: Vec<u8>,
    nonce: String,
    /// Both first messages, as they are signed.
    signed: String,
}

impl Scram {
    /// Takes the client's first message and answers it; `None` if it makes no sense or nobody has
    /// that name.
    pub(super) fn begin(
        mechanism: Mechanism,
        sasl: &Sasl,
        message: &[u8],
        connection: ConnectionId,
    ) -> Option<(Self, Bytes)> {
        let hash = Hash::of(mechanism)?;
        let bare = std::str::from_utf8(message).ok()?.strip_prefix("n,,")?;
        let (name, nonce) = bare.strip_prefix("n=")?.split_once(",r=")?;
        let name = name.replace("=2C", ",").replace("=3D", "=");
        let password = sasl.users.get(&name)?;
        let nonce = format!("{nonce}embedded{}", connection.0);
        let salt = format!("salt of {name}").into_bytes();
        let first = format!(
            "r={nonce},s={},i={}",
            BASE64_STANDARD.encode(&salt),
            sasl.iterations
        );
        let salted = hash.salted(password.expose().as_bytes(), &salt, sasl.iterations);
        let scram = Self {
            hash,
            salted: salted.to_vec(),
            nonce,
            signed: format!("{bare},{first}"),
        };
        Some((scram, Bytes::from(first)))
    }

    /// Verifies the proof; the answer proves that the broker knows the password.
    pub(super) fn finish(&self, message: &[u8]) -> Option<Bytes> {
        let message = std::str::from_utf8(message).ok()?;
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        if without_proof != format!("c=biws,r={}", self.nonce) {
            return None;
        }
        let signed = format!("{},{without_proof}", self.signed);
        let client_key = self.hash.hmac(&self.salted, b"Client Key").ok()?;
        let stored_key = self.hash.digest(&client_key);
        let signature = self.hash.hmac(&stored_key, signed.as_bytes()).ok()?;
        let proof = BASE64_STANDARD.decode(proof).ok()?;
        let proven: Vec<u8> = proof
            .iter()
            .zip(signature.iter())
            .map(|(a, b)| a ^ b)
            .collect();
        if self.hash.digest(&proven) != stored_key {
            return None;
        }
        let server_key = self.hash.hmac(&self.salted, b"Server Key").ok()?;
        let verifier = self.hash.hmac(&server_key, signed.as_bytes()).ok()?;
        Some(format!("v={}", BASE64_STANDARD.encode(&*verifier)).into())
    }
}

impl fmt::Debug for Scram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scram").finish_non_exhaustive()
    }
}
