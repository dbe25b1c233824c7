//! Access tokens from a file.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nearside::embedded::listener::Serving;
use nearside::embedded::{Record, Sasl, Settings};
use nearside::ids::TopicPartition;
use nearside::secret::Secret;

use crate::run::run;

/// A token that ends then, in seconds since 1970.
fn token(end: u64) -> String {
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let claims = encode(&format!(r#"{{"sub":"bob","exp":{end}}}"#));
    format!("{}.{claims}.c2lnbmVk", encode(r#"{"alg":"RS256"}"#))
}

/// The year 2100.
const FAR: u64 = 4_102_444_800;

/// A broker that knows one token, and a topic with a record.
async fn cluster() -> Serving {
    let mut settings = Settings::default().on_loopback(None);
    settings.sasl = Some(Sasl::token(Secret::new(token(FAR))));
    let serving = Serving::listen(settings).await.unwrap();
    serving.handle().with(|cluster| {
        cluster.create_topic("orders", 1, 3).unwrap();
        let at = TopicPartition::new("orders", 0);
        cluster.produce(&at, &[Record::of("first")]).unwrap();
    });
    serving
}

/// A file that goes with its test.
struct File(PathBuf);

impl File {
    fn new(name: &str, content: &str) -> Self {
        let name = format!("nearside-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn words(command: &str, serving: &Serving, url: &str) -> String {
    format!(
        "{command} -b {} -t orders -X security.protocol=SASL_PLAINTEXT \
         -X sasl.mechanism=OAUTHBEARER -X sasl.oauthbearer.token.endpoint.url={url}",
        serving.handle().bootstrap()
    )
}

#[tokio::test]
async fn records_go_in_and_out_with_a_token_from_a_file() {
    let cluster = cluster().await;
    let file = File::new("good-token", &format!("{}\n", token(FAR)));
    let url = format!("file:{}", file.0.display());
    let produced = run(&words("produce", &cluster, &url), "second\n").await;
    assert_eq!(produced.code, Some(0), "{produced:?}");
    let consumed = run(&words("consume -e", &cluster, &url), "").await;
    assert_eq!(consumed.code, Some(0), "{consumed:?}");
    assert_eq!(consumed.out, "first\nsecond\n");
    let told = format!("{}{}", produced.error, consumed.error);
    assert!(!told.contains(&token(FAR)), "{told}");
}

#[tokio::test]
async fn a_token_that_is_no_good_is_told_with_its_file_and_without_its_text() {
    let cluster = cluster().await;
    let cases = [
        ("ended", token(1_700_000_000), "holds a token that ended"),
        (
            "foreign",
            token(FAR - 1),
            "refused the token: invalid_token",
        ),
        ("opaque", "hunter2".to_owned(), "holds no JWT with an `exp`"),
        ("nothing", String::new(), "holds no JWT with an `exp`"),
    ];
    for (name, text, why) in cases {
        let file = File::new(name, &text);
        let url = format!("file:{}", file.0.display());
        for command in ["consume -e", "produce"] {
            let ended = run(&words(command, &cluster, &url), "a record\n").await;
            assert_eq!(ended.code, Some(4), "{ended:?}");
            assert!(ended.error.contains(why), "{ended:?}");
            let shown = !text.is_empty() && ended.error.contains(&text);
            assert!(!shown, "{ended:?}");
        }
    }
    let missing = run(&words("consume -e", &cluster, "file:/no/such/token"), "").await;
    assert_eq!(missing.code, Some(4), "{missing:?}");
    assert!(
        missing.error.contains("`/no/such/token` cannot be read"),
        "{missing:?}"
    );
}

#[tokio::test]
async fn an_endpoint_of_a_network_and_no_token_at_all_are_wrong_calls() {
    let cluster = cluster().await;
    let https = run(
        &words("consume", &cluster, "https://issuer.example/token"),
        "",
    )
    .await;
    https.assert_failure(2, "have something else write the token to a file");
    let nowhere = run(&words("consume", &cluster, ""), "").await;
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
    assert!(
        nowhere.error.contains("names a file with one"),
        "{nowhere:?}"
    );
}
