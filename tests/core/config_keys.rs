//! Property names, values and the messages about them.

use nearside::config::Config;

/// Every key of routing.md 17, metadata.md 14, wire.md 15 and runtime.md 16 with its default.
const SPECIFIED: &str = include_str!("config_keys.properties");

#[test]
fn every_specified_key_takes_its_default_and_that_changes_nothing() {
    let defaults = Config::default();
    let mut config = Config::default();
    config
        .set_properties(SPECIFIED, "config_keys.properties")
        .unwrap();
    for key in Config::keys() {
        assert_eq!(config.show(key), defaults.show(key), "{key}");
    }
    assert!(config.lint().is_empty(), "{:?}", config.lint());
}

#[test]
fn every_key_with_a_field_is_specified() {
    let mut config = Config::default();
    config
        .set_properties(SPECIFIED, "config_keys.properties")
        .unwrap();
    for key in Config::keys() {
        // Keys without a default are listed empty; they unset what they name.
        assert!(
            config.is_given(key) || key == "bootstrap.servers",
            "{key} is not in the list"
        );
    }
}

#[test]
fn what_is_shown_reads_back_for_every_key() {
    let defaults = Config::default();
    for key in Config::keys() {
        let shown = defaults.show(key).unwrap();
        let mut config = Config::default();
        config.set(key, &shown).unwrap();
        assert_eq!(config.show(key), Some(shown), "{key}");
    }
}

#[test]
fn a_properties_file_of_another_client_is_read() {
    let text = "\
# billing service
bootstrap.servers = kafka-1:9092, kafka-2:9092
group.id=billing
partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor,\\
    org.apache.kafka.clients.consumer.CooperativeStickyAssignor
isolation.level=read_committed
nearside.route.isr=advise
commit.interval.ms=1000
";
    let config = Config::from_properties(text, "billing.properties").unwrap();
    assert_eq!(
        config.show("bootstrap.servers").unwrap(),
        "kafka-1:9092,kafka-2:9092"
    );
    assert_eq!(
        config.show("partition.assignment.strategy").unwrap(),
        "range,cooperative-sticky"
    );
    assert_eq!(config.show("route.isr").unwrap(), "advise");
    assert_eq!(config.offsets.commit_interval.as_millis(), 1_000);
    config.require_consumer().unwrap();
}

#[test]
fn a_mistake_is_one_line_that_says_where_what_and_what_works() {
    let cases = [
        ("a=1\ngruop.id=x", "f:1: unknown property `a`"),
        (
            "gruop.id=x",
            "f:1: unknown property `gruop.id`, did you mean `group.id`?",
        ),
        (
            "\nnearside.rout.isr=advise",
            "f:2: unknown property `nearside.rout.isr`, did you mean `route.isr`?",
        ),
        (
            "route.isr=maybe",
            "f:1: `route.isr` is `maybe`, but takes one of `require`, `advise`",
        ),
        (
            "fetch.max.wait.ms=1s",
            "f:1: `fetch.max.wait.ms` is `1s`, but takes milliseconds as a whole number, 0 or more",
        ),
        (
            "bootstrap.servers=kafka",
            "f:1: `bootstrap.servers` is `kafka`, but takes a list, separated by commas, of \
             `host:port`",
        ),
        (
            "max.in.flight.requests.per.connection=6",
            "f:1: `max.in.flight.requests.per.connection` is `6`, but takes a whole number from 1 \
             to 5",
        ),
        (
            "auto.offset.reset=begin",
            "f:1: `auto.offset.reset` is `begin`, but takes one of `latest`, `earliest`, `none`, \
             `by_duration:<ISO 8601>` such as `by_duration:PT6H`",
        ),
        (
            "group.protocol=consumer",
            "f:1: `group.protocol=consumer` needs the consumer group protocol of KIP-848, which \
             this release lacks; only `classic` works",
        ),
        (
            "admin.token=hunter2",
            "f:1: `admin.token=[redacted]` needs the admin server, which this release lacks; leave \
             it out",
        ),
        (
            "sasl.mechanism=GSSAPI",
            "f:1: `sasl.mechanism` is `GSSAPI`, but takes one of `PLAIN`, `SCRAM-SHA-256`, \
             `SCRAM-SHA-512`, `OAUTHBEARER`",
        ),
        (
            "sasl.jaas.config=x",
            "f:1: `sasl.jaas.config` has no meaning here: set `sasl.username` and `sasl.password`",
        ),
        ("=x", "f:1: no key before `=` or `:`"),
    ];
    for (text, expected) in cases {
        let error = Config::from_properties(text, "f").unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_password_of_a_store_or_key_is_answered_with_the_way_to_pem() {
    let cases = [
        (
            "ssl.keystore.password=hunter2",
            "f:1: `ssl.keystore.password` has no meaning here: PEM is read, without a password; \
             convert a PKCS12 store by `openssl pkcs12 -in store.p12 -out store.pem -nodes`, a JKS \
             store by `keytool -importkeystore -srckeystore store.jks -destkeystore store.p12 \
             -deststoretype PKCS12` first",
        ),
        (
            "ssl.key.password=hunter2",
            "f:1: `ssl.key.password` has no meaning here: a key is read unencrypted; decrypt it by \
             `openssl pkcs8 -in key.pem -out plain.pem`, append the certificates that stood beside \
             it, and let nobody else read that file",
        ),
    ];
    for (text, expected) in cases {
        let error = Config::from_properties(text, "f").unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn no_line_of_a_key_pasted_without_backslashes_is_told() {
    let plain = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg3q2x7dvT1hqPsZ0c";
    let lines = [
        plain.to_owned(),
        format!("{plain}="),
        "ab+c/d==".to_owned(),
        "-----END PRIVATE KEY-----".to_owned(),
        "a\\u001b[31m".to_owned(),
        format!("{}.x", "a".repeat(63)),
    ];
    for line in lines {
        let text = format!("client.id=x\nssl.keystore.key=-----BEGIN PRIVATE KEY-----\n{line}\n");
        let error = Config::from_properties(&text, "f").unwrap_err();
        let shown = match line.starts_with("-----END") {
            true => "f:3: unknown property `-----END`",
            false => "f:3: not a property: what stands there is no key",
        };
        assert_eq!(error.to_string(), shown);
        assert!(!format!("{error:?}").contains(&line), "{error:?}");
    }
    let error = Config::default().set_pair(plain).unwrap_err();
    assert!(!format!("{error:?} {error}").contains(plain), "{error:?}");
}

#[test]
fn a_pair_of_a_command_line_needs_an_equals_sign() {
    let mut config = Config::default();
    config.set_pair("client.id=a=b").unwrap();
    assert_eq!(config.connection.client_id, "a=b");
    let error = config.set_pair("client.id").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a property is set by key=value, and here is no `=`"
    );
}

#[test]
fn a_consumer_needs_servers_and_a_group() {
    let mut config = Config::default();
    let missing = |config: &Config| config.require_consumer().unwrap_err().to_string();
    assert_eq!(
        missing(&config),
        "`bootstrap.servers` is required, for example `bootstrap.servers=kafka-1:9092,kafka-2:9092`"
    );
    config.set("bootstrap.servers", "a:1").unwrap();
    assert_eq!(
        missing(&config),
        "`group.id` is required, for example `group.id=billing`"
    );
}
