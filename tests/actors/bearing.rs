//! Fleets whose tokens come from a file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nearside::embedded::{Api, Sasl};
use nearside::ids::BrokerId;
use nearside::secret::Secret;

use crate::pki::TempFile;
use crate::stage::{Seen, Stage, run, start, until_hashed};

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
        let url = format!("file:{}", file.path());
        let builder = stage
            .fleet("g", "b", seen.noting("orders"))
            .property("security.protocol", "SASL_PLAINTEXT")
            .property("sasl.mechanism", "OAUTHBEARER")
            .property("sasl.oauthbearer.token.endpoint.url", &url);
        let fleet = start(builder).await;
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
