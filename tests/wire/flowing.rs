//! A ready connection: order, limits per class, throttles, draining, idleness.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use nearside::wire::{
    ApiKey, Class, DrainReason, Event, Input, Outcome, Output, RequestFailure, Settings, StateName,
    Tier,
};

use crate::asking::{fetch, request};
use crate::rig::Rig;
use crate::samples;

fn heartbeat_answer(throttle_ms: i32) -> Bytes {
    let mut body = BytesMut::new();
    body.put_i32(throttle_ms);
    body.put_slice(&[0, 0, 0]);
    body.freeze()
}

fn fill(class: Class, api: ApiKey, count: u64) -> Rig {
    let mut rig = Rig::proven(class);
    (1..=count).for_each(|token| rig.request(token, request(api)));
    rig
}

#[test]
fn each_class_has_its_number_of_requests_in_flight() {
    let classes = [
        (Class::Control, ApiKey::Metadata, 16),
        (Class::FetchRack, ApiKey::Fetch, 1),
        (Class::FetchNoRack, ApiKey::Fetch, 1),
        (Class::Produce, ApiKey::Produce, 5),
        (Class::Coordinator, ApiKey::OffsetCommit, 8),
    ];
    for (class, api, limit) in classes {
        let mut rig = fill(class, api, 20);
        assert_eq!(rig.asks.len(), limit, "{class}");
        let first = rig.ask();
        rig.answer_sample(&first);
        assert_eq!(
            rig.asks.len(),
            limit,
            "{class}: one answer lets one request follow"
        );
    }
}

#[test]
fn correlation_ids_count_up_and_answers_complete_in_order() {
    let mut rig = fill(Class::Control, ApiKey::Metadata, 3);
    let asks: Vec<_> = rig.asks.drain(..).collect();
    let ids: Vec<_> = asks
        .iter()
        .map(|ask| ask.correlation - asks[0].correlation)
        .collect();
    assert_eq!(ids, [0, 1, 2]);
    asks.iter().for_each(|ask| rig.answer_sample(ask));
    assert_eq!(rig.ends(), [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
}

#[test]
fn fetch_answers_fall_under_their_own_cap() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(1, fetch(None).into());
    rig.request(2, request(ApiKey::Metadata));
    let tiers: Vec<_> = rig.asks.iter().map(|ask| ask.tier).collect();
    assert_eq!(tiers, [Tier::Fetch, Tier::Other]);
    assert_eq!(rig.asks[0].version, 12);
}

#[test]
fn nothing_follows_a_join_until_it_is_answered() {
    for api in [ApiKey::JoinGroup, ApiKey::SyncGroup] {
        let mut rig = Rig::proven(Class::Coordinator);
        rig.request(1, request(ApiKey::OffsetCommit));
        rig.request(2, request(api));
        rig.request(3, request(ApiKey::Heartbeat));
        let written: Vec<_> = rig.asks.iter().map(|ask| ask.api).collect();
        assert_eq!(written, [ApiKey::OffsetCommit, api]);
        let (commit, join) = (rig.ask(), rig.ask());
        rig.answer_sample(&commit);
        assert!(rig.asks.is_empty());
        rig.answer_sample(&join);
        assert_eq!(rig.ask().api, ApiKey::Heartbeat);
    }
}

#[test]
fn the_queue_is_bounded_and_the_rest_is_refused_unwritten() {
    let mut rig = Rig::new(Class::Control, Settings::default());
    (0..65).for_each(|token| rig.request(token, request(ApiKey::Metadata)));
    assert_eq!(rig.connection.queued(), 64);
    let busy = Err((Outcome::NotWritten, RequestFailure::Busy));
    assert_eq!(rig.ends(), [(64, busy)]);
}

#[test]
fn a_round_trip_is_measured_from_the_completed_write() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(1, request(ApiKey::Metadata));
    let ask = rig.ask();
    rig.advance_ms(40);
    rig.feed(Input::Written {
        socket: ask.socket,
        bytes: 1_000_000,
    });
    rig.advance_ms(3);
    rig.answer_sample(&ask);
    assert_eq!(
        rig.completions[0].round_trip,
        Some(Duration::from_millis(3))
    );
}

