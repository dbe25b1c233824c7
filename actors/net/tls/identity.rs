//! Our certificate, and whether a broker asked for it.

use std::cell::Cell;
use std::sync::Arc;

use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::sign::CertifiedKey;

tokio::task_local! {
    /// Set while a handshake runs, once the broker asks for a certificate. Sessions are resumed
    /// under the same resolver only, so what one handshake learns cannot be kept in it.
    pub(super) static ASKED: Cell<bool>;
}

/// Answers a broker that asks who we are.
#[derive(Debug)]
pub(super) struct Identity(pub(super) Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // Outside a handshake of ours nobody asks.
        ASKED.try_with(|asked| asked.set(true)).ok();
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}
