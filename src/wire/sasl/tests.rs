//! The mechanisms against the examples of their RFCs, and against messages that lie.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;

use super::*;

fn pencil() -> Credentials {
    Credentials::Password {
        username: "user".to_owned(),
        password: Secret::new("pencil"),
    }
}

/// An exchange whose nonce is that of the example in RFC 7677.
fn example() -> Exchange {
    let scram = Scram::new(
        Hash::Sha256,
        "user",
        &Secret::new("pencil"),
        &Nonce("rOprNGfwEbeRWgbNEkqO".to_owned()),
    );
    Exchange {
        state: State::Scram(Box::new(scram)),
    }
}

fn token(step: Step) -> String {
    let Step::Tell(SaslStep::Token(token)) = step else {
        panic!("no token: {step:?}");
    };
    String::from_utf8(token.to_vec()).unwrap()
}

fn failure(step: Step) -> String {
    let Step::Tell(SaslStep::Failed(why)) = step else {
        panic!("no failure: {step:?}");
    };
    why
}

fn derivation(step: Step) -> Derivation {
    let Step::Derive(derivation) = step else {
        panic!("nothing to derive: {step:?}");
    };
    derivation
}

const SERVER_FIRST: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

#[test]
fn the_example_of_rfc_7677_comes_out() {
    let mut exchange = example();
    assert_eq!(
        token(exchange.step(None)),
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    );
    let salted = derivation(exchange.step(Some(SERVER_FIRST.as_bytes()))).run();
    assert_eq!(
        token(exchange.derived(&salted)),
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    let server_final = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    let end = exchange.step(Some(server_final));
    assert!(matches!(end, Step::Tell(SaslStep::Done)), "{end:?}");
    assert_eq!(
        failure(exchange.step(Some(b""))),
        "mechanism stepped out of turn"
    );
}

#[test]
fn names_escape_what_would_end_them() {
    let credentials = Credentials::Password {
        username: "a=b,c".to_owned(),
        password: Secret::new("x"),
    };
    let nonce = Nonce::new([7; 24]);
    let mut exchange =
        Exchange::new(Mechanism::ScramSha512, &credentials, &nonce, 1_000_000).unwrap();
    let expected = format!("n,,n=a=3Db=2Cc,r={}", nonce.0);
    assert_eq!(token(exchange.step(None)), expected);
}

#[test]
fn plain_carries_name_and_password_and_no_nul() {
    let nonce = Nonce::new([0; 24]);
    let mut exchange = Exchange::new(Mechanism::Plain, &pencil(), &nonce, 0).unwrap();
    assert_eq!(token(exchange.step(None)), "\0user\0pencil");
    let end = exchange.step(Some(b""));
    assert!(matches!(end, Step::Tell(SaslStep::Done)));
    let nul = Credentials::Password {
        username: "user".to_owned(),
        password: Secret::new("pen\0cil"),
    };
    let refused = Exchange::new(Mechanism::Plain, &nul, &nonce, 0).unwrap_err();
    assert_eq!(refused, "PLAIN cannot carry a NUL in name or password");
}

#[test]
fn a_bearer_token_is_sent_with_its_extensions() {
    let bearer = Bearer::new(Secret::new("abc.def-_~+/="))
        .and_then(|bearer| bearer.extension("logicalCluster", Secret::new("lkc-1")))
        .unwrap();
    let nonce = Nonce::new([0; 24]);
    let credentials = Credentials::Bearer(bearer);
    let mut exchange = Exchange::new(Mechanism::OAuthBearer, &credentials, &nonce, 0).unwrap();
    assert_eq!(
        token(exchange.step(None)),
        "n,,\x01auth=Bearer abc.def-_~+/=\x01logicalCluster=lkc-1\x01\x01"
    );
}

#[test]
fn a_token_that_could_end_the_message_early_is_refused() {
    for token in ["", "a\x01b", "a b", "a,b", "ä"] {
        assert_eq!(Bearer::new(Secret::new(token)), Err(BearerError::Token));
    }
    let bearer = || Bearer::new(Secret::new("abc")).unwrap();
    for (name, value) in [("auth", "x"), ("a1", "x"), ("", "x"), ("a", "\x01")] {
        assert!(
            bearer().extension(name, Secret::new(value)).is_err(),
            "{name}"
        );
    }
}

#[test]
fn credentials_of_another_mechanism_are_refused() {
    let nonce = Nonce::new([0; 24]);
    let bearer = Credentials::Bearer(Bearer::new(Secret::new("abc")).unwrap());
    for (mechanism, credentials) in [
        (Mechanism::OAuthBearer, pencil()),
        (Mechanism::ScramSha256, bearer),
    ] {
        assert!(Exchange::new(mechanism, &credentials, &nonce, 0).is_err());
    }
}

/// wire.md 13: a broker's error text costs 1 KiB.
#[test]
fn what_a_broker_says_stays_short_once_its_control_characters_are_escaped() {
    let status = "\\u007f".repeat(256);
    let challenge = format!(r#"{{"status":"{status}"}}"#);
    let credentials = Credentials::Bearer(Bearer::new(Secret::new("abc")).unwrap());
    let nonce = Nonce::new([0; 24]);
    let mut exchange = Exchange::new(Mechanism::OAuthBearer, &credentials, &nonce, 0).unwrap();
    token(exchange.step(None));
    let Step::Tell(SaslStep::Refused { why, .. }) = exchange.step(Some(challenge.as_bytes()))
    else {
        panic!("a challenge is a refusal");
    };
    let said = why.strip_prefix("the broker refused the token: ").unwrap();
    assert!(said.starts_with("\\u{7f}\\u{7f}"), "{said}");
    assert!(said.len() <= 1_024, "{} bytes", said.len());
}

#[test]
fn nothing_printed_shows_what_is_secret() {
    let mut exchange = example();
    exchange.step(None);
    let derivation = derivation(exchange.step(Some(SERVER_FIRST.as_bytes())));
    let salted = derivation.run();
    let printed = format!("{exchange:?} {derivation:?} {salted:?} {:?}", pencil());
    for secret in [
        "pencil",
        &BASE64_STANDARD.encode("pencil"),
        "rOprNG",
        "W22Z",
    ] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

proptest! {
    /// wire.md 14, `scram`: no panic, no hashing outside the bounds, success only with the right
    /// signature.
    #[test]
    fn whatever_a_broker_says_never_panics_and_never_succeeds(
        first in "(r=rOprNGfwEbeRWgbNEkqO)?[ -~]{0,40}(,s=[A-Za-z0-9+/=]{0,20})?(,i=[0-9]{0,12})?",
        last in "(v=|e=)?[ -~]{0,60}",
    ) {
        let mut exchange = example();
        exchange.step(None);
        if let Step::Derive(derivation) = exchange.step(Some(first.as_bytes())) {
            let salted = SaltedPassword::of(vec![0; 32]);
            prop_assert_eq!(derivation.iterations(), 4_096);
            exchange.derived(&salted);
        }
        let end = exchange.step(Some(last.as_bytes()));
        prop_assert!(matches!(end, Step::Tell(SaslStep::Failed(_))));
    }
}
