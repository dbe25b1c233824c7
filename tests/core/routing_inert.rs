//! A client without a rack, in a healthy cluster, is a leader-only reader: routing.md I19.

use std::time::Duration;

use nearside::embedded::{Api, Seen};
use nearside::ids::BrokerId;
use nearside::routing::{FollowHints, RefugePolicy, Settings};

use crate::rig::{Rig, partition};

const BROKERS: [i32; 3] = [1, 2, 3];

/// Everything the brokers received in ten busy and idle minutes with one leader move.
fn conversation(client: impl FnOnce(&mut Settings)) -> Vec<Seen> {
    let mut rig = Rig::with(client, |_| {});
    rig.preload(1_000);
    rig.assign();
    rig.run_busy(Duration::from_secs(120), Duration::from_millis(700));
    rig.cluster()
        .move_leader(&partition(), BrokerId(3))
        .unwrap();
    rig.run_busy(Duration::from_secs(120), Duration::from_millis(700));
    rig.run_for(Duration::from_secs(360));
    let others = [Api::Metadata, Api::ListOffsets, Api::OffsetForLeaderEpoch];
    let fetches = BROKERS.map(|broker| [rig.reading(broker), rig.probed(broker)].concat());
    let others = others.map(|api| rig.seen(api));
    fetches.into_iter().chain(others).flatten().collect()
}

/// routing.md 17, I19
#[test]
fn without_a_rack_the_wire_is_that_of_a_leader_only_reader() {
    let by_default = conversation(|client| client.client_rack = None);
    let leader_only = conversation(|client| {
        client.client_rack = None;
        client.follow_hints = FollowHints::Never;
        client.refuge = RefugePolicy::Never;
    });
    assert!(by_default.len() > 1_000, "the cluster was read");
    assert_eq!(by_default, leader_only);
    let racks = by_default.iter().filter_map(|seen| seen.fetch.as_ref());
    assert!(racks.map(|fetch| &fetch.rack).all(Option::is_none));
}

/// The comparison above can fail: a rack of our own shows on the wire.
#[test]
fn with_a_rack_the_wire_is_another() {
    let with_rack = conversation(|_| {});
    let without = conversation(|client| client.client_rack = None);
    assert_ne!(with_rack, without);
}
