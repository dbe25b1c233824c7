//! From a name to a ready connection: addresses, versions, what a broker may answer.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use nearside::wire::{
    ApiKey, Class, Event, FrameError, Input, Outcome, PortMixup, Reason, RequestFailure, Settings,
    StateName, Tier,
};

use crate::asking::request;
use crate::rig::{Rig, address};
use crate::samples;

fn dialling(class: Class) -> Rig {
    let mut rig = Rig::new(class, Settings::default());
    rig.request(1, request(ApiKey::Metadata));
    rig
}

fn refusal(rows: &[(ApiKey, i16, i16)]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_i16(35);
    body.put_i32(i32::try_from(rows.len()).unwrap());
    for (api, min, max) in rows {
        body.put_i16(api.code());
        body.put_i16(*min);
        body.put_i16(*max);
    }
    body.freeze()
}

#[test]
fn a_request_opens_the_connection_and_is_written_once_it_is_ready() {
    let mut rig = dialling(Class::Control);
    assert_eq!(rig.connection.state(), StateName::Resolving);
    rig.dial();
    assert_eq!(rig.connection.state(), StateName::VersionsPre);
    let versions = rig.ask();
    assert_eq!(
        (versions.api, versions.version, versions.tier),
        (ApiKey::ApiVersions, 4, Tier::Setup)
    );
    assert!(rig.asks.is_empty());
    rig.answer_sample(&versions);
    let metadata = rig.ask();
    assert_eq!(
        (metadata.api, metadata.version, metadata.tier),
        (ApiKey::Metadata, 13, Tier::Other)
    );
    rig.advance_ms(7);
    rig.answer_sample(&metadata);
    let done = &rig.completions[0];
    assert_eq!((done.token.0, done.version), (1, Some(13)));
    assert_eq!(done.round_trip, Some(Duration::from_millis(7)));
    assert!(done.result.is_ok());
}

/// wire.md A7
#[test]
fn an_older_broker_is_asked_again_at_the_version_it_lists() {
    let mut rig = dialling(Class::Control);
    rig.dial();
    let first = rig.ask();
    rig.answer(&first, &refusal(&[(ApiKey::ApiVersions, 0, 2)]));
    let second = rig.ask();
    assert_eq!((first.version, second.version), (4, 2));
    rig.answer_sample(&second);
    assert_eq!(rig.connection.state(), StateName::Ready);
}

/// wire.md A8
#[test]
fn a_refusal_that_helps_nothing_falls_back_to_version_0() {
    let unreadable = Bytes::from_static(&[0, 35, 0xff]);
    for body in [unreadable, refusal(&[(ApiKey::ApiVersions, 0, 4)])] {
        let mut rig = dialling(Class::Control);
        rig.dial();
        let first = rig.ask();
        rig.answer(&first, &body);
        let second = rig.ask();
        assert_eq!(second.version, 0);
        rig.answer_sample(&second);
        assert_eq!(rig.connection.state(), StateName::Ready);
    }
}

/// wire.md A8
#[test]
fn a_refusal_of_version_0_closes_with_its_code() {
    let mut rig = dialling(Class::Control);
    rig.dial();
    let first = rig.ask();
    rig.answer(&first, &Bytes::from_static(&[0, 35, 0xff]));
    let second = rig.ask();
    rig.answer(&second, &refusal(&[]));
    assert_eq!(rig.connection.state(), StateName::Backoff);
    assert_eq!(
        rig.last_reason().to_string(),
        "versions refused: UNSUPPORTED_VERSION (35)"
    );
    assert_eq!(rig.closed.len(), 1);
}

#[test]
fn a_broker_that_dislikes_our_name_is_asked_without_it() {
    let mut rig = dialling(Class::Control);
    rig.dial();
    let first = rig.ask();
    rig.answer(&first, &Bytes::from_static(&[0, 42, 0, 0, 0, 0]));
    assert!(rig.events.contains(&Event::NameDisliked));
    let second = rig.ask();
    assert_eq!(second.version, 0);
    rig.answer_sample(&second);
    assert_eq!(rig.connection.state(), StateName::Ready);
}

