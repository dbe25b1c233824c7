//! What follows from a step: what the machine asked its host to do.

use super::{Seen, ahead, decided};
use crate::ids::BrokerId;
use crate::routing::cooldown::Fault;
use crate::routing::event::Event;
use crate::routing::output::{Output, Resolve};
use crate::routing::stamp::Role;

/// One entry per consequence, in the order they are carried out.
pub(super) fn follows(seen: Seen<'_>) -> Vec<String> {
    let outputs = seen.outputs.iter().filter_map(|output| one(seen, output));
    decided::until(seen).into_iter().chain(outputs).collect()
}

fn one(seen: Seen<'_>, output: &Output) -> Option<String> {
    Some(match output {
        Output::Want(demand) => format!(
            "next fetch at broker {} from offset {}",
            demand.stamp.broker, demand.stamp.offset
        ),
        Output::Probe { question, .. } => format!("question to leader {}", question.stamp.broker),
        Output::Hedge { question } => format!(
            "leader {} is asked for the same records at once",
            question.stamp.broker
        ),
        Output::Sample { .. } => "the leader's end of the log is looked up".to_owned(),
        Output::Dial { broker, .. } => format!("connection to broker {broker} is opened"),
        Output::DropLane { broker } => format!("broker {broker} is asked at Fetch v10"),
        Output::Refresh(_) => "fresh metadata is asked for".to_owned(),
        Output::Resolve {
            what: Resolve::Start,
            ..
        } => "the coordinator is asked where to start".to_owned(),
        Output::Resolve {
            what: Resolve::Anew,
            ..
        } => "the reset policy is asked where to start".to_owned(),
        Output::Resolve {
            what: Resolve::OutOfRange { offset, .. },
            ..
        } => format!("the leader is asked about its bounds around offset {offset}"),
        Output::Validate { offset, epoch, .. } => {
            format!("the leader is asked whether epoch {epoch} reaches offset {offset}")
        }
        Output::Truncate { from, to } => format!("records from {to} up to {from} are dropped"),
        Output::Cooling { broker, fault } => cooling(seen, *broker, *fault),
        Output::Event(event) => return told(event),
        Output::Withdraw { .. }
        | Output::Drain { .. }
        | Output::CancelProbe { .. }
        | Output::CancelHedge { .. }
        | Output::Deliver(_)
        | Output::Count(_) => return None,
    })
}

fn cooling(seen: Seen<'_>, broker: BrokerId, fault: Option<Fault>) -> String {
    let until = seen.after.ledger.until(broker, seen.now);
    let wait = until.map_or_else(String::new, |end| format!(" for {}", ahead(end, seen.now)));
    match fault {
        Some(fault) => {
            let fault = fault.name().replace('_', " ");
            format!("broker {broker} is left alone{wait} ({fault})")
        }
        None => format!("broker {broker} is left alone until its breaker lets us back"),
    }
}

fn told(event: &Event) -> Option<String> {
    Some(match event {
        Event::RoutingChange(change) => format!(
            "event `routing_change`, reason `{}`, generation {}",
            change.reason.name(),
            change.generation
        ),
        Event::PositionReset { from, to, .. } => format!("position reset from {from} to {to}"),
        Event::CaughtUp {
            with: Role::Leader,
            end,
        } => format!("caught up with the leader at {end}"),
        Event::CaughtUp {
            with: Role::Follower,
            end,
        } => format!("caught up with the follower at {end}, which need not be the end"),
        Event::CorruptBatch { offset } => format!("corrupt batch at offset {offset} reported"),
        Event::Refused { code } => format!("refusal reported: {code}"),
        Event::LeaseOverdue(true) => "lease overdue, the leader is out of reach".to_owned(),
        Event::LeaseOverdue(false) => "lease no longer overdue".to_owned(),
        Event::LeaderUnreachable(true) => "leader out of reach, nobody else may be read".to_owned(),
        Event::LeaderUnreachable(false) => "leader no longer out of reach".to_owned(),
        Event::Starving(true) => "starving: the leader gives nothing on any lane".to_owned(),
        Event::Starving(false) => "no longer starving".to_owned(),
        Event::TopicGone => "the end of the topic reported".to_owned(),
        Event::Truncated { .. } | Event::Halted(_) => return None,
    })
}
