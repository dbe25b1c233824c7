//! The fault plan, ApiVersions and version limits.

use std::time::Duration;

use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FetchResponse, FindCoordinatorRequest, MetadataRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::client::{Fetch, Rig, t0};
use crate::embedded::{Api, Effect, MetadataEdit, RowEdit, Rule};
use crate::ids::BrokerId;

#[test]
fn a_counted_row_error_spends_itself() {
    let mut rig = Rig::new();
    rig.cluster
        .inject(Rule::error(9).on(Api::Fetch).at(2).of(t0()).times(2));
    for code in [9, 9, 0] {
        let row = rig.fetch(2, &Fetch::default());
        assert_eq!(row.error_code, code);
        assert_eq!(row.high_watermark, if code == 0 { 10 } else { -1 });
    }
    assert_eq!(rig.fetch(1, &Fetch::default()).error_code, 0);
}

#[test]
fn a_parked_fetch_does_not_spend_a_rule_it_did_not_use() {
    let mut rig = Rig::new();
    let edit = RowEdit {
        high_watermark: Some(77),
        ..RowEdit::default()
    };
    rig.cluster.inject(Rule::row(edit).times(1));
    let connection = rig.connect(1);
    rig.send_fetch(
        connection,
        &Fetch {
            offset: 10,
            ..Fetch::default()
        },
    );
    rig.run_for(500);
    assert_eq!(rig.row(connection, 17).unwrap().high_watermark, 77);
    assert_eq!(rig.fetch(1, &Fetch::default()).high_watermark, 10);
}

#[test]
fn a_closure_decides_row_by_row() {
    let mut rig = Rig::new();
    rig.cluster.inject(Rule::rows_by(|facts| {
        let hint = (facts.leader && facts.rack.is_none()).then_some(Some(BrokerId(9)));
        hint.map(|hint| RowEdit {
            hint: Some(hint),
            ..RowEdit::default()
        })
    }));
    let row = rig.fetch(1, &Fetch::default());
    assert_eq!(row.preferred_read_replica.0, 9);
    assert!(
        row.records.is_some_and(|records| !records.is_empty()),
        "records come along"
    );
    assert_eq!(rig.fetch(2, &Fetch::default()).preferred_read_replica.0, -1);
}

#[test]
fn a_corrupted_row_differs_in_one_bit() {
    let mut rig = Rig::new();
    let good = rig.fetch(2, &Fetch::default()).records.unwrap();
    rig.cluster.inject(
        Rule::row(RowEdit {
            corrupt: true,
            ..RowEdit::default()
        })
        .at(2),
    );
    let bad = rig.fetch(2, &Fetch::default()).records.unwrap();
    let ones: u32 = good
        .iter()
        .zip(&bad)
        .map(|(a, b)| (a ^ b).count_ones())
        .sum();
    assert_eq!((good.len(), ones), (bad.len(), 1));
}

/// KIP-219.
#[test]
fn a_throttled_fetch_is_empty_and_mutes_the_connection() {
    let mut rig = Rig::new();
    let throttle = Effect::Throttle(Duration::from_millis(300));
    rig.cluster
        .inject(Rule::new(throttle).on(Api::Fetch).times(1));
    let connection = rig.connect(1);
    rig.send_fetch(connection, &Fetch::default());
    let empty: FetchResponse = rig.answer(connection, 17).unwrap();
    assert_eq!((empty.throttle_time_ms, empty.responses.len()), (300, 0));
    rig.send_fetch(connection, &Fetch::default());
    rig.run_for(299);
    assert!(rig.row(connection, 17).is_none());
    rig.run_for(1);
    assert!(rig.row(connection, 17).is_some());
}