#[test]
fn a_broker_without_a_required_api_is_named_with_both_ranges() {
    let mut rig = dialling(Class::Control);
    rig.dial();
    let ask = rig.ask();
    let mut response = samples::api_versions(4);
    response
        .api_keys
        .retain(|row| row.api_key != ApiKey::Fetch.code());
    response.api_keys.push(samples::range(ApiKey::Fetch, 0, 9));
    rig.answer(&ask, &samples::encode(&response, 4));
    let text = "broker serves Fetch 0-9, this client needs 10-18";
    assert_eq!(rig.last_reason().to_string(), text);
    assert_eq!(rig.connection.state(), StateName::Backoff);
}

#[test]
fn an_optional_api_is_refused_alone() {
    let mut rig = Rig::new(Class::Control, Settings::default());
    rig.request(1, request(ApiKey::OffsetForLeaderEpoch));
    rig.dial();
    let ask = rig.ask();
    let mut response = samples::api_versions(4);
    response
        .api_keys
        .retain(|row| row.api_key != ApiKey::OffsetForLeaderEpoch.code());
    rig.answer(&ask, &samples::encode(&response, 4));
    assert_eq!(rig.connection.state(), StateName::Ready);
    let (_, end) = rig.ends().remove(0);
    let (outcome, failure) = end.unwrap_err();
    assert_eq!(outcome, Outcome::NotWritten);
    assert!(matches!(failure, RequestFailure::Unsupported(missing) if missing.theirs.is_none()));
}

/// wire.md A11
#[test]
fn black_holed_addresses_are_passed_within_one_attempt() {
    let mut rig = dialling(Class::Control);
    rig.resolve(&[1, 2, 3]);
    let (first, at) = rig.dials.pop_front().unwrap();
    assert_eq!(at, address(1));
    rig.advance_ms(2_000);
    assert_eq!(rig.closed, [first]);
    rig.advance_ms(2_000);
    assert_eq!(rig.dials.pop_front().unwrap().1, address(2));
    assert_eq!(rig.dials.front().unwrap().1, address(3));
    rig.open();
    let ask = rig.ask();
    rig.answer_sample(&ask);
    assert_eq!(rig.connection.state(), StateName::Ready);
    assert_eq!(rig.connection.failures(), 0);
    assert_eq!(rig.resolves, 1, "one attempt, within its budget");
    let ask = rig.ask();
    rig.answer_sample(&ask);
    assert_eq!(rig.ends(), [(1, Ok(()))]);
}

/// wire.md A13
#[test]
fn a_lost_broker_is_resolved_anew_and_old_addresses_outlive_the_resolver() {
    let mut rig = Rig::proven(Class::Control);
    let resolves = rig.resolves;
    rig.advance_ms(2_000);
    rig.request(1, request(ApiKey::Metadata));
    let ask = rig.ask();
    rig.lose(ask.socket, u64::MAX);
    assert_eq!(rig.connection.state(), StateName::Idle);
    rig.request(2, request(ApiKey::Metadata));
    assert_eq!(rig.resolves, resolves + 1);
    rig.feed(Input::Resolved(Err("no resolver".to_owned())));
    assert_eq!(rig.dials.front().unwrap().1, address(1));
    assert!(matches!(
        rig.events[..],
        [.., Event::StaleAddresses { .. }, _]
    ));
    rig.refuse_dial();
    rig.advance(Duration::from_secs(295));
    rig.dials.clear();
    assert_eq!(rig.connection.state(), StateName::Idle);
    rig.request(3, request(ApiKey::Metadata));
    rig.feed(Input::Resolved(Err("no resolver".to_owned())));
    assert_eq!(
        rig.dials.front().unwrap().1,
        address(1),
        "for 5 minutes since it was last told"
    );
    rig.refuse_dial();
    rig.advance_ms(3_500);
    assert_eq!(rig.connection.state(), StateName::Resolving);
    rig.feed(Input::Resolved(Err("no resolver".to_owned())));
    assert_eq!(
        rig.last_reason(),
        &Reason::Resolve("no resolver".to_owned())
    );
    assert_eq!(rig.connection.state(), StateName::Backoff);
}

