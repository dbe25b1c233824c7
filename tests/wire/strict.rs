//! What a connection tolerates and counts, and what `wire.strict` makes of it (wire.md 2).

use bytes::Bytes;
use nearside::wire::{
    ApiKey, Class, Event, Flaw, Outcome, Reason, RequestFailure, Settings, StateName,
};

use crate::asking::request;
use crate::rig::{Ask, Rig};
use crate::samples;

fn rig(strict: bool) -> Rig {
    let settings = Settings {
        strict,
        ..Settings::default()
    };
    let mut rig = Rig::new(Class::Control, settings);
    rig.request(1, request(ApiKey::Metadata));
    rig
}

/// A sound answer with a byte too many.
fn longer(ask: &Ask) -> Bytes {
    [&samples::body(ask.api, ask.version, 0)[..], &[7]]
        .concat()
        .into()
}

/// What became of the request, if it failed by its answer.
fn flaw(rig: &Rig) -> Option<Flaw> {
    match rig.ends().as_slice() {
        [(1, Ok(()))] => None,
        [(1, Err((Outcome::Unknown, RequestFailure::Malformed(error))))] => Some(error.flaw),
        ends => panic!("{ends:?}"),
    }
}

#[test]
fn a_byte_behind_the_end_is_counted_or_strictly_an_error() {
    for strict in [false, true] {
        let mut rig = rig(strict);
        rig.set_up();
        let ask = rig.ask();
        rig.answer(&ask, &longer(&ask));
        assert_eq!(flaw(&rig), strict.then_some(Flaw::Odd));
        let counted = |event: &Event| matches!(event, Event::Odd { .. });
        assert_eq!(rig.events.iter().any(counted), !strict);
        let state = if strict {
            StateName::Backoff
        } else {
            StateName::Ready
        };
        assert_eq!(rig.connection.state(), state);
    }
}

#[test]
fn a_throttle_beyond_belief_is_cut_or_strictly_an_error() {
    for strict in [false, true] {
        let mut rig = rig(strict);
        rig.set_up();
        let ask = rig.ask();
        rig.answer(&ask, &samples::body(ask.api, ask.version, i32::MAX));
        assert_eq!(flaw(&rig), strict.then_some(Flaw::OutOfRange));
        let cut = |event: &Event| matches!(event, Event::ThrottleCut { .. });
        assert_eq!(rig.events.iter().any(cut), !strict);
    }
}

#[test]
fn the_setup_is_read_strictly_as_well() {
    let mut rig = rig(true);
    rig.dial();
    let ask = rig.ask();
    rig.answer(&ask, &longer(&ask));
    assert_eq!(rig.connection.state(), StateName::Backoff);
    let Reason::Malformed(error) = rig.last_reason() else {
        panic!("{:?}", rig.last_reason());
    };
    assert_eq!((error.api, error.flaw), (ApiKey::ApiVersions, Flaw::Odd));
    let counted = |event: &Event| matches!(event, Event::Malformed(_));
    assert!(rig.events.iter().any(counted), "{:?}", rig.events);
}
