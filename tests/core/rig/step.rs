//! One step of a route, and everything that routing.md 19 says of it. The rig and the simulator
//! share it.

use nearside::ids::{Draw, Moment};
use nearside::invariants::routing as invariants;
use nearside::routing::{Brokers, Input, Output, Route};

/// Hands `route` an input; what it makes of it, after a look at every invariant. `requests` are
/// those it has out.
pub(crate) fn take(
    (route, requests): (&mut Route, &mut invariants::Requests),
    input: &Input,
    brokers: &Brokers,
    draw: Draw,
    now: Moment,
) -> Vec<Output> {
    let before = route.clone();
    route.handle(input.clone(), brokers, draw, now);
    let outputs: Vec<_> = std::iter::from_fn(|| route.poll_output()).collect();
    let step = invariants::Step {
        before: &before,
        input,
        brokers,
        draw,
        now,
        outputs: &outputs,
        after: route,
    };
    assert_eq!(step.broken(), None, "{step:#?}");
    requests.heard(input);
    for output in &outputs {
        let out = *requests;
        assert!(requests.said(output), "I2: {output:?} after {out:?}");
    }
    outputs
}
