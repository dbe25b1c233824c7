//! TLS and SASL as the machine sees them: order, refusals, renewal, and no secret in sight.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;
use nearside::wire::api::sasl_authenticate;
use nearside::wire::{
    ApiKey, Challenge, Class, DrainReason, Input, Outcome, Output, Reason, RequestFailure,
    SaslStep, Security, Settings, SocketId, StateName, TlsFailure, Token,
};

use nearside::wire::sasl::Mechanism;

use crate::asking::request;
use crate::rig::Rig;
use crate::samples;

fn secured(tls: bool, sasl: bool) -> Rig {
    let mut rig = unasked(tls, sasl);
    rig.request(1, request(ApiKey::Metadata));
    rig
}

fn unasked(tls: bool, sasl: bool) -> Rig {
    let security = Security {
        tls,
        sasl: sasl.then_some(Mechanism::ScramSha512),
        plain_in_clear: false,
    };
    Rig::new(
        Class::Control,
        Settings {
            security,
            ..Settings::default()
        },
    )
}

fn token(rig: &mut Rig, socket: SocketId, text: &'static str) {
    let step = SaslStep::Token(Bytes::from_static(text.as_bytes()));
    rig.feed(Input::Sasl { socket, step });
}

fn accepted(lifetime_ms: i64) -> Bytes {
    let response = kafka_protocol::messages::SaslAuthenticateResponse::default()
        .with_auth_bytes(Bytes::from_static(b"challenge"))
        .with_session_lifetime_ms(lifetime_ms);
    samples::encode(&response, 2)
}

fn mechanism_offered() -> Bytes {
    let response = kafka_protocol::messages::SaslHandshakeResponse::default()
        .with_mechanisms(vec![samples::text("SCRAM-SHA-512")]);
    samples::encode(&response, 1)
}

/// Runs the exchange from ApiVersions to Ready.
fn authenticate(rig: &mut Rig, lifetime_ms: i64) -> SocketId {
    let socket = rig.dial();
    let versions = rig.ask();
    rig.answer_sample(&versions);
    exchange(rig, socket, lifetime_ms);
    assert_eq!(rig.connection.state(), StateName::VersionsPost);
    let versions = rig.ask();
    rig.answer_sample(&versions);
    assert_eq!(rig.connection.state(), StateName::Ready);
    socket
}

/// Handshake, two rounds, done.
fn exchange(rig: &mut Rig, socket: SocketId, lifetime_ms: i64) {
    let handshake = rig.ask();
    assert_eq!(
        (handshake.api, handshake.version),
        (ApiKey::SaslHandshake, 1)
    );
    rig.answer(&handshake, &mechanism_offered());
    for text in ["client-first", "client-final"] {
        token(rig, socket, text);
        let ask = rig.ask();
        assert_eq!((ask.api, ask.version), (ApiKey::SaslAuthenticate, 2));
        rig.answer(&ask, &accepted(lifetime_ms));
    }
    rig.feed(Input::Sasl {
        socket,
        step: SaslStep::Done,
    });
}

/// wire.md A7
#[test]
fn exactly_one_version_exchange_succeeds_before_the_handshake() {
    let mut rig = secured(false, true);
    rig.dial();
    let first = rig.ask();
    rig.answer(
        &first,
        &Bytes::from_static(&[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 2]),
    );
    let second = rig.ask();
    rig.answer_sample(&second);
    assert_eq!((first.version, second.version), (4, 2));
    assert_eq!(rig.connection.state(), StateName::Handshake);
    assert_eq!(rig.ask().api, ApiKey::SaslHandshake);
}

#[test]
fn the_exchange_runs_in_order_and_requests_follow_it() {
    let mut rig = secured(false, true);
    authenticate(&mut rig, 0);
    assert_eq!(rig.ask().api, ApiKey::Metadata);
    let challenge = Some(Challenge(Bytes::from_static(b"challenge")));
    let socket = SocketId(0);
    let sasl = [None, challenge.clone(), challenge];
    assert_eq!(
        rig.others,
        sasl.map(|challenge| Output::Sasl { socket, challenge })
    );
}

