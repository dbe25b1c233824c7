//! What a connection makes of loss, lateness and lies: every request ends once, with its true
//! outcome.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use nearside::wire::{
    ApiKey, Class, Event, FrameError, Input, Outcome, Reason, RequestFailure, StateName,
};
use proptest::prelude::*;

use crate::asking::request;
use crate::rig::Rig;

fn in_flight(class: Class, api: ApiKey, count: u64) -> Rig {
    let mut rig = Rig::proven(class);
    (1..=count).for_each(|token| rig.request(token, request(api)));
    rig
}

/// wire.md A5
#[test]
fn a_wrong_correlation_id_closes_and_ends_all_five_once() {
    let mut rig = in_flight(Class::Control, ApiKey::Metadata, 5);
    let asks: Vec<_> = rig.asks.drain(..).collect();
    let body = crate::samples::body(ApiKey::Metadata, 13, 0);
    rig.answer_as(&asks[0], asks[1].correlation, &body);
    assert_eq!(rig.closed.len(), 1);
    let lost = (Outcome::Unknown, RequestFailure::Desynchronised);
    let all: Vec<_> = (1..=5).map(|token| (token, Err(lost.clone()))).collect();
    assert_eq!(rig.ends(), all);
    asks.iter().for_each(|ask| rig.answer_sample(ask));
    assert_eq!(rig.ends(), all, "later bytes are unread");
}

#[test]
fn a_frame_nobody_asked_for_closes() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(1, request(ApiKey::Metadata));
    let ask = rig.ask();
    rig.answer_sample(&ask);
    rig.answer_sample(&ask);
    assert_eq!(rig.last_reason(), &Reason::Desynchronised);
    assert_eq!(rig.closed.len(), 1);
}

/// wire.md A3
#[test]
fn a_frame_above_its_cap_ends_the_request_with_an_unknown_outcome() {
    let mut rig = in_flight(Class::Coordinator, ApiKey::Heartbeat, 1);
    let socket = rig.ask().socket;
    let error = FrameError::TooLong {
        length: 33 << 20,
        cap: 32 << 20,
    };
    rig.feed(Input::Broken { socket, error });
    assert_eq!(rig.closed, [socket]);
    assert_eq!(
        rig.ends(),
        [(1, Err((Outcome::Unknown, RequestFailure::Disconnected)))]
    );
}

/// wire.md A4
#[test]
fn a_fetch_is_given_up_10_seconds_after_its_own_wait() {
    let mut rig = in_flight(Class::FetchRack, ApiKey::Fetch, 1);
    rig.advance_ms(10_499);
    assert!(rig.completions.is_empty());
    rig.advance_ms(1);
    assert_eq!(
        rig.ends(),
        [(1, Err((Outcome::Unknown, RequestFailure::TimedOut)))]
    );
    assert_eq!(rig.closed.len(), 1);
}

#[test]
fn a_join_is_given_up_5_seconds_after_its_rebalance_timeout() {
    let mut rig = in_flight(Class::Coordinator, ApiKey::JoinGroup, 1);
    rig.advance(Duration::from_millis(304_999));
    assert!(rig.completions.is_empty());
    rig.advance_ms(1);
    assert_eq!(
        rig.ends(),
        [(1, Err((Outcome::Unknown, RequestFailure::TimedOut)))]
    );
}

/// wire.md A6
#[test]
fn a_malformed_answer_closes_the_connection_and_names_the_field() {
    let mut rig = in_flight(Class::Control, ApiKey::Metadata, 2);
    let ask = rig.ask();
    let mut body = BytesMut::new();
    body.put_i32(0);
    body.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x07]);
    rig.answer(&ask, &body.freeze());
    let ends = rig.ends();
    let (outcome, failure) = ends[0].1.clone().unwrap_err();
    assert_eq!(outcome, Outcome::Unknown);
    assert!(matches!(failure, RequestFailure::Malformed(error) if error.field == "brokers"));
    assert_eq!(
        ends[1],
        (2, Err((Outcome::Unknown, RequestFailure::Disconnected)))
    );
    let told = rig
        .events
        .iter()
        .filter(|event| matches!(event, Event::Malformed(_)));
    assert_eq!(told.count(), 1);
    assert_eq!(rig.closed.len(), 1);
}

