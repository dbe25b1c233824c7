//! Inputs in words: what came in.

use crate::ids::{BrokerId, LeaderEpoch};
use crate::routing::facts::Class;
use crate::routing::input::{
    Assigned, Found, Indexed, Input, Leadership, LinkChange, Source, Verdict,
};
use crate::routing::stamp::{Role, Stamp};
use crate::wire::ErrorCode;
use crate::wire::api::fetch::Row;

/// The input, for people. No wildcard: a new input needs its words.
pub(super) fn came(input: &Input) -> String {
    match input {
        Input::Assigned(assigned) => assignment(assigned),
        Input::LeaderChanged(leadership) => leader(*leadership),
        Input::LeaderLost => "metadata names no leader for the present epoch".to_owned(),
        Input::IsrChanged { isr, .. } => format!("in-sync replicas are {}", list(isr)),
        Input::ReplicasChanged { replicas, offline } => {
            format!("replicas are {}, offline {}", list(replicas), list(offline))
        }
        Input::MetadataVersion(version) => format!("metadata version {version} was applied"),
        Input::Row { stamp, row, .. } => answer(stamp, row),
        Input::ProbeRow { stamp, row } => probe(stamp, row),
        Input::ProbeFailed { stamp } => {
            format!("leader {} did not answer whom it recommends", stamp.broker)
        }
        Input::Drained { stamp } => {
            let broker = stamp.broker;
            format!("nothing of this partition is in flight at broker {broker}")
        }
        Input::Indexed(indexed) => index(*indexed),
        Input::LinkChanged {
            broker,
            class,
            change,
        } => link(*broker, *class, *change),
        Input::LinkRestarted { broker } => format!("the link to broker {broker} started again"),
        Input::BreakerOpened { broker } => format!("the breaker of broker {broker} opened"),
        Input::BreakerClosed { broker } => format!("the breaker of broker {broker} closed"),
        Input::Readmitted { broker } => {
            format!("the breaker of broker {broker} readmits this partition")
        }
        Input::Resolved { found, .. } => resolved(*found),
        Input::Validated { verdict, .. } => validated(*verdict),
        Input::Seek { offset, .. } => format!("a seek to offset {offset}"),
        Input::Pause => "a pause".to_owned(),
        Input::Resume => "the end of a pause".to_owned(),
        Input::Room(true) => "the buffer has room again".to_owned(),
        Input::Room(false) => "the buffer is full".to_owned(),
        Input::Throttled { broker, .. } => format!("broker {broker} throttles us"),
        Input::Revoked => "the partition was taken from us".to_owned(),
        Input::TopicRecreated { id, .. } => format!("the topic was created anew as {id}"),
        Input::TopicGone => "the topic is gone".to_owned(),
        Input::LaneDropped { broker } => {
            format!("broker {broker} is asked at Fetch v10 on its lane without rack")
        }
        Input::LaneRestored { broker } => {
            format!("broker {broker} is asked at its own Fetch version again")
        }
        Input::Silent { broker, class } => silent(*broker, *class),
        Input::Quiet { broker, class } => {
            format!(
                "the {} to broker {broker} has been quiet for a while",
                connection(*class)
            )
        }
        Input::HedgeRow { stamp, row } => format!("beside the fetch, {}", answer(stamp, row)),
        Input::HedgeFailed { stamp } => {
            let leader = stamp.broker;
            format!("the second fetch, at leader {leader}, got no answer")
        }
        Input::Sampled { leader_end, .. } => {
            format!("the leader's log ends at {leader_end}, sampled because ours stands still")
        }
        Input::Unanswered { .. } => "the leader owes an answer about the position".to_owned(),
        Input::Tick => "a deadline passed".to_owned(),
    }
}

fn assignment(assigned: &Assigned) -> String {
    let position = match assigned.position {
        Some((offset, _)) => format!(", to be read from offset {offset}"),
        None => String::new(),
    };
    format!(
        "the partition is assigned to us: {}, in sync {}{position}",
        who_leads(assigned.leadership),
        list(&assigned.isr)
    )
}

