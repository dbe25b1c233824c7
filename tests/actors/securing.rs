//! Fleets that authenticate: at every broker, before anything else, and without showing how.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nearside::embedded::{Api, Effect, Link, Rule, Sasl};
use nearside::error::ErrorKind;
use nearside::fleet::{AccessToken, BoxFuture, FleetHandle, TokenProvider};
use nearside::ids::{Offset, TopicPartition};
use nearside::secret::Secret;

use crate::stage::{Builder, Seen, Stage, run, start, until_hashed};

const PASSWORD: &str = "correct horse";

/// A cluster that knows `bob`.
fn guarded() -> Stage {
    let sasl = Some(Sasl::user("bob", Secret::new(PASSWORD)));
    Stage::with(|settings| settings.sasl = sasl)
}

fn by_password(builder: Builder, mechanism: &str, password: &str) -> Builder {
    builder
        .property("security.protocol", "SASL_PLAINTEXT")
        .property("sasl.mechanism", mechanism)
        .property("sasl.username", "bob")
        .property("sasl.password", password)
        .property("wire.sasl.plain.allow.cleartext", "true")
}

async fn pass_by(time: Duration) {
    let end = tokio::time::Instant::now() + time;
    until_hashed("time passes", || tokio::time::Instant::now() >= end).await;
}

/// Waits until a broker has refused the fleet, and why it says so.
async fn refusal(fleet: &FleetHandle, why: &str) -> nearside::Error {
    until_hashed("the refusal is told", || fleet.connection_error().is_some()).await;
    let error = fleet.connection_error().expect("just seen");
    assert_eq!(error.kind(), ErrorKind::Authentication);
    assert!(error.to_string().contains(why), "{error}");
    error
}

fn reads_and_commits_by(mechanism: &'static str) {
    run(async move {
        let stage = guarded();
        stage.topic("orders", 3);
        for partition in 0..3 {
            stage.produce("orders", partition, 50);
        }
        let seen = Seen::default();
        let builder = stage.fleet("g", "b", seen.noting("orders"));
        let fleet = start(by_password(builder, mechanism, PASSWORD)).await;
        until_hashed("all records are done", || seen.len() == 150).await;
        fleet.stop(Duration::from_secs(20)).await;
        for partition in 0..3 {
            let at = TopicPartition::new("orders", partition);
            assert_eq!(stage.committed("g", &at), Some(Offset(50)));
        }
        assert!(stage.requests(Api::SaslHandshake) >= 4, "every connection");
    });
}

#[test]
fn a_fleet_reads_and_commits_by_plain() {
    reads_and_commits_by("PLAIN");
}

#[test]
fn a_fleet_reads_and_commits_by_scram_sha_256() {
    reads_and_commits_by("SCRAM-SHA-256");
}

#[test]
fn a_fleet_reads_and_commits_by_scram_sha_512() {
    reads_and_commits_by("SCRAM-SHA-512");
}