#[test]
fn the_third_malformed_answer_within_a_minute_costs_our_trust() {
    let mut rig = Rig::proven(Class::Control);
    for turn in 0..3 {
        rig.request(turn, request(ApiKey::Metadata));
        if turn > 0 {
            rig.set_up();
        }
        let ask = rig.ask();
        rig.answer(&ask, &Bytes::from_static(&[1]));
        rig.advance_ms(1_500);
    }
    assert!(matches!(
        rig.last_reason(),
        Reason::Trust(_) | Reason::WaitOver
    ));
    let trust = |event: &Event| {
        matches!(
            event,
            Event::Transition {
                to: StateName::Backoff,
                reason: Reason::Trust(_),
                ..
            }
        )
    };
    assert_eq!(rig.events.iter().filter(|event| trust(event)).count(), 1);
}

/// wire.md 7 D9
#[test]
fn malformed_answers_of_a_broker_count_together_whatever_connection_they_came_over() {
    for (pause_ms, trusted) in [(0, false), (60_001, true)] {
        let mut rig = Rig::proven(Class::Control);
        let at = rig.now;
        rig.feed(Input::Malformed { at });
        rig.feed(Input::Malformed { at });
        assert_eq!(rig.connection.state(), StateName::Ready);
        rig.advance_ms(pause_ms);
        rig.request(1, request(ApiKey::Metadata));
        let ask = rig.ask();
        rig.answer(&ask, &Bytes::from_static(&[1]));
        let distrusted = matches!(rig.last_reason(), Reason::Trust(_));
        assert_eq!(distrusted, !trusted, "{pause_ms} ms later");
        if !trusted {
            let wait = rig.wait();
            let second = Duration::from_millis(800)..=Duration::from_millis(1_200);
            assert!(second.contains(&wait), "{wait:?}");
        }
    }
}

/// wire.md A14
#[test]
fn a_request_that_met_a_dying_connection_is_retried_once() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(1, request(ApiKey::Metadata));
    let ask = rig.ask();
    rig.lose(ask.socket, ask.start);
    assert!(rig.completions.is_empty());
    rig.advance_ms(60);
    rig.set_up();
    assert_eq!(rig.connection.failures(), 0, "it counts as no attempt");
    let again = rig.ask();
    assert_eq!(again.body, ask.body);
    rig.lose(again.socket, again.start);
    let refused = Err((Outcome::NotWritten, RequestFailure::Disconnected));
    assert_eq!(rig.ends(), [(1, refused)]);
}

/// wire.md A14
#[test]
fn an_idle_connection_that_dies_under_a_request_costs_it_nothing_but_a_dial() {
    let mut rig = Rig::proven(Class::Control);
    rig.advance_ms(100_000);
    rig.request(1, request(ApiKey::Metadata));
    let asked_at = rig.now;
    let ask = rig.ask();
    rig.lose(ask.socket, ask.start);
    assert_eq!(rig.connection.failures(), 0, "no attempt counts");
    rig.advance(rig.wait());
    assert!(rig.now.since(asked_at) <= Duration::from_millis(60));
    rig.set_up();
    let again = rig.ask();
    assert_ne!(again.socket, ask.socket);
    rig.answer_sample(&again);
    assert_eq!(rig.ends(), [(1, Ok(()))]);
}

#[test]
fn a_request_with_one_byte_out_is_not_retried() {
    let mut rig = Rig::proven(Class::Control);
    rig.request(1, request(ApiKey::Metadata));
    let ask = rig.ask();
    rig.lose(ask.socket, ask.start + 1);
    assert_eq!(
        rig.ends(),
        [(1, Err((Outcome::Unknown, RequestFailure::Disconnected)))]
    );
    assert_eq!(rig.connection.state(), StateName::Idle);
}

