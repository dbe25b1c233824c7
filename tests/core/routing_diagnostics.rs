//! What is wrong with a set-up as a whole: routing.md S40.

use std::collections::BTreeMap;
use std::time::Duration;

use nearside::embedded::BrokerSettings;
use nearside::ids::BrokerId;
use nearside::routing::broker::Traffic;
use nearside::routing::diagnostics::{Diagnostic, Diagnostics, Output};

use crate::rig::Rig;

/// A client in `rack` of a cluster whose brokers are in three availability zone ids.
fn rig(rack: &'static str) -> Rig {
    let zones = [(1, "use1-az1"), (2, "use1-az2"), (3, "use1-az3")];
    Rig::with(
        |client| client.client_rack = Some(rack.into()),
        |cluster| {
            cluster.brokers = zones.map(|(id, rack)| BrokerSettings::new(id, rack)).into();
        },
    )
}

/// Reads for 90 s with a look every 5 s; what was raised and cleared, and after how long.
fn watch(rig: &mut Rig, rack: &str) -> Vec<(Duration, Output)> {
    let mut machine = Diagnostics::new(Some(rack.into()));
    rig.preload(500);
    rig.assign();
    let start = rig.now;
    let mut told = Vec::new();
    for _ in 0..18 {
        rig.preload(20);
        rig.run_for(Duration::from_secs(5));
        machine.handle(&rig.facts(), rig.now);
        let at = rig.now.since(start);
        told.extend(std::iter::from_fn(|| machine.poll_output()).map(|output| (at, output)));
    }
    told
}

/// routing.md S40
#[test]
fn a_rack_that_no_broker_has_is_told_and_every_byte_is_accounted_for() {
    let mut rig = rig("us-east-1b");
    let told = watch(&mut rig, "us-east-1b");
    let [(at, absent), (later, none)] = told.as_slice() else {
        panic!("{told:?}");
    };
    let racks = ["use1-az1", "use1-az2", "use1-az3"].map(Into::into).into();
    let rack = || "us-east-1b".into();
    assert_eq!(
        *absent,
        Output::Raised(Diagnostic::RackAbsent {
            rack: rack(),
            racks
        })
    );
    assert_eq!(*at, Duration::from_secs(5), "with the first look");
    let Output::Raised(Diagnostic::NoSameZone { cross, .. }) = none else {
        panic!("{none:?}");
    };
    assert_eq!(
        *later,
        Duration::from_secs(65),
        "60 s after the first bytes were seen"
    );
    assert!(*cross > 0);

    let facts = rig.facts();
    let sent: u64 = (1..=3)
        .map(|id| rig.cluster().record_bytes(BrokerId(id)))
        .sum();
    assert!(sent > 0);
    assert_eq!(facts.received.sum(), sent);
    assert_eq!(facts.received.cross, sent, "no zone is ours");
    let mut lanes: BTreeMap<Traffic, u64> = BTreeMap::new();
    for (_, traffic, bytes) in rig.received() {
        *lanes.entry(traffic).or_default() += bytes;
    }
    assert_eq!(lanes.values().sum::<u64>(), sent);
}

#[test]
fn a_rack_that_brokers_have_raises_nothing() {
    let mut rig = rig("use1-az2");
    assert_eq!(watch(&mut rig, "use1-az2"), []);
    assert!(rig.facts().received.same > 0);
}
