//! The mechanisms on a connection, against a broker that lies.

use bytes::Bytes;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use kafka_protocol::protocol::Decodable;
use nearside::secret::Secret;
use nearside::wire::sasl::{Bearer, Credentials, Exchange, Mechanism, Nonce, Step};
use nearside::wire::{
    ApiKey, Challenge, Class, Input, Output, Reason, SaslStep, Security, Settings, SocketId,
    StateName,
};

use crate::asking::request;
use crate::rig::Rig;
use crate::samples;

const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

/// A connection with the host's part of SASL.
struct Login {
    rig: Rig,
    exchange: Exchange,
    socket: SocketId,
    hashed: usize,
}

impl Login {
    /// One that has named its mechanism and sent its first token.
    fn begun(mechanism: Mechanism, credentials: &Credentials) -> Self {
        let security = Security {
            tls: true,
            sasl: Some(mechanism),
            plain_in_clear: false,
        };
        let settings = Settings {
            security,
            ..Settings::default()
        };
        let mut rig = Rig::new(Class::Control, settings);
        rig.request(1, request(ApiKey::Metadata));
        let socket = rig.dial();
        let result = Ok(false);
        rig.feed(Input::Tls { socket, result });
        let versions = rig.ask();
        rig.answer_sample(&versions);
        let handshake = rig.ask();
        let offered = kafka_protocol::messages::SaslHandshakeResponse::default()
            .with_mechanisms(vec![samples::text(mechanism.name())]);
        rig.answer(&handshake, &samples::encode(&offered, 1));
        let exchange =
            Exchange::new(mechanism, credentials, &Nonce::new([7; 24]), 1_000_000).unwrap();
        let mut login = Self {
            rig,
            exchange,
            socket,
            hashed: 0,
        };
        login.host();
        login
    }

    /// Carries out what the machine asks of its host.
    fn host(&mut self) {
        while let Some(at) = self.rig.others.iter().position(is_sasl) {
            let Output::Sasl { challenge, .. } = self.rig.others.remove(at) else {
                unreachable!("found by this");
            };
            let challenge = challenge.map(|Challenge(bytes)| bytes);
            let mut step = self.exchange.step(challenge.as_deref());
            if let Step::Derive(derivation) = step {
                self.hashed += 1;
                step = self.exchange.derived(&derivation.run());
            }
            let Step::Tell(step) = step else {
                panic!("derived twice");
            };
            let socket = self.socket;
            self.rig.feed(Input::Sasl { socket, step });
        }
    }

    /// The token on the wire.
    fn token(&mut self) -> Bytes {
        let mut ask = self.rig.ask();
        assert_eq!(ask.api, ApiKey::SaslAuthenticate);
        let request = SaslAuthenticateRequest::decode(&mut ask.body, ask.version).unwrap();
        self.rig.asks.push_front(ask);
        request.auth_bytes
    }

    fn answer(&mut self, token: impl Into<Bytes>) {
        let response = SaslAuthenticateResponse::default().with_auth_bytes(token.into());
        let ask = self.rig.ask();
        self.rig.answer(&ask, &samples::encode(&response, 2));
        self.host();
    }

    fn refuse(&mut self, message: &'static str) {
        let response = SaslAuthenticateResponse::default()
            .with_error_code(58)
            .with_error_message(Some(samples::text(message)));
        let ask = self.rig.ask();
        self.rig.answer(&ask, &samples::encode(&response, 2));
        self.host();
    }

    /// Our nonce, as the first token told it.
    fn nonce(&mut self) -> String {
        let first = String::from_utf8(self.token().to_vec()).unwrap();
        first.split_once("r=").expect("a nonce").1.to_owned()
    }

    /// Why it gave up; it must wait as for want of trust.
    fn refusal(&self) -> String {
        assert_eq!(self.rig.connection.state(), StateName::Backoff);
        let wait = self.rig.wait().as_millis();
        assert!((800..=1_200).contains(&wait), "{wait}");
        let Reason::Trust(why) = self.rig.last_reason() else {
            panic!("{:?}", self.rig.last_reason());
        };
        why.clone()
    }
}

fn is_sasl(output: &Output) -> bool {
    matches!(output, Output::Sasl { .. })
}

fn password() -> Credentials {
    Credentials::Password {
        username: "user".to_owned(),
        password: Secret::new("pencil"),
    }
}

fn bearer() -> Credentials {
    Credentials::Bearer(Bearer::new(Secret::new("hunter2")).unwrap())
}

/// Answers the first message with `first` and tells why that was refused.
fn refused_at_once(first: impl FnOnce(&str) -> String) -> String {
    let mut login = Login::begun(Mechanism::ScramSha256, &password());
    let nonce = login.nonce();
    login.answer(first(&nonce));
    assert_eq!(login.hashed, 0, "refused before anything is hashed");
    login.refusal()
}

