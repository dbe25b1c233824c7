//! Keys and certificates, made anew for each run.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// Keys and certificates for one run.
pub(crate) struct Keys {
    pub(crate) authority: String,
    /// Key and chain of the node.
    pub(crate) broker: String,
    /// The same of one whose time is over.
    pub(crate) expired_broker: String,
    /// Chain and key of a client.
    pub(crate) client: (String, String),
    /// The same of one whose time is over.
    pub(crate) expired: (String, String),
}

impl Keys {
    pub(crate) fn make() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let serial = key
            .public_key_raw()
            .iter()
            .map(|byte| format!("{byte:02x}"));
        let name = format!("authority {}", serial.take(8).collect::<String>());
        params.distinguished_name.push(DnType::CommonName, name);
        let authority = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let issue = |name: &str, last_year: i32| {
            let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
            params.distinguished_name.push(DnType::CommonName, name);
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(last_year, 1, 1);
            let key = KeyPair::generate().expect("a key");
            let certificate = params.signed_by(&key, &authority).expect("a certificate");
            (certificate.pem(), key.serialize_pem())
        };
        let whole = |(chain, key): (String, String)| format!("{key}{chain}");
        Self {
            broker: whole(issue("localhost", 2_060)),
            expired_broker: whole(issue("localhost", 2_021)),
            client: issue("billing", 2_060),
            expired: issue("billing", 2_021),
            authority: authority.pem(),
        }
    }
}
