//! SCRAM (RFC 5802, RFC 7677) from the client's side, without channel binding and SASLprep: brokers
//! apply neither.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256, Sha512};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

#[cfg(feature = "embedded")]
use super::Mechanism;
use super::{Nonce, Step, quoted, wiped};
use crate::secret::Secret;
use crate::wire::connection::SaslStep;

/// Fewest iterations accepted (S3).
pub const ITERATIONS_MIN: u32 = 4_096;
/// Longest salt accepted, in bytes (S3).
const SALT_MAX: usize = 1_024;
/// No channel binding, no other identity.
const GS2_HEADER: &str = "n,,";
/// The same in base64, as the final message repeats it.
const CHANNEL_BINDING: &str = "c=biws";

/// The hash function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    /// The hash of a SCRAM mechanism.
    #[cfg(feature = "embedded")]
    pub(crate) const fn of(mechanism: Mechanism) -> Option<Self> {
        match mechanism {
            Mechanism::ScramSha256 => Some(Self::Sha256),
            Mechanism::ScramSha512 => Some(Self::Sha512),
            Mechanism::Plain | Mechanism::OAuthBearer => None,
        }
    }

    /// The password as it is kept and compared.
    pub(crate) fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Key {
        let mut salted = Zeroizing::new(vec![0; self.bytes()]);
        match self {
            Self::Sha256 => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted);
            }
            Self::Sha512 => {
                pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut salted);
            }
        }
        salted
    }

    pub(crate) fn hmac(self, key: &[u8], message: &[u8]) -> Result<Key, String> {
        let impossible = |_| "key of impossible length".to_owned();
        let digest = match self {
            Self::Sha256 => Hmac::<Sha256>::new_from_slice(key)
                .map_err(impossible)?
                .chain_update(message)
                .finalize()
                .into_bytes()
                .to_vec(),
            Self::Sha512 => Hmac::<Sha512>::new_from_slice(key)
                .map_err(impossible)?
                .chain_update(message)
                .finalize()
                .into_bytes()
                .to_vec(),
        };
        Ok(Zeroizing::new(digest))
    }

    pub(crate) fn digest(self, message: &[u8]) -> Key {
        Zeroizing::new(match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        })
    }

    const fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

pub(crate) type Key = Zeroizing<Vec<u8>>;

/// The costly part: PBKDF2 over the password. Blocks for milliseconds up to a second.
pub struct Derivation {
    hash: Hash,
    password: Secret,
    salt: Vec<u8>,
    iterations: u32,
}

impl Derivation {
    /// Rounds of hashing it takes.
    pub const fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Computes it.
    pub fn run(&self) -> SaltedPassword {
        let password = self.password.expose().as_bytes();
        SaltedPassword(self.hash.salted(password, &self.salt, self.iterations))
    }
}

impl fmt::Debug for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Derivation")
            .field("hash", &self.hash)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// What a [`Derivation`] computes; wiped on drop.
pub struct SaltedPassword(Key);

#[cfg(test)]
impl SaltedPassword {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for SaltedPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SaltedPassword([redacted])")
    }
}

/// The client's side of one exchange.
pub(super) struct Scram {
    hash: Hash,
    password: Secret,
    nonce: String,
    iterations_max: u32,
    /// Our first message without its header.
    first: String,
    stage: Stage,
}

enum Stage {
    Begin,
    /// Our first message is out.
    First,
    /// The password is being salted.
    Deriving {
        server_first: String,
        nonce: String,
    },
    /// The proof is out; the broker must answer with this.
    Final {
        signature: Key,
    },
}

impl Scram {
    pub(super) fn new(hash: Hash, username: &str, password: &Secret, nonce: &Nonce) -> Self {
        let username = username.replace('=', "=3D").replace(',', "=2C");
        Self {
            hash,
            password: password.clone(),
            first: format!("n={username},r={}", nonce.0),
            nonce: nonce.0.clone(),
            iterations_max: ITERATIONS_MIN,
            stage: Stage::Begin,
        }
    }

    /// The same, accepting up to this many iterations.
    pub(super) fn accepting(self, iterations_max: u32) -> Self {
        Self {
            iterations_max: iterations_max.max(ITERATIONS_MIN),
            ..self
        }
    }

    pub(super) fn step(&mut self, challenge: Option<&[u8]>) -> Result<Step, String> {
        match (&self.stage, challenge) {
            (Stage::Begin, None) => {
                self.stage = Stage::First;
                let token = format!("{GS2_HEADER}{}", self.first);
                Ok(Step::Tell(SaslStep::Token(wiped(token.into_bytes()))))
            }
            (Stage::First, Some(challenge)) => self.challenged(challenge),
            (Stage::Final { signature }, Some(challenge)) => {
                verify(self.hash, signature, challenge)?;
                Ok(Step::Tell(SaslStep::Done))
            }
            (Stage::Begin, Some(_))
            | (Stage::First | Stage::Final { .. }, None)
            | (Stage::Deriving { .. }, _) => Err("mechanism stepped out of turn".to_owned()),
        }
    }

    /// Everything is checked before anything is hashed (S2, S3).
    fn challenged(&mut self, challenge: &[u8]) -> Result<Step, String> {
        let server_first = ServerFirst::parse(challenge)?;
        let ServerFirst {
            nonce,
            salt,
            iterations,
        } = server_first;
        let extended = nonce.strip_prefix(self.nonce.as_str());
        if extended.is_none_or(str::is_empty) {
            return Err("the broker's nonce does not extend ours".to_owned());
        }
        if !(ITERATIONS_MIN..=self.iterations_max).contains(&iterations) {
            let max = self.iterations_max;
            return Err(format!(
                "{iterations} iterations, outside {ITERATIONS_MIN} to {max}"
            ));
        }
        self.stage = Stage::Deriving {
            nonce: nonce.to_owned(),
            server_first: utf8(challenge)?.to_owned(),
        };
        Ok(Step::Derive(Derivation {
            hash: self.hash,
            password: self.password.clone(),
            salt,
            iterations,
        }))
    }

