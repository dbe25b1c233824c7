//! Invariants of routing.md 19 that compare a route before and after one input.

use std::time::Duration;

use super::desk::Desk;
use crate::ids::{BrokerId, Draw};
use crate::routing::lease::Lease;
use crate::routing::route::Context;
use crate::routing::timer::Timer;
use crate::routing::{
    Class, Fault, Gate, Hold, Input, Output, Position, Role, Route, Stamp, State,
};
use crate::wire::ErrorCode;
use crate::wire::api::fetch::Row;

/// Panics if `input` broke a law between `before` and `after`.
pub(super) fn hold(before: &Desk, input: &Input, after: &Desk) {
    let mut idle = before.clone();
    // What the same facts at the same time lead to when nothing happens.
    idle.input(Input::BreakerClosed {
        broker: BrokerId(99),
    });
    dropped_answers_change_nothing(before, input, &idle, after);
    only_the_leader_moves_a_lease(before, input, after);
    stay_and_throttle_keep_the_route(before, input, &idle, after);
    positions_move_for_a_reason(before, input, after);
    errors_write_no_watermark(before, input, after);
    cooldowns_end(after);
    a_refuge_is_in_sync(after);
    silence_is_escaped_if_it_can_be(input, after);
}

/// I3.
fn dropped_answers_change_nothing(before: &Desk, input: &Input, idle: &Desk, after: &Desk) {
    if let Input::Row { stamp, .. }
    | Input::ProbeRow { stamp, .. }
    | Input::ProbeFailed { stamp }
    | Input::HedgeRow { stamp, .. }
    | Input::HedgeFailed { stamp } = input
        && is_dropped(&before.route, stamp)
    {
        assert_eq!(facts(&after.route), facts(&idle.route), "I3: {input:?}");
    }
}

fn is_dropped(route: &Route, stamp: &Stamp) -> bool {
    matches!(
        stamp.check(&route.current()),
        Some(Gate::G1 | Gate::G2 | Gate::G3)
    )
}

fn facts(route: &Route) -> impl PartialEq + std::fmt::Debug {
    (
        *route.state(),
        route.generation(),
        (route.position(), route.position_generation()),
        route.fetch_end(),
        *route.watermarks(),
        route.ledger.clone(),
        route.candidate.clone(),
    )
}

/// I7.
fn only_the_leader_moves_a_lease(before: &Desk, input: &Input, after: &Desk) {
    let hinted = if let Input::Row { stamp, row, .. } = input {
        stamp.role == Role::Leader && row.preferred_read_replica.is_some()
    } else {
        false
    };
    // A probe; or an earlier hint whose obstacle is gone, or that is given up for a trial.
    let may_grant = hinted
        || matches!(
            input,
            Input::ProbeRow { .. }
                | Input::LinkChanged { .. }
                | Input::LinkRestarted { .. }
                | Input::IsrChanged { .. }
                | Input::ReplicasChanged { .. }
                | Input::Tick
        );
    let known = |lease: &Lease| {
        let route = &before.route;
        let waiting = route
            .deferred
            .as_ref()
            .and_then(|waiting| waiting.state.lease());
        let candidate = route.candidate.as_ref().and_then(|last| last.hold.lease());
        let resumed = if let State::Forced { resume, .. } = route.state {
            resume.and_then(|hold| hold.lease())
        } else {
            None
        };
        [route.state.lease(), waiting, candidate, resumed].contains(&Some(*lease))
    };
    if let (false, Some(lease)) = (may_grant, after.route.state.lease()) {
        assert!(known(&lease), "I7: {lease:?} by {input:?}");
    }
}

