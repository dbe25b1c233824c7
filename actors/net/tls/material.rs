//! Certificates and keys, from files or from the configuration itself.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls_pki_types::pem::{PemObject as _, SectionKind};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{InconsistentKeys, RootCertStore};
use zeroize::Zeroizing;

use super::certificate::not_after;
use crate::actors::clock::unix_ms;
use crate::config::Security;
use crate::error::{Error, ErrorKind};
use crate::secret::Secret;

/// Where certificates and keys come from.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    trust: Trust,
    identity: Option<Keys>,
}

#[derive(Clone, Debug)]
enum Trust {
    Platform,
    File(PathBuf),
    Inline(String),
}

#[derive(Clone, Debug)]
enum Keys {
    File(PathBuf),
    Inline { chain: String, key: Secret },
}

/// Size and time of a file: what changes when it is replaced.
pub(super) type Stamp = Option<(u64, SystemTime)>;

/// What was read.
pub(super) struct Material {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) identity: Option<Arc<CertifiedKey>>,
}

impl Sources {
    pub(super) fn of(security: &Security) -> Self {
        let trust = match (&security.trust_file, &security.trust_pem) {
            (Some(file), _) => Trust::File(file.into()),
            (None, Some(pem)) => Trust::Inline(pem.clone()),
            (None, None) => Trust::Platform,
        };
        let inline = security.chain_pem.clone().zip(security.key_pem.clone());
        let identity = match (&security.key_file, inline) {
            (Some(file), _) => Some(Keys::File(file.into())),
            (None, Some((chain, key))) => Some(Keys::Inline { chain, key }),
            (None, None) => None,
        };
        Self { trust, identity }
    }

    /// Reads everything.
    pub(super) fn read(&self) -> Result<Material, Error> {
        Ok(Material {
            roots: Arc::new(self.roots()?),
            identity: self
                .identity
                .as_ref()
                .map(identity)
                .transpose()?
                .map(Arc::new),
        })
    }

    /// Reads everything, and says as what. A file that is replaced meanwhile is read again later.
    pub(super) fn read_stamped(&self) -> Result<(Vec<Stamp>, Material), Error> {
        let stamps = self.stamps();
        Ok((stamps, self.read()?))
    }

    /// The stamps of the files, in a fixed order.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        let trust = match &self.trust {
            Trust::File(file) => Some(file),
            Trust::Platform | Trust::Inline(_) => None,
        };
        let keys = match &self.identity {
            Some(Keys::File(file)) => Some(file),
            Some(Keys::Inline { .. }) | None => None,
        };
        trust
            .into_iter()
            .chain(keys)
            .map(|file| stamp(file))
            .collect()
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        let (place, pem) = match &self.trust {
            Trust::Platform => return platform_roots(),
            Trust::File(file) => {
                let place = Place::file("ssl.truststore.location", file);
                let pem = place.read(file)?;
                (place, pem)
            }
            Trust::Inline(pem) => {
                let place = Place::inline("ssl.truststore.certificates");
                (place, Zeroizing::new(pem.clone().into_bytes()))
            }
        };
        for certificate in place.sections(&pem)?.certificates {
            roots
                .add(certificate)
                .map_err(|error| place.refused(&format!("holds a certificate that {error}")))?;
        }
        if roots.is_empty() {
            return Err(place.refused("holds no certificate"));
        }
        Ok(roots)
    }
}

impl Material {
    /// Sets the gauge of the days until our own certificate ends.
    pub(super) fn tell_days_left(&self) {
        let own = self.identity.as_ref().and_then(|own| own.cert.first());
        if let Some(end) = own.and_then(|certificate| not_after(certificate)) {
            let left = end.saturating_sub(unix_ms() / 1_000);
            let days = i32::try_from(left.div_euclid(86_400)).unwrap_or(i32::MAX);
            metrics::gauge!("nearside_wire_tls_days_left").set(f64::from(days));
        }
    }
}

fn platform_roots() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Some platforms ship certificates that nobody can read; the others serve.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let text =
            "this system has no trusted certificates; name some by `ssl.truststore.location`";
        return Err(Error::new(ErrorKind::Config, text));
    }
    Ok(roots)
}

