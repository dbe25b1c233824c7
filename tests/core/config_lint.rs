//! Values that contradict each other (runtime.md 16, wire.md 15).

use nearside::config::{Config, Severity};

/// The only finding about `pairs`, as it prints.
fn finding(pairs: &[(&str, &str)]) -> String {
    let findings = Config::from_pairs(pairs.iter().copied()).unwrap().lint();
    let [finding] = &findings[..] else {
        panic!("one finding about {pairs:?}, not {findings:?}")
    };
    assert!(
        finding.message.contains(finding.key),
        "it names its key: {finding}"
    );
    finding.to_string()
}

/// Sets `pairs`, reads the values that the finding says work, sets those too: nothing is left to
/// complain.
fn the_advice_works(pairs: &[(&str, &str)]) {
    let text = finding(pairs);
    let mut config = Config::from_pairs(pairs.iter().copied()).unwrap();
    let advice: Vec<_> = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|part| part.contains('='))
        .collect();
    assert!(!advice.is_empty(), "{text}");
    for pair in advice {
        config.set_pair(pair).unwrap();
    }
    assert!(
        config.lint().is_empty(),
        "{text} leaves {:?}",
        config.lint()
    );
}

#[test]
fn defaults_give_no_finding() {
    assert_eq!(Config::default().lint(), []);
}

#[test]
fn every_contradiction_is_told_with_a_value_that_works() {
    let cases: &[&[(&str, &str)]] = &[
        &[("max.poll.interval.ms", "80000")],
        &[("stop.deadline.ms", "14999")],
        &[("heartbeat.interval.ms", "15001")],
        &[("group.instance.id", "a"), ("session.timeout.ms", "44999")],
        &[("stall.after.ms", "64999")],
        &[("drain.timeout.ms", "59999")],
        &[("handler.deadline.ms", "10001")],
        &[("memory.budget.bytes", "4194303")],
        &[("fetch.max.bytes", "1048575")],
        &[("partition.assignment.strategy", ",")],
        &[("reset.new.partitions", "latest")],
        &[("wire.batch.inflated.max.bytes", "67108865")],
        &[("dead.letter.topic", "dead letters")],
        &[("receive.message.max.bytes", "17825791")],
        &[("delivery.timeout.ms", "30004")],
        &[("wire.budget.inflate.share", "0.7")],
        &[("wire.budget.produce.share", "0.7")],
        &[("wire.budget.inflate.share", "0")],
        &[
            ("wire.budget.inflate.share", "0.7"),
            ("wire.budget.produce.share", "0.7"),
        ],
    ];
    for pairs in cases {
        the_advice_works(pairs);
    }
}

#[test]
fn the_value_at_the_limit_is_fine() {
    let fine = [
        ("max.poll.interval.ms", "93750"),
        ("stop.deadline.ms", "15000"),
        ("heartbeat.interval.ms", "15000"),
        ("stall.after.ms", "65000"),
        ("handler.deadline.ms", "10000"),
        ("memory.budget.bytes", "4194304"),
        ("fetch.max.bytes", "1048576"),
        ("receive.message.max.bytes", "17825792"),
        ("delivery.timeout.ms", "30005"),
        ("wire.batch.inflated.max.bytes", "67108864"),
        ("wire.budget.produce.share", "0"),
    ];
    for pair in fine {
        assert_eq!(Config::from_pairs([pair]).unwrap().lint(), [], "{pair:?}");
    }
}

#[test]
fn a_finding_names_key_value_clash_and_what_works() {
    assert_eq!(
        finding(&[("heartbeat.interval.ms", "20000")]),
        "error: `heartbeat.interval.ms` is 20000, more than a third of `session.timeout.ms` 45000; \
         `heartbeat.interval.ms=15000` works"
    );
}

#[test]
fn mixed_assignors_print_the_way_out() {
    let text = finding(&[("partition.assignment.strategy", "range,cooperative-sticky")]);
    assert!(
        text.starts_with("warning: `partition.assignment.strategy` is range,cooperative-sticky")
    );
    assert!(text.contains("roll out the list once"));
}

#[test]
fn turning_auto_commit_off_is_told_to_do_nothing() {
    assert!(finding(&[("enable.auto.commit", "false")]).starts_with("warning: "));
}

#[test]
fn errors_come_before_warnings() {
    let pairs = [
        ("enable.auto.commit", "false"),
        ("delivery.timeout.ms", "1"),
    ];
    let findings = Config::from_pairs(pairs).unwrap().lint();
    let severities: Vec<_> = findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning]);
}

