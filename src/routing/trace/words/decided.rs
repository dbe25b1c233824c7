//! What a step decided.

use super::{Seen, ahead};
use crate::ids::BrokerId;
use crate::routing::output::{Count, Output};
use crate::routing::state::{Position, Probe, State, Until, Why};

/// The decision; `None` if nothing changed that a reader would ask about.
pub(super) fn decided(seen: Seen<'_>) -> Option<String> {
    let parts = [route(seen), probe(seen), position(seen)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        return Some(parts.join("; "));
    }
    let noted = seen.outputs.iter().any(|output| match output {
        Output::Count(Count::Hint(_) | Count::Cooldown(_)) | Output::Event(_) => true,
        Output::Count(_) => false,
        Output::Hedge { .. } | Output::Refresh(_) | Output::Dial { .. } => true,
        Output::Want(_)
        | Output::Withdraw { .. }
        | Output::Drain { .. }
        | Output::Probe { .. }
        | Output::CancelProbe { .. }
        | Output::CancelHedge { .. }
        | Output::Sample { .. }
        | Output::DropLane { .. }
        | Output::Resolve { .. }
        | Output::Validate { .. }
        | Output::Deliver(_)
        | Output::Truncate { .. }
        | Output::Cooling { .. } => false,
    });
    noted.then(|| format!("still read from {}", now_read(seen)))
}

fn now_read(seen: Seen<'_>) -> String {
    seen.reader(seen.after, seen.after.state())
}

fn route(seen: Seen<'_>) -> Option<String> {
    let (before, after) = (seen.before.state(), seen.after.state());
    if seen.moved() {
        let from = seen.reader(seen.before, before);
        let why = why(after).unwrap_or_default();
        let to = now_read(seen);
        return Some(match (before, after) {
            (State::Parked, _) => format!("read from {to}{why}"),
            (_, State::Parked) => format!("no longer read from {from}"),
            (State::Leader | State::Follower { .. } | State::Forced { .. }, _) => {
                format!("read from {to} instead of {from}{why}")
            }
        });
    }
    if let (None, Some(waiting)) = (&seen.before.deferred, &seen.after.deferred) {
        let to = seen.reader(seen.after, &waiting.state);
        return Some(format!(
            "to be read from {to} once the fetch in flight has answered"
        ));
    }
    if before == after {
        return None;
    }
    if before.lease() != after.lease() && after.lease().is_some() {
        return Some(format!(
            "still read from {}, under a new lease",
            now_read(seen)
        ));
    }
    let why = why(after).unwrap_or_default();
    Some(format!("still read from {}{why}", now_read(seen)))
}

/// Why a route is forced, in brackets.
fn why(state: &State) -> Option<String> {
    let broker = |words: &str, broker: BrokerId| format!(" (broker {broker} {words})");
    Some(match state.why()? {
        Why::Connecting(id) => broker("is still being connected", id),
        Why::Cooldown(id) => broker("is left alone", id),
        Why::NotInIsr(id) => broker("is not in the in-sync set", id),
        Why::UnknownBroker(id) => broker("is unknown or has no address", id),
        Why::NotYet(id) => broker("lags behind", id),
        Why::FormerLeader(id) => broker("led a moment ago", id),
        Why::Starved => " (asked with our rack it sends no records)".to_owned(),
        Why::Flap => " (recommendations change too often)".to_owned(),
        Why::SelfHint => " (it recommends itself)".to_owned(),
        Why::Policy => " (recommendations are not followed)".to_owned(),
    })
}

fn probe(seen: Seen<'_>) -> Option<String> {
    match (seen.before.probe(), seen.after.probe()) {
        (Probe::None, Probe::Wanted(wish) | Probe::InFlight(_, wish)) => Some(format!(
            "the leader is asked whom it recommends ({})",
            wish.name().replace('_', " ")
        )),
        (Probe::None, Probe::None) | (Probe::Wanted(_) | Probe::InFlight(..), _) => None,
    }
}

fn position(seen: Seen<'_>) -> Option<String> {
    let (before, after) = (seen.before.position(), seen.after.position());
    if before == after {
        return None;
    }
    Some(match after {
        Position::Unset => "there is no position".to_owned(),
        Position::Resolving => "no fetch until it is known where to read".to_owned(),
        Position::Ready => format!("fetching may go on at offset {}", seen.after.fetch_end()),
        Position::Validating => "no fetch until the position is validated".to_owned(),
        Position::Halted => "the partition is given up".to_owned(),
    })
}

/// Until when the present state holds, if the step set that.
pub(super) fn until(seen: Seen<'_>) -> Option<String> {
    let (before, after) = (seen.before.state(), seen.after.state());
    if before == after {
        return None;
    }
    match after {
        State::Parked | State::Leader => None,
        State::Follower { .. } => {
            let lease = after.lease()?;
            let (ask, stop) = (
                ahead(lease.ask_at, seen.now),
                ahead(lease.stop_at, seen.now),
            );
            Some(format!(
                "the leader is asked again in {ask}; unconfirmed it ends in {stop}"
            ))
        }
        State::Forced { until, .. } => Some(match until {
            Until::At(end) => format!("this holds for {}", ahead(*end, seen.now)),
            Until::Link => "this holds until its connection is ready or has failed".to_owned(),
            Until::Version => "this holds until metadata changes".to_owned(),
            Until::Permit => "this holds until the broker's breaker readmits it".to_owned(),
            Until::Epoch => "this holds until the next leader epoch".to_owned(),
            Until::Probe => "this holds until the leader has answered".to_owned(),
        }),
    }
}