    pub(super) fn derived(&mut self, salted: &SaltedPassword) -> Result<Step, String> {
        let Stage::Deriving {
            server_first,
            nonce,
        } = &self.stage
        else {
            return Err("nothing was to be derived".to_owned());
        };
        let without_proof = format!("{CHANNEL_BINDING},r={nonce}");
        let signed = format!("{},{server_first},{without_proof}", self.first);
        let client_key = self.hash.hmac(&salted.0, b"Client Key")?;
        let stored_key = self.hash.digest(&client_key);
        let client_signature = self.hash.hmac(&stored_key, signed.as_bytes())?;
        let mut proof = client_key;
        for (byte, mask) in proof.iter_mut().zip(client_signature.iter()) {
            *byte ^= mask;
        }
        let server_key = self.hash.hmac(&salted.0, b"Server Key")?;
        let signature = self.hash.hmac(&server_key, signed.as_bytes())?;
        let proof = Zeroizing::new(BASE64_STANDARD.encode(&*proof));
        let token = [without_proof.as_str(), ",p=", proof.as_str()].concat();
        self.stage = Stage::Final { signature };
        Ok(Step::Tell(SaslStep::Token(wiped(token.into_bytes()))))
    }
}

impl fmt::Debug for Scram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scram")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// What the broker asks for.
#[derive(PartialEq, Eq, Debug)]
struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> ServerFirst<'a> {
    /// Attributes come in the order of RFC 5802; those after them are optional and ignored.
    fn parse(message: &'a [u8]) -> Result<Self, String> {
        let message = utf8(message)?;
        if message.starts_with("m=") {
            return Err("the broker demands an extension that is not spoken".to_owned());
        }
        if let Some(error) = message.strip_prefix("e=") {
            return Err(refusal(error));
        }
        let mut attributes = message.split(',');
        let nonce = attribute(attributes.next(), "r=")?;
        let salt = attribute(attributes.next(), "s=")?;
        let iterations = attribute(attributes.next(), "i=")?;
        if !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the broker's nonce is not printable".to_owned());
        }
        // Four characters stand for three bytes: too long a salt is not even decoded.
        let salt = Some(salt).filter(|salt| salt.len() <= SALT_MAX.div_ceil(3) * 4);
        let salt = salt.and_then(|salt| BASE64_STANDARD.decode(salt).ok());
        let salt = salt.filter(|salt| (1..=SALT_MAX).contains(&salt.len()));
        let salt = salt.ok_or_else(|| format!("a salt that is not 1 to {SALT_MAX} bytes"))?;
        let digits = iterations.bytes().all(|byte| byte.is_ascii_digit());
        let iterations = iterations.parse().ok().filter(|_| digits);
        let iterations = iterations.ok_or("a count of iterations that cannot be")?;
        Ok(Self {
            nonce,
            salt,
            iterations,
        })
    }
}

/// The broker proves that it knows the password, too (S5).
fn verify(hash: Hash, expected: &Key, message: &[u8]) -> Result<(), String> {
    let message = utf8(message)?;
    if let Some(error) = message.strip_prefix("e=") {
        return Err(refusal(error));
    }
    let verifier = attribute(message.split(',').next(), "v=")?;
    let verifier = Some(verifier).filter(|text| text.len() <= hash.bytes() * 2);
    let given = verifier.and_then(|text| BASE64_STANDARD.decode(text).ok());
    let right = given.is_some_and(|given| bool::from(given.ct_eq(expected)));
    right
        .then_some(())
        .ok_or_else(|| "the broker did not prove that it knows the password".to_owned())
}

fn attribute<'a>(text: Option<&'a str>, name: &str) -> Result<&'a str, String> {
    text.and_then(|text| text.strip_prefix(name))
        .ok_or_else(|| format!("the broker's message lacks `{name}` where it belongs"))
}

fn refusal(error: &str) -> String {
    let error = error.split(',').next().unwrap_or_default();
    format!("the broker says {}", quoted(error.as_bytes()))
}

fn utf8(message: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(message).map_err(|_| "the broker's message is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::is_wiped;

    /// Whoever adds a field to one of these has to say what it is (S6).
    #[test]
    fn passwords_and_keys_are_held_in_what_is_wiped_only() {
        let (password, nonce) = (Secret::new("pencil"), Nonce::new([7; 24]));
        let scram = Scram::new(Hash::Sha256, "bob", &password, &nonce);
        let Scram {
            hash,
            password,
            nonce: _,
            iterations_max: _,
            first: _,
            stage,
        } = scram;
        match stage {
            Stage::Begin
            | Stage::First
            | Stage::Deriving {
                server_first: _,
                nonce: _,
            } => {}
            Stage::Final { signature } => is_wiped(&signature),
        }
        let derivation = Derivation {
            hash,
            password,
            salt: vec![7; 16],
            iterations: ITERATIONS_MIN,
        };
        let SaltedPassword(salted) = derivation.run();
        is_wiped(&salted);
        is_wiped(&hash.digest(&salted));
        let Derivation {
            hash: _,
            password,
            salt: _,
            iterations: _,
        } = derivation;
        is_wiped(&password);
    }
}
