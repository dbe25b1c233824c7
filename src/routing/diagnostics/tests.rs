//! Every line of the table of routing.md 18, raised, not repeated, and cleared.

use std::time::Duration;

use super::*;
use crate::ids::TopicPartition;

/// A fleet in rack b of a cluster with brokers 1, 2, 3 in these racks.
struct Bench {
    machine: Diagnostics,
    facts: Facts,
    now: Moment,
}

impl Bench {
    fn new(rack: Option<&str>, racks: [Option<&str>; 3]) -> Self {
        let seen = |rack: Option<&str>| BrokerSeen {
            rack: rack.map(Rack::from),
            fetch_version: Some(17),
            ..BrokerSeen::default()
        };
        let brokers = (1..).map(BrokerId).zip(racks.map(seen)).collect();
        Self {
            machine: Diagnostics::new(rack.map(Rack::from)),
            facts: Facts {
                brokers,
                partitions: 10,
                ..Facts::default()
            },
            now: Moment::from_ms(3_600_000),
        }
    }

    fn abc() -> Self {
        Self::new(Some("b"), [Some("a"), Some("b"), Some("c")])
    }

    /// Judges now; names of what was raised, and with a minus of what was cleared.
    fn judge(&mut self) -> Vec<String> {
        self.machine.handle(&self.facts, self.now);
        std::iter::from_fn(|| self.machine.poll_output())
            .map(|output| match output {
                Output::Raised(diagnostic) => diagnostic.name().to_owned(),
                Output::Cleared(name) => format!("-{name}"),
            })
            .collect()
    }

    fn after(&mut self, seconds: u64) -> Vec<String> {
        self.now = self.now + Duration::from_secs(seconds);
        self.judge()
    }

    fn broker(&mut self, id: i32) -> &mut BrokerSeen {
        self.facts.brokers.get_mut(&BrokerId(id)).unwrap()
    }
}

#[test]
fn a_healthy_set_up_raises_nothing() {
    let mut bench = Bench::abc();
    for _ in 0..100 {
        bench.facts.received.same += 10;
        bench.facts.read.same += 10;
        assert_eq!(bench.after(10), [""; 0]);
    }
}

#[test]
fn a_rack_nobody_has_is_told_once_with_the_racks_there_are() {
    let mut bench = Bench::new(
        Some("us-east-1b"),
        [Some("use1-az1"), Some("use1-az2"), None],
    );
    bench.machine.handle(&bench.facts, bench.now);
    let Some(Output::Raised(absent)) = bench.machine.poll_output() else {
        panic!("nothing raised");
    };
    let text = absent.to_string();
    assert!(
        text.contains("`us-east-1b`") && text.contains("use1-az1, use1-az2"),
        "{text}"
    );
    assert_eq!(bench.judge(), ["racks_missing"], "both in one go");
    assert_eq!(bench.machine.raised().count(), 2);
    bench.broker(2).rack = Some("us-east-1b".into());
    assert_eq!(bench.after(10), ["-rack_absent"]);
    // Later it is a broker that restarts, and no news.
    bench.broker(2).rack = Some("use1-az2".into());
    assert_eq!(bench.after(10), [""; 0]);
}

#[test]
fn nothing_is_said_of_racks_before_the_first_snapshot_or_without_one_of_our_own() {
    let mut early = Bench::abc();
    let brokers = std::mem::take(&mut early.facts.brokers);
    assert_eq!(early.judge(), [""; 0]);
    early.facts.brokers = brokers;
    early.broker(1).rack = None;
    assert_eq!(early.judge(), ["racks_missing"]);
    let mut inert = Bench::new(None, [None, Some("b"), None]);
    inert.broker(1).fetch_version = Some(10);
    inert.facts.received.unknown = 1;
    assert_eq!(inert.judge(), [""; 0]);
    assert_eq!(inert.after(600), [""; 0]);
}

