//! Who we are to the brokers: makes one exchange per authentication and keeps none.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_rustls::rustls::crypto::ring::default_provider;

use super::token_file::TokenFile;
use super::tokens::{TokenProvider, Tokens};
use crate::actors::clock::Clock;
use crate::actors::spawn;
use crate::config::{Config, Security};
use crate::error::{Error, ErrorKind};
use crate::wire::sasl::{
    Bearer, Credentials, Derivation, Exchange, Mechanism, Nonce, SaltedPassword,
};

/// How connections authenticate.
#[derive(Debug)]
pub(crate) struct Login {
    mechanism: Mechanism,
    source: Source,
    iterations_max: u32,
}

#[derive(Debug)]
enum Source {
    Password(Credentials),
    Tokens(Arc<Tokens>),
}

impl Login {
    /// The login that is configured, if one is; configuration has been checked.
    ///
    /// # Errors
    ///
    /// OAUTHBEARER without a source of tokens, or with two.
    pub(crate) fn of(
        config: &Config,
        provider: Option<Arc<dyn TokenProvider>>,
        clock: Clock,
    ) -> Result<Option<Self>, Error> {
        let security = &config.security;
        let Some(mechanism) = security.mechanism.filter(|_| security.protocol.sasl()) else {
            return Ok(None);
        };
        let source = match mechanism {
            Mechanism::OAuthBearer => {
                let provider = one_provider(security, provider)?;
                Source::Tokens(Tokens::new(provider, security, clock))
            }
            Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512 => {
                Source::Password(Credentials::Password {
                    username: security.username.clone().unwrap_or_default(),
                    password: security.password.clone().unwrap_or_default(),
                })
            }
        };
        Ok(Some(Self {
            mechanism,
            source,
            iterations_max: security.iterations_max,
        }))
    }

    /// The tokens, if that is what connections authenticate with.
    pub(crate) fn tokens(&self) -> Option<&Arc<Tokens>> {
        match &self.source {
            Source::Tokens(tokens) => Some(tokens),
            Source::Password(_) => None,
        }
    }

    /// Begins one authentication. A token that must be fetched comes by `later`.
    pub(crate) fn begin<F>(&self, later: F) -> Option<Result<Exchange, String>>
    where
        F: FnOnce(Result<Bearer, String>) + 'static,
    {
        match &self.source {
            Source::Password(credentials) => Some(self.exchange(credentials)),
            Source::Tokens(tokens) => {
                let tokens = Arc::clone(tokens);
                drop(spawn::local("token", async move {
                    later(tokens.bearer().await);
                }));
                None
            }
        }
    }

    /// One authentication with these credentials.
    pub(crate) fn exchange(&self, credentials: &Credentials) -> Result<Exchange, String> {
        let mut bytes = [0; 24];
        // Not the stream of samples that machines get: that one is no secret.
        default_provider()
            .secure_random
            .fill(&mut bytes)
            .map_err(|_| "the system has no randomness to give".to_owned())?;
        let nonce = Nonce::new(bytes);
        Exchange::new(self.mechanism, credentials, &nonce, self.iterations_max)
    }
}

/// Where tokens come from: a file, or the program.
fn one_provider(
    security: &Security,
    given: Option<Arc<dyn TokenProvider>>,
) -> Result<Arc<dyn TokenProvider>, Error> {
    match (&security.token_file, given) {
        (Some(file), None) => Ok(Arc::new(TokenFile::new(file.path()))),
        (None, Some(provider)) => Ok(provider),
        (Some(_), Some(_)) => Err(Error::new(ErrorKind::Config, TWO_PROVIDERS)),
        (None, None) => Err(Error::new(ErrorKind::Config, NO_PROVIDER)),
    }
}

/// Hashes on a thread that may block, and hands the result to `done` on this one (S4).
pub(crate) fn derive<F>(derivation: Derivation, done: F)
where
    F: FnOnce(SaltedPassword) + 'static,
{
    drop(spawn::local("derive", async move {
        let Ok(_turn) = DERIVING.acquire().await else {
            return;
        };
        if let Ok(salted) = tokio::task::spawn_blocking(move || derivation.run()).await {
            done(salted);
        }
    }));
}

const NO_PROVIDER: &str = "`sasl.mechanism` OAUTHBEARER needs a source of tokens; \
                           `sasl.oauthbearer.token.endpoint.url=file:/run/secrets/token` names a \
                           file with one, and a program can give the fleet a provider by \
                           `FleetBuilder::tokens`";
const TWO_PROVIDERS: &str = "`sasl.oauthbearer.token.endpoint.url` names a file with a token, and \
                             `FleetBuilder::tokens` gives others; leave one out";
/// Passwords hashed at a time in this process: a fleet that dials every broker at once leaves cores
/// to the handlers.
static DERIVING: Semaphore = Semaphore::const_new(4);

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;
    use crate::secret::{Secret, is_wiped};
    use crate::wire::SaslStep;
    use crate::wire::sasl::Step;

    fn login(mechanism: &str) -> Login {
        let mut config = Config::default();
        for (key, value) in [
            ("bootstrap.servers", "a:9092"),
            ("security.protocol", "SASL_SSL"),
            ("sasl.mechanism", mechanism),
            ("sasl.username", "bob"),
            ("sasl.password", "pencil"),
        ] {
            config.set(key, value).unwrap();
        }
        Login::of(&config, None, Clock::start()).unwrap().unwrap()
    }

    /// What the first message of an authentication names as ours.
    fn nonce(login: &Login) -> Vec<u8> {
        let begun = login.begin(|_| unreachable!("a password is at hand"));
        let Step::Tell(SaslStep::Token(first)) = begun.unwrap().unwrap().step(None) else {
            panic!("no message");
        };
        let first = std::str::from_utf8(&first).unwrap();
        let nonce = first.strip_prefix("n,,n=bob,r=").unwrap();
        BASE64_STANDARD.decode(nonce).unwrap()
    }

    /// wire.md 11.1 S1
    #[test]
    fn every_exchange_has_a_nonce_of_24_bytes_of_its_own() {
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let login = login(mechanism);
            let nonces: std::collections::BTreeSet<_> = (0..100).map(|_| nonce(&login)).collect();
            assert_eq!(nonces.len(), 100);
            assert!(nonces.iter().all(|nonce| nonce.len() == 24));
            // No byte is the same in all: a hundred chances leave none to that.
            for at in 0..24 {
                let bytes: std::collections::BTreeSet<_> =
                    nonces.iter().map(|nonce| nonce[at]).collect();
                assert!(bytes.len() > 1, "byte {at}");
            }
        }
    }

    /// wire.md 11.1 S6
    #[test]
    fn a_login_and_the_configuration_hold_secrets_in_what_is_wiped_only() {
        match login("PLAIN").source {
            Source::Password(Credentials::Password {
                username: _,
                password,
            }) => is_wiped(&password),
            Source::Password(Credentials::Bearer(_)) | Source::Tokens(_) => panic!("no password"),
        }
        let Security {
            password, key_pem, ..
        } = Security::default();
        let held: [Option<Secret>; 2] = [password, key_pem];
        held.iter().flatten().for_each(is_wiped);
    }
}