fn identity(keys: &Keys) -> Result<CertifiedKey, Error> {
    let (chain_place, key_place, chain, key) = match keys {
        Keys::File(file) => {
            let place = Place::file("ssl.keystore.location", file);
            let pem = place.read(file)?;
            (place.clone(), place, pem.clone(), pem)
        }
        Keys::Inline { chain, key } => (
            Place::inline("ssl.keystore.certificate.chain"),
            Place::inline("ssl.keystore.key"),
            Zeroizing::new(chain.clone().into_bytes()),
            Zeroizing::new(key.expose().as_bytes().to_vec()),
        ),
    };
    let certificates = chain_place.sections(&chain)?.certificates;
    let sections = key_place.sections(&key)?;
    let der = sections
        .key()?
        .ok_or_else(|| key_place.refused("holds no key"))?;
    let key = any_supported_type(&der)
        .map_err(|_| key_place.refused("holds a key of a kind that is not spoken"))?;
    if certificates.is_empty() {
        return Err(chain_place.refused("holds no certificate"));
    }
    let pair = CertifiedKey::new(certificates, key);
    match pair.keys_match() {
        Ok(()) | Err(tokio_rustls::rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
            Ok(pair)
        }
        Err(_) => Err(chain_place.refused("begins with a certificate that is not for the key")),
    }
}

fn stamp(file: &Path) -> Stamp {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// The property that something comes from, and the file it names.
#[derive(Clone, Debug)]
struct Place(String);

impl Place {
    fn file(key: &str, file: &Path) -> Self {
        Self(format!("`{key}={}`", file.display()))
    }

    fn inline(key: &str) -> Self {
        Self(format!("`{key}`"))
    }

    fn refused(&self, what: &str) -> Error {
        Error::new(ErrorKind::Config, format!("{} {what}", self.0))
    }

    fn read(&self, file: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
        let failed = |error| self.refused(&format!("cannot be read: {error}"));
        let mut open = File::open(file).map_err(failed)?.take(PEM_MAX + 1);
        // Reserved at once, as far as the size is known: keys that grow leave copies behind.
        let size = open.get_ref().metadata().map_err(failed)?.len();
        let room = usize::try_from(size.min(PEM_MAX) + 1).unwrap_or(0);
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        open.read_to_end(&mut bytes).map_err(failed)?;
        if open.limit() == 0 {
            return Err(self.refused("is larger than 4 MiB"));
        }
        Ok(bytes)
    }

    /// The sections of a PEM text; stores of other kinds and encrypted keys are named (T3).
    fn sections(&self, pem: &[u8]) -> Result<Sections, Error> {
        if pem.starts_with(&JKS) {
            return Err(self.refused(FROM_JKS));
        }
        if pem.first() == Some(&DER) {
            return Err(self.refused(FROM_PKCS12));
        }
        if pem.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
            return Err(self.refused(DECRYPT));
        }
        let mut sections = Sections::default();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, bytes) = section.map_err(|_| self.refused("is not PEM"))?;
            sections.take(kind, bytes);
        }
        Ok(sections)
    }
}

#[derive(Default)]
struct Sections {
    certificates: Vec<CertificateDer<'static>>,
    key: Option<(SectionKind, Zeroizing<Vec<u8>>)>,
}

impl Sections {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library may add kinds, and none of them is of use here"
    )]
    fn take(&mut self, kind: SectionKind, bytes: Vec<u8>) {
        match kind {
            SectionKind::Certificate => self.certificates.push(bytes.into()),
            SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                self.key.get_or_insert((kind, Zeroizing::new(bytes)));
            }
            // Requests, lists and public keys do no harm beside them.
            _ => {}
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library may add kinds, and only keys are kept"
    )]
    fn key(&self) -> Result<Option<PrivateKeyDer<'_>>, Error> {
        let Some((kind, bytes)) = &self.key else {
            return Ok(None);
        };
        let bytes = bytes.as_slice();
        Ok(match kind {
            SectionKind::PrivateKey => Some(PrivatePkcs8KeyDer::from(bytes).into()),
            SectionKind::RsaPrivateKey => Some(PrivatePkcs1KeyDer::from(bytes).into()),
            SectionKind::EcPrivateKey => Some(PrivateSec1KeyDer::from(bytes).into()),
            _ => None,
        })
    }
}

/// More than any store of certificates comes to.
const PEM_MAX: u64 = 4 << 20;
const JKS: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];
/// How every DER structure of interest begins; PEM begins with text.
const DER: u8 = 0x30;
const ENCRYPTED: &[u8] = b"ENCRYPTED";
const FROM_JKS: &str = "is a JKS store, but PEM is read; `keytool -importkeystore -srckeystore \
                        store.jks -destkeystore store.p12 -deststoretype PKCS12` and then `openssl \
                        pkcs12 -in store.p12 -out store.pem -nodes` convert it";
const FROM_PKCS12: &str = "is a PKCS12 store or bare DER, but PEM is read; `openssl pkcs12 -in \
                           store.p12 -out store.pem -nodes` or `openssl x509 -inform der -in \
                           ca.der -out ca.pem` convert it";
const DECRYPT: &str = "holds an encrypted key, but a key is read unencrypted; `openssl pkcs8 -in \
                       key.pem -out plain.pem` decrypts it; append the certificates that stood \
                       beside it, and let nobody else read that file";
