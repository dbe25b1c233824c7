//! Properties of TLS and SASL (wire.md 11, 12, 15).

use std::path::Path;
use std::time::Duration;

use super::property::{Property, Share};
use super::section::{choice, ms, section, words};
use crate::secret::Secret;
use crate::wire::sasl::Mechanism;

choice! {
    /// What is spoken to every broker (`security.protocol`). There is no fall-back.
    Protocol {
        /// Neither encrypted nor authenticated.
        Plaintext = "PLAINTEXT" or "plaintext",
        /// TLS.
        Ssl = "SSL" or "ssl",
        /// SASL without TLS.
        SaslPlaintext = "SASL_PLAINTEXT" or "sasl_plaintext",
        /// SASL within TLS.
        SaslSsl = "SASL_SSL" or "sasl_ssl",
    }
}

impl Protocol {
    /// Whether connections are encrypted.
    pub const fn tls(self) -> bool {
        match self {
            Self::Ssl | Self::SaslSsl => true,
            Self::Plaintext | Self::SaslPlaintext => false,
        }
    }

    /// Whether connections are authenticated by SASL.
    pub const fn sasl(self) -> bool {
        match self {
            Self::SaslPlaintext | Self::SaslSsl => true,
            Self::Plaintext | Self::Ssl => false,
        }
    }
}

words! {
    Mechanism {
        Plain = "PLAIN",
        ScramSha256 = "SCRAM-SHA-256",
        ScramSha512 = "SCRAM-SHA-512",
        OAuthBearer = "OAUTHBEARER",
    }
}

choice! {
    /// A version of TLS.
    TlsVersion {
        /// TLS 1.2.
        V1_2 = "TLSv1.2",
        /// TLS 1.3.
        V1_3 = "TLSv1.3",
    }
}

/// Whether the certificate must be for the host that was dialled
/// (`ssl.endpoint.identification.algorithm`). Its chain is verified in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameCheck {
    /// `https`: it must.
    Https,
    /// Empty: any certificate of a trusted issuer will do.
    Off,
}

impl Property for NameCheck {
    fn accepts() -> String {
        "`https`, or nothing to accept a certificate for any host".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "https" | "HTTPS" => Some(Self::Https),
            "" => Some(Self::Off),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Https => "https".into(),
            Self::Off => String::new(),
        }
    }
}

/// The form of certificates and keys: PEM, and no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pem;

impl Property for Pem {
    fn accepts() -> String {
        "`PEM`; convert a PKCS12 store by `openssl pkcs12 -in store.p12 -out store.pem -nodes`, a \
         JKS store by `keytool -importkeystore -srckeystore store.jks -destkeystore store.p12 \
         -deststoretype PKCS12` first"
            .into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.eq_ignore_ascii_case("PEM").then_some(Self)
    }

    fn show(&self) -> String {
        "PEM".into()
    }
}

/// A file with an access token, named by a URL as in the Java client (KIP-768).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenFile(String);

impl TokenFile {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl Property for TokenFile {
    fn accepts() -> String {
        "`file:` and the whole path of a file with a token, such as `file:/run/secrets/token`, \
         without `%`; HTTP is not spoken: have something else write the token to a file"
            .into()
    }

    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("file:")?;
        let path = rest.strip_prefix("//").unwrap_or(rest);
        let whole = path.starts_with('/') && !path.contains('%');
        whole.then(|| Self(path.to_owned()))
    }

    fn show(&self) -> String {
        format!("file:{}", self.0)
    }
}

/// Whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Seconds(pub u32);

impl Seconds {
    /// The same as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }
}

impl Property for Seconds {
    fn accepts() -> String {
        "seconds as a whole number from 0 to 3600".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|n| *n <= 3_600).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

section! {
    /// How connections are encrypted and authenticated.
    Security {
        /// What is spoken to every broker.
        "security.protocol" protocol: Protocol = Protocol::Plaintext;
        /// File with the certificates trusted, in PEM; none: those of the platform.
        "ssl.truststore.location" trust_file: Option<String> = None;
        /// The same certificates themselves.
        "ssl.truststore.certificates" trust_pem: Option<String> = None;
        /// The form of the trusted certificates.
        "ssl.truststore.type" trust_type: Pem = Pem;
        /// Whether the certificate must be for the host that was dialled.
        "ssl.endpoint.identification.algorithm" name_check: NameCheck = NameCheck::Https;
        /// File with our key and certificate chain, in PEM.
        "ssl.keystore.location" key_file: Option<String> = None;
        /// Our certificate chain itself, our own certificate first.
        "ssl.keystore.certificate.chain" chain_pem: Option<String> = None;
        /// Our key itself, in PEM, not encrypted.
        "ssl.keystore.key" key_pem: Option<Secret> = None;
        /// The form of our key and chain.
        "ssl.keystore.type" key_type: Pem = Pem;
        /// The versions of TLS that may be spoken.
        "ssl.enabled.protocols" tls_versions: Vec<TlsVersion> =
            vec![TlsVersion::V1_2, TlsVersion::V1_3];
        /// The mechanism; required with SASL.
        "sasl.mechanism" mechanism: Option<Mechanism> = None;
        /// Who we are, for PLAIN and SCRAM.
        "sasl.username" username: Option<String> = None;
        /// What proves it.
        "sasl.password" password: Option<Secret> = None;
        /// File with an access token, for OAUTHBEARER; read again for every renewal.
        "sasl.oauthbearer.token.endpoint.url" token_file: Option<TokenFile> = None;
        /// Part of a token's life after which it is renewed.
        "sasl.login.refresh.window.factor" refresh_factor: Share = Share(0.8);
        /// Largest random part of its life that is added to that.
        "sasl.login.refresh.window.jitter" refresh_jitter: Share = Share(0.05);
        /// Least time between two renewals.
        "sasl.login.refresh.min.period.seconds" refresh_min: Seconds = Seconds(60);
        /// How long before a token's end it is to be renewed at the latest.
        "sasl.login.refresh.buffer.seconds" refresh_buffer: Seconds = Seconds(300);
        /// Pause after refused credentials or certificates.
        "wire.auth.backoff.ms" backoff: Duration = ms(1_000);
        /// Longest such pause.
        "wire.auth.backoff.max.ms" backoff_max: Duration = ms(60_000);
        /// Most rounds of hashing a broker may ask for in SCRAM.
        "wire.scram.iterations.max" iterations_max: u32 = 1_000_000;
        /// Whether PLAIN may be spoken without TLS, readable for anybody on the way.
        "wire.sasl.plain.allow.cleartext" plain_in_clear: bool = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_is_named_by_the_urls_that_java_takes() {
        for url in ["file:/run/token", "file:///run/token"] {
            let file = TokenFile::parse(url).unwrap();
            assert_eq!(file.path(), Path::new("/run/token"));
            assert_eq!(file.show(), "file:/run/token");
        }
        let others = [
            "/run/token",
            "file:token",
            "file://host/token",
            "file:/a%20b",
            "https://x/",
        ];
        for url in others {
            assert_eq!(TokenFile::parse(url), None, "{url}");
        }
    }
}
