//! Keys that are not fields: other spellings, features still missing, and keys of other clients.

/// Other spellings of a key: (spelling, key).
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("commit.interval.ms", "auto.commit.interval.ms"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("fetch.wait.max.ms", "fetch.max.wait.ms"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ("sasl.mechanisms", "sasl.mechanism"),
    ("ssl.ca.location", "ssl.truststore.location"),
    ("ssl.ca.pem", "ssl.truststore.certificates"),
];

/// A known key whose feature this release lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unbuilt {
    /// The key.
    pub(super) key: &'static str,
    /// The values that ask for nothing, the usual one first.
    pub(super) works: &'static [&'static str],
    /// The feature.
    pub(super) feature: &'static str,
    /// Whether the value must not be shown.
    pub(super) secret: bool,
}

const fn unbuilt(
    key: &'static str,
    works: &'static [&'static str],
    feature: &'static str,
) -> Unbuilt {
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
        works: &[],
        feature,
        secret: true,
    }
}

const KIP_848: &str = "the consumer group protocol of KIP-848";
const TRANSACTIONS: &str = "exactly-once processing";
const DEAD_LETTERS: &str = "dead letters and parking";
const ORDERINGS: &str = "ordering by key and unordered handling";
const COLD: &str = "the cold set of idle partitions";
const ADMIN: &str = "the admin server";

/// The known keys whose feature this release lacks.
pub(super) const UNBUILT: &[Unbuilt] = &[
    unbuilt("group.protocol", &["classic"], KIP_848),
    unbuilt("group.remote.assignor", &[], KIP_848),
    unbuilt("delivery", &["at-least-once"], TRANSACTIONS),
    unbuilt("transactional.id", &[], TRANSACTIONS),
    unbuilt("transaction.timeout.ms", &["60000"], TRANSACTIONS),
    unbuilt("transaction.interval.ms", &["100"], TRANSACTIONS),
    unbuilt(
        "enable.idempotence",
        &["true"],
        "producing without sequence numbers",
    ),
    unbuilt(
        "allow.auto.create.topics",
        &["false"],
        "creation of topics by asking for them",
    ),
    unbuilt("exhausted", &["stop"], DEAD_LETTERS),
    unbuilt("dead.letter.create", &["false"], DEAD_LETTERS),
    unbuilt("replay.max", &["3"], DEAD_LETTERS),
    unbuilt("park.records.max", &["64"], DEAD_LETTERS),
    unbuilt("park.overflow", &["pause"], DEAD_LETTERS),
    unbuilt("ordering", &["partition"], ORDERINGS),
    unbuilt("concurrency", &["1"], ORDERINGS),
    unbuilt("key.lanes", &["64"], ORDERINGS),
    unbuilt("retry.waiting.max", &["1000"], ORDERINGS),
    unbuilt("adaptive", &["false"], "adaptive concurrency"),
    unbuilt("concurrency.max", &["64"], "adaptive concurrency"),
    unbuilt("cold.after.ms", &["30000"], COLD),
    unbuilt("fetch.cold.bytes", &["1048576"], COLD),
    unbuilt(
        "span.records.max",
        &["100000"],
        "a bound of your own on unfinished spans",
    ),
    unbuilt(
        "commit.metadata.max",
        &["4096"],
        "the offset map in commit metadata",
    ),
    unbuilt("coordinator.grace.ms", &["45000"], KIP_848),
    unbuilt(
        "exit.on.fatal",
        &["true"],
        "a fleet that outlives a fatal error",
    ),
    unbuilt("stall.ladder", &["warn"], "the stall ladder"),
    unbuilt("admin.bind", &["127.0.0.1:9790"], ADMIN),
    secret("admin.token", ADMIN),
    unbuilt("admin.hosts", &[], ADMIN),
    unbuilt("admin.actions", &["false"], ADMIN),
    unbuilt("metrics.partition.series.max", &["1000"], ADMIN),
];

const DECODE: &str =
    "records are bytes until a codec of the subscription decodes them; leave it out";
const DECRYPT: &str = "a key is read unencrypted; decrypt it by `openssl pkcs8 -in key.pem -out \
                       plain.pem`, append the certificates that stood beside it, and let nobody \
                       else read that file";
/// Beside the words of `ssl.keystore.type` for the same stores.
const STORE: &str = "PEM is read, without a password; convert a PKCS12 store by `openssl pkcs12 \
                     -in store.p12 -out store.pem -nodes`, a JKS store by `keytool -importkeystore \
                     -srckeystore store.jks -destkeystore store.p12 -deststoretype PKCS12` first";
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
    ("ssl.key.password", DECRYPT),
    ("ssl.keystore.password", STORE),
    ("ssl.truststore.password", STORE),
    (
        "sasl.login.callback.handler.class",
        "leave it out; tokens come from a file (`sasl.oauthbearer.token.endpoint.url`) or a \
         provider (`FleetBuilder::tokens`)",
    ),
    (
        "buffer.memory",
        "`wire.budget.produce.share` of `memory.budget.bytes` takes its place; leave it out",
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
