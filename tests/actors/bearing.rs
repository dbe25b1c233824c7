//! Fleets whose tokens come from a file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nearside::embedded::{Api, Sasl};
use nearside::ids::BrokerId;
use nearside::secret::Secret;

use crate::pki::TempFile;
use crate::stage::{Builder, Seen, Stage, pass, run, start, until, until_hashed};

/// A token that ends ten minutes from now, and one that ends a moment later.
fn tokens() -> [String; 2] {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    [600, 601].map(|life| {
        let claims = format!(r#"{{"exp":{}}}"#, now.as_secs() + life);
        format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
    })
}

fn knowing(tokens: &[&str]) -> Sasl {
    Sasl {
        tokens: tokens.iter().copied().map(Secret::new).collect(),
        session_max: Some(Duration::from_secs(24 * 3_600)),
        ..Sasl::default()
    }
}

fn by_token(builder: Builder, file: &TempFile) -> Builder {
    let url = format!("file:{}", file.path());
    builder
        .property("security.protocol", "SASL_PLAINTEXT")
        .property("sasl.mechanism", "OAUTHBEARER")
        .property("sasl.oauthbearer.token.endpoint.url", &url)
}

async fn pass_by(time: Duration) {
    let end = tokio::time::Instant::now() + time;
    until_hashed("time passes", || tokio::time::Instant::now() >= end).await;
}

#[test]
fn a_token_file_is_read_for_each_renewal_and_a_new_token_renews_sessions() {
    run(async {
        let [old, new] = tokens();
        let sasl = knowing(&[&old, &new]);
        let stage = Stage::with(|settings| settings.sasl = Some(sasl));
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let (file, seen) = (TempFile::new("token", &old), Seen::default());
        let fleet = start(by_token(
            stage.fleet("g", "b", seen.noting("orders")),
            &file,
        ))
        .await;
        until_hashed("all records are done", || seen.len() == 10).await;
        // Five minutes before its end a token is renewed.
        let renewal = Duration::from_secs(330);
        let exchanges = || stage.requests(Api::SaslHandshake);
        let before = exchanges();
        pass_by(renewal).await;
        assert_eq!(exchanges(), before, "the same token is no news");
        file.write(&new);
        pass_by(renewal).await;
        assert!(exchanges() >= before + 3, "sessions go on with the new one");
        let only_new = Some(knowing(&[&new]));
        stage.cluster().with(|cluster| {
            cluster.set_sasl(only_new);
            cluster.kill(BrokerId(1));
            cluster.revive(BrokerId(1));
        });
        stage.produce("orders", 0, 10);
        until_hashed("new records are done", || seen.len() == 20).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md 11.2: the last good token serves while its file hangs, and no setup waits for long.
#[test]
fn a_token_file_that_hangs_costs_no_connection_while_the_last_token_is_good() {
    run(async {
        let [old, new] = tokens();
        let sasl = knowing(&[&old, &new]);
        let stage = Stage::with(|settings| settings.sasl = Some(sasl));
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let (file, seen) = (TempFile::new("hanging-token", &old), Seen::default());
        let fleet = start(by_token(
            stage.fleet("g", "b", seen.noting("orders")),
            &file,
        ))
        .await;
        until_hashed("all records are done", || seen.len() == 10).await;
        let hanging = file.hang();
        // A renewal is due by now, and has no answer.
        pass(Duration::from_secs(330)).await;
        let lose_all = || {
            stage.cluster().with(|cluster| {
                (1..=3).for_each(|broker| cluster.kill(BrokerId(broker)));
                (1..=3).for_each(|broker| cluster.revive(BrokerId(broker)));
            });
        };
        let before = stage.requests(Api::SaslHandshake);
        lose_all();
        stage.produce("orders", 0, 10);
        until("new records are done", || seen.len() == 20).await;
        assert!(stage.requests(Api::SaslHandshake) >= before + 2);
        // The token ends, and nobody gets another one; whoever tries is told so in time.
        pass(Duration::from_secs(300)).await;
        lose_all();
        stage.produce("orders", 0, 10);
        let late = "hanging-token` cannot be read within 5s";
        until_hashed("it is told", || {
            let told = fleet.recent_events();
            told.iter()
                .any(|one| format!("{:?}", one.event).contains(late))
        })
        .await;
        assert_eq!(seen.len(), 20);
        hanging.end(&new);
        until_hashed("the rest is done", || seen.len() == 30).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}