/// wire.md A15
#[test]
fn a_late_produce_leaves_all_three_unknown() {
    let mut rig = in_flight(Class::Produce, ApiKey::Produce, 1);
    rig.advance_ms(1);
    rig.request(2, request(ApiKey::Produce));
    rig.request(3, request(ApiKey::Produce));
    rig.advance_ms(29_999);
    let late = Err((Outcome::Unknown, RequestFailure::TimedOut));
    let lost = Err((Outcome::Unknown, RequestFailure::Disconnected));
    assert_eq!(rig.ends(), [(1, late), (2, lost.clone()), (3, lost)]);
    assert_eq!(rig.last_reason(), &Reason::RequestTimeout(ApiKey::Produce));
    assert!(
        rig.events.last().unwrap().is_loss(),
        "metadata is to be refreshed"
    );
    assert_eq!(rig.closed.len(), 1);
}

/// One step of a random life.
#[derive(Clone, Debug)]
enum Step {
    Request(usize),
    Answer,
    Malformed,
    Lose(u64),
    Dial(bool),
    Resolve(bool),
    Wait(u64),
    Mute(u64),
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..ApiKey::ALL.len()).prop_map(Step::Request),
        6 => Just(Step::Answer),
        1 => Just(Step::Malformed),
        1 => (0_u64..2_000).prop_map(Step::Lose),
        3 => any::<bool>().prop_map(Step::Dial),
        3 => any::<bool>().prop_map(Step::Resolve),
        3 => (0_u64..40_000).prop_map(Step::Wait),
        1 => (0_u64..100_000).prop_map(Step::Mute),
        1 => Just(Step::Drain),
    ]
}

fn live(rig: &mut Rig, step: &Step, token: &mut u64) {
    match step {
        Step::Request(api) => {
            rig.request(*token, request(ApiKey::ALL[*api]));
            *token += 1;
        }
        Step::Answer => {
            if let Some(ask) = rig.asks.pop_front() {
                rig.answer_sample(&ask);
            }
        }
        Step::Malformed => {
            if let Some(ask) = rig.asks.pop_front() {
                rig.answer(&ask, &Bytes::from_static(&[9]));
            }
        }
        Step::Lose(written) => {
            if let Some(socket) = rig.asks.front().map(|ask| ask.socket) {
                rig.lose(socket, *written);
            }
        }
        Step::Dial(good) if !rig.dials.is_empty() => {
            if *good {
                rig.open();
            } else {
                rig.refuse_dial();
            }
        }
        Step::Dial(_) => {}
        Step::Resolve(true) => rig.resolve(&[1, 2]),
        Step::Resolve(false) => rig.feed(Input::Resolved(Err("no".to_owned()))),
        Step::Wait(ms) => rig.advance_ms(*ms),
        Step::Mute(ms) => rig.feed(Input::Mute {
            until: rig.now + Duration::from_millis(*ms),
        }),
        Step::Drain => rig.feed(Input::Drain(nearside::wire::DrainReason::Shutdown)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_request_ends_exactly_once_whatever_happens(
        steps in prop::collection::vec(step(), 1..80),
        class in prop::sample::select(vec![
            Class::Control, Class::FetchRack, Class::Produce, Class::Coordinator,
        ]),
    ) {
        let mut rig = Rig::new(class, nearside::wire::Settings::default());
        let mut token = 0;
        for step in &steps {
            live(&mut rig, step, &mut token);
            prop_assert!(rig.connection.in_flight() <= class.in_flight_max());
            prop_assert!(rig.connection.queued() <= 64 + class.in_flight_max());
            let closed = rig.connection.state() == StateName::Closed;
            prop_assert!(!closed || rig.connection.queued() == 0, "nobody asks it again");
        }
        // The longest deadline is a join's, which a mute may stretch.
        rig.advance(Duration::from_secs(400));
        let mut ended: Vec<_> = rig.completions.iter().map(|end| end.token.0).collect();
        ended.sort_unstable();
        let all: Vec<_> = (0..token).collect();
        prop_assert_eq!(ended, all);
    }
}
