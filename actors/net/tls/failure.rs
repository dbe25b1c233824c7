//! What a failed handshake means, in words that say what to do.

use std::io;

use tokio_rustls::rustls::{CertificateError, Error, InvalidMessage, PeerIncompatible};

use super::certificate::date;
use crate::wire::TlsFailure;

/// Judges the error of a handshake with `host`. `heard`: the peer has said something.
pub(super) fn of(error: &io::Error, heard: bool, host: &str) -> TlsFailure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => TlsFailure::NotTls,
        Some(Error::InvalidMessage(_)) => TlsFailure::NotTls,
        Some(Error::InvalidCertificate(error)) => TlsFailure::Trust(certificate(error, host)),
        Some(Error::AlertReceived(alert)) => {
            TlsFailure::Trust(format!("the broker refuses the handshake: {alert:?}"))
        }
        Some(Error::PeerIncompatible(why)) => TlsFailure::Trust(incompatible(why)),
        Some(error) => TlsFailure::Trust(format!("TLS handshake failed: {error}")),
        None if heard => TlsFailure::Lost(format!("during the TLS handshake: {error}")),
        None => TlsFailure::HungUp(format!("without a word in TLS: {error}")),
    }
}

fn incompatible(why: &PeerIncompatible) -> String {
    format!("no common ground in TLS: {why:?}; see `ssl.enabled.protocols`")
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library may add errors, and says each in its own words"
)]
fn certificate(error: &CertificateError, host: &str) -> String {
    let host = host.escape_debug();
    match error {
        CertificateError::NotValidForNameContext { presented, .. } => {
            format!(
                "the certificate is not for {host} but for {}",
                names(presented)
            )
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            let end = date(not_after.as_secs());
            format!("the certificate of {host} expired on {end}")
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            let start = date(not_before.as_secs());
            format!("the certificate of {host} is not valid before {start}")
        }
        // A bad signature: somebody has the name of an issuer we trust, and another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "nobody we trust has issued the certificate of {host}; `ssl.truststore.location` names \
             who is trusted"
        ),
        other => format!("the certificate of {host} is not accepted: {other}"),
    }
}

/// The names of a certificate by type, as the peer may have made them up: cut and escaped.
fn names(presented: &[String]) -> String {
    const NAMES_MAX: usize = 16;
    const NAME_MAX: usize = 255;
    if presented.is_empty() {
        return "no name at all".to_owned();
    }
    let shown = presented.iter().take(NAMES_MAX).map(|name| {
        let name: String = name.chars().take(NAME_MAX).collect();
        let inside = |prefix: &str| {
            let rest = name.strip_prefix(prefix)?.strip_suffix(')')?;
            Some(rest.trim_matches('"').escape_debug().to_string())
        };
        inside("DnsName(")
            .map(|name| format!("DNS:{name}"))
            .or_else(|| inside("IpAddress(").map(|address| format!("IP:{address}")))
            .unwrap_or_else(|| name.escape_debug().to_string())
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if presented.len() > NAMES_MAX {
        text.push_str(", ...");
    }
    text
}