/// wire.md A18
#[test]
fn a_throttle_mutes_data_and_control_and_is_passed_on() {
    let mut rig = Rig::ready(Class::FetchRack);
    let ask = rig.ask();
    rig.answer(&ask, &heartbeat_answer(2_000));
    let until = rig.now + Duration::from_secs(2);
    assert_eq!(rig.others, [Output::Throttled { until }]);
    rig.request(1, request(ApiKey::Fetch));
    rig.advance_ms(1_999);
    assert!(rig.asks.is_empty());
    rig.advance_ms(1);
    assert_eq!(rig.ask().api, ApiKey::Fetch);

    let mut control = fill(Class::Control, ApiKey::Metadata, 0);
    control.feed(Input::Mute {
        until: control.now + Duration::from_secs(2),
    });
    control.request(1, request(ApiKey::Metadata));
    assert!(control.asks.is_empty());
    control.advance_ms(2_000);
    assert_eq!(control.asks.len(), 1);
}

/// wire.md A18
#[test]
fn heartbeats_do_not_wait_for_a_throttle_of_the_data_connections() {
    let mut rig = Rig::proven(Class::Coordinator);
    rig.feed(Input::Mute {
        until: rig.now + Duration::from_secs(2),
    });
    rig.request(1, request(ApiKey::Heartbeat));
    let ask = rig.ask();
    rig.answer(&ask, &heartbeat_answer(2_000));
    assert!(
        rig.others.is_empty(),
        "a coordinator's throttle stays its own"
    );
    rig.request(2, request(ApiKey::Heartbeat));
    assert!(rig.asks.is_empty());
    rig.advance_ms(2_000);
    assert_eq!(rig.asks.len(), 1);
}

/// wire.md A18
#[test]
fn a_throttle_of_24_days_is_cut_at_a_minute() {
    let mut rig = Rig::ready(Class::Control);
    let ask = rig.ask();
    rig.answer(&ask, &heartbeat_answer(i32::MAX));
    assert_eq!(
        rig.others,
        [Output::Throttled {
            until: rig.now + Duration::from_secs(60)
        }]
    );
    assert!(
        rig.events
            .iter()
            .any(|event| matches!(event, Event::ThrottleCut { .. }))
    );
    let time = Duration::from_secs(60);
    assert!(rig.events.contains(&Event::Throttled { time }));
    rig.request(1, request(ApiKey::Metadata));
    rig.advance_ms(59_999);
    assert!(rig.asks.is_empty());
    rig.advance_ms(1);
    let ask = rig.ask();
    rig.answer_sample(&ask);
    assert_eq!(rig.ends().last(), Some(&(1, Ok(()))));
}

#[test]
fn a_mute_gives_waiting_requests_that_much_more_time() {
    let mut rig = fill(Class::Control, ApiKey::Metadata, 1);
    rig.request(2, request(ApiKey::Metadata));
    rig.advance_ms(10_000);
    rig.feed(Input::Mute {
        until: rig.now + Duration::from_secs(5),
    });
    rig.request(3, request(ApiKey::Metadata));
    rig.advance_ms(24_999);
    assert!(rig.completions.is_empty());
    rig.advance_ms(1);
    let late = Err((Outcome::Unknown, RequestFailure::TimedOut));
    let lost = Err((Outcome::Unknown, RequestFailure::Disconnected));
    assert_eq!(rig.ends(), [(1, late.clone()), (2, late), (3, lost)]);
}

#[test]
fn an_idle_connection_closes_and_the_next_request_dials_again() {
    let mut rig = Rig::proven(Class::Control);
    rig.advance_ms(239_999);
    assert_eq!(rig.connection.state(), StateName::Ready);
    rig.advance_ms(1);
    assert_eq!(rig.connection.state(), StateName::Idle);
    assert!(!rig.events.last().unwrap().is_loss());
    assert_eq!(rig.closed.len(), 1);
    assert_eq!(rig.connection.next_deadline(), None);
    rig.request(1, request(ApiKey::Metadata));
    rig.set_up();
    assert_eq!(rig.ask().api, ApiKey::Metadata);
}

#[test]
fn a_draining_connection_answers_what_is_in_flight_and_refuses_the_rest() {
    let mut rig = fill(Class::Produce, ApiKey::Produce, 6);
    rig.feed(Input::Drain(DrainReason::AddressChanged));
    rig.request(7, request(ApiKey::Produce));
    let moved = Err((
        Outcome::NotWritten,
        RequestFailure::Moved(DrainReason::AddressChanged),
    ));
    assert_eq!(rig.ends(), [(6, moved.clone()), (7, moved)]);
    let asks: Vec<_> = rig.asks.drain(..).collect();
    asks.iter().for_each(|ask| rig.answer_sample(ask));
    assert_eq!(rig.connection.state(), StateName::Closed);
    assert_eq!(rig.ends().len(), 7);
    assert!(rig.ends()[2..].iter().all(|(_, end)| end.is_ok()));
    assert_eq!(rig.connection.next_deadline(), None);
}

