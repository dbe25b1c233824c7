//! TLS by rustls (wire.md 12): whom we trust, who we are, and what a failed handshake means.

mod certificate;
mod failure;
mod heard;
mod identity;
mod material;
mod name;
mod reload;
#[cfg(test)]
mod tests;
mod verify;

use std::sync::Arc;

use arc_swap::ArcSwap;
use dashmap::DashSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind};

use self::heard::Heard;
use self::identity::{ASKED, Identity};
use self::material::{Material, Sources, Stamp};
use self::reload::Looked;
use self::verify::AnyName;
use super::reading::Reader;
use super::transport::Stream;
use crate::config::{Config, NameCheck, TlsVersion};
use crate::error::{Error, ErrorKind};
use crate::wire::TlsFailure;

pub(crate) use self::reload::Reload;

/// The TLS of a fleet: shared by all its connections, replaced whole when files change.
pub(crate) struct Tls {
    sources: Sources,
    /// The files as they were when they were read first.
    first: Vec<Stamp>,
    reader: Reader<Looked>,
    versions: Vec<TlsVersion>,
    name_check: NameCheck,
    current: ArcSwap<ClientConfig>,
    /// Hosts that asked for a certificate when they last shook hands in full.
    asking: DashSet<Box<str>>,
}

impl Tls {
    /// What is configured, if TLS is spoken at all. Reads files, and waits for them: call it where
    /// that does no harm.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] naming the property, the file and what would work.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>, Error> {
        let security = &config.security;
        if !security.protocol.tls() {
            return Ok(None);
        }
        let sources = Sources::of(security);
        let reading = sources.clone();
        let read = Reader::new().read_here(move || reading.read_stamped().map(Arc::new));
        let read = read.unwrap_or_else(|| Err(reload::too_late()))?;
        let (first, material) = &*read;
        material.tell_days_left();
        let (versions, name_check) = (security.tls_versions.clone(), security.name_check);
        let current = client(material, &versions, name_check)?;
        Ok(Some(Self {
            first: first.clone(),
            sources,
            reader: Reader::new(),
            versions,
            name_check,
            current: ArcSwap::from_pointee(current),
            asking: DashSet::new(),
        }))
    }

    /// Shakes hands as a client of `host`. The stream, and whether the broker asked for a client
    /// certificate.
    pub(crate) async fn shake(
        &self,
        host: &str,
        stream: Box<dyn Stream>,
    ) -> Result<(Box<dyn Stream>, bool), TlsFailure> {
        let name = name::server_name(host).map_err(TlsFailure::Trust)?;
        let connector = TlsConnector::from(self.current.load_full());
        let (stream, heard) = Heard::around(stream);
        let asked = std::cell::Cell::new(false);
        let shaken = ASKED
            .scope(asked, async {
                let shaken = connector.connect(name, stream).await;
                (shaken, ASKED.with(std::cell::Cell::get))
            })
            .await;
        match shaken {
            (Ok(stream), asked) => {
                let (_, session) = stream.get_ref();
                let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
                let asked = self.asks(host, (!resumed).then_some(asked));
                Ok((Box::new(stream), asked))
            }
            (Err(error), _) => Err(failure::of(&error, heard.get(), host)),
        }
    }

    /// Whether `host` asks for certificates: as it just did or not, or, if it went on with a
    /// session, as it did when that began. It may refuse ours then, too (T5).
    fn asks(&self, host: &str, told: Option<bool>) -> bool {
        match told {
            Some(true) => {
                self.asking.insert(host.into());
                true
            }
            Some(false) => {
                self.asking.remove(host);
                false
            }
            None => self.asking.contains(host),
        }
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("versions", &self.versions)
            .field("name_check", &self.name_check)
            .finish_non_exhaustive()
    }
}

/// What rustls needs to know. The chain is verified whatever is configured (T1).
fn client(
    material: &Material,
    versions: &[TlsVersion],
    name_check: NameCheck,
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(default_provider());
    let refused = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Config, format!("TLS cannot be set up: {error}"))
    };
    let versions: Vec<_> = versions
        .iter()
        .map(|version| match version {
            TlsVersion::V1_2 => &TLS12,
            TlsVersion::V1_3 => &TLS13,
        })
        .collect();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|error| refused(&error))?;
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&material.roots), provider)
            .build()
            .map_err(|error| refused(&error))?;
    let builder = match name_check {
        NameCheck::Https => builder.with_webpki_verifier(verifier),
        NameCheck::Off => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName(verifier))),
    };
    let identity = Identity(material.identity.clone());
    Ok(builder.with_client_cert_resolver(Arc::new(identity)))
}