#[test]
fn a_swallowed_request_blocks_its_connection_and_no_other() {
    let mut rig = Rig::new();
    let swallow = Rule::new(Effect::Swallow).on(Api::Fetch).with_rack(true);
    let rule = rig.cluster.inject(swallow);
    let stuck = rig.connect(1);
    rig.send_fetch(
        stuck,
        &Fetch {
            rack: "b",
            ..Fetch::default()
        },
    );
    rig.send_fetch(stuck, &Fetch::default());
    rig.run_for(10_000);
    assert!(rig.row(stuck, 17).is_none());
    assert_eq!(rig.fetch(1, &Fetch::default()).error_code, 0);
    assert!(rig.cluster.withdraw(rule));
    assert_eq!(
        rig.fetch(
            1,
            &Fetch {
                rack: "b",
                ..Fetch::default()
            }
        )
        .preferred_read_replica
        .0,
        2
    );
}

#[test]
fn metadata_can_be_bent_per_partition() {
    let mut rig = Rig::new();
    let isr = Some(vec![BrokerId(1), BrokerId(3)]);
    let edit = MetadataEdit {
        isr,
        hide_brokers: vec![BrokerId(3)],
        ..MetadataEdit::default()
    };
    rig.cluster.inject(Rule::metadata(edit).of(t0()).times(1));
    let connection = rig.connect(1);
    let all = MetadataRequest::default().with_topics(None);
    let bent = rig.call(connection, 12, &all);
    let ids: Vec<i32> = bent.topics[0].partitions[0]
        .isr_nodes
        .iter()
        .map(|id| id.0)
        .collect();
    assert_eq!((ids, bent.brokers.len()), (vec![1, 3], 2));
    let straight = rig.call(connection, 12, &all);
    assert_eq!(straight.topics[0].partitions[0].isr_nodes.len(), 3);
}

#[test]
fn a_denied_group_is_denied_from_the_first_lookup() {
    let mut rig = Rig::new();
    rig.cluster.deny_group("secret");
    let connection = rig.connect(1);
    let keys = ["secret", "open"].map(StrBytes::from_static_str).to_vec();
    let request = FindCoordinatorRequest::default().with_coordinator_keys(keys);
    let response = rig.call(connection, 4, &request);
    let codes: Vec<i16> = response
        .coordinators
        .iter()
        .map(|row| row.error_code)
        .collect();
    assert_eq!(codes, [30, 0]);
}

/// KIP-511.
#[test]
fn an_unknown_version_of_api_versions_gets_a_table_framed_as_version_0() {
    let mut rig = Rig::new();
    let connection = rig.connect(1);
    let frame = bytes::Bytes::from_static(&[0, 18, 0, 99, 0, 0, 0, 7, 0, 0, 0]);
    rig.cluster.deliver(connection, frame, rig.now);
    rig.drain();
    let response: ApiVersionsResponse = rig.answer(connection, 0).unwrap();
    assert_eq!(response.error_code, 35);
    let own = response
        .api_keys
        .iter()
        .find(|row| row.api_key == 18)
        .unwrap();
    assert_eq!((own.min_version, own.max_version), (0, 4));
}

#[test]
fn an_old_broker_advertises_and_serves_its_own_versions() {
    let mut rig = Rig::new();
    rig.cluster.limit_versions(BrokerId(2), Api::Fetch, 4..=10);
    let connection = rig.connect(2);
    let request = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("rig"))
        .with_client_software_version(StrBytes::from_static_str("1"));
    let response = rig.call(connection, 3, &request);
    let fetch = response
        .api_keys
        .iter()
        .find(|row| row.api_key == 1)
        .unwrap();
    assert_eq!(fetch.max_version, 10);
    rig.send_fetch(connection, &Fetch::default());
    assert_eq!(rig.closed, [connection]);
}

#[test]
fn nonsense_closes_the_connection() {
    let mut rig = Rig::new();
    for frame in [
        &[0_u8, 1, 0][..],
        &[0, 99, 0, 0, 0, 0, 0, 1, 255, 255],
        &[0, 1, 0, 4, 0, 0, 0, 1],
    ] {
        let connection = rig.connect(1);
        rig.cluster
            .deliver(connection, bytes::Bytes::copy_from_slice(frame), rig.now);
        rig.drain();
        assert_eq!(rig.closed.pop(), Some(connection));
    }
}
