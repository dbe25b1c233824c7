//! What a broker may answer to a bearer token: anything but nothing is a refusal (wire.md 11.1 S7).

use nearside::secret::Secret;
use nearside::wire::SaslStep;
use nearside::wire::sasl::{Bearer, Credentials, Exchange, Mechanism, Nonce, Step};

/// Longest refusal told, in bytes: what D3 allows a broker, and our own words.
const WHY_MAX: usize = 1_024 + 64;

/// Challenges, each ended by 0xff; the first is the broker's answer to the token.
pub(super) fn run(data: &[u8]) {
    let bearer = Bearer::new(Secret::new("hunter2")).expect("a token");
    let credentials = Credentials::Bearer(bearer);
    let nonce = Nonce::new([7; 24]);
    let exchange = Exchange::new(Mechanism::OAuthBearer, &credentials, &nonce, 0);
    let mut exchange = exchange.expect("a token does");
    let first = exchange.step(None);
    assert!(matches!(first, Step::Tell(SaslStep::Token(_))));
    let mut challenges = data.split(|byte| *byte == 0xff);
    let answer = challenges.next().unwrap_or_default();
    match exchange.step(Some(answer)) {
        Step::Tell(SaslStep::Done) => assert!(answer.is_empty(), "success with a challenge"),
        Step::Tell(SaslStep::Refused { token, why }) => {
            assert!(!answer.is_empty());
            assert_eq!(&token[..], [1], "the error is asked for with one byte");
            assert!(!why.contains(char::is_control), "{why:?}");
            assert!(why.len() <= WHY_MAX, "{} bytes", why.len());
        }
        step => panic!("{step:?}"),
    }
    // Whatever follows, the exchange is over.
    for challenge in challenges {
        let step = exchange.step(Some(challenge));
        assert!(matches!(step, Step::Tell(SaslStep::Failed(_))), "{step:?}");
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let long = format!(r#"{{"status":"{}"}}"#, "a\\u0007".repeat(200));
    let control = format!(r#"{{"status":"{}"}}"#, "\\u007f".repeat(256));
    let seeds = [
        "",
        r#"{"status":"invalid_token","scope":"kafka","openid-configuration":"https://id"}"#,
        r#"{"status":"a\nb\u001b[31m","scope":null}"#,
        r#"{"status":1}"#,
        "not JSON",
        &long,
        &control,
        &"[".repeat(300),
    ];
    let plain = seeds.iter().map(|seed| seed.as_bytes().to_vec());
    let followed = [seeds[1].as_bytes(), b"\xff\xff\x01"].concat();
    plain.chain([followed]).collect()
}
