//! Fetch sessions (KIP-227; metadata.md 12).

use kafka_protocol::messages::FetchResponse;

use super::client::{Fetch, Rig, t0};
use crate::embedded::{Record, Settings};
use crate::ids::BrokerId;

fn open(rig: &mut Rig, broker: i32) -> (crate::embedded::ConnectionId, i32) {
    let connection = rig.connect(broker);
    rig.send_fetch(
        connection,
        &Fetch {
            session: (0, 0),
            wait_ms: 0,
            ..Fetch::default()
        },
    );
    let response: FetchResponse = rig.answer(connection, 17).unwrap();
    assert_eq!(response.responses.len(), 1);
    (connection, response.session_id)
}

/// routing.md F13.
#[test]
fn an_incremental_answer_leaves_unchanged_rows_out() {
    let mut rig = Rig::new();
    let (connection, id) = open(&mut rig, 1);
    assert!(id > 0);
    rig.send_fetch(
        connection,
        &Fetch {
            session: (id, 1),
            offset: 10,
            ..Fetch::default()
        },
    );
    rig.run_for(500);
    let idle: FetchResponse = rig.answer(connection, 17).unwrap();
    assert_eq!((idle.session_id, idle.responses.len()), (id, 0));
    let empty = Fetch {
        session: (id, 2),
        ..Fetch::default()
    }
    .empty();
    rig.send(connection, 17, &empty);
    rig.cluster.produce(&t0(), &[Record::of("new")]).unwrap();
    rig.run_for(5);
    let news: FetchResponse = rig.answer(connection, 17).unwrap();
    assert_eq!(news.responses[0].partitions[0].high_watermark, 11);
}

#[test]
fn a_hint_is_repeated_in_every_incremental_answer() {
    let mut rig = Rig::new();
    let connection = rig.connect(1);
    let fetch = Fetch {
        session: (0, 0),
        rack: "b",
        ..Fetch::default()
    };
    rig.send_fetch(connection, &fetch);
    let first: FetchResponse = rig.answer(connection, 17).unwrap();
    let again = Fetch {
        session: (first.session_id, 1),
        ..fetch
    }
    .empty();
    let second = rig.call(connection, 17, &again);
    assert_eq!(
        second.responses[0].partitions[0].preferred_read_replica.0,
        2
    );
}

#[test]
fn unknown_ids_and_wrong_epochs_are_refused() {
    let mut rig = Rig::new();
    let (connection, id) = open(&mut rig, 1);
    let wrong = Fetch {
        session: (id, 5),
        ..Fetch::default()
    }
    .empty();
    assert_eq!(rig.call(connection, 17, &wrong).error_code, 71);
    rig.cluster.evict_sessions(BrokerId(1));
    let gone = Fetch {
        session: (id, 1),
        ..Fetch::default()
    }
    .empty();
    assert_eq!(rig.call(connection, 17, &gone).error_code, 70);
}

#[test]
fn a_session_made_with_ids_does_not_go_on_by_name() {
    let mut rig = Rig::new();
    let (connection, id) = open(&mut rig, 1);
    let by_name = Fetch {
        version: 12,
        session: (id, 1),
        ..Fetch::default()
    };
    let request = by_name.request(rig.topic_id());
    assert_eq!(rig.call(connection, 12, &request).error_code, 106);
}

#[test]
fn without_a_slot_the_answer_carries_no_session() {
    let mut rig = Rig::of(Settings {
        fetch_session_slots: 1,
        ..Settings::default()
    });
    rig.cluster.create_topic("t", 1, 3).unwrap();
    let fetch = Fetch {
        epoch: 0,
        session: (0, 0),
        wait_ms: 0,
        ..Fetch::default()
    };
    let request = fetch.request(rig.topic_id());
    let connection = rig.connect(1);
    assert!(rig.call(connection, 17, &request).session_id > 0);
    assert_eq!(rig.call(connection, 17, &request).session_id, 0);
    // A session idle for more than two minutes gives its slot away.
    rig.run_for(121_000);
    assert!(rig.call(connection, 17, &request).session_id > 0);
}

#[test]
fn forgetting_the_last_partition_ends_the_session() {
    let mut rig = Rig::new();
    let (connection, id) = open(&mut rig, 1);
    let gone = kafka_protocol::messages::fetch_request::ForgottenTopic::default()
        .with_topic_id(rig.topic_id())
        .with_partitions(vec![0]);
    let fetch = Fetch {
        session: (id, 1),
        ..Fetch::default()
    };
    let request = fetch.empty().with_forgotten_topics_data(vec![gone]);
    assert_eq!(rig.call(connection, 17, &request).session_id, 0);
    let next = Fetch {
        session: (id, 2),
        ..Fetch::default()
    }
    .empty();
    assert_eq!(rig.call(connection, 17, &next).error_code, 70);
}

#[test]
fn the_good_bye_frees_the_slot() {
    let mut rig = Rig::new();
    let (connection, id) = open(&mut rig, 1);
    let bye = Fetch {
        session: (id, -1),
        ..Fetch::default()
    }
    .empty();
    assert_eq!(rig.call(connection, 17, &bye).session_id, 0);
    let next = Fetch {
        session: (id, 1),
        ..Fetch::default()
    }
    .empty();
    assert_eq!(rig.call(connection, 17, &next).error_code, 70);
}
