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
        &[("wire.batch.policy", "dead_letter_raw")],
        &[("receive.message.max.bytes", "17825791")],
        &[("delivery.timeout.ms", "30004")],
        &[("wire.budget.inflate.share", "0.95")],
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
