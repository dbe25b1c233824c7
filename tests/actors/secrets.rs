//! No secret is printed: by any type that can hold one, nor by a fleet at work.

use std::future::Future;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use nearside::config::{Config, Security};
use nearside::embedded::{Cluster, Sasl, Settings};
use nearside::fleet::{AccessToken, BoxFuture, TokenProvider};
use nearside::ids::{BrokerId, Moment};
use nearside::secret::Secret;
use nearside::wire::api::sasl_authenticate;
use nearside::wire::sasl::{Bearer, Credentials, Exchange, Mechanism, Nonce, Step};
use nearside::wire::{Challenge, Input, Output, SaslStep, SocketId, Tier};
use tracing_subscriber::fmt::MakeWriter;

use crate::pki::{Authority, Tunnel};
use crate::stage::{Builder, Seen, Stage, run, until_hashed};

const SECRET: &str = "hunter2-and-more";

fn secret() -> Secret {
    Secret::new(SECRET)
}

fn bytes() -> Bytes {
    Bytes::from_static(SECRET.as_bytes())
}

/// Neither the secret nor its base64, nor that of a message it stands in.
fn shows_nothing(what: &str, text: &str) {
    let whole = BASE64_STANDARD.encode(SECRET);
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let decimal = format!("{:?}", SECRET.as_bytes());
    let decimal = decimal.trim_matches(['[', ']']);
    for needle in [SECRET, whole.trim_end_matches('='), &hex, decimal] {
        assert!(!text.contains(needle), "{what} shows a secret: {text}");
    }
}

fn password() -> Credentials {
    Credentials::Password {
        username: "bob".to_owned(),
        password: secret(),
    }
}

fn bearer() -> Bearer {
    Bearer::new(secret())
        .and_then(|bearer| bearer.extension("key", secret()))
        .expect("a token")
}

/// wire.md A28
#[test]
fn no_configuration_shows_a_secret() {
    let pairs = [
        ("sasl.username", "bob"),
        ("sasl.password", SECRET),
        ("ssl.keystore.key", SECRET),
    ];
    let config = Config::from_pairs(pairs).expect("properties");
    shows_nothing("Config", &format!("{config:?} {config:#?}"));
    let security: &Security = &config.security;
    shows_nothing("Security", &format!("{security:?}"));
    for key in Config::keys() {
        shows_nothing(key, &config.show(key).unwrap_or_default());
    }
    for finding in config.lint() {
        shows_nothing("Finding", &format!("{finding} {finding:?}"));
    }
    let endpoint = format!("https://bob:{SECRET}@issuer.example/token?client_secret={SECRET}");
    let key = "sasl.oauthbearer.token.endpoint.url";
    // A token where its file belongs, too.
    for value in [endpoint.as_str(), SECRET] {
        let refused = Config::from_pairs([(key, value)]).expect_err(key);
        shows_nothing(key, &format!("{refused} {refused:?}"));
    }
    for key in [
        "ssl.key.password",
        "ssl.keystore.password",
        "sasl.jaas.config",
        "admin.token",
    ] {
        let refused = Config::from_pairs([(key, SECRET)]).expect_err(key);
        shows_nothing(key, &format!("{refused} {refused:?}"));
        let refused = Config::from_properties(&format!("{key}={SECRET}"), "f").expect_err(key);
        shows_nothing(key, &format!("{refused} {refused:?}"));
    }
}

/// wire.md A28
#[test]
fn no_machine_input_or_output_shows_a_secret() {
    let socket = SocketId(1);
    let challenge = Some(Challenge(bytes()));
    let refused = SaslStep::Refused {
        token: bytes(),
        why: "no".to_owned(),
    };
    let request = sasl_authenticate::Request { token: bytes() };
    let request = nearside::wire::Request::from(request);
    let token = nearside::wire::Token(1);
    let texts = [
        format!("{:?} {:?}", secret(), Some(secret())),
        format!("{:?} {:?}", password(), Credentials::Bearer(bearer())),
        format!("{:?}", AccessToken::new(secret(), Duration::from_secs(1))),
        format!("{:?} {:?}", SaslStep::Token(bytes()), refused),
        format!("{request:?}"),
        format!("{:?}", Input::Request { token, request }),
        format!(
            "{:?}",
            Input::Frame {
                socket,
                frame: bytes()
            }
        ),
        format!(
            "{:?}",
            Input::Sasl {
                socket,
                step: SaslStep::Token(bytes())
            }
        ),
        format!("{:?}", Output::Sasl { socket, challenge }),
        format!(
            "{:?}",
            Output::Write {
                socket,
                bytes: bytes(),
                tier: Tier::Setup
            }
        ),
        format!("{:?}", Sasl::user("bob", secret())),
        format!("{:?}", Sasl::token(secret())),
    ];
    for text in texts {
        shows_nothing("a type", &text);
    }
}

