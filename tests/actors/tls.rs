//! Fleets over TLS: whom they trust, who they say they are, and what they say when it fails.

use std::sync::Arc;
use std::time::Duration;

use nearside::embedded::Sasl;
use nearside::error::ErrorKind;
use nearside::fleet::{FleetHandle, Transport};
use nearside::ids::{Offset, TopicPartition};
use nearside::secret::Secret;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::pki::{Authority, Pair, TempFile, Tunnel};
use crate::stage::{Builder, Seen, Stage, run, until_hashed};

/// A fleet over `transport` that trusts `authority`.
fn over(
    stage: &Stage,
    transport: Arc<dyn Transport>,
    authority: &Authority,
    seen: &Seen,
) -> Builder {
    stage
        .fleet("g", "b", seen.noting("orders"))
        .transport(transport)
        .property("security.protocol", "SSL")
        .property("ssl.truststore.certificates", &authority.pem())
}

fn shows(builder: Builder, pair: &Pair) -> Builder {
    builder
        .property("ssl.keystore.certificate.chain", &pair.chain)
        .property("ssl.keystore.key", &pair.key)
}

fn ten_records() -> Stage {
    let stage = Stage::new();
    stage.topic("orders", 1);
    stage.produce("orders", 0, 10);
    stage
}

async fn started(builder: Builder) -> FleetHandle {
    builder.start_on_this_thread().await.expect("starts")
}

/// Waits for all ten records, stops, and looks at the commit.
async fn reads_and_commits(stage: &Stage, fleet: FleetHandle, seen: &Seen) {
    until_hashed("all records are done", || seen.len() == 10).await;
    fleet.stop(Duration::from_secs(20)).await;
    let at = TopicPartition::new("orders", 0);
    assert_eq!(stage.committed("g", &at), Some(Offset(10)));
}

/// Why no broker is reached.
async fn refusal(fleet: &FleetHandle, kind: ErrorKind) -> String {
    until_hashed("the failure is told", || {
        fleet
            .connection_error()
            .is_some_and(|error| error.kind() == kind)
    })
    .await;
    fleet.connection_error().expect("just seen").to_string()
}

/// Seconds until metadata is asked for again.
const SPARE: u64 = 2;

async fn minute() {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    until_hashed("a minute passes", || tokio::time::Instant::now() >= end).await;
}

#[test]
fn a_fleet_reads_and_commits_by_plain_within_tls() {
    run(async {
        let sasl = Some(Sasl::user("bob", Secret::new("correct horse")));
        let stage = Stage::with(|settings| settings.sasl = sasl);
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let (authority, seen) = (Authority::new(), Seen::default());
        let tunnel = Tunnel::new(stage.transport(), &authority.brokers(), None);
        let builder = over(&stage, tunnel, &authority, &seen)
            .property("security.protocol", "SASL_SSL")
            .property("sasl.mechanism", "PLAIN")
            .property("sasl.username", "bob")
            .property("sasl.password", "correct horse");
        reads_and_commits(&stage, started(builder).await, &seen).await;
    });
}

#[test]
fn a_fleet_reads_and_commits_by_its_certificate_in_either_version() {
    for version in ["TLSv1.2", "TLSv1.3"] {
        run(async move {
            let (stage, seen) = (ten_records(), Seen::default());
            let authority = Authority::new();
            let tunnel = Tunnel::new(stage.transport(), &authority.brokers(), Some(&authority));
            let ours = authority.issue(&["billing"], 2_060);
            let transport: Arc<dyn Transport> = tunnel.clone();
            let builder = shows(over(&stage, transport, &authority, &seen), &ours)
                .property("ssl.enabled.protocols", version);
            reads_and_commits(&stage, started(builder).await, &seen).await;
            let shown = CertificateDer::from_pem_slice(ours.chain.as_bytes()).expect("PEM");
            assert_eq!(tunnel.clients().first(), Some(&shown));
        });
    }
}

