//! Handshakes with a server of the test's own, over streams in memory.

use std::future::Future;

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair, date_time_ymd};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{HandshakeKind, RootCertStore, ServerConfig};

use super::*;

const HOST: &str = "broker.kafka";

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn issuer() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Chain and key of a certificate that is valid in these years, as PEM.
fn pair(issuer: &Issuer, (first, last): (i32, i32)) -> (String, String) {
    let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    params.not_before = date_time_ymd(first, 2, 3);
    params.not_after = date_time_ymd(last, 2, 3);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.pem(), key.serialize_pem())
}

const VALID: (i32, i32) = (2_020, 2_060);

/// A server that asks for certificates, or not.
fn server(issuer: &Issuer, years: (i32, i32), asks: bool) -> TlsAcceptor {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = if asks {
        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let (chain, key) = pair(issuer, years);
    let chain = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    TlsAcceptor::from(Arc::new(
        builder.with_single_cert(vec![chain], key).unwrap(),
    ))
}

/// A client that trusts `issuer`, and has a certificate of it.
fn client(issuer: &Issuer, version: &str) -> Tls {
    let (chain, key) = pair(issuer, VALID);
    let mut config = Config::default();
    for (name, value) in [
        ("bootstrap.servers", "broker.kafka:9093"),
        ("security.protocol", "SSL"),
        ("ssl.enabled.protocols", version),
        ("ssl.truststore.certificates", &issuer.pem()),
        ("ssl.keystore.certificate.chain", &chain),
        ("ssl.keystore.key", &key),
    ] {
        config.set(name, value).unwrap();
    }
    Tls::of(&config).unwrap().unwrap()
}

/// One connection: whether it resumed a session, and whether we say that the broker asked for a
/// certificate.
async fn connect(client: &Tls, server: &TlsAcceptor) -> Result<(bool, bool), TlsFailure> {
    connect_as(HOST, client, server).await
}

async fn connect_as(
    host: &str,
    client: &Tls,
    server: &TlsAcceptor,
) -> Result<(bool, bool), TlsFailure> {
    let (near, far) = tokio::io::duplex(64 * 1_024);
    let served = async {
        let mut stream = server.accept(far).await.ok()?;
        stream.write_all(b"!").await.unwrap();
        Some((stream.get_ref().1.handshake_kind(), stream))
    };
    let (shaken, served) = tokio::join!(client.shake(host, Box::new(near)), served);
    let (mut stream, asked) = shaken?;
    // What lets the session be resumed comes along with the first bytes.
    assert_eq!(stream.read_u8().await.unwrap(), b'!');
    let kind = served.and_then(|(kind, _)| kind);
    Ok((kind == Some(HandshakeKind::Resumed), asked))
}

fn run<F: Future>(play: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(play)
}

/// wire.md 12.1 T1
#[test]
fn sessions_are_resumed_and_nothing_is_sent_early() {
    let issuer = issuer();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let (client, server) = (client(&issuer, version), server(&issuer, VALID, false));
        assert!(!client.current.load().enable_early_data);
        let resumed = run(async {
            let first = connect(&client, &server).await.unwrap();
            let second = connect(&client, &server).await.unwrap();
            [first, second]
        });
        assert_eq!(resumed, [(false, false), (true, false)], "{version}");
    }
}

/// wire.md 12.1 T5: a broker that resumes a session does not ask again, and may refuse all the
/// same.
#[test]
fn a_resumed_session_is_one_whose_broker_asked_for_a_certificate_if_it_ever_did() {
    let issuer = issuer();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let client = client(&issuer, version);
        let (asking, other) = (server(&issuer, VALID, true), server(&issuer, VALID, false));
        let seen = run(async {
            let mut seen = Vec::new();
            for server in [&asking, &asking, &asking, &other, &other] {
                seen.push(connect(&client, server).await.unwrap());
            }
            seen
        });
        let asked = [(false, true), (true, true), (true, true)];
        let not = [(false, false), (true, false)];
        assert_eq!(seen, [&asked[..], &not].concat(), "{version}");
    }
}

/// wire.md 12.1 T2
#[test]
fn a_certificate_outside_its_dates_is_refused_and_they_are_named() {
    let issuer = issuer();
    for (years, why) in [
        ((2_090, 2_091), "is not valid before 2090-02-03"),
        ((2_020, 2_021), "expired on 2021-02-03"),
    ] {
        let client = client(&issuer, "TLSv1.2,TLSv1.3");
        let failure = run(connect(&client, &server(&issuer, years, false)));
        let Err(TlsFailure::Trust(text)) = failure else {
            panic!("{failure:?}");
        };
        assert_eq!(text, format!("the certificate of {HOST} {why}"));
    }
}

/// wire.md A27
#[test]
fn an_address_is_not_what_a_name_stands_for() {
    let issuer = issuer();
    let (client, server) = (client(&issuer, "TLSv1.3"), server(&issuer, VALID, false));
    for address in ["10.0.0.7", "::1"] {
        let failure = run(connect_as(address, &client, &server));
        let Err(TlsFailure::Trust(text)) = failure else {
            panic!("{failure:?}");
        };
        let why = format!("the certificate is not for {address} but for DNS:{HOST}");
        assert_eq!(text, why);
    }
    run(connect_as("broker.kafka.", &client, &server)).unwrap();
}

#[test]
fn a_file_without_end_is_no_store_of_certificates() {
    let config = Config::from_pairs([
        ("bootstrap.servers", "broker.kafka:9093"),
        ("security.protocol", "SSL"),
        ("ssl.truststore.location", "/dev/zero"),
    ]);
    let error = Tls::of(&config.unwrap()).unwrap_err().to_string();
    assert!(error.contains("is larger than 4 MiB"), "{error}");
}