#[test]
fn old_brokers_and_lanes_are_listed_and_taken_back() {
    let mut bench = Bench::abc();
    bench.broker(1).fetch_version = Some(10);
    bench.broker(3).v10 = true;
    assert_eq!(bench.judge(), ["fetch_below_v11", "lane_v10"]);
    bench.broker(2).v10_unavailable = true;
    bench.broker(2).fetch_version = Some(10);
    assert_eq!(bench.judge(), ["lane_v10_unavailable"]);
    let old = Diagnostic::FetchBelowV11 {
        brokers: vec![BrokerId(1), BrokerId(2)],
    };
    assert!(bench.machine.raised().any(|raised| *raised == old));
    for id in 1..=3 {
        *bench.broker(id) = BrokerSeen {
            rack: bench.broker(id).rack.clone(),
            ..BrokerSeen::default()
        };
    }
    let cleared = ["-fetch_below_v11", "-lane_v10", "-lane_v10_unavailable"];
    assert_eq!(bench.judge(), cleared);
}

#[test]
fn bytes_across_zones_past_a_replica_of_ours_mean_no_hints() {
    let mut bench = Bench::abc();
    bench.facts.replica_passed_over = true;
    bench.facts.received.same = 1;
    for _ in 0..6 {
        assert_eq!(bench.after(10), [""; 0]);
        bench.facts.read.cross += 100;
        bench.facts.received.cross += 100;
    }
    assert_eq!(bench.after(10), ["no_hints"]);
    bench.facts.read.cross += 100;
    assert_eq!(bench.after(10), [""; 0]);
    bench.facts.hints = 1;
    assert_eq!(bench.after(10), ["-no_hints"]);
}

#[test]
fn an_idle_minute_past_a_replica_of_ours_means_nothing() {
    let mut bench = Bench::abc();
    bench.facts.replica_passed_over = true;
    bench.facts.read.cross = 7;
    assert_eq!(bench.judge(), [""; 0]);
    assert_eq!(bench.after(600), [""; 0]);
}

#[test]
fn a_minute_without_a_byte_from_our_zone_is_told_until_one_comes() {
    let mut bench = Bench::abc();
    assert_eq!(bench.after(600), [""; 0]);
    bench.facts.received.cross = 100;
    assert_eq!(bench.judge(), [""; 0]);
    assert_eq!(bench.after(59), [""; 0]);
    assert_eq!(bench.after(1), ["no_same_zone"]);
    bench.facts.received.same = 1;
    assert_eq!(bench.after(1), ["-no_same_zone"]);
}

#[test]
fn hints_that_come_without_a_rack_are_told() {
    let mut bench = Bench::new(None, [None; 3]);
    assert_eq!(bench.judge(), [""; 0]);
    bench.facts.hints = 3;
    assert_eq!(bench.judge(), ["hints_without_rack"]);
    bench.facts.hints = 4;
    assert_eq!(bench.judge(), [""; 0]);
}

#[test]
fn partitions_out_of_reach_are_named_until_they_are_read_again() {
    let mut bench = Bench::new(None, [None; 3]);
    bench.facts.unreachable = vec![TopicPartition::new("orders", 4)];
    assert_eq!(bench.judge(), [""; 0], "it may be connecting");
    assert_eq!(bench.judge(), ["leader_unreachable"]);
    let text = bench.machine.raised().next().unwrap().to_string();
    assert!(text.ends_with("orders-4"), "{text}");
    bench.facts.unreachable.clear();
    assert_eq!(bench.judge(), ["-leader_unreachable"]);
}

#[test]
fn most_partitions_outside_the_isr_for_five_minutes_mean_synthetic_lists() {
    let mut bench = Bench::abc();
    bench.facts.not_in_isr = 6;
    assert_eq!(bench.judge(), [""; 0]);
    bench.facts.not_in_isr = 5;
    assert_eq!(bench.after(299), [""; 0]);
    bench.facts.not_in_isr = 6;
    assert_eq!(bench.after(10), [""; 0]);
    assert_eq!(bench.after(300), ["isr_synthetic"]);
    bench.facts.not_in_isr = 0;
    assert_eq!(bench.after(10), ["-isr_synthetic"]);
}