/// I8.
fn stay_and_throttle_keep_the_route(before: &Desk, input: &Input, idle: &Desk, after: &Desk) {
    let stays = if let Input::Row { stamp, row, .. } = input {
        is_stay(before, stamp, row)
    } else {
        matches!(input, Input::Throttled { .. })
    };
    // R16: it is no "stay" if records are held back.
    let slow = |output: &Output| {
        let fault = Some(Fault::Slow);
        matches!(output, Output::Cooling { fault: raised, .. } if *raised == fault)
    };
    if stays && !after.said.iter().any(slow) && !idle.said.iter().any(slow) {
        // Silence is over with the row, so what it alone would have led to may not happen.
        let expected = [before.route.state(), idle.route.state()];
        assert!(expected.contains(&after.route.state()), "I8: {input:?}");
    }
}

fn is_stay(before: &Desk, stamp: &Stamp, row: &Row) -> bool {
    let route = &before.route;
    stamp.check(&route.current()).is_none()
        && stamp.role == Role::Follower
        && route.deferred.is_none()
        && row.error == ErrorCode::NONE
        && row.preferred_read_replica.is_none()
}

/// I10.
fn positions_move_for_a_reason(before: &Desk, input: &Input, after: &Desk) {
    let may_move = matches!(
        input,
        Input::Assigned(_)
            | Input::Indexed(_)
            | Input::Seek { .. }
            | Input::Resolved { .. }
            | Input::Validated { .. }
    );
    let moved = before.route.fetch_end() != after.route.fetch_end();
    assert!(may_move || !moved, "I10: {input:?}");
}

/// I14.
fn errors_write_no_watermark(before: &Desk, input: &Input, after: &Desk) {
    let (was, is) = (before.route.watermarks(), after.route.watermarks());
    let error = if let Input::Row { row, .. }
    | Input::ProbeRow { row, .. }
    | Input::HedgeRow { row, .. } = input
    {
        row.error != ErrorCode::NONE
    } else {
        false
    };
    assert!(!error || was.leader_hw == is.leader_hw, "I14: {input:?}");
    let restarts = matches!(
        input,
        Input::Assigned(_)
            | Input::Revoked
            | Input::LeaderChanged(_)
            | Input::TopicRecreated { .. }
    );
    assert!(restarts || is.leader_hw >= was.leader_hw, "I14: {input:?}");
}

/// I16.
fn cooldowns_end(after: &Desk) {
    let end = after.now + after.route.settings().cooldown_max + Duration::from_millis(1);
    for broker in (1..=4).map(BrokerId) {
        assert!(!after.route.is_cooling(broker, end), "I16");
    }
}

/// 8.4: a refuge is in the ISR view, at a known epoch, and not the leader.
fn a_refuge_is_in_sync(after: &Desk) {
    let route = &after.route;
    if let State::Follower {
        broker,
        hold: Hold::Refuge,
    } = *route.state()
    {
        assert!(route.in_isr_view(broker) && route.leader() != Some(broker));
        assert!(route.leadership().epoch.is_some());
        assert!(route.timers.is_set(Timer::Refuge), "R44 asks again");
    }
}

/// R43: nobody waits for a silent leader while somebody else may be read.
fn silence_is_escaped_if_it_can_be(input: &Input, after: &Desk) {
    let route = &after.route;
    if matches!(input, Input::Throttled { .. })
        && route.next_deadline().is_some_and(|due| due <= after.now)
    {
        // I8: not by this input, but by the tick that follows it at once.
        return;
    }
    let silent = route.served().is_some_and(|(broker, lane)| {
        after.brokers.is_silent(broker, Class::of(lane)) && !route.timers.is_set(Timer::Trust)
    });
    let waits = match route.state() {
        State::Leader | State::Forced { .. } => silent,
        State::Parked => route.cluster.lost,
        State::Follower { .. } => false,
    };
    let reads = !route.gates.paused && !route.gates.fenced;
    if waits && reads && route.position() == Position::Ready {
        let context = Context {
            brokers: &after.brokers,
            draw: Draw(0),
            now: after.now,
        };
        assert_eq!(route.usable_candidate(context), None, "R43");
        assert_eq!(route.refuge(context), None, "R43");
        assert!(route.gauges.unreachable, "and it is told");
    }
}
