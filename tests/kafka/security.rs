//! One node that asks who is there: by certificate, by password, by token.

use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use libtest_mimic::Trial;
use nearside::cli::kafka::{Cluster, Listener, Options, ProduceLoad, Secured, until};
use nearside::fleet::{AccessToken, BoxFuture, TokenProvider};
use nearside::prelude::*;
use nearside::secret::Secret;

use crate::groups::committed;
use crate::journal::Journal;
use crate::keys::Keys;
use crate::lab::{Lab, Outcome as Verdict};
use crate::refused;

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    vec![lab.trial_alone(
        "who_is_known_reads_and_commits_and_nobody_else_does",
        everybody,
    )]
}

const RECORDS: u64 = 1_000;
const PASSWORD: &str = "correct-horse";
/// Whatever is in a secret of these tests, and in nothing else.
const PART_OF_SECRETS: &str = "-horse";

/// All of it on one node, because each start of one takes ten seconds.
fn everybody() -> Verdict {
    let keys = Keys::make();
    let cluster = Cluster::start(&Options {
        racks: vec!["a".to_owned()],
        secured: Some(Secured {
            keystore: Secret::new(format!("{}{}", keys.broker, keys.authority)),
            expired_keystore: Secret::new(format!("{}{}", keys.expired_broker, keys.authority)),
            truststore: keys.authority.clone(),
            user: "bob".to_owned(),
            password: Secret::new(PASSWORD),
        }),
        ..Options::default()
    })?;
    cluster.create_topic("orders", 2)?;
    cluster.produce(&ProduceLoad::numbered("orders", RECORDS))?;
    passwords_are_proven_within_tls(&cluster, &keys)?;
    certificates_open_the_door(&cluster, &keys)?;
    refused::all_are_told_why_and_wait(&cluster, &keys)?;
    a_file_may_hold_the_token(&cluster)?;
    tokens_outlive_their_sessions(&cluster)
}

fn passwords_are_proven_within_tls(cluster: &Cluster, keys: &Keys) -> Verdict {
    let bootstrap = cluster.secured_bootstrap(Listener::SaslSsl);
    let trust = format!("ssl.truststore.certificates={}", keys.authority);
    for mechanism in ["SCRAM-SHA-512", "PLAIN"] {
        let consumed = consume(
            &bootstrap,
            mechanism,
            &with_password(&trust, mechanism, PASSWORD),
        );
        all_is_read_and_committed(cluster, mechanism, &consumed)?;
    }
    Ok(())
}

fn certificates_open_the_door(cluster: &Cluster, keys: &Keys) -> Verdict {
    let bootstrap = cluster.secured_bootstrap(Listener::Ssl);
    let trust = format!("ssl.truststore.certificates={}", keys.authority);
    let properties = with_certificate(&trust, Some(&keys.client));
    let consumed = consume(&bootstrap, "by-certificate", &properties);
    all_is_read_and_committed(cluster, "by-certificate", &consumed)
}

fn a_file_may_hold_the_token(cluster: &Cluster) -> Verdict {
    let file = std::env::temp_dir().join(format!("nearside-token-{}", std::process::id()));
    std::fs::write(&file, unsigned())?;
    let properties = [
        "security.protocol=SASL_PLAINTEXT".to_owned(),
        "sasl.mechanism=OAUTHBEARER".to_owned(),
        format!(
            "sasl.oauthbearer.token.endpoint.url=file:{}",
            file.display()
        ),
    ];
    let bootstrap = cluster.secured_bootstrap(Listener::SaslPlaintext);
    let consumed = consume(&bootstrap, "by-token-file", &properties);
    std::fs::remove_file(&file)?;
    all_is_read_and_committed(cluster, "by-token-file", &consumed)
}

