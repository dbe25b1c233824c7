//! SCRAM exchanges beside an oracle that plays the broker's part of RFC 5802.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use nearside::secret::Secret;
use nearside::wire::SaslStep;
use nearside::wire::sasl::{
    Credentials, Derivation, Exchange, Mechanism, Nonce, SaltedPassword, Step,
};
use sha2::{Digest as _, Sha256, Sha512};

const USER: &str = "user";
const PASSWORD: &str = "pencil";
const NONCE: [u8; 24] = [7; 24];
/// Fewest iterations that may be hashed.
const ITERATIONS_MIN: u32 = 4_096;
/// Bounds that a configuration may set; those below the fewest stand for it.
const BOUNDS: [u32; 4] = [4_100, 0, 1_000_000, u32::MAX];
/// More than this is judged and not computed.
const ITERATIONS_RUN: u32 = 4_200;
const SALT_MAX: usize = 1_024;
/// A message that stands for none.
const NOTHING: &[u8] = b"?";
/// A message that stands for the salted password, once more.
const AGAIN: &[u8] = b"!";
/// The right signature, in a message.
const SIGNED: &str = "%";

#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha512,
}

/// What must follow from the next message.
enum Stage {
    Begin,
    First,
    /// The broker must prove itself with this.
    Final(Vec<u8>),
    Over,
}

/// The first byte chooses the hash and the bound of iterations; the messages are lines.
pub(super) fn run(data: &[u8]) {
    let Some((choice, transcript)) = super::choose(data, 256) else {
        return;
    };
    let (hash, mechanism) = if choice % 2 == 0 {
        (Hash::Sha256, Mechanism::ScramSha256)
    } else {
        (Hash::Sha512, Mechanism::ScramSha512)
    };
    let bound = BOUNDS[choice / 2 % BOUNDS.len()];
    let credentials = Credentials::Password {
        username: USER.to_owned(),
        password: Secret::new(PASSWORD),
    };
    let exchange = Exchange::new(mechanism, &credentials, &Nonce::new(NONCE), bound);
    let mut login = Login {
        exchange: exchange.expect("a password does"),
        hash,
        bound: bound.max(ITERATIONS_MIN),
        salted: None,
        stage: Stage::Begin,
    };
    for message in transcript.split(|byte| *byte == b'\n') {
        if login.hear(message).is_none() {
            return;
        }
    }
}

struct Login {
    exchange: Exchange,
    hash: Hash,
    bound: u32,
    salted: Option<SaltedPassword>,
    stage: Stage,
}

impl Login {
    /// Hands one message to the exchange; `None` if going on would take too long.
    fn hear(&mut self, message: &[u8]) -> Option<()> {
        if let (AGAIN, Some(salted)) = (message, &self.salted) {
            refused(&self.exchange.derived(salted));
            self.stage = Stage::Over;
            return Some(());
        }
        let message = self.signed(message);
        let challenge = Some(message.as_slice()).filter(|message| *message != NOTHING);
        let step = self.exchange.step(challenge);
        match (std::mem::replace(&mut self.stage, Stage::Over), challenge) {
            (Stage::Begin, None) => {
                let expected = format!("n,,{}", client_first());
                assert_eq!(token(&step), expected.as_bytes());
                self.stage = Stage::First;
            }
            (Stage::First, Some(first)) => match (acceptable(first, self.bound), step) {
                (Some(asked), Step::Derive(derivation)) => {
                    return self.derive(&asked, first, &derivation);
                }
                (Some(asked), Step::Tell(_)) => {
                    panic!("{} iterations refused", asked.iterations);
                }
                (None, step) => refused(&step),
            },
            (Stage::Final(signature), Some(last)) => {
                let done = matches!(step, Step::Tell(SaslStep::Done));
                assert_eq!(done, proves(last, &signature), "a signature misjudged");
                if !done {
                    refused(&step);
                }
            }
            (Stage::Begin | Stage::First | Stage::Final(_) | Stage::Over, _) => refused(&step),
        }
        Some(())
    }

    /// The message with the right signature where it asks for it.
    fn signed(&self, message: &[u8]) -> Vec<u8> {
        match (&self.stage, std::str::from_utf8(message)) {
            (Stage::Final(signature), Ok(text)) => {
                let signature = BASE64_STANDARD.encode(signature);
                text.replacen(SIGNED, &signature, 1).into_bytes()
            }
            (Stage::Begin | Stage::First | Stage::Final(_) | Stage::Over, _) => message.to_vec(),
        }
    }

