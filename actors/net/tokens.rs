//! Access tokens: one that is good is kept, and renewed before it ends.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};

use super::transport::BoxFuture;
use crate::actors::clock::Clock;
use crate::actors::entropy::Entropy;
use crate::actors::spawn;
use crate::config::Security;
use crate::ids::Moment;
use crate::secret::Secret;
use crate::wire::sasl::{Bearer, BearerError, Renewal};

/// A token to authenticate with (`sasl.mechanism=OAUTHBEARER`).
#[derive(Clone, Debug)]
pub struct AccessToken {
    bearer: Bearer,
    lifetime: Duration,
}

impl AccessToken {
    /// A token that is good for `lifetime` from now on; what goes beyond a year is cut to one.
    ///
    /// # Errors
    ///
    /// A token with characters outside those of RFC 6750, or one that has ended already.
    pub fn new(token: Secret, lifetime: Duration) -> Result<Self, BearerError> {
        let bearer = Bearer::new(token)?;
        if lifetime.is_zero() {
            return Err(BearerError::Ended);
        }
        let lifetime = lifetime.min(YEAR);
        Ok(Self { bearer, lifetime })
    }

    /// Adds an extension that the broker expects beside the token (KIP-342).
    ///
    /// # Errors
    ///
    /// A name or value that the message cannot carry.
    pub fn extension(self, name: &str, value: Secret) -> Result<Self, BearerError> {
        let bearer = self.bearer.extension(name, value)?;
        Ok(Self { bearer, ..self })
    }
}

/// Where access tokens come from. Asked when there is none yet, and again before one ends
/// (`sasl.login.refresh.*`); connections share what it answered.
pub trait TokenProvider: Send + Sync + fmt::Debug + 'static {
    /// A fresh token. An error keeps the last good one in use until it ends; its text is logged, so
    /// it must not hold a secret.
    fn token(&self) -> BoxFuture<Result<AccessToken, String>>;
}

/// The token in use.
#[derive(Debug)]
pub(crate) struct Tokens {
    provider: Arc<dyn TokenProvider>,
    renewal: Renewal,
    clock: Clock,
    state: Mutex<State>,
    /// Told when the first token has come.
    first: Notify,
    /// Counts the tokens that replaced one in use.
    renewed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    held: Option<Held>,
    /// When asking failed last while there was no good token, and why.
    failed: Option<(Moment, String)>,
}

#[derive(Clone, Debug)]
struct Held {
    bearer: Bearer,
    due: Moment,
    ends: Moment,
}

impl Tokens {
    pub(crate) fn new(
        provider: Arc<dyn TokenProvider>,
        security: &Security,
        clock: Clock,
    ) -> Arc<Self> {
        let tokens = Arc::new(Self {
            provider,
            renewal: Renewal {
                factor: security.refresh_factor.0,
                jitter: security.refresh_jitter.0,
                period_min: security.refresh_min.duration(),
                buffer: security.refresh_buffer.duration(),
            },
            clock,
            state: Mutex::default(),
            first: Notify::new(),
            renewed: watch::Sender::new(0),
        });
        drop(spawn::local("tokens", renew_all(Arc::downgrade(&tokens))));
        tokens
    }

    /// Counts up with every token that replaces one in use.
    pub(crate) fn renewed(&self) -> watch::Receiver<u64> {
        self.renewed.subscribe()
    }

    /// The token, if one is good; else a new one is asked for, once for all who wait, be there one
    /// or not.
    pub(crate) async fn bearer(&self) -> Result<Bearer, String> {
        let since = self.clock.now();
        let mut state = self.state.lock().await;
        let good = state.held.as_ref();
        if let Some(good) = good.filter(|held| self.clock.now() < held.ends) {
            return Ok(good.bearer.clone());
        }
        if let Some((_, why)) = state.failed.as_ref().filter(|(at, _)| *at > since) {
            return Err(why.clone());
        }
        match self.ask().await {
            Ok(fresh) => {
                let bearer = fresh.bearer.clone();
                state.held = Some(fresh);
                self.first.notify_one();
                Ok(bearer)
            }
            Err(why) => {
                state.failed = Some((self.clock.now(), why.clone()));
                Err(why)
            }
        }
    }