/// Sessions end after five seconds, the records after fifteen.
fn tokens_outlive_their_sessions(cluster: &Cluster) -> Verdict {
    cluster.create_topic("flow", 1)?;
    let producer =
        cluster.produce_in_background(&ProduceLoad::numbered("flow", 3_000).at_rate(200))?;
    let journal = Arc::<Journal>::default();
    let noted = Arc::clone(&journal);
    let subscription =
        Subscription::topics(["flow"]).handler(handler_fn(move |message: Message<Raw>, _| {
            noted.note(&message);
            std::future::ready(Ok(Outcome::Done))
        }));
    let runtime = tokio::runtime::Runtime::new()?;
    let fleet = Fleet::builder("by-token")
        .bootstrap(&cluster.secured_bootstrap(Listener::SaslPlaintext))
        .property("security.protocol", "SASL_PLAINTEXT")
        .property("sasl.mechanism", "OAUTHBEARER")
        .property("auto.offset.reset", "earliest")
        .tokens(Arc::new(Unsigned))
        .subscribe(subscription);
    let fleet = runtime.block_on(fleet.start())?;
    until(
        "3,000 records handled",
        Duration::from_secs(60),
        || match journal.handled() {
            3_000 => Ok(()),
            handled => Err(format!("{handled}, {:?}", fleet.connection_error())),
        },
    )?;
    producer.wait()?;
    journal.judge(3_000)?;
    let stopped = runtime.block_on(fleet.stop(Duration::from_secs(20)));
    assert!(
        stopped
            .report
            .diagnostics
            .iter()
            .all(|one| one.name != "tls_reload")
    );
    assert_eq!(committed(cluster, "by-token", "flow")?[&0], 3_000);
    Ok(())
}

fn all_is_read_and_committed(cluster: &Cluster, group: &str, consumed: &Output) -> Verdict {
    let error = String::from_utf8_lossy(&consumed.stderr);
    assert_eq!(consumed.status.code(), Some(0), "{error}");
    assert!(!error.contains(PART_OF_SECRETS), "{error}");
    let lines = consumed.stdout.split(|byte| *byte == b'\n').count() as u64;
    assert_eq!(lines - 1, RECORDS);
    let sum: i64 = committed(cluster, group, "orders")?.values().sum();
    assert_eq!(sum, 1_000);
    Ok(())
}

/// Refused at once, with this in its one line, and exit code 4.
pub(crate) fn denied(refused: &Output, why: &str) {
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{error}");
    let told = error.lines().filter(|line| line.starts_with("error: "));
    let told = told.collect::<Vec<_>>();
    assert!(matches!(told[..], [line] if line.contains(why)), "{error}");
    assert!(!error.contains(PART_OF_SECRETS), "{error}");
}

pub(crate) fn consume(bootstrap: &str, group: &str, properties: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearside"));
    command.args(["consume", "-b", bootstrap, "-t", "orders", "-g", group]);
    command.args(["-o", "beginning", "-e", "--connect-timeout", "20"]);
    for property in properties {
        command.args(["-X", property]);
    }
    command.env("NEARSIDE_LOG", "nearside=trace");
    command.output().expect("the command can be run")
}

pub(crate) fn with_password(trust: &str, mechanism: &str, password: &str) -> Vec<String> {
    vec![
        "security.protocol=SASL_SSL".to_owned(),
        trust.to_owned(),
        format!("sasl.mechanism={mechanism}"),
        "sasl.username=bob".to_owned(),
        format!("sasl.password={password}"),
    ]
}

pub(crate) fn with_certificate(trust: &str, shown: Option<&(String, String)>) -> Vec<String> {
    let mut properties = vec!["security.protocol=SSL".to_owned(), trust.to_owned()];
    if let Some((chain, key)) = shown {
        properties.push(format!("ssl.keystore.certificate.chain={chain}"));
        properties.push(format!("ssl.keystore.key={key}"));
    }
    properties
}

fn unsigned() -> String {
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let head = encode(r#"{"alg":"none"}"#);
    let claims = encode(r#"{"sub":"bob","iat":1700000000,"exp":4102444800}"#);
    format!("{head}.{claims}.")
}

/// Tokens that nobody signed, for listeners that ask for no signature.
#[derive(Debug)]
struct Unsigned;

impl TokenProvider for Unsigned {
    fn token(&self) -> BoxFuture<Result<AccessToken, String>> {
        let token = AccessToken::new(Secret::new(unsigned()), Duration::from_secs(3_600));
        Box::pin(async move { token.map_err(|error| error.to_string()) })
    }
}
