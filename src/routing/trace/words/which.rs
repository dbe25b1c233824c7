//! Which rule took a decision, told from the input, the state before and what came of it.

use super::Seen;
use crate::ids::BrokerId;
use crate::routing::input::{Input, LinkChange};
use crate::routing::lease::Hold;
use crate::routing::output::{Count, Output};
use crate::routing::stamp::{Gate, Lane, Role, Stamp};
use crate::routing::state::{State, Why};
use crate::routing::timer::Timer;
use crate::wire::ErrorCode;
use crate::wire::api::fetch::Row;

/// The rules, the one of routing.md 4.3 first.
pub(super) fn rules(seen: Seen<'_>) -> Vec<&'static str> {
    let mut rules = of_input(seen);
    if seen.moved() && is_refuge(seen.before.state()) && !rules.contains(&"R44") {
        rules = vec!["R45"];
    }
    if is_refuge(seen.after.state()) && seen.moved() && !rules.contains(&"R45") {
        add(&mut rules, "R43");
    }
    for output in seen.outputs {
        if let Output::Count(Count::Hint(outcome)) = output {
            match *outcome {
                "adopted" => add(&mut rules, "H13"),
                "repeated" => {}
                rule => add(&mut rules, rule),
            }
        }
    }
    rules
}

fn add(rules: &mut Vec<&'static str>, rule: &'static str) {
    if !rules.contains(&rule) {
        rules.push(rule);
    }
}

fn is_refuge(state: &State) -> bool {
    match state {
        State::Follower { hold, .. } => *hold == Hold::Refuge,
        State::Parked | State::Leader | State::Forced { .. } => false,
    }
}

fn of_input(seen: Seen<'_>) -> Vec<&'static str> {
    let rule = match seen.input {
        Input::Assigned(_) => "R1",
        Input::LeaderChanged(leadership) => {
            let addressable = leadership.leader.is_some() && leadership.addressable;
            if addressable { "R2" } else { "R3" }
        }
        Input::LeaderLost => "R4",
        Input::IsrChanged { .. } => of_members(seen),
        Input::ReplicasChanged { offline, .. } => of_replicas(seen, offline),
        Input::MetadataVersion(_) => "R8",
        Input::Row { stamp, row, .. } => return of_row(seen, stamp, row),
        Input::ProbeRow { stamp, row } => return of_probe(seen, stamp, row),
        Input::ProbeFailed { stamp } => gated(seen, stamp, "R21"),
        Input::Drained { .. } => "15",
        Input::Indexed(_) => return Vec::new(),
        Input::LinkChanged { broker, change, .. } => return of_link(seen, *broker, *change),
        Input::LinkRestarted { .. } => "R28",
        Input::BreakerOpened { .. } => "R30",
        Input::BreakerClosed { .. } => "R43",
        Input::Readmitted { .. } => "R31",
        Input::Resolved { .. } => "11",
        Input::Validated { .. } => "12",
        Input::Seek { .. } => "R37",
        Input::Pause | Input::Room(false) => "R38",
        Input::Resume | Input::Room(true) => "R39",
        Input::Throttled { .. } => "R40",
        Input::Revoked => "R41",
        Input::TopicRecreated { .. } | Input::TopicGone => "R42",
        Input::LaneDropped { .. } | Input::LaneRestored { .. } => "R46",
        Input::Silent { .. } | Input::Quiet { .. } => match seen.before.state() {
            State::Follower { .. } => "R29",
            State::Parked | State::Leader | State::Forced { .. } => "R43",
        },
        Input::HedgeRow { stamp, .. } | Input::HedgeFailed { stamp } => gated(seen, stamp, "R29"),
        Input::Sampled { .. } => "R36",
        Input::Unanswered { .. } => "18",
        Input::Tick => return of_deadlines(seen),
    };
    vec![rule]
}

fn of_members(seen: Seen<'_>) -> &'static str {
    match seen.before.state().follower() {
        Some(read) if !seen.after.in_isr_view(read) => "R6",
        Some(_) | None => "R5",
    }
}

fn of_replicas(seen: Seen<'_>, offline: &[BrokerId]) -> &'static str {
    match seen.before.state().follower() {
        Some(read) if offline.contains(&read) => "R7",
        Some(_) | None => "R6",
    }
}

/// Section 5 instead of `rule`, if the answer was no longer asked for.
fn gated(seen: Seen<'_>, stamp: &Stamp, rule: &'static str) -> &'static str {
    match stamp.check(&seen.before.current()) {
        Some(Gate::G1 | Gate::G2 | Gate::G3) => "5",
        Some(Gate::G4) | None => rule,
    }
}

fn of_row(seen: Seen<'_>, stamp: &Stamp, row: &Row) -> Vec<&'static str> {
    let rule = if row.error == ErrorCode::NONE {
        of_good_row(seen, stamp, row)
    } else {
        of_error(stamp.role, row.error)
    };
    let rule = gated(seen, stamp, rule);
    match (rule, row.preferred_read_replica) {
        ("R9", None) => vec![rule, "H3"],
        ("R10" | "R11", Some(_)) if !row.records.is_empty() => vec![rule, "H2"],
        (rule, _) => vec![rule],
    }
}

fn of_good_row(seen: Seen<'_>, stamp: &Stamp, row: &Row) -> &'static str {
    let hinted = row.preferred_read_replica.is_some();
    let starved = seen.after.state().why() == Some(Why::Starved) && seen.moved();
    let adopted = seen.after.state().follower().is_some() && seen.moved();
    match (stamp.role, stamp.lane) {
        (Role::Leader, Lane::Rack) if starved => "R13",
        (Role::Leader, Lane::Rack) if adopted => "R10",
        (Role::Leader, Lane::Rack) if hinted => "R11",
        (Role::Leader, Lane::Rack) => "R9",
        (Role::Leader, Lane::NoRack | Lane::V10) => "R12",
        (Role::Follower, _) if hinted => "R15",
        (Role::Follower, _) if seen.moved() => "R16",
        (Role::Follower, _) => "R14",
    }
}

fn of_error(role: Role, error: ErrorCode) -> &'static str {
    let other = match role {
        Role::Leader => "R23",
        Role::Follower => "R25",
    };
    if error == ErrorCode::OFFSET_OUT_OF_RANGE {
        "R26"
    } else if error == ErrorCode::FENCED_LEADER_EPOCH {
        "R27"
    } else if [
        ErrorCode::UNKNOWN_LEADER_EPOCH,
        ErrorCode::OFFSET_NOT_AVAILABLE,
    ]
    .contains(&error)
    {
        "R24"
    } else {
        other
    }
}

fn of_probe(seen: Seen<'_>, stamp: &Stamp, row: &Row) -> Vec<&'static str> {
    let hint = row.preferred_read_replica;
    let rule = if is_refuge(seen.before.state()) {
        "R44"
    } else if row.error == ErrorCode::OFFSET_OUT_OF_RANGE {
        "R22"
    } else if row.error != ErrorCode::NONE {
        "R21"
    } else if hint.is_none() {
        "R20"
    } else if hint == seen.before.state().follower() {
        "R17"
    } else if seen.after.state().follower() == hint || seen.after.deferred.is_some() {
        "R18"
    } else {
        "R19"
    };
    match gated(seen, stamp, rule) {
        "R20" => vec!["R20", "H3"],
        rule => vec![rule],
    }
}

fn of_link(seen: Seen<'_>, broker: BrokerId, change: LinkChange) -> Vec<&'static str> {
    let serves = seen
        .before
        .served()
        .is_some_and(|(served, _)| served == broker);
    match change {
        LinkChange::Lost if serves => vec!["R28"],
        LinkChange::Lost | LinkChange::Failed | LinkChange::Ready if seen.moved() => vec!["H12"],
        LinkChange::Lost | LinkChange::Failed | LinkChange::Ready => Vec::new(),
    }
}

fn of_deadlines(seen: Seen<'_>) -> Vec<&'static str> {
    let due = |timer: &Timer| {
        let due = seen.before.timers.due(*timer);
        due.is_some_and(|due| due <= seen.now)
    };
    let mut rules = Vec::new();
    for timer in Timer::ALL.iter().filter(|timer| due(timer)) {
        add(&mut rules, of_timer(*timer));
    }
    rules
}

fn of_timer(timer: Timer) -> &'static str {
    match timer {
        Timer::Reask => "R33",
        Timer::HardStop => "R34",
        Timer::Hold => "R35",
        Timer::Alternative => "4.1",
        Timer::ProbeRetry => "R21",
        Timer::Backoff => "16",
        Timer::Flight => "15",
        Timer::Connect => "H12",
        Timer::Refresh => "7.2",
        Timer::Resume => "R39",
        Timer::Refuge => "R44",
        Timer::Recheck | Timer::Trust | Timer::Unreachable => "R43",
        Timer::Hedge => "R29",
        Timer::Starve | Timer::Quiet => "14.3",
        Timer::Stuck | Timer::Grace => "R36",
    }
}