#[test]
fn sasl_needs_a_mechanism_and_what_proves_it() {
    let protocol = ("security.protocol", "SASL_SSL");
    assert!(finding(&[protocol]).contains("`sasl.mechanism` is required"));
    the_advice_is(
        &[protocol, ("sasl.mechanism", "SCRAM-SHA-512")],
        "error: `sasl.username` is required with `sasl.mechanism` SCRAM-SHA-512",
    );
    let name = ("sasl.username", "bob");
    the_advice_is(
        &[protocol, ("sasl.mechanism", "PLAIN"), name],
        "error: `sasl.password` is required with `sasl.mechanism` PLAIN",
    );
}

#[test]
fn a_token_file_is_for_tokens() {
    let file = ("sasl.oauthbearer.token.endpoint.url", "file:/run/token");
    let name = [("sasl.username", "bob"), ("sasl.password", "hunter2")];
    let with = |protocol, mechanism| {
        let spoken = [
            ("security.protocol", protocol),
            ("sasl.mechanism", mechanism),
        ];
        Config::from_pairs([file].into_iter().chain(spoken).chain(name)).unwrap()
    };
    assert_eq!(with("SASL_SSL", "OAUTHBEARER").lint(), []);
    let [found] = &with("SASL_SSL", "PLAIN").lint()[..] else {
        panic!("one finding");
    };
    assert!(
        found.message.contains("`sasl.mechanism=OAUTHBEARER` works"),
        "{found}"
    );
    assert!(finding(&[file]).contains("`security.protocol` is PLAINTEXT, which does not use it"));
}

#[test]
fn what_is_set_up_and_not_spoken_is_an_error() {
    the_advice_works(&[("ssl.truststore.location", "/ca.pem")]);
    let sasl = finding(&[("sasl.password", "hunter2")]);
    assert!(
        sasl.starts_with("error: `sasl.password` is set, but `security.protocol` is PLAINTEXT")
    );
    assert!(!sasl.contains("hunter2"));
}

/// wire.md S8
#[test]
fn plain_needs_tls_or_a_word_for_it() {
    let plain = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "bob"),
        ("sasl.password", "hunter2"),
    ];
    let findings = Config::from_pairs(plain).unwrap().lint();
    let severities: Vec<_> = findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning]);
    assert!(
        findings[0]
            .message
            .contains("anybody on the way could read the password")
    );
    let allowed = plain
        .into_iter()
        .chain([("wire.sasl.plain.allow.cleartext", "true")]);
    let findings = Config::from_pairs(allowed).unwrap().lint();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].severity, Severity::Warning);
    let within_tls = plain.into_iter().chain([("security.protocol", "SASL_SSL")]);
    assert!(Config::from_pairs(within_tls).unwrap().lint().is_empty());
}

/// wire.md T1
#[test]
fn a_name_that_is_not_checked_is_warned_about() {
    the_advice_works(&[
        ("security.protocol", "SSL"),
        ("ssl.endpoint.identification.algorithm", ""),
    ]);
}

#[test]
fn keys_and_trust_come_whole_and_from_one_place() {
    let ssl = ("security.protocol", "SSL");
    let key = ("ssl.keystore.key", "PEM");
    let chain = ("ssl.keystore.certificate.chain", "PEM");
    assert!(finding(&[ssl, key]).contains("needs `ssl.keystore.certificate.chain` beside it"));
    assert!(finding(&[ssl, chain]).contains("needs `ssl.keystore.key` beside it"));
    let file = ("ssl.keystore.location", "/key.pem");
    assert!(finding(&[ssl, key, chain, file]).contains("leave one out"));
    let trust = ("ssl.truststore.location", "/ca.pem");
    assert!(finding(&[ssl, trust, ("ssl.truststore.certificates", "PEM")]).contains("both set"));
}

#[test]
fn bounds_that_cannot_be_met_are_told() {
    the_advice_works(&[("wire.scram.iterations.max", "4095")]);
    the_advice_works(&[("ssl.enabled.protocols", "")]);
}

fn the_advice_is(pairs: &[(&str, &str)], text: &str) {
    let findings = Config::from_pairs(pairs.iter().copied()).unwrap().lint();
    assert!(
        findings.iter().any(|finding| finding.to_string() == text),
        "{findings:?}"
    );
}

#[test]
fn names_that_no_request_can_carry_are_refused_by_their_length() {
    for (key, most) in [
        ("client.id", 32_767),
        ("client.rack", 255),
        ("group.instance.id", 249),
    ] {
        let lint = |bytes: usize| {
            let pairs = [(key, "x".repeat(bytes))];
            let pairs = pairs.iter().map(|(key, value)| (*key, value.as_str()));
            Config::from_pairs(pairs).unwrap().lint()
        };
        let blamed = |bytes| lint(bytes).iter().any(|it| it.message.contains("the most"));
        assert!(!blamed(most), "{key}");
        assert!(blamed(most + 1), "{key}");
    }
}
