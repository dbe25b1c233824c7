//! Keys that are not fields: other spellings, features still missing, and keys of other clients.

/// Other spellings of a key: (spelling, key).
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("commit.interval.ms", "auto.commit.interval.ms"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("fetch.wait.max.ms", "fetch.max.wait.ms"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
];

/// A known key whose feature this release lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unbuilt {
    /// The key.
    pub(super) key: &'static str,
    /// The one value that asks for nothing, if there is one.
    pub(super) works: Option<&'static str>,
    /// The feature.
    pub(super) feature: &'static str,
    /// Whether the value must not be shown.
    pub(super) secret: bool,
}

const fn unbuilt(key: &'static str, works: Option<&'static str>, feature: &'static str) -> Unbuilt {
    Unbuilt {
        key,
        works,
        feature,
        secret: false,
    }
}

const fn secret(key: &'static str, feature: &'static str) -> Unbuilt {
    Unbuilt {
        key,
        works: None,
        feature,
        secret: true,
    }
}

const TLS: &str = "TLS";
const SASL: &str = "SASL";
const KIP_848: &str = "the consumer group protocol of KIP-848";
const TRANSACTIONS: &str = "exactly-once processing";
const DEAD_LETTERS: &str = "dead letters and parking";
const ADMIN: &str = "the admin server";

/// The known keys whose feature this release lacks.
pub(super) const UNBUILT: &[Unbuilt] = &[
    unbuilt("security.protocol", Some("PLAINTEXT"), "TLS or SASL"),
    unbuilt("ssl.truststore.location", None, TLS),
    unbuilt("ssl.truststore.certificates", None, TLS),
    unbuilt("ssl.truststore.type", Some("PEM"), TLS),
    unbuilt("ssl.endpoint.identification.algorithm", Some("https"), TLS),
    unbuilt("ssl.keystore.location", None, TLS),
    unbuilt("ssl.keystore.certificate.chain", None, TLS),
    secret("ssl.keystore.key", TLS),
    unbuilt("ssl.keystore.type", Some("PEM"), TLS),
    unbuilt("ssl.enabled.protocols", Some("TLSv1.2,TLSv1.3"), TLS),
    unbuilt("sasl.mechanism", None, SASL),
    unbuilt("sasl.username", None, SASL),
    secret("sasl.password", SASL),
    unbuilt("sasl.login.refresh.window.factor", Some("0.8"), SASL),
    unbuilt("sasl.login.refresh.window.jitter", Some("0.05"), SASL),
    unbuilt("sasl.login.refresh.min.period.seconds", Some("60"), SASL),
    unbuilt("sasl.login.refresh.buffer.seconds", Some("300"), SASL),
    unbuilt("wire.auth.backoff.ms", Some("1000"), SASL),
    unbuilt("wire.auth.backoff.max.ms", Some("60000"), SASL),
    unbuilt("wire.scram.iterations.max", Some("1000000"), SASL),
    unbuilt("wire.sasl.plain.allow.cleartext", Some("false"), SASL),
    unbuilt("group.protocol", Some("classic"), KIP_848),
    unbuilt("group.remote.assignor", None, KIP_848),
    unbuilt("delivery", Some("at-least-once"), TRANSACTIONS),
    unbuilt("transactional.id", None, TRANSACTIONS),
    unbuilt("transaction.timeout.ms", Some("60000"), TRANSACTIONS),
    unbuilt("transaction.interval.ms", Some("100"), TRANSACTIONS),
    unbuilt(
        "enable.idempotence",
        Some("true"),
        "producing without sequence numbers",
    ),
    unbuilt(
        "allow.auto.create.topics",
        Some("false"),
        "creation of topics by asking for them",
    ),
    unbuilt("exhausted", Some("stop"), DEAD_LETTERS),
    unbuilt("dead.letter.topic", None, DEAD_LETTERS),
    unbuilt("dead.letter.create", Some("false"), DEAD_LETTERS),
    unbuilt("replay.max", Some("3"), DEAD_LETTERS),
    unbuilt("park.records.max", Some("64"), DEAD_LETTERS),
    unbuilt("park.overflow", Some("pause"), DEAD_LETTERS),
    unbuilt("adaptive", Some("false"), "adaptive concurrency"),
    unbuilt("concurrency.max", Some("64"), "adaptive concurrency"),
    unbuilt("stall.ladder", Some("warn"), "the stall ladder"),
    unbuilt("admin.bind", Some("127.0.0.1:9790"), ADMIN),
    secret("admin.token", ADMIN),
    unbuilt("admin.hosts", None, ADMIN),
    unbuilt("admin.actions", Some("false"), ADMIN),
    unbuilt("metrics.partition.series.max", Some("1000"), ADMIN),
];

const DECODE: &str =
    "records are bytes until a codec of the subscription decodes them; leave it out";
const ENCODE: &str = "records are written as the bytes given; leave it out";

/// Keys of other clients that have no meaning here: (key, what to do instead).
pub(super) const FOREIGN: &[(&str, &str)] = &[
    ("key.deserializer", DECODE),
    ("value.deserializer", DECODE),
    ("key.serializer", ENCODE),
    ("value.serializer", ENCODE),
    (
        "sasl.jaas.config",
        "set `sasl.username` and `sasl.password`",
    ),
    (
        "buffer.memory",
        "set `wire.budget.produce.share`, a part of `memory.budget.bytes`",
    ),
    (
        "retries",
        "records are retried until `delivery.timeout.ms` is over; leave it out",
    ),
    (
        "interceptor.classes",
        "there are no interceptors; do it in the handler",
    ),
    (
        "enable.auto.offset.store",
        "offsets come from completions alone; leave it out",
    ),
];

/// The key that looks most like `key`, if any looks like it at all.
pub(super) fn nearest(
    key: &str,
    known: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    // A third of the letters may differ: more, and the suggestion is noise.
    let limit = (key.chars().count() / 3).max(2);
    known
        .map(|name| (edit_distance(key, name), name))
        .filter(|(d, _)| *d <= limit)
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut last_a = None;
    for (row, ca) in a.chars().enumerate() {
        let mut line = vec![row + 1];
        for (column, cb) in b.iter().enumerate() {
            let at =
                |cells: &[usize], index: usize| cells.get(index).copied().unwrap_or(usize::MAX);
            let substitute = at(&above, column) + usize::from(ca != *cb);
            let mut best = substitute
                .min(at(&above, column + 1) + 1)
                .min(at(&line, column) + 1);
            if let Some(left) = column.checked_sub(1) {
                let swapped = last_a == Some(*cb) && b.get(left) == Some(&ca);
                if swapped && !before.is_empty() {
                    best = best.min(at(&before, left) + 1);
                }
            }
            line.push(best);
        }
        before = std::mem::replace(&mut above, line);
        last_a = Some(ca);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits_and_swaps() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("group.di", "group.id"), 1);
        assert_eq!(edit_distance("same", "same"), 0);
    }

    #[test]
    fn a_typo_is_recognised_and_nonsense_is_not() {
        let known = || ["group.id", "client.id", "fetch.min.bytes"].into_iter();
        assert_eq!(nearest("gruop.id", known()), Some("group.id"));
        assert_eq!(nearest("fetch.min.byte", known()), Some("fetch.min.bytes"));
        assert_eq!(nearest("frobnicate", known()), None);
    }
}