fn leader(leadership: Leadership) -> String {
    format!("metadata says: {}", who_leads(leadership))
}

fn who_leads(leadership: Leadership) -> String {
    let epoch = |epoch: LeaderEpoch| format!(" at epoch {epoch}");
    let epoch = leadership.epoch.map(epoch).unwrap_or_default();
    match (leadership.leader, leadership.addressable) {
        (Some(leader), true) => format!("leader {leader}{epoch}"),
        (Some(leader), false) => format!("leader {leader}, whose address is unknown{epoch}"),
        (None, _) => format!("no leader{epoch}"),
    }
}

fn answer(stamp: &Stamp, row: &Row) -> String {
    let role = role(stamp.role);
    let broker = stamp.broker;
    if row.error != ErrorCode::NONE {
        return format!("{role} {broker} answers {}", row.error);
    }
    let records = match row.records.len() {
        0 => "no records".to_owned(),
        bytes => format!("{bytes} bytes from offset {}", stamp.offset),
    };
    format!("{role} {broker} sends {records}{}", hint(row))
}

fn probe(stamp: &Stamp, row: &Row) -> String {
    let broker = stamp.broker;
    if row.error != ErrorCode::NONE {
        return format!(
            "leader {broker} answers the question whom it recommends with {}",
            row.error
        );
    }
    match row.preferred_read_replica {
        Some(hint) => format!("leader {broker}, asked whom it recommends, says broker {hint}"),
        None => format!("leader {broker}, asked whom it recommends, says nobody"),
    }
}

fn hint(row: &Row) -> String {
    row.preferred_read_replica
        .map_or_else(String::new, |hint| format!(" and recommends broker {hint}"))
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Follower => "follower",
    }
}

fn index(indexed: Indexed) -> String {
    match indexed {
        Indexed::Advanced { fetch_end, .. } => format!("records up to offset {fetch_end} are in"),
        Indexed::TooLarge { needed } => format!("the next batch needs {needed} bytes"),
        Indexed::Corrupt => "the batch fails its checksum".to_owned(),
        Indexed::Poison => "the batch cannot be read, its checksum holds".to_owned(),
    }
}

fn link(broker: BrokerId, class: Class, change: LinkChange) -> String {
    let how = match change {
        LinkChange::Ready => "is ready",
        LinkChange::Lost => "is lost",
        LinkChange::Failed => "cannot be opened",
    };
    format!("the {} to broker {broker} {how}", connection(class))
}

fn silent(broker: BrokerId, class: Class) -> String {
    format!("broker {broker} is silent on its {}", connection(class))
}

fn connection(class: Class) -> &'static str {
    match class {
        Class::Rack => "data connection",
        Class::NoRack => "connection without rack",
        Class::Control => "control connection",
    }
}

fn resolved(found: Found) -> String {
    match found {
        Found::Nothing => "there is no offset to read from".to_owned(),
        Found::Offset { offset, source, .. } => {
            let source = match source {
                Source::Committed => "the group's commit",
                Source::Validated => "the group's commit, validated",
                Source::Reset => "the reset policy",
                Source::Diverged => "our history differs from the leader's beyond it",
                Source::Inside => "the leader's bounds hold it",
            };
            format!("the offset to read from is {offset} ({source})")
        }
    }
}

fn validated(verdict: Verdict) -> String {
    match verdict {
        Verdict::Agrees => "the leader's history agrees with ours".to_owned(),
        Verdict::Unknown => "the leader cannot compare histories".to_owned(),
        Verdict::Truncated { to, .. } => format!("the leader's log was cut at offset {to}"),
        Verdict::Halt => "the log was cut, and auto.offset.reset is none".to_owned(),
    }
}

fn list(brokers: &[BrokerId]) -> String {
    if brokers.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<String> = brokers.iter().map(BrokerId::to_string).collect();
    words.join(" ")
}