/// wire.md A13
#[test]
fn a_broker_that_came_back_elsewhere_is_dialled_there() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(1, request(ApiKey::Metadata));
    rig.advance_ms(2_000);
    let ask = rig.ask();
    rig.lose(ask.socket, u64::MAX);
    rig.request(2, request(ApiKey::Metadata));
    rig.resolve(&[9]);
    assert_eq!(rig.dials.front().unwrap().1, address(9));
    rig.open();
    let versions = rig.ask();
    rig.answer_sample(&versions);
    let ask = rig.ask();
    rig.answer_sample(&ask);
    assert_eq!(rig.ends().last(), Some(&(2, Ok(()))));
    assert_eq!(rig.connection.failures(), 0);
}

#[test]
fn a_silent_resolver_is_given_up_after_5_seconds() {
    let mut rig = dialling(Class::Control);
    rig.advance_ms(4_999);
    assert_eq!(rig.connection.state(), StateName::Resolving);
    rig.advance_ms(1);
    assert_eq!(rig.connection.state(), StateName::Backoff);
    rig.resolve(&[1]);
    assert!(rig.dials.is_empty());
}

#[test]
fn the_setup_budget_covers_a_broker_that_never_answers() {
    let mut rig = dialling(Class::Control);
    let socket = rig.dial();
    rig.advance_ms(7_999);
    assert_eq!(rig.connection.state(), StateName::VersionsPre);
    rig.advance_ms(4_001);
    assert!(rig.closed.contains(&socket));
    assert!(rig.connection.failures() >= 1);
    assert!(rig.events.iter().any(|event| matches!(
        event,
        Event::Transition {
            from: StateName::VersionsPre,
            reason: Reason::SetupTimeout,
            ..
        }
    )));
}

/// wire.md A1
#[test]
fn a_port_mixup_waits_30_seconds_flat() {
    let mut rig = dialling(Class::Control);
    let socket = rig.dial();
    let error = FrameError::Mixup(PortMixup::Tls);
    rig.feed(Input::Broken { socket, error });
    assert_eq!(
        rig.last_reason().to_string(),
        "broker speaks TLS on this port"
    );
    assert_eq!(
        rig.connection.next_deadline(),
        Some(rig.now + Duration::from_secs(30))
    );
    rig.advance_ms(29_999);
    assert!(rig.dials.is_empty());
}

#[test]
fn a_listener_that_only_ever_hangs_up_is_a_mixup_and_one_that_worked_is_not() {
    let mut rig = Rig::bootstrap(Class::Control);
    rig.request(1, request(ApiKey::Metadata));
    let first = rig.dial();
    rig.lose(first, 60);
    assert!(
        matches!(rig.last_reason(), Reason::Lost(_)),
        "one hang-up may be a broker going down"
    );
    rig.advance_ms(70);
    let second = rig.dial();
    rig.lose(second, 60);
    assert_eq!(
        rig.last_reason().to_string(),
        "listener may require SASL or TLS"
    );

    let mut worked = Rig::proven(Class::Control);
    worked.request(1, request(ApiKey::Metadata));
    let ask = worked.ask();
    worked.lose(ask.socket, 0);
    for _ in 0..3 {
        worked.advance_ms(6_000);
        let socket = worked.dial();
        worked.lose(socket, 60);
        assert!(matches!(worked.last_reason(), Reason::Lost(_)));
    }
}

