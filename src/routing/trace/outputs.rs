//! Outputs in short, as a trace records and compares them.

use crate::routing::event::{Event, RoutingChange};
use crate::routing::output::{Count, Demand, Output, Resolve};
use crate::routing::stamp::{Gate, Role};

/// One output on one line: everything the machine decided in it, no record bytes.
pub(super) fn describe(output: &Output) -> String {
    match output {
        Output::Want(demand) => format!("want {}", describe_demand(demand)),
        Output::Withdraw { broker, lane } => format!("withdraw {broker} {lane:?}"),
        Output::Drain { broker, lane } => format!("drain {broker} {lane:?}"),
        Output::Probe { question, wish } => {
            format!("probe {} for {}", describe_demand(question), wish.name())
        }
        Output::Hedge { question } => format!("hedge {}", describe_demand(question)),
        Output::CancelHedge { broker } => format!("cancel hedge {broker}"),
        Output::Sample { generation } => format!("sample {generation}"),
        Output::CancelProbe { broker } => format!("cancel probe {broker}"),
        Output::Dial { broker, class } => format!("dial {broker} {class:?}"),
        Output::DropLane { broker } => format!("drop lane {broker}"),
        Output::Refresh(reason) => format!("refresh {reason:?}"),
        Output::Resolve { generation, what } => match what {
            Resolve::Start => format!("resolve {generation} start"),
            Resolve::Anew => format!("resolve {generation} anew"),
            Resolve::OutOfRange { offset, epoch } => {
                format!("resolve {generation} refused {offset} {epoch:?}")
            }
        },
        Output::Validate {
            generation,
            offset,
            epoch,
            leader_epoch,
            told,
        } => format!("validate {generation} at {offset} {epoch} {leader_epoch:?} {told:?}"),
        Output::Deliver(delivery) => format!(
            "deliver {} bytes from {}",
            delivery.records.len(),
            delivery.stamp.offset
        ),
        Output::Truncate { from, to } => format!("truncate {from} to {to}"),
        Output::Cooling { broker, fault } => {
            let fault = fault.map_or("breaker", |fault| fault.name());
            format!("cooling {broker} {fault}")
        }
        Output::Event(event) => format!("event {}", describe_event(event)),
        Output::Count(count) => format!("count {}", describe_count(*count)),
    }
}

fn describe_demand(demand: &Demand) -> String {
    let stamp = &demand.stamp;
    format!(
        "{} {:?} {:?} at {} epoch {:?} after {:?} up to {} as {}.{}",
        stamp.broker,
        stamp.lane,
        stamp.role,
        stamp.offset,
        stamp.epoch.map(|epoch| epoch.0),
        demand.last_fetched_epoch.map(|epoch| epoch.0),
        demand.max_bytes,
        stamp.position,
        stamp.route,
    )
}

fn describe_event(event: &Event) -> String {
    match event {
        Event::RoutingChange(change) => describe_change(change),
        Event::PositionReset { from, to, bound } => {
            format!("position_reset {from} to {to} {}", bound.name())
        }
        Event::Truncated { from, to, epochs } => {
            format!("truncated {from} to {to} epochs {epochs:?}")
        }
        Event::CaughtUp { with, end } => match with {
            Role::Leader => format!("caught_up_with_leader {end}"),
            Role::Follower => format!("caught_up_with_replica {end}"),
        },
        Event::CorruptBatch { offset } => format!("corrupt_batch {offset}"),
        Event::Refused { code } => format!("refused {}", code.0),
        Event::Halted(why) => format!("halted {}", why.name()),
        Event::LeaseOverdue(overdue) => format!("lease_overdue {overdue}"),
        Event::LeaderUnreachable(silent) => format!("leader_unreachable {silent}"),
        Event::Starving(starving) => format!("starving {starving}"),
        Event::TopicGone => "topic_gone".to_owned(),
    }
}

fn describe_change(change: &RoutingChange) -> String {
    let end = |end: &crate::routing::event::Endpoint| {
        let broker = end.broker.map_or_else(String::new, |id| format!(" {id}"));
        format!("{}{broker}", end.state)
    };
    format!(
        "routing_change {} to {} because {} hint {:?} lease {:?} {:?} generation {}",
        end(&change.from),
        end(&change.to),
        change.reason.name(),
        change.hint.map(|hint| hint.0),
        change.lease_kind,
        change.lease_left,
        change.generation,
    )
}

fn describe_count(count: Count) -> String {
    match count {
        Count::Hint(outcome) => format!("hint {outcome}"),
        Count::Probe { outcome, wish } => format!("probe {outcome} {}", wish.name()),
        Count::Wasted { gate, bytes } => {
            format!("wasted {} {bytes}", gate.map_or("probe", Gate::name))
        }
        Count::Cooldown(fault) => format!("cooldown {}", fault.name()),
        Count::UnknownCode(code) => format!("unknown code {code}"),
        Count::ValidationSkipped => "validation skipped".to_owned(),
        Count::Hedge(outcome) => format!("hedge {outcome}"),
    }
}