/// wire.md A26
#[test]
fn a_missing_client_certificate_is_an_authentication_failure_and_never_hot() {
    run(async {
        let (stage, seen) = (ten_records(), Seen::default());
        let authority = Authority::new();
        let tunnel = Tunnel::new(stage.transport(), &authority.brokers(), Some(&authority));
        let fleet = started(over(&stage, tunnel.clone(), &authority, &seen)).await;
        let why = refusal(&fleet, ErrorKind::Authentication).await;
        assert!(why.contains("client certificate not accepted"), "{why}");
        let before = tunnel.dials();
        minute().await;
        let dials = tunnel.dials() - before;
        assert!(
            (1..=3 * 8).contains(&dials),
            "{dials} dials at three brokers"
        );
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md C4
#[test]
fn a_refused_certificate_is_shown_again_after_one_second_to_sixty() {
    run(async {
        let (stage, seen) = (ten_records(), Seen::default());
        let authority = Authority::new();
        let tunnel = Tunnel::new(stage.transport(), &authority.brokers(), Some(&authority));
        // One address: with several, metadata is asked in turn, wherever a dial is still to come.
        let all = stage.cluster().bootstrap();
        let one = all.split(',').next().expect("three");
        let builder = over(&stage, tunnel.clone(), &authority, &seen).bootstrap(one);
        let fleet = started(builder).await;
        for _ in 0..10 {
            minute().await;
        }
        let pauses = tunnel.pauses().concat();
        assert!(pauses.len() >= 11, "{pauses:?}");
        let plain = [1, 2, 4, 8, 16, 32]
            .into_iter()
            .chain(std::iter::repeat(60));
        for (pause, seconds) in pauses.iter().zip(plain) {
            let plain = Duration::from_secs(seconds);
            let longest = plain.mul_f64(1.2) + Duration::from_secs(SPARE);
            assert!(*pause >= plain.mul_f64(0.8), "{pauses:?}");
            assert!(*pause <= longest, "{pauses:?}");
        }
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md A27
#[test]
fn a_certificate_for_another_name_is_refused_with_the_names_it_has() {
    run(async {
        let (stage, seen, authority) = (ten_records(), Seen::default(), Authority::new());
        let other = authority.issue(&["other.example", "10.0.0.7"], 2_060);
        let tunnel = Tunnel::new(stage.transport(), &other, None);
        let fleet = started(over(&stage, tunnel, &authority, &seen)).await;
        let why = refusal(&fleet, ErrorKind::Authentication).await;
        assert!(
            why.contains(".embedded but for DNS:other.example, IP:10.0.0.7"),
            "{why}"
        );
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.len(), 0);
    });
}

/// wire.md A27
#[test]
fn without_the_name_check_the_chain_is_still_verified() {
    run(async {
        let (stage, seen, authority) = (ten_records(), Seen::default(), Authority::new());
        let other = authority.issue(&["other.example"], 2_060);
        let tunnel: Arc<dyn Transport> = Tunnel::new(stage.transport(), &other, None);
        let key = "ssl.endpoint.identification.algorithm";
        let stranger = Authority::new();
        let nobody = Seen::default();
        let builder = over(&stage, Arc::clone(&tunnel), &stranger, &nobody).property(key, "");
        let fleet = started(builder).await;
        let why = refusal(&fleet, ErrorKind::Authentication).await;
        assert!(why.contains("nobody we trust"), "{why}");
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(nobody.len(), 0);
        let builder = over(&stage, tunnel, &authority, &seen).property(key, "");
        reads_and_commits(&stage, started(builder).await, &seen).await;
    });
}

#[test]
fn an_expired_certificate_is_refused_with_its_date() {
    run(async {
        let (stage, seen, authority) = (ten_records(), Seen::default(), Authority::new());
        let hosts = [
            "broker-1.embedded",
            "broker-2.embedded",
            "broker-3.embedded",
        ];
        let old = authority.issue(&hosts, 2_021);
        let tunnel = Tunnel::new(stage.transport(), &old, None);
        let fleet = started(over(&stage, tunnel, &authority, &seen)).await;
        let why = refusal(&fleet, ErrorKind::Authentication).await;
        assert!(why.contains("expired on 2021-02-03"), "{why}");
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// One dial per half minute at every address, the first few pauses aside.
async fn left_alone(tunnel: &Tunnel, aside: usize) {
    for _ in 0..3 {
        minute().await;
    }
    let pauses = tunnel.pauses();
    assert_eq!(pauses.len(), 3, "every broker is tried");
    for pauses in pauses {
        let pauses = &pauses[aside..];
        assert!(pauses.len() >= 2, "{pauses:?}");
        let half_minute = Duration::from_secs(30);
        assert!(
            pauses.iter().all(|pause| *pause >= half_minute),
            "{pauses:?}"
        );
    }
}

/// wire.md A2
#[test]
fn a_plaintext_listener_is_named_and_left_alone_for_half_a_minute() {
    run(async {
        let (stage, seen, authority) = (ten_records(), Seen::default(), Authority::new());
        let plain = Tunnel::none(stage.transport());
        let fleet = started(over(&stage, plain.clone(), &authority, &seen)).await;
        let why = refusal(&fleet, ErrorKind::WrongPort).await;
        assert!(why.contains("does not speak TLS"), "{why}");
        // A broker that shuts down hangs up as well, so the second time decides.
        left_alone(&plain, 1).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md A1
#[test]
fn a_tls_listener_is_named_to_a_plaintext_client() {
    run(async {
        let (stage, seen, authority) = (ten_records(), Seen::default(), Authority::new());
        let tunnel = Tunnel::new(stage.transport(), &authority.brokers(), None);
        let builder = stage
            .fleet("g", "b", seen.noting("orders"))
            .transport(tunnel.clone());
        let fleet = started(builder).await;
        let why = refusal(&fleet, ErrorKind::WrongPort).await;
        assert!(why.contains("TLS"), "{why}");
        left_alone(&tunnel, 0).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// Connections that are lost dial anew, and only new ones shake hands.
fn lose_a_connection(stage: &Stage) {
    let broker = nearside::ids::BrokerId(stage.leader("orders", 0).unwrap_or(1));
    stage.cluster().with(|cluster| {
        cluster.kill(broker);
        cluster.revive(broker);
    });
}

/// Why changed files are not used, while that is so.
fn reload_refusal(fleet: &FleetHandle) -> Option<String> {
    let report = fleet.report();
    let mut raised = report.diagnostics.into_iter();
    let refusal = raised.find(|one| one.name == "tls_reload")?;
    Some(refusal.detail)
}

/// wire.md A25, T4
#[test]
fn a_key_replaced_on_disk_is_used_and_garbage_is_not() {
    run(async {
        let (stage, seen, authority) = (ten_records(), Seen::default(), Authority::new());
        let tunnel = Tunnel::new(stage.transport(), &authority.brokers(), Some(&authority));
        let old = authority.issue(&["billing"], 2_060);
        let new = authority.issue(&["billing", "of.the.new.year"], 2_061);
        let file = TempFile::new("replaced-key.pem", old.whole());
        let transport: Arc<dyn Transport> = tunnel.clone();
        let builder = over(&stage, transport, &authority, &seen)
            .property("ssl.keystore.location", file.path())
            .property("connections.max.idle.ms", "5000");
        let fleet = started(builder).await;
        until_hashed("all records are done", || seen.len() == 10).await;
        let der = |pair: &Pair| CertificateDer::from_pem_slice(pair.chain.as_bytes()).expect("PEM");
        assert!(tunnel.clients().iter().all(|shown| *shown == der(&old)));
        file.write(new.whole());
        until_hashed("the new one is shown", || {
            lose_a_connection(&stage);
            tunnel.clients().contains(&der(&new))
        })
        .await;
        let refused = || reload_refusal(&fleet).is_some();
        assert!(!refused());
        // A key beside another one's chain is no better than garbage.
        let mixed = format!("{}{}", old.key, new.chain);
        for unusable in ["garbage", &mixed] {
            file.write(unusable);
            until_hashed("it is told", refused).await;
            let handshakes = tunnel.clients().len();
            until_hashed("the one before is shown", || {
                lose_a_connection(&stage);
                tunnel.clients().len() > handshakes
            })
            .await;
            assert_eq!(tunnel.clients().last(), Some(&der(&new)));
            file.write(new.whole());
            until_hashed("it is in order again", || !refused()).await;
        }
        fleet.stop(Duration::from_secs(20)).await;
        let mine = tunnel.clients();
        assert!(
            mine.iter()
                .all(|shown| *shown == der(&old) || *shown == der(&new))
        );
    });
}

/// wire.md T4: whoever shakes hands waits for no file.
#[test]
fn a_key_file_that_hangs_is_told_and_the_last_pair_goes_on() {
    run(async {
        let (stage, seen, authority) = (ten_records(), Seen::default(), Authority::new());
        let tunnel = Tunnel::new(stage.transport(), &authority.brokers(), Some(&authority));
        let pair = authority.issue(&["billing"], 2_060);
        let file = TempFile::new("hanging-key.pem", pair.whole());
        let transport: Arc<dyn Transport> = tunnel.clone();
        let builder = over(&stage, transport, &authority, &seen)
            .property("ssl.keystore.location", file.path());
        let fleet = started(builder).await;
        until_hashed("all records are done", || seen.len() == 10).await;
        let hanging = file.hang();
        until_hashed("it is told", || reload_refusal(&fleet).is_some()).await;
        let why = reload_refusal(&fleet).expect("just seen");
        assert!(why.contains("cannot be read within 5s"), "{why}");
        let handshakes = tunnel.clients().len();
        until_hashed("the pair is shown", || {
            lose_a_connection(&stage);
            tunnel.clients().len() > handshakes
        })
        .await;
        stage.produce("orders", 0, 10);
        until_hashed("new records are done", || seen.len() == 20).await;
        hanging.end(pair.whole());
        until_hashed("it is in order again", || reload_refusal(&fleet).is_none()).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// wire.md T3
#[test]
fn stores_that_are_not_read_are_refused_with_what_converts_them() {
    run(async {
        let (stage, authority) = (ten_records(), Authority::new());
        let pair = authority.issue(&["billing"], 2_060);
        let encrypted = pair.whole().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let stranger = authority.issue(&["billing"], 2_060);
        let mixed = format!("{}{}", pair.key, stranger.chain);
        let cases: [(&str, Vec<u8>, &str); 6] = [
            ("jks", vec![0xfe, 0xed, 0xfe, 0xed, 0, 0], "keytool"),
            ("p12", vec![0x30, 0x82, 1, 1], "openssl pkcs12"),
            (
                "encrypted",
                encrypted.into_bytes(),
                "append the certificates",
            ),
            ("mixed", mixed.into_bytes(), "is not for the key"),
            ("keyless", pair.chain.clone().into_bytes(), "holds no key"),
            (
                "chainless",
                pair.key.clone().into_bytes(),
                "holds no certificate",
            ),
        ];
        for (name, content, expected) in cases {
            let file = TempFile::new(name, content);
            let builder = over(&stage, stage.transport(), &authority, &Seen::default())
                .property("ssl.keystore.location", file.path());
            let refused = builder.start_on_this_thread().await.expect_err(name);
            assert_eq!(refused.kind(), ErrorKind::Config);
            let text = refused.to_string();
            assert!(
                text.contains(expected) && text.contains(file.path()),
                "{text}"
            );
            let body: String = pair.key.lines().skip(1).take(1).collect();
            assert!(!text.contains(&body), "{text}");
        }
    });
}