#[test]
fn a_mechanism_not_offered_names_what_is() {
    let mut rig = secured(false, true);
    rig.dial();
    let versions = rig.ask();
    rig.answer_sample(&versions);
    let handshake = rig.ask();
    rig.answer_sample(&handshake);
    let why = "mechanism not offered; broker offers PLAIN, SCRAM-SHA-512".to_owned();
    let refused = Err((Outcome::NotWritten, RequestFailure::Authentication(why)));
    assert_eq!(rig.ends(), [(1, refused)]);
    let wait = rig.wait().as_millis();
    assert!((800..=1_200).contains(&wait), "{wait}");
}

#[test]
fn mechanisms_offered_are_told_escaped_and_cut() {
    let mut rig = secured(false, true);
    rig.dial();
    let versions = rig.ask();
    rig.answer_sample(&versions);
    let handshake = rig.ask();
    let refuse = |name: &str| {
        let names = vec![StrBytes::from_string(name.to_owned()); 40];
        let response = kafka_protocol::messages::SaslHandshakeResponse::default()
            .with_error_code(33)
            .with_mechanisms(names);
        samples::encode(&response, 1)
    };
    rig.answer(&handshake, &refuse("X\n\u{1b}[31m"));
    let why = rig.last_reason().to_string();
    assert_eq!(why.matches("X\\n\\u{1b}[31m").count(), 16, "{why}");
    assert!(!why.contains(char::is_control), "{why}");

    rig.request(2, request(ApiKey::Metadata));
    rig.advance(rig.wait());
    rig.dial();
    let versions = rig.ask();
    rig.answer_sample(&versions);
    let handshake = rig.ask();
    rig.answer(&handshake, &refuse(&"ä\n".repeat(1_000)));
    let Reason::Trust(why) = rig.last_reason() else {
        panic!("{}", rig.last_reason());
    };
    assert!((900..=1_024).contains(&why.len()), "{} bytes", why.len());
}

/// How long refused credentials wait, in ms; with a new machine for each attempt, or not.
fn waits(replaced: bool) -> Vec<u128> {
    let mut rig = unasked(false, true);
    let mut waits = Vec::new();
    for turn in 0..9 {
        if rig.connection.state() == StateName::Backoff {
            rig.advance(rig.wait());
        }
        rig.request(10 + turn, request(ApiKey::Metadata));
        let socket = rig.dial();
        let versions = rig.ask();
        rig.answer_sample(&versions);
        let handshake = rig.ask();
        rig.answer(&handshake, &mechanism_offered());
        token(&mut rig, socket, "wrong");
        let ask = rig.ask();
        rig.answer(&ask, &samples::body(ApiKey::SaslAuthenticate, 2, 0));
        assert_eq!(rig.last_reason(), &Reason::Trust("no".to_owned()));
        waits.push(rig.wait().as_millis());
        if replaced {
            let (left, now) = (rig.connection.distrust_left(), rig.now);
            rig = unasked(false, true);
            rig.now = now;
            rig.connection.inherit(left.expect("just lost"));
        }
    }
    waits
}

/// wire.md C4
#[test]
fn refused_credentials_wait_from_1_to_60_seconds_and_are_never_hot() {
    for replaced in [false, true] {
        let waits = waits(replaced);
        assert!((800..=1_200).contains(&waits[0]), "{waits:?}");
        assert!((48_000..=72_000).contains(&waits[8]), "{waits:?}");
    }
}

#[test]
fn trust_that_is_not_lost_is_not_handed_on() {
    let mut rig = secured(false, false);
    assert_eq!(rig.connection.distrust_left(), None);
    rig.resolve(&[1]);
    rig.refuse_dial();
    assert_eq!(rig.connection.state(), StateName::Backoff);
    assert_eq!(rig.connection.distrust_left(), None);
}

#[test]
fn an_exchange_without_an_end_is_refused_after_four_rounds() {
    let mut rig = secured(false, true);
    let socket = rig.dial();
    let versions = rig.ask();
    rig.answer_sample(&versions);
    let handshake = rig.ask();
    rig.answer(&handshake, &mechanism_offered());
    for _ in 0..4 {
        token(&mut rig, socket, "again");
        let ask = rig.ask();
        rig.answer(&ask, &accepted(0));
    }
    token(&mut rig, socket, "again");
    assert!(rig.asks.is_empty());
    assert_eq!(rig.connection.state(), StateName::Backoff);
}