    /// Hashes as the broker would, and checks the proof.
    fn derive(&mut self, asked: &Asked, first: &[u8], derivation: &Derivation) -> Option<()> {
        assert_eq!(derivation.iterations(), asked.iterations);
        if asked.iterations > ITERATIONS_RUN {
            return None;
        }
        let salted = derivation.run();
        let step = self.exchange.derived(&salted);
        let token = String::from_utf8(token(&step).to_vec()).expect("text");
        let (bare, proof) = token.rsplit_once(",p=").expect("a proof");
        assert_eq!(bare, format!("c=biws,r={}", asked.nonce));
        let first = std::str::from_utf8(first).expect("judged");
        let signed = format!("{},{first},{bare}", client_first());
        let password = self.hash.salted(&asked.salt, asked.iterations);
        let stored = self.hash.digest(&self.hash.keyed(&password, b"Client Key"));
        let mask = self.hash.keyed(&stored, signed.as_bytes());
        let proof = BASE64_STANDARD.decode(proof).expect("base64");
        assert_eq!(proof.len(), mask.len());
        let key: Vec<u8> = proof.iter().zip(mask).map(|(one, two)| one ^ two).collect();
        assert_eq!(
            self.hash.digest(&key),
            stored,
            "the broker refuses the proof"
        );
        let server = self.hash.keyed(&password, b"Server Key");
        self.stage = Stage::Final(self.hash.keyed(&server, signed.as_bytes()));
        self.salted = Some(salted);
        Some(())
    }
}

impl Hash {
    fn salted(self, salt: &[u8], iterations: u32) -> Vec<u8> {
        let password = PASSWORD.as_bytes();
        match self {
            Self::Sha256 => {
                pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec()
            }
            Self::Sha512 => {
                pbkdf2::pbkdf2_hmac_array::<Sha512, 64>(password, salt, iterations).to_vec()
            }
        }
    }

    fn keyed(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Hmac::<Sha256>::new_from_slice(key)
                .expect("any length")
                .chain_update(message)
                .finalize()
                .into_bytes()
                .to_vec(),
            Self::Sha512 => Hmac::<Sha512>::new_from_slice(key)
                .expect("any length")
                .chain_update(message)
                .finalize()
                .into_bytes()
                .to_vec(),
        }
    }

    fn digest(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }
}

/// What a broker's first message asks for.
struct Asked {
    nonce: String,
    salt: Vec<u8>,
    iterations: u32,
}

/// Reads a first message; `None` if nothing may be hashed for it (wire.md 11.1 S2, S3).
fn acceptable(message: &[u8], bound: u32) -> Option<Asked> {
    let mut parts = std::str::from_utf8(message).ok()?.split(',');
    let mut value = |name| parts.next()?.strip_prefix(name);
    let (nonce, salt, iterations) = (value("r=")?, value("s=")?, value("i=")?);
    let own = BASE64_STANDARD.encode(NONCE);
    let longer = nonce.len() > own.len() && nonce.starts_with(&own);
    let printable = nonce.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    let salt = BASE64_STANDARD.decode(salt).ok()?;
    let sized = !salt.is_empty() && salt.len() <= SALT_MAX;
    let digits = iterations.bytes().all(|byte| byte.is_ascii_digit());
    let iterations: u32 = iterations.parse().ok().filter(|_| digits)?;
    let bounded = iterations >= ITERATIONS_MIN && iterations <= bound;
    (longer && printable && sized && bounded).then(|| Asked {
        nonce: nonce.to_owned(),
        salt,
        iterations,
    })
}

/// Whether a last message carries the right signature.
fn proves(message: &[u8], signature: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(message) else {
        return false;
    };
    let verifier = text
        .split(',')
        .next()
        .and_then(|text| text.strip_prefix("v="));
    verifier.is_some_and(|given| given == BASE64_STANDARD.encode(signature))
}

fn client_first() -> String {
    format!("n={USER},r={}", BASE64_STANDARD.encode(NONCE))
}

fn token(step: &Step) -> &[u8] {
    match step {
        Step::Tell(SaslStep::Token(token)) => token,
        step => panic!("no token: {step:?}"),
    }
}

fn refused(step: &Step) {
    match step {
        Step::Tell(SaslStep::Failed(why)) => {
            assert!(!why.contains(char::is_control), "{why}");
            assert!(why.len() <= 2_048, "{} bytes", why.len());
        }
        step => panic!("not refused: {step:?}"),
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let nonce = BASE64_STANDARD.encode(NONCE);
    let first = |salt: &[u8], iterations: &str| {
        let salt = BASE64_STANDARD.encode(salt);
        format!("?\nr={nonce}theirs,s={salt},i={iterations}")
    };
    let fine = first(b"0123456789abcdef", "4096");
    let transcripts = [
        format!("{fine}\nv=%"),
        format!("{fine},x=later\nv=%,y=more\n?"),
        format!("{fine}\nv={}", BASE64_STANDARD.encode([1; 32])),
        format!("{fine}\ne=invalid-proof"),
        format!("{fine}\n!\nv=%"),
        format!("{}\nv=%", first(&[3; 1_024], "4097")),
        first(&[3; 1_025], "4096"),
        first(b"", "4096"),
        first(b"salt", "4095"),
        first(b"salt", "1000001"),
        first(b"salt", "+4096"),
        format!("?\nr={nonce},s=c2FsdA==,i=4096"),
        "?\nr=foreign,s=c2FsdA==,i=4096".to_owned(),
        format!("?\nm=must,r={nonce}x,s=c2FsdA==,i=4096"),
        "?\ne=unknown-user".to_owned(),
    ];
    let chosen = |choice: u8| {
        let with = move |text: &String| [&[choice][..], text.as_bytes()].concat();
        transcripts.iter().map(with).collect::<Vec<_>>()
    };
    (0..4).flat_map(chosen).collect()
}
