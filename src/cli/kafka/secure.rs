//! Listeners that ask who is there: TLS with client certificates, SASL over TLS, and access tokens
//! whose sessions end.

use std::path::Path;
use std::{fs, io};

use super::node::NodePlan;
use super::{Cluster, KafkaError};
use crate::secret::Secret;

/// What the secured listeners know. Keys are made for the run and go with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secured {
    /// The nodes' key (PKCS#8) and certificate chain, in PEM.
    pub keystore: Secret,
    /// The same of a node whose certificate has ended, for [`Listener::Expired`].
    pub expired_keystore: Secret,
    /// Who issues the certificates of clients, in PEM.
    pub truststore: String,
    /// The one user, for PLAIN and SCRAM-SHA-512.
    pub user: String,
    /// That user's password.
    pub password: Secret,
}

/// A secured listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listener {
    /// TLS; a client certificate is required.
    Ssl,
    /// TLS, and PLAIN or SCRAM-SHA-512 within it.
    SaslSsl,
    /// OAUTHBEARER with tokens that nobody signed; sessions end after five seconds.
    SaslPlaintext,
    /// TLS with a certificate whose time is over.
    Expired,
}

/// The ports of one node's secured listeners.
#[derive(Clone, Copy, Debug)]
pub(super) struct SecurePorts {
    pub(super) ssl: u16,
    pub(super) sasl_ssl: u16,
    pub(super) sasl_plaintext: u16,
    pub(super) expired: u16,
}

impl Cluster {
    /// `host:port` list of one secured listener, by the name that certificates are for; empty
    /// without [`Options::secured`](super::Options::secured).
    pub fn secured_bootstrap(&self, listener: Listener) -> String {
        let ports = self.nodes.iter().filter_map(|node| node.plan.secure);
        let addresses = ports.map(|ports| {
            let port = match listener {
                Listener::Ssl => ports.ssl,
                Listener::SaslSsl => ports.sasl_ssl,
                Listener::SaslPlaintext => ports.sasl_plaintext,
                Listener::Expired => ports.expired,
            };
            format!("localhost:{port}")
        });
        addresses.collect::<Vec<_>>().join(",")
    }
}

/// Writes the stores that [`properties`] names.
pub(super) fn write_stores(dir: &Path, secured: &Secured) -> io::Result<()> {
    fs::write(dir.join("keystore.pem"), secured.keystore.expose())?;
    fs::write(dir.join("expired.pem"), secured.expired_keystore.expose())?;
    fs::write(dir.join("truststore.pem"), &secured.truststore)
}

/// Protocols, and addresses, of the secured listeners, as the maps of `server.properties` have
/// them.
pub(super) fn addresses(ports: SecurePorts) -> (&'static str, String) {
    let SecurePorts {
        ssl,
        sasl_ssl,
        sasl_plaintext,
        expired,
    } = ports;
    (
        ",SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,EXPIRED:SSL",
        format!(
            ",SSL://localhost:{ssl},SASL_SSL://localhost:{sasl_ssl},\
             SASL_PLAINTEXT://localhost:{sasl_plaintext},EXPIRED://localhost:{expired}"
        ),
    )
}

/// The lines about them.
pub(super) fn properties(node: &NodePlan, secured: &Secured) -> String {
    let (user, password) = (&secured.user, secured.password.expose());
    let dir = node.dir.display();
    format!(
        "ssl.keystore.type=PEM\n\
         ssl.keystore.location={dir}/keystore.pem\n\
         ssl.truststore.type=PEM\n\
         ssl.truststore.location={dir}/truststore.pem\n\
         listener.name.ssl.ssl.client.auth=required\n\
         listener.name.expired.ssl.keystore.type=PEM\n\
         listener.name.expired.ssl.keystore.location={dir}/expired.pem\n\
         listener.name.sasl_ssl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
         listener.name.sasl_ssl.plain.sasl.jaas.config={PLAIN} required \
         user_{user}=\"{password}\";\n\
         listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={SCRAM} required;\n\
         listener.name.sasl_plaintext.sasl.enabled.mechanisms=OAUTHBEARER\n\
         listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config={BEARER} required \
         unsecuredLoginStringClaim_sub=\"broker\";\n\
         listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class={TOKENS}\n\
         listener.name.sasl_plaintext.oauthbearer.connections.max.reauth.ms=5000\n"
    )
}

/// What the storage is to be formatted with, so that the user exists from the start.
pub(super) fn scram_user(secured: &Secured) -> Result<String, KafkaError> {
    let (user, password) = (&secured.user, secured.password.expose());
    if password.contains([',', ']', '"']) {
        return Err(KafkaError::failed(
            "the password has a character that ends it",
        ));
    }
    Ok(format!("SCRAM-SHA-512=[name={user},password={password}]"))
}

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";
const BEARER: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
const TOKENS: &str = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.\
                      OAuthBearerUnsecuredValidatorCallbackHandler";

#[cfg(test)]
mod tests {
    use super::*;

    /// wire.md A28
    #[test]
    fn what_the_listeners_know_is_not_shown() {
        let secret = Secret::new("hunter2");
        let secured = Secured {
            keystore: secret.clone(),
            expired_keystore: secret.clone(),
            truststore: String::new(),
            user: "bob".to_owned(),
            password: secret,
        };
        let shown = format!("{secured:?}");
        assert!(
            shown.contains("bob") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}