/// wire.md A21
#[test]
fn a_server_that_lies_in_its_first_message_is_refused_before_hashing() {
    let first =
        |iterations: &'static str| move |nonce: &str| format!("r={nonce}x,s={SALT},i={iterations}");
    let range = "outside 4096 to 1000000";
    assert_eq!(
        refused_at_once(first("4095")),
        format!("4095 iterations, {range}")
    );
    assert_eq!(
        refused_at_once(first("1000001")),
        format!("1000001 iterations, {range}")
    );
    let why = refused_at_once(first("2147483648"));
    assert_eq!(why, format!("2147483648 iterations, {range}"));
    let why = refused_at_once(first("4294967296"));
    assert_eq!(why, "a count of iterations that cannot be");
    let foreign = refused_at_once(|_| format!("r=foreign,s={SALT},i=4096"));
    assert_eq!(foreign, "the broker's nonce does not extend ours");
    let same = refused_at_once(|nonce| format!("r={nonce},s={SALT},i=4096"));
    assert_eq!(same, "the broker's nonce does not extend ours");
    let mandatory = refused_at_once(|nonce| format!("m=x,r={nonce}x,s={SALT},i=4096"));
    assert_eq!(
        mandatory,
        "the broker demands an extension that is not spoken"
    );
    for salt in [String::new(), "A".repeat(1_400), "?".to_owned()] {
        let why = refused_at_once(|nonce| format!("r={nonce}x,s={salt},i=4096"));
        assert_eq!(why, "a salt that is not 1 to 1024 bytes");
    }
}

/// wire.md A21
#[test]
fn a_server_that_does_not_know_the_password_is_refused_by_its_signature() {
    let lies = [
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        "v=",
        "",
        "v=AAAA",
    ];
    for lie in lies {
        let mut login = Login::begun(Mechanism::ScramSha256, &password());
        let nonce = login.nonce();
        login.answer(format!("r={nonce}x,s={SALT},i=4096,x=unknown"));
        assert_eq!(login.hashed, 1);
        login.answer(lie);
        let why = login.refusal();
        assert!(
            why.contains("did not prove") || why.contains("lacks `v=`"),
            "{why}"
        );
    }
}

#[test]
fn a_server_error_of_scram_is_told() {
    let mut login = Login::begun(Mechanism::ScramSha512, &password());
    let nonce = login.nonce();
    login.answer(format!("r={nonce}x,s={SALT},i=4096"));
    login.answer("e=invalid-proof\x07,x=y");
    assert_eq!(login.refusal(), "the broker says invalid-proof\\u{7}");
}

/// wire.md A22
#[test]
fn a_refused_token_is_asked_about_once_and_only_its_status_is_told() {
    let mut login = Login::begun(Mechanism::OAuthBearer, &bearer());
    assert_eq!(login.token(), "n,,\x01auth=Bearer hunter2\x01\x01");
    login.answer(r#"{"status":"invalid_token","scope":"secret scope hunter2"}"#);
    assert_eq!(login.token(), [1][..]);
    login.refuse("hunter2 is no good");
    assert!(login.rig.asks.is_empty(), "one 0x01 and no more");
    assert_eq!(
        login.refusal(),
        "the broker refused the token: invalid_token"
    );
    let printed = format!("{:?} {:?}", login.rig.events, login.rig.completions);
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[test]
fn a_broker_that_accepts_what_it_refused_is_not_believed() {
    let mut login = Login::begun(Mechanism::OAuthBearer, &bearer());
    login.answer("no json");
    login.answer("");
    assert_eq!(
        login.refusal(),
        "the broker refused the token without a status"
    );
}

#[test]
fn a_password_is_not_sent_in_clear() {
    let security = Security {
        sasl: Some(Mechanism::Plain),
        ..Security::default()
    };
    let settings = Settings {
        security,
        ..Settings::default()
    };
    let mut rig = Rig::new(Class::Control, settings);
    rig.request(1, request(ApiKey::Metadata));
    rig.dial();
    let versions = rig.ask();
    rig.answer_sample(&versions);
    assert!(rig.asks.is_empty(), "not even the mechanism is named");
    let why = "PLAIN without TLS would show the password".to_owned();
    assert_eq!(rig.last_reason(), &Reason::Trust(why));
}

#[test]
fn what_was_hashed_for_a_connection_that_moved_on_is_dropped() {
    let mut login = Login::begun(Mechanism::ScramSha256, &password());
    let nonce = login.nonce();
    let first = format!("r={nonce}x,s={SALT},i=4096");
    let Step::Derive(derivation) = login.exchange.step(Some(first.as_bytes())) else {
        panic!("nothing to derive");
    };
    login.rig.lose(login.socket, 0);
    let Step::Tell(step) = login.exchange.derived(&derivation.run()) else {
        panic!("derived twice");
    };
    let (socket, sent) = (login.socket, login.rig.asks.len());
    assert!(matches!(step, SaslStep::Token(_)));
    login.rig.feed(Input::Sasl { socket, step });
    assert_eq!(
        login.rig.asks.len(),
        sent,
        "a proof for a socket that is gone"
    );
}