/// A restarting broker behind a proxy hangs up as well, and its cluster has spoken with us.
#[test]
fn a_broker_that_metadata_named_may_hang_up_as_often_as_it_likes() {
    let mut rig = Rig::new(Class::Control, Settings::default());
    let mut longest = Duration::ZERO;
    for token in 0..12 {
        rig.request(token, request(ApiKey::Metadata));
        while rig.connection.state() == StateName::Backoff {
            longest = longest.max(rig.wait());
            rig.advance(rig.wait());
        }
        let socket = rig.dial();
        rig.asks.clear();
        rig.lose(socket, 60);
        let named = matches!(rig.last_reason(), Reason::Mixup(PortMixup::HangUp));
        assert_eq!(named, token >= 7, "one that goes on is named all the same");
    }
    assert!(longest <= Duration::from_secs(6), "{longest:?}");
}

/// wire.md A12
#[test]
fn waits_grow_to_5_seconds_and_requests_end_at_their_deadlines() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(100, request(ApiKey::Metadata));
    let ask = rig.ask();
    rig.lose(ask.socket, 0);
    let mut waits = Vec::new();
    let mut asked_at = vec![rig.now];
    let mut ended_at = Vec::new();
    for token in 101..121 {
        rig.request(token, request(ApiKey::Metadata));
        asked_at.push(rig.now);
        let lost_at = rig.now;
        while rig.connection.state() == StateName::Backoff {
            rig.advance(rig.wait());
            ended_at.resize(rig.completions.len(), rig.now);
        }
        waits.push(rig.now.since(lost_at).as_millis());
        let socket = rig.dial();
        rig.asks.clear();
        rig.lose(socket, 60);
    }
    assert!((40..=60).contains(&waits[0]), "{waits:?}");
    assert!(
        waits[9..].iter().all(|wait| (4_000..=6_000).contains(wait)),
        "{waits:?}"
    );
    assert!((10..21).contains(&ended_at.len()), "{}", ended_at.len());
    let timed_out = Err((Outcome::NotWritten, RequestFailure::TimedOut));
    for ((token, end), expected) in rig.ends().into_iter().zip(100..) {
        assert_eq!((token, &end), (expected, &timed_out));
    }
    for (asked, ended) in asked_at.iter().zip(&ended_at) {
        assert_eq!(
            ended.since(*asked),
            Duration::from_secs(30),
            "to the moment"
        );
    }
}

/// wire.md A12
#[test]
fn a_peer_that_accepts_and_closes_does_not_reset_the_wait() {
    let mut rig = Rig::new(Class::Control, Settings::default());
    let mut waits = Vec::new();
    for token in 0..20 {
        rig.request(token, request(ApiKey::Metadata));
        while rig.connection.state() == StateName::Backoff {
            rig.advance(rig.wait());
        }
        rig.set_up();
        let socket = rig.ask().socket;
        rig.asks.clear();
        let lost_at = rig.now;
        rig.lose(socket, u64::MAX);
        rig.request(100 + token, request(ApiKey::Metadata));
        while rig.connection.state() == StateName::Backoff {
            rig.advance(rig.wait());
        }
        waits.push(rig.now.since(lost_at).as_millis());
    }
    assert!(
        waits[9..].iter().all(|wait| (4_000..=6_000).contains(wait)),
        "{waits:?}"
    );
}

#[test]
fn a_connection_opened_ahead_dials_once_and_rests_after_a_failure() {
    let mut rig = Rig::new(Class::Control, Settings::default());
    rig.feed(Input::Open);
    rig.feed(Input::Open);
    assert_eq!(rig.resolves, 1);
    rig.resolve(&[1]);
    rig.refuse_dial();
    assert_eq!(rig.connection.state(), StateName::Backoff);
    rig.advance_ms(60_000);
    assert_eq!(rig.connection.state(), StateName::Idle);
    assert_eq!(rig.resolves, 1);
    rig.feed(Input::Open);
    rig.set_up();
}
