//! Security settings that contradict each other or say less than was meant (wire.md 11, 12, 15).

use super::lint::{Check, Finding, error, warning};
use super::{Config, NameCheck};
use crate::wire::sasl::{ITERATIONS_MIN, Mechanism};

/// The checks of this file.
pub(super) const CHECKS: &[Check] = &[
    sasl_has_a_mechanism,
    sasl_is_spoken_if_it_is_set_up,
    tls_is_spoken_if_it_is_set_up,
    a_password_is_given,
    a_token_is_for_its_mechanism,
    plain_needs_tls,
    trust_comes_from_one_place,
    a_key_comes_with_its_chain,
    a_key_comes_from_one_place,
    some_tls_is_left,
    iterations_can_be_met,
    sasl_without_tls_is_readable,
    names_are_checked,
];

fn sasl_has_a_mechanism(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let missing = security.protocol.sasl() && security.mechanism.is_none();
    error(missing, "sasl.mechanism", || {
        format!(
            "`sasl.mechanism` is required with `security.protocol` {}; \
             `sasl.mechanism=SCRAM-SHA-512` works where the broker offers it",
            protocol(config),
        )
    })
}

/// Credentials that nobody uses are a plaintext connection that nobody meant.
fn sasl_is_spoken_if_it_is_set_up(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let given = [
        (security.mechanism.is_some(), "sasl.mechanism"),
        (security.username.is_some(), "sasl.username"),
        (security.password.is_some(), "sasl.password"),
        (security.token_file.is_some(), TOKEN_FILE),
    ];
    let key = first_given(&given).filter(|_| !security.protocol.sasl())?;
    let works = if security.protocol.tls() {
        "SASL_SSL"
    } else {
        "SASL_SSL` or `SASL_PLAINTEXT"
    };
    error(true, key, || unused(config, key, works))
}

fn tls_is_spoken_if_it_is_set_up(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let given = [
        (security.trust_file.is_some(), "ssl.truststore.location"),
        (security.trust_pem.is_some(), "ssl.truststore.certificates"),
        (security.key_file.is_some(), "ssl.keystore.location"),
        (
            security.chain_pem.is_some(),
            "ssl.keystore.certificate.chain",
        ),
        (security.key_pem.is_some(), "ssl.keystore.key"),
    ];
    let key = first_given(&given).filter(|_| !security.protocol.tls())?;
    let works = if security.protocol.sasl() {
        "SASL_SSL"
    } else {
        "SSL"
    };
    error(true, key, || unused(config, key, works))
}

fn a_password_is_given(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let by_password = match security.mechanism? {
        Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512 => true,
        Mechanism::OAuthBearer => false,
    };
    let given = [
        (security.username.is_none(), "sasl.username"),
        (security.password.is_none(), "sasl.password"),
    ];
    let key = first_given(&given).filter(|_| by_password && security.protocol.sasl())?;
    error(true, key, || {
        format!(
            "`{key}` is required with `sasl.mechanism` {}",
            mechanism(config)
        )
    })
}

fn a_token_is_for_its_mechanism(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let used = security.mechanism? == Mechanism::OAuthBearer || !security.protocol.sasl();
    error(security.token_file.is_some() && !used, TOKEN_FILE, || {
        format!(
            "`{TOKEN_FILE}` is set, but `sasl.mechanism` is {}, which does not use it; \
             `sasl.mechanism=OAUTHBEARER` works",
            mechanism(config)
        )
    })
}

/// wire.md S8.
fn plain_needs_tls(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let plain = security.mechanism == Some(Mechanism::Plain);
    let bare = security.protocol.sasl() && !security.protocol.tls() && !security.plain_in_clear;
    error(plain && bare, "security.protocol", || {
        "`security.protocol` is SASL_PLAINTEXT and `sasl.mechanism` PLAIN: anybody on the way \
         could read the password; `security.protocol=SASL_SSL` works, and \
         `wire.sasl.plain.allow.cleartext=true` where nobody can be on the way"
            .into()
    })
}

fn trust_comes_from_one_place(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let both = security.trust_file.is_some() && security.trust_pem.is_some();
    error(both, "ssl.truststore.certificates", || {
        "`ssl.truststore.certificates` and `ssl.truststore.location` are both set; leave one out"
            .into()
    })
}

fn a_key_comes_with_its_chain(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let (key, missing) = match (&security.chain_pem, &security.key_pem) {
        (Some(_), None) => ("ssl.keystore.certificate.chain", "ssl.keystore.key"),
        (None, Some(_)) => ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        (None, None) | (Some(_), Some(_)) => return None,
    };
    error(true, key, || format!("`{key}` needs `{missing}` beside it"))
}

fn a_key_comes_from_one_place(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let inline = security.chain_pem.is_some() || security.key_pem.is_some();
    let both = security.key_file.is_some() && inline;
    error(both, "ssl.keystore.location", || {
        "`ssl.keystore.location` is set beside a key or chain given inline; leave one out".into()
    })
}

fn some_tls_is_left(config: &Config) -> Option<Finding> {
    let none = config.security.tls_versions.is_empty();
    error(none, "ssl.enabled.protocols", || {
        "`ssl.enabled.protocols` is empty; `ssl.enabled.protocols=TLSv1.2,TLSv1.3` works".into()
    })
}

fn iterations_can_be_met(config: &Config) -> Option<Finding> {
    let max = config.security.iterations_max;
    error(max < ITERATIONS_MIN, "wire.scram.iterations.max", || {
        format!(
            "`wire.scram.iterations.max` is {max}, but fewer than {ITERATIONS_MIN} are refused; \
             `wire.scram.iterations.max=1000000` works"
        )
    })
}

fn sasl_without_tls_is_readable(config: &Config) -> Option<Finding> {
    let protocol = config.security.protocol;
    warning(
        protocol.sasl() && !protocol.tls(),
        "security.protocol",
        || {
            "`security.protocol` is SASL_PLAINTEXT: records can be read and changed on the way; \
         `security.protocol=SASL_SSL` works"
                .into()
        },
    )
}

/// wire.md T1.
fn names_are_checked(config: &Config) -> Option<Finding> {
    let security = &config.security;
    let off = security.protocol.tls() && security.name_check == NameCheck::Off;
    warning(off, "ssl.endpoint.identification.algorithm", || {
        "`ssl.endpoint.identification.algorithm` is empty: whoever has a certificate of a trusted \
         issuer can pose as the broker; `ssl.endpoint.identification.algorithm=https` works"
            .into()
    })
}

fn first_given(given: &[(bool, &'static str)]) -> Option<&'static str> {
    given.iter().find(|(set, _)| *set).map(|(_, key)| *key)
}

fn unused(config: &Config, key: &str, works: &str) -> String {
    format!(
        "`{key}` is set, but `security.protocol` is {}, which does not use it; \
         `security.protocol={works}` works",
        protocol(config),
    )
}

fn protocol(config: &Config) -> String {
    config.show("security.protocol").unwrap_or_default()
}

fn mechanism(config: &Config) -> String {
    config.show("sasl.mechanism").unwrap_or_default()
}

pub(super) const TOKEN_FILE: &str = "sasl.oauthbearer.token.endpoint.url";
