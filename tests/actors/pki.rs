//! Certificates made for one test, and TLS in front of an embedded cluster.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::fleet::{BoxFuture, Stream, Transport};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Somebody who issues certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, as PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Pair {
    /// Both in one text.
    pub(crate) fn whole(&self) -> String {
        format!("{}{}", self.key, self.chain)
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        let name = format!("authority {}", COUNT.fetch_add(1, Ordering::Relaxed));
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// The certificate to trust.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names and addresses that ends in that year.
    pub(crate) fn issue(&self, names: &[&str], last_year: i32) -> Pair {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(last_year, 2, 3);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Pair {
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// For all brokers of the embedded cluster.
    pub(crate) fn brokers(&self) -> Pair {
        self.issue(&HOSTS, 2_060)
    }
}

/// TLS in front of another transport, as brokers have it.
pub(crate) struct Tunnel {
    inside: Arc<dyn Transport>,
    /// None speaks no TLS.
    server: Option<Arc<ServerConfig>>,
    dialled: Mutex<Vec<(SocketAddr, Instant)>>,
    /// Serial numbers would do; the certificates themselves are simpler.
    pub(crate) clients: Arc<Mutex<Vec<CertificateDer<'static>>>>,
}

impl Tunnel {
    /// Servers with this certificate. With `clients` they demand certificates of that authority.
    pub(crate) fn new(
        inside: Arc<dyn Transport>,
        pair: &Pair,
        clients: Option<&Authority>,
    ) -> Arc<Self> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).expect("a root");
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .expect("a verifier");
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = CertificateDer::pem_slice_iter(pair.chain.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .expect("certificates");
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
        let server = builder.with_single_cert(chain, key).expect("a pair");
        Self::speaking(inside, Some(Arc::new(server)))
    }

    /// Notes the dials and changes nothing.
    pub(crate) fn none(inside: Arc<dyn Transport>) -> Arc<Self> {
        Self::speaking(inside, None)
    }

    fn speaking(inside: Arc<dyn Transport>, server: Option<Arc<ServerConfig>>) -> Arc<Self> {
        Arc::new(Self {
            inside,
            server,
            dialled: Mutex::default(),
            clients: Arc::default(),
        })
    }

    /// Dials so far.
    pub(crate) fn dials(&self) -> usize {
        self.dialled.lock().expect("no panic while noting").len()
    }

    /// Times between the dials of each address.
    pub(crate) fn pauses(&self) -> Vec<Vec<Duration>> {
        let mut at = BTreeMap::<SocketAddr, Vec<Instant>>::new();
        for (address, moment) in &*self.dialled.lock().expect("no panic while noting") {
            at.entry(*address).or_default().push(*moment);
        }
        let pauses = |at: Vec<Instant>| at.windows(2).map(|two| two[1] - two[0]).collect();
        at.into_values().map(pauses).collect()
    }

    /// The certificates that clients have shown, in order.
    pub(crate) fn clients(&self) -> Vec<CertificateDer<'static>> {
        self.clients.lock().expect("no panic while noting").clone()
    }
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tunnel")
    }
}

impl Transport for Tunnel {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        self.inside.resolve(host, port)
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let mut dialled = self.dialled.lock().expect("no panic while noting");
        dialled.push((address, Instant::now()));
        drop(dialled);
        let inside = self.inside.dial(address);
        let Some(server) = &self.server else {
            return inside;
        };
        let acceptor = TlsAcceptor::from(Arc::clone(server));
        let clients = Arc::clone(&self.clients);
        Box::pin(async move {
            let mut inside = inside.await?;
            let (near, far) = tokio::io::duplex(256 * 1024);
            drop(tokio::task::spawn_local(async move {
                let Ok(mut outside) = acceptor.accept(far).await else {
                    return;
                };
                if let Some([first, ..]) = outside.get_ref().1.peer_certificates() {
                    let shown = first.clone().into_owned();
                    clients.lock().expect("no panic while noting").push(shown);
                }
                let ended = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                drop(ended);
            }));
            let near: Box<dyn Stream> = Box::new(near);
            Ok(near)
        })
    }
}

/// A file that is gone when the test is over.
pub(crate) struct TempFile(PathBuf);

impl TempFile {
    pub(crate) fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let name = format!("nearside-{}-{name}", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        file.write(content);
        file
    }

    pub(crate) fn write(&self, content: impl AsRef<[u8]>) {
        std::fs::write(&self.0, content).expect("a file can be written");
    }

    /// Puts a pipe in its place that nobody writes to, so that reading it hangs.
    pub(crate) fn hang(&self) -> Hanging<'_> {
        std::fs::remove_file(&self.0).expect("it is there");
        let made = std::process::Command::new("mkfifo").arg(&self.0).status();
        assert!(made.expect("mkfifo can be run").success());
        Hanging(self)
    }

    pub(crate) fn path(&self) -> &str {
        Path::to_str(&self.0).expect("UTF-8")
    }
}

/// A file that hangs.
pub(crate) struct Hanging<'a>(&'a TempFile);

impl Hanging<'_> {
    /// Lets whoever reads it go with nothing; from now on it is a file with this content.
    pub(crate) fn end(self, content: impl AsRef<[u8]>) {
        let file = &self.0.0;
        // Opening it waits for a reader, of whom there is one at least.
        let reader = std::fs::OpenOptions::new().write(true).open(file);
        std::fs::remove_file(file).expect("it is there");
        self.0.write(content);
        drop(reader.expect("it is a pipe"));
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

const HOSTS: [&str; 3] = [
    "broker-1.embedded",
    "broker-2.embedded",
    "broker-3.embedded",
];