/// wire.md A23
#[test]
fn a_session_is_renewed_at_80_to_92_percent_alone_on_the_wire() {
    let mut rig = secured(false, true);
    let socket = authenticate(&mut rig, 60_000);
    let metadata = rig.ask();
    let began = rig.now;
    rig.answer_sample(&metadata);
    rig.advance_ms(47_999);
    rig.request(2, request(ApiKey::Metadata));
    let in_flight = rig.ask();
    while rig.connection.state() == StateName::Ready {
        rig.advance(rig.wait());
    }
    let share = rig.now.since(began).as_millis();
    assert!((48_000..=55_200).contains(&share), "{share}");
    rig.request(3, request(ApiKey::Metadata));
    assert!(rig.asks.is_empty(), "what is in flight drains first");
    rig.answer_sample(&in_flight);
    exchange(&mut rig, socket, 60_000);
    assert_eq!(rig.connection.state(), StateName::Ready);
    let follows = rig.ask();
    rig.answer_sample(&follows);
    assert_eq!(rig.ends(), [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
}

/// Advances to the renewal of the session; how long that took.
fn until_renewal(rig: &mut Rig) -> Duration {
    let began = rig.now;
    while rig.connection.state() == StateName::Ready {
        rig.advance(rig.wait());
    }
    assert_eq!(rig.connection.state(), StateName::Reauth);
    rig.now.since(began)
}

/// wire.md 11.2, 13
#[test]
fn a_session_of_a_millisecond_costs_an_exchange_every_two_seconds() {
    let mut rig = secured(false, true);
    let socket = authenticate(&mut rig, 1);
    let metadata = rig.ask();
    rig.answer_sample(&metadata);
    for _ in 0..3 {
        assert_eq!(until_renewal(&mut rig), Duration::from_secs(2));
        exchange(&mut rig, socket, 1);
    }
}

/// wire.md 11.2: a slow exchange is begun three times its length before the end, at least.
#[test]
fn a_session_is_renewed_the_earlier_the_longer_the_last_exchange_took() {
    for (took, share) in [
        (0, 48..=56),
        (1, 48..=56),
        (10, 30..=30),
        (19, 3..=3),
        (25, 2..=2),
    ] {
        let mut rig = secured(false, true);
        let socket = authenticate(&mut rig, 60_000);
        let metadata = rig.ask();
        rig.answer_sample(&metadata);
        until_renewal(&mut rig);
        rig.advance(Duration::from_secs(took));
        exchange(&mut rig, socket, 60_000);
        let due = until_renewal(&mut rig).as_secs();
        assert!(
            share.contains(&due),
            "{due} s after an exchange of {took} s"
        );
    }
}

/// wire.md 11.2
#[test]
fn a_renewed_session_without_an_end_forgets_the_end_of_the_last() {
    let mut rig = secured(false, true);
    let socket = authenticate(&mut rig, 60_000);
    let metadata = rig.ask();
    rig.answer_sample(&metadata);
    until_renewal(&mut rig);
    exchange(&mut rig, socket, 0);
    rig.advance(Duration::from_secs(200));
    assert_eq!(rig.connection.state(), StateName::Ready);
    assert!(rig.asks.is_empty());
}

/// wire.md 11.2, 13
#[test]
fn a_session_of_centuries_is_one_of_a_year() {
    let life = |ms| {
        sasl_authenticate::Response::decode(2, &accepted(ms))
            .unwrap()
            .lifetime
    };
    let year = Duration::from_secs(365 * 24 * 3_600);
    assert_eq!(life(i64::MAX), Some(year));
    assert_eq!(life(5_000), Some(Duration::from_secs(5)));
    assert_eq!(life(-1), None);
}

/// wire.md A24
#[test]
fn a_request_that_outlasts_the_session_asks_for_a_second_connection() {
    let mut rig = secured(false, true);
    authenticate(&mut rig, 20_000);
    rig.others.clear();
    let _join = rig.ask();
    rig.advance_ms(20_000);
    assert_eq!(rig.connection.state(), StateName::Reauth);
    assert_eq!(rig.others, [Output::TwinWanted]);
}

/// wire.md A24
#[test]
fn what_takes_over_gets_the_queue_and_what_is_in_flight_takes_its_time() {
    let mut rig = secured(false, true);
    authenticate(&mut rig, 20_000);
    rig.others.clear();
    let in_flight = rig.ask();
    rig.advance_ms(19_000);
    rig.request(2, request(ApiKey::Metadata));
    let deadline = rig.now + Duration::from_secs(30);
    rig.feed(Input::Drain(DrainReason::CredentialsReplaced));
    let Some(Output::Returned(carried)) = rig.others.pop() else {
        panic!("nothing was given back: {:?}", rig.others);
    };
    rig.advance_ms(5_000);
    assert_eq!(
        rig.connection.state(),
        StateName::Draining,
        "past the 2 s of other drains"
    );
    rig.answer_sample(&in_flight);
    assert_eq!(rig.connection.state(), StateName::Closed);
    assert_eq!(rig.ends(), [(1, Ok(()))]);
    let mut twin = Rig::new(Class::Control, Settings::default());
    twin.now = rig.now;
    twin.feed(Input::Adopt(carried));
    twin.advance(deadline.since(twin.now));
    let timed_out = Err((Outcome::NotWritten, RequestFailure::TimedOut));
    assert_eq!(twin.ends(), [(2, timed_out)], "it kept its deadline");
}

/// wire.md A24
#[test]
fn what_takes_over_gets_what_the_former_connection_never_wrote() {
    let mut rig = secured(false, true);
    authenticate(&mut rig, 20_000);
    rig.others.clear();
    let ask = rig.ask();
    rig.feed(Input::Drain(DrainReason::CredentialsReplaced));
    rig.lose(ask.socket, ask.start);
    assert_eq!(rig.connection.state(), StateName::Closed);
    assert_eq!(rig.ends(), []);
    let [Output::Returned(carried)] = &rig.others[..] else {
        panic!("not given back: {:?}", rig.others);
    };
    assert_eq!(carried.token(), Token(1));
}

#[test]
fn newer_credentials_renew_a_session_that_ends_and_no_other() {
    for (lifetime_ms, expected) in [(60_000, StateName::Reauth), (0, StateName::Ready)] {
        let mut rig = secured(false, true);
        authenticate(&mut rig, lifetime_ms);
        let metadata = rig.ask();
        rig.answer_sample(&metadata);
        rig.feed(Input::Renew);
        assert_eq!(rig.connection.state(), expected);
    }
}

#[test]
fn a_refused_certificate_is_a_matter_of_trust_and_a_reset_one_of_addresses() {
    let mut rig = secured(true, false);
    rig.resolve(&[1, 2]);
    let first = rig.open();
    assert_eq!(rig.connection.state(), StateName::Tls);
    let lost = Err(TlsFailure::Lost("reset".to_owned()));
    rig.feed(Input::Tls {
        socket: first,
        result: lost,
    });
    let second = rig.open();
    let refused = Err(TlsFailure::Trust("unknown issuer".to_owned()));
    rig.feed(Input::Tls {
        socket: second,
        result: refused,
    });
    assert_eq!(
        rig.last_reason(),
        &Reason::Trust("unknown issuer".to_owned())
    );
    assert!(rig.wait() >= Duration::from_millis(800));
}

#[test]
fn a_plaintext_listener_is_named_under_tls() {
    let mut rig = secured(true, false);
    let socket = rig.dial();
    rig.feed(Input::Tls {
        socket,
        result: Err(TlsFailure::NotTls),
    });
    assert_eq!(
        rig.last_reason().to_string(),
        "listener does not speak TLS; try `security.protocol` PLAINTEXT or SASL_PLAINTEXT"
    );
    assert_eq!(rig.wait(), Duration::from_secs(30));
}

/// wire.md A26
#[test]
fn a_client_certificate_refused_after_the_handshake_is_an_authentication_failure() {
    let mut rig = secured(true, false);
    let socket = rig.dial();
    rig.feed(Input::Tls {
        socket,
        result: Ok(true),
    });
    assert_eq!(rig.connection.state(), StateName::VersionsPre);
    rig.lose(socket, 60);
    assert!(matches!(rig.last_reason(), Reason::Trust(why) if why.contains("client certificate")));
}

/// wire.md A28
#[test]
fn no_token_is_printed() {
    let step = SaslStep::Token(Bytes::from_static(b"hunter2"));
    let socket = SocketId(1);
    let challenge = Some(Challenge(Bytes::from_static(b"hunter2")));
    let ask = sasl_authenticate::Request {
        token: Bytes::from_static(b"hunter2"),
    };
    let printed = format!(
        "{:?} {:?} {:?}",
        Input::Sasl { socket, step },
        Output::Sasl { socket, challenge },
        nearside::wire::Request::from(ask),
    );
    assert!(!printed.contains("hunter2"), "{printed}");
    assert_eq!(printed.matches("[redacted]").count(), 3);
}