    async fn ask(&self) -> Result<Held, String> {
        let asked = self.provider.token();
        let answer = tokio::time::timeout(PATIENCE, asked).await;
        let token = answer.map_err(|_| "the token provider does not answer".to_owned())?;
        let token = token.map_err(|error| format!("no token: {error}"))?;
        let now = self.clock.now();
        let draw = Entropy::from_system().draw();
        Ok(Held {
            due: now + self.renewal.after(token.lifetime, draw).max(PAUSE),
            ends: now + token.lifetime,
            bearer: token.bearer,
        })
    }

    /// When the token in use is to be renewed.
    async fn due(&self) -> Option<Moment> {
        self.state.lock().await.held.as_ref().map(|held| held.due)
    }

    /// Asks for the next token. The lock is free meanwhile: the last one serves.
    async fn renew(&self) {
        match self.ask().await {
            Ok(fresh) => {
                let bearer = fresh.bearer.clone();
                let former = self.state.lock().await.held.replace(fresh);
                // The same token once more opens no session that lasts longer.
                if former.is_none_or(|former| former.bearer != bearer) {
                    self.renewed.send_modify(|count| *count += 1);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the last token serves until it ends");
                if let Some(held) = self.state.lock().await.held.as_mut() {
                    held.due = self.clock.now() + RETRY;
                }
            }
        }
    }
}

/// Renews the token as it ages, until nobody holds it any more.
async fn renew_all(tokens: Weak<Tokens>) {
    loop {
        let Some(held) = tokens.upgrade() else { return };
        let Some(due) = held.due().await else {
            // Not for ever: whoever would be waited for may be gone.
            drop(tokio::time::timeout(RETRY, held.first.notified()).await);
            continue;
        };
        let wait = due.since(held.clock.now()).min(RETRY);
        if wait.is_zero() {
            held.renew().await;
            continue;
        }
        drop(held);
        tokio::time::sleep(wait).await;
    }
}

/// How long a provider may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Least time from one renewal to the next, however soon tokens end.
const PAUSE: Duration = Duration::from_secs(2);
/// Longest life of a token.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Pause after a renewal that failed, and how often the end of everything is noticed.
const RETRY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers nobody, and counts who asks.
    #[derive(Debug, Default)]
    struct Mute(std::sync::atomic::AtomicUsize);

    impl TokenProvider for Mute {
        fn token(&self) -> BoxFuture<Result<AccessToken, String>> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Box::pin(std::future::pending())
        }
    }

    fn token(lifetime: Duration) -> Result<AccessToken, BearerError> {
        AccessToken::new(Secret::new("coin"), lifetime)
    }

    #[test]
    fn a_token_that_has_ended_is_refused() {
        assert_eq!(token(Duration::ZERO).unwrap_err(), BearerError::Ended);
        assert!(token(Duration::from_nanos(1)).is_ok());
    }

    #[test]
    fn a_token_without_an_end_is_renewed_within_a_year() {
        let token = token(Duration::MAX).unwrap();
        let renewal = Renewal {
            factor: 0.8,
            jitter: 0.0,
            period_min: Duration::from_secs(60),
            buffer: Duration::from_secs(300),
        };
        let due = renewal.after(token.lifetime, Entropy::seeded(7).draw());
        assert_eq!(due, YEAR.mul_f64(0.8));
    }

    #[test]
    fn connections_that_wait_together_are_told_together_that_there_is_no_token() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let (mute, clock) = (Arc::new(Mute::default()), Clock::start());
            let provider: Arc<dyn TokenProvider> = mute.clone();
            let tokens = Tokens::new(provider, &Security::default(), clock);
            let began = clock.now();
            let waiting = (0..5).map(|_| tokens.bearer());
            let answers = futures::future::join_all(waiting).await;
            assert!(answers.iter().all(Result::is_err));
            assert_eq!(
                clock.now().since(began),
                PATIENCE,
                "within the time of a setup"
            );
            let asked = || mute.0.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(asked(), 1);
            tokens.bearer().await.unwrap_err();
            assert_eq!(asked(), 2, "who comes later asks anew");
        });
    }
}