/// wire.md C4
#[test]
fn a_wrong_password_is_told_waits_and_is_mended_without_a_restart() {
    run(async {
        let stage = guarded();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let seen = Seen::default();
        let builder = stage.fleet("g", "b", seen.noting("orders"));
        let fleet = start(by_password(builder, "SCRAM-SHA-512", "wrong")).await;
        let error = refusal(&fleet, "invalid credentials").await;
        assert!(!error.to_string().contains("wrong"), "{error}");
        let before = stage.requests(Api::SaslHandshake);
        pass_by(Duration::from_secs(60)).await;
        let attempts = stage.requests(Api::SaslHandshake) - before;
        assert!(
            attempts <= 3 * 8,
            "{attempts} attempts at three brokers in a minute"
        );
        let mended = Sasl::user("bob", Secret::new("wrong"));
        stage
            .cluster()
            .with(|cluster| cluster.set_sasl(Some(mended)));
        until_hashed("all records are done", || seen.len() == 10).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md C4
#[test]
fn a_coordinator_that_refuses_us_is_asked_as_patiently_as_any_broker() {
    run(async {
        let stage = guarded();
        stage.topic("orders", 1);
        let coordinator = stage.coordinator("g");
        let refused = Rule::new(Effect::Garble)
            .on(Api::SaslHandshake)
            .at(coordinator);
        let refused = stage.cluster().with(|cluster| cluster.inject(refused));
        let seen = Seen::default();
        let builder = stage.fleet("g", "b", seen.noting("orders"));
        let fleet = start(by_password(builder, "PLAIN", PASSWORD)).await;
        let refusals = || {
            let broker = nearside::ids::BrokerId(coordinator);
            stage
                .cluster()
                .with(|cluster| cluster.requests(broker, Api::SaslHandshake))
        };
        until_hashed("it is refused", || refusals() > 0).await;
        pass_by(Duration::from_secs(300)).await;
        // 1 s, 2 s and so on to a minute, for each kind of connection.
        let attempts = refusals();
        assert!((10..=40).contains(&attempts), "{attempts} in five minutes");
        stage.cluster().with(|cluster| cluster.withdraw(refused));
        stage.produce("orders", 0, 10);
        until_hashed("all records are done", || seen.len() == 10).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}

#[test]
fn a_mechanism_that_is_not_offered_names_those_that_are() {
    run(async {
        let sasl = Sasl {
            mechanisms: vec![nearside::wire::sasl::Mechanism::Plain],
            ..Sasl::user("bob", Secret::new(PASSWORD))
        };
        let stage = Stage::with(|settings| settings.sasl = Some(sasl));
        let builder = stage.fleet("g", "b", Seen::default().noting("orders"));
        let fleet = start(by_password(builder, "SCRAM-SHA-256", PASSWORD)).await;
        refusal(&fleet, "mechanism not offered; broker offers PLAIN").await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// Gives one token after the other; refuses to from the n-th on.
#[derive(Debug)]
struct Mint {
    lifetime: Duration,
    given: AtomicUsize,
    failing: AtomicBool,
}

impl TokenProvider for Mint {
    fn token(&self) -> BoxFuture<Result<AccessToken, String>> {
        if self.failing.load(Ordering::Relaxed) {
            return Box::pin(async { Err("the mint is closed".to_owned()) });
        }
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let token = AccessToken::new(Secret::new(format!("coin-{number}")), self.lifetime);
        Box::pin(async move { token.map_err(|error| error.to_string()) })
    }
}

fn mint(seconds: u64) -> Arc<Mint> {
    mint_of(Duration::from_secs(seconds))
}

fn mint_of(lifetime: Duration) -> Arc<Mint> {
    Arc::new(Mint {
        lifetime,
        given: AtomicUsize::new(0),
        failing: AtomicBool::new(false),
    })
}

fn by_token(stage: &Stage, mint: &Arc<Mint>, seen: &Seen) -> Builder {
    bearing(stage.fleet("g", "b", seen.noting("orders")), mint)
}

fn bearing(builder: Builder, mint: &Arc<Mint>) -> Builder {
    builder
        .property("security.protocol", "SASL_PLAINTEXT")
        .property("sasl.mechanism", "OAUTHBEARER")
        .tokens(Arc::clone(mint) as Arc<dyn TokenProvider>)
}

/// A cluster that accepts these coins, and sessions of `session`.
fn accepting(coins: std::ops::Range<usize>, session: Option<Duration>) -> Stage {
    let tokens = coins.map(|n| Secret::new(format!("coin-{n}"))).collect();
    let sasl = Sasl {
        tokens,
        session_max: session,
        ..Sasl::default()
    };
    let stage = Stage::with(|settings| settings.sasl = Some(sasl));
    stage.topic("orders", 1);
    stage.produce("orders", 0, 10);
    stage
}

/// wire.md A22
#[test]
fn a_token_is_renewed_before_it_ends_and_a_failed_renewal_keeps_the_last() {
    run(async {
        let stage = accepting(0..100, None);
        let (mint, seen) = (mint(600), Seen::default());
        let fleet = start(by_token(&stage, &mint, &seen)).await;
        until_hashed("all records are done", || seen.len() == 10).await;
        assert_eq!(
            mint.given.load(Ordering::Relaxed),
            1,
            "one for all connections"
        );
        pass_by(Duration::from_secs(450)).await;
        assert_eq!(mint.given.load(Ordering::Relaxed), 2, "renewed once by now");
        mint.failing.store(true, Ordering::Relaxed);
        stage.cluster().with(|cluster| {
            cluster.kill(nearside::ids::BrokerId(1));
            cluster.revive(nearside::ids::BrokerId(1));
        });
        stage.produce("orders", 0, 10);
        until_hashed("the last good token serves", || seen.len() == 20).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md A22
#[test]
fn a_refused_token_is_told_by_its_status() {
    run(async {
        let stage = accepting(5..6, None);
        let (mint, seen) = (mint(600), Seen::default());
        let fleet = start(by_token(&stage, &mint, &seen)).await;
        let error = refusal(&fleet, "refused the token: invalid_token").await;
        assert!(!format!("{error:?}").contains("coin"), "{error:?}");
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md A23
#[test]
fn sessions_of_a_minute_are_renewed_for_ten_minutes_and_nothing_fails() {
    run(async {
        let stage = accepting(0..100, Some(Duration::from_secs(60)));
        let (mint, seen) = (mint(3_600), Seen::default());
        let fleet = start(by_token(&stage, &mint, &seen)).await;
        until_hashed("all records are done", || seen.len() == 10).await;
        let before = stage.requests(Api::SaslHandshake);
        for minute in 2..12 {
            pass_by(Duration::from_secs(60)).await;
            stage.produce("orders", 0, 10);
            until_hashed("new records are done", || seen.len() == minute * 10).await;
        }
        let renewals = stage.requests(Api::SaslHandshake) - before;
        assert!(renewals >= 3 * 10, "{renewals} renewals in ten minutes");
        let at = TopicPartition::new("orders", 0);
        assert_eq!(seen.offsets(&at), (0..110).collect::<Vec<_>>());
        assert!(fleet.connection_error().is_none());
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(stage.committed("g", &at), Some(Offset(110)));
    });
}

/// wire.md A24
#[test]
fn a_second_connection_that_is_ready_first_serves_although_the_former_was_lost() {
    run(async {
        let stage = accepting(0..100, Some(Duration::from_secs(20)));
        let leader = nearside::ids::BrokerId(1);
        let alone = |cluster: &mut nearside::embedded::Cluster| {
            cluster.create_topic_on("alone", &[vec![leader]])
        };
        stage.cluster().with(alone).expect("creatable");
        stage.produce("alone", 0, 10);
        let (mint, seen) = (mint(3_600), Seen::default());
        let builder = stage
            .fleet("g", "b", seen.noting("alone"))
            .property("socket.connection.setup.timeout.ms", "30000");
        let fleet = start(bearing(builder, &mint)).await;
        until_hashed("all records are done", || seen.len() == 10).await;
        // A Fetch is in flight from before the session is to be renewed until the lane gives it up.
        pass_by(Duration::from_secs(15)).await;
        let link = |link| {
            stage
                .cluster()
                .with(|cluster| cluster.set_link(leader, link))
        };
        link(Link::Silent);
        pass_by(Duration::from_secs(13)).await;
        link(Link::Open);
        stage.produce("alone", 0, 10);
        let end = tokio::time::Instant::now() + Duration::from_secs(10);
        let over = || tokio::time::Instant::now() >= end;
        until_hashed("new records are done, or too late", || {
            seen.len() == 20 || over()
        })
        .await;
        assert_eq!(seen.len(), 20);
        fleet.stop(Duration::from_secs(20)).await;
    });
}

#[test]
fn a_provider_of_tokens_that_end_at_once_is_asked_with_patience() {
    run(async {
        let stage = accepting(0..200, None);
        let (mint, seen) = (mint_of(Duration::from_millis(1)), Seen::default());
        let fleet = start(by_token(&stage, &mint, &seen)).await;
        until_hashed("all records are done", || seen.len() == 10).await;
        let before = mint.given.load(Ordering::Relaxed);
        pass_by(Duration::from_secs(60)).await;
        let given = mint.given.load(Ordering::Relaxed) - before;
        assert!((20..=40).contains(&given), "{given} tokens in a minute");
        fleet.stop(Duration::from_secs(20)).await;
    });
}

#[test]
fn tokens_need_somebody_who_gives_them() {
    run(async {
        let stage = accepting(0..1, None);
        let refused = stage
            .fleet("g", "b", Seen::default().noting("orders"))
            .property("security.protocol", "SASL_PLAINTEXT")
            .property("sasl.mechanism", "OAUTHBEARER")
            .start_on_this_thread()
            .await
            .expect_err("nobody gives tokens");
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(
            refused.to_string().contains("FleetBuilder::tokens"),
            "{refused}"
        );
    });
}