#[test]
fn what_a_leaving_connection_never_wrote_is_refused_once_its_socket_is_gone() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(1, request(ApiKey::Metadata));
    let ask = rig.ask();
    rig.feed(Input::Drain(DrainReason::AddressChanged));
    rig.lose(ask.socket, ask.start);
    assert_eq!(rig.connection.state(), StateName::Closed);
    let moved = RequestFailure::Moved(DrainReason::AddressChanged);
    assert_eq!(rig.ends(), [(1, Err((Outcome::NotWritten, moved)))]);
    assert_eq!(rig.connection.next_deadline(), None);
}

#[test]
fn draining_ends_after_2_seconds_with_unknown_outcomes() {
    let mut rig = fill(Class::Produce, ApiKey::Produce, 2);
    rig.feed(Input::Drain(DrainReason::Shutdown));
    rig.advance_ms(2_000);
    let lost = Err((Outcome::Unknown, RequestFailure::Disconnected));
    assert_eq!(rig.ends(), [(1, lost.clone()), (2, lost)]);
    assert_eq!(rig.connection.state(), StateName::Closed);
    rig.request(3, request(ApiKey::Produce));
    let (_, end) = rig.ends().remove(2);
    let (outcome, failure) = end.unwrap_err();
    assert_eq!(outcome, Outcome::NotWritten);
    assert_eq!(failure.to_string(), "connection is closed: shutting down");
}

/// wire.md A9
#[test]
fn each_request_goes_at_the_highest_version_that_both_sides_and_its_content_know() {
    let mut response = samples::api_versions(4);
    let offered = [
        (ApiKey::OffsetCommit, 2, 10),
        (ApiKey::OffsetFetch, 1, 10),
        (ApiKey::InitProducerId, 0, 6),
        (ApiKey::Produce, 0, 13),
    ];
    for (api, min, max) in offered {
        let row = response.api_keys.iter_mut();
        let row = row.into_iter().find(|row| row.api_key == api.code());
        let row = row.expect("in the sample");
        (row.min_version, row.max_version) = (min, max);
    }
    let nearside::wire::Request::Produce(by_id) = request(ApiKey::Produce) else {
        panic!("another API")
    };
    let mut mixed = by_id.clone();
    mixed.partitions.extend(by_id.partitions.clone());
    mixed.partitions[1].topic_id = None;
    let mut rig = Rig::new(Class::Control, Settings::default());
    let requests = [
        request(ApiKey::OffsetCommit),
        request(ApiKey::OffsetFetch),
        request(ApiKey::InitProducerId),
        mixed.into(),
        by_id.into(),
    ];
    (0..)
        .zip(requests)
        .for_each(|(token, request)| rig.request(token, request));
    rig.dial();
    let ask = rig.ask();
    rig.answer(&ask, &samples::encode(&response, 4));
    let versions: Vec<_> = rig.asks.iter().map(|ask| ask.version).collect();
    assert_eq!(versions, [9, 9, 5, 12, 13]);
}

/// wire.md A10
#[test]
fn a_broker_that_was_rolled_back_is_asked_for_its_versions_again() {
    let mut rig = Rig::proven(Class::FetchRack);
    rig.request(1, request(ApiKey::Fetch));
    let ask = rig.ask();
    assert_eq!(ask.version, 18);
    let refused = samples::fetch(18, 0)
        .with_error_code(35)
        .with_responses(Vec::new());
    rig.answer(&ask, &samples::encode(&refused, 18));
    assert!(rig.completions[0].result.is_ok());
    assert_eq!(
        rig.last_reason().to_string(),
        "broker no longer serves its Fetch version"
    );
    rig.advance_ms(2_000);
    rig.request(2, request(ApiKey::Fetch));
    rig.dial();
    let ask = rig.ask();
    let mut response = samples::api_versions(4);
    for row in &mut response.api_keys {
        if row.api_key == ApiKey::Fetch.code() {
            row.max_version = 13;
        }
    }
    rig.answer(&ask, &samples::encode(&response, 4));
    assert_eq!(rig.ask().version, 13);
}

#[test]
fn inputs_of_an_earlier_socket_are_ignored() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(1, request(ApiKey::Metadata));
    let old = rig.ask();
    rig.lose(old.socket, 0);
    rig.advance_ms(60);
    rig.set_up();
    rig.lose(old.socket, 0);
    rig.answer_sample(&old);
    assert_eq!(rig.connection.state(), StateName::Ready);
    assert!(rig.completions.is_empty());
    let again = rig.ask();
    rig.answer_sample(&again);
    assert_eq!(rig.ends(), [(1, Ok(()))]);
}