/// wire.md A28
#[test]
fn no_step_of_an_exchange_shows_a_secret() {
    let credentials = [
        (Mechanism::Plain, password()),
        (Mechanism::ScramSha256, password()),
        (Mechanism::OAuthBearer, Credentials::Bearer(bearer())),
    ];
    for (mechanism, credentials) in credentials {
        let nonce = Nonce::new([7; 24]);
        let mut exchange = Exchange::new(mechanism, &credentials, &nonce, 10_000).expect("fits");
        shows_nothing("Exchange", &format!("{exchange:?} {nonce:?}"));
        let first = exchange.step(None);
        shows_nothing("the first step", &format!("{first:?} {exchange:?}"));
        let Step::Tell(SaslStep::Token(token)) = first else {
            panic!("no token");
        };
        if mechanism == Mechanism::ScramSha256 {
            let (_, nonce) = std::str::from_utf8(&token)
                .expect("text")
                .split_once("r=")
                .expect("r");
            let challenge = format!("r={nonce}x,s={},i=4096", BASE64_STANDARD.encode("salt"));
            let Step::Derive(derivation) = exchange.step(Some(challenge.as_bytes())) else {
                panic!("nothing to derive");
            };
            let salted = derivation.run();
            shows_nothing(
                "a derivation",
                &format!("{derivation:?} {salted:?} {exchange:?}"),
            );
            let last = exchange.derived(&salted);
            shows_nothing("the last step", &format!("{last:?} {exchange:?}"));
        }
    }
}

/// wire.md A28
#[test]
fn no_cluster_shows_what_its_clients_said() {
    let sasl = Some(Sasl::user("bob", secret()));
    let settings = Settings {
        sasl,
        ..Settings::default()
    };
    let mut cluster = Cluster::new(settings);
    let connection = cluster
        .connect(BrokerId(1), Moment::ZERO)
        .expect("it is up");
    cluster.set_link(BrokerId(1), nearside::embedded::Link::Silent);
    cluster.deliver(connection, bytes(), Moment::ZERO);
    shows_nothing("Cluster", &format!("{cluster:?}"));
}

/// What is logged, kept.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic while noting").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// All that is logged while `play` runs, at every level.
fn logged(play: impl Future<Output = ()>) -> String {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    run(play);
    drop(guard);
    String::from_utf8(log.0.lock().expect("all is over").clone()).expect("text")
}

/// Runs until it is known whether the fleet is let in; looks at everything it tells.
async fn tells_nothing(builder: Builder, seen: &Seen, known: bool) {
    shows_nothing("FleetBuilder", &format!("{builder:?}"));
    let fleet = builder.start_on_this_thread().await.expect("starts");
    until_hashed("it is known, or not", || {
        seen.len() == 10 || fleet.connection_error().is_some()
    })
    .await;
    let error = fleet.connection_error();
    assert_eq!(error.is_none(), known);
    shows_nothing("Error", &format!("{error:?}"));
    let events = fleet.recent_events();
    shows_nothing("Event", &format!("{events:?}"));
    let report = fleet.report();
    let json = serde_json::to_string(&report).expect("JSON");
    shows_nothing("FleetReport", &format!("{report:?} {json}"));
    let stopped = fleet.stop(Duration::from_secs(20)).await;
    shows_nothing("Stopped", &format!("{stopped:?}"));
}

/// Gives the one token there is.
#[derive(Debug)]
struct Token;

impl TokenProvider for Token {
    fn token(&self) -> BoxFuture<Result<AccessToken, String>> {
        Box::pin(async {
            let token = AccessToken::new(secret(), Duration::from_secs(3_600));
            token.map_err(|error| error.to_string())
        })
    }
}

/// wire.md A28
#[test]
fn a_fleet_at_work_logs_tells_and_reports_no_secret() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] {
        for known in [true, false] {
            let text = logged(async move {
                let right = if known {
                    secret()
                } else {
                    Secret::new("another")
                };
                let sasl = Sasl {
                    tokens: vec![right.clone()],
                    ..Sasl::user("bob", right)
                };
                let stage = Stage::with(|settings| settings.sasl = Some(sasl));
                stage.topic("orders", 1);
                stage.produce("orders", 0, 10);
                let seen = Seen::default();
                let builder = stage
                    .fleet("g", "b", seen.noting("orders"))
                    .tokens(Arc::new(Token))
                    .property("security.protocol", "SASL_PLAINTEXT")
                    .property("sasl.mechanism", mechanism)
                    .property("sasl.username", "bob")
                    .property("sasl.password", SECRET)
                    .property("wire.sasl.plain.allow.cleartext", "true");
                tells_nothing(builder, &seen, known).await;
            });
            assert!(text.contains("to=Authenticate"), "the exchange is logged");
            shows_nothing("the log", &text);
        }
    }
}

/// wire.md A28
#[test]
fn a_fleet_with_a_key_logs_none_of_it() {
    let authority = Authority::new();
    let pair = authority.issue(&["billing"], 2_060);
    let ours = pair.clone();
    let text = logged(async move {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let (seen, brokers) = (Seen::default(), authority.brokers());
        let builder = stage
            .fleet("g", "b", seen.noting("orders"))
            .transport(Tunnel::new(stage.transport(), &brokers, Some(&authority)))
            .property("security.protocol", "SSL")
            .property("ssl.truststore.certificates", &authority.pem())
            .property("ssl.keystore.certificate.chain", &ours.chain)
            .property("ssl.keystore.key", &ours.key);
        tells_nothing(builder, &seen, true).await;
    });
    assert!(text.contains("to=Tls"), "the handshake is logged");
    let lines = pair.key.lines().filter(|line| !line.starts_with('-'));
    for line in lines {
        assert!(!text.contains(line), "the log shows a key");
    }
}
