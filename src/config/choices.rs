//! Properties that are one of a few words.

use std::time::Duration;

use super::property::Property;
use super::section::{choice, words};
use crate::assign::Assignor;
use crate::offsets::resolve::Reset;
use crate::records::BatchPolicy;
use crate::routing::{CooldownPolicy, FollowHints, IsrPolicy, RefugePolicy};
use crate::wire::api::Isolation;

words! { Isolation {
    ReadUncommitted = "read_uncommitted",
    ReadCommitted = "read_committed",
} }

words! { FollowHints {
    Always = "always",
    Rack = "rack",
    Never = "never",
} }

words! { IsrPolicy {
    Require = "require",
    Advise = "advise",
} }

words! { RefugePolicy {
    Isr = "isr",
    Never = "never",
} }

words! { CooldownPolicy {
    Exponential = "exponential",
    Fixed = "fixed",
} }

words! { BatchPolicy {
    Halt = "halt",
    Skip = "skip",
    DeadLetterRaw = "dead_letter_raw",
} }

words! { Assignor {
    CooperativeSticky = "cooperative-sticky"
        or "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    Range = "range" or "org.apache.kafka.clients.consumer.RangeAssignor",
    RoundRobin = "roundrobin" or "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    Sticky = "sticky" or "org.apache.kafka.clients.consumer.StickyAssignor",
} }

choice! {
    /// What becomes of the names in `bootstrap.servers`.
    DnsLookup {
        /// All addresses of a name are tried.
        UseAllDnsIps = "use_all_dns_ips",
        /// The same, and each bootstrap name is replaced at the start by the canonical names of its
        /// addresses (KIP-235), which certificates are then checked against.
        ResolveCanonicalBootstrapServersOnly = "resolve_canonical_bootstrap_servers_only",
    }
}

choice! {
    /// How many replicas must have a record before it counts as written.
    Acks {
        /// All in-sync replicas.
        All = "all" or "-1",
        /// The leader alone.
        Leader = "1",
    }
}

choice! {
    /// Codec of produced batches.
    Compression {
        /// None.
        None = "none",
        /// Deflate.
        Gzip = "gzip",
        /// Snappy.
        Snappy = "snappy",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
}

impl Property for Reset {
    fn accepts() -> String {
        "one of `latest`, `earliest`, `none`, `by_duration:<ISO 8601>` such as `by_duration:PT6H`"
            .into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "latest" => Some(Self::Latest),
            "earliest" => Some(Self::Earliest),
            "none" => Some(Self::None),
            other => iso_duration(other.strip_prefix("by_duration:")?).map(Self::ByDuration),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Latest => "latest".into(),
            Self::Earliest => "earliest".into(),
            Self::None => "none".into(),
            Self::ByDuration(duration) => {
                let (whole, millis) = (duration.as_secs(), duration.subsec_millis());
                if millis == 0 {
                    format!("by_duration:PT{whole}S")
                } else {
                    format!("by_duration:PT{whole}.{millis:03}S")
                }
            }
        }
    }
}

/// Which rack the assignor is told (KIP-881).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AssignmentRack {
    /// `client.rack`.
    Inherit,
    /// None.
    None,
    /// This one.
    Rack(crate::ids::Rack),
}

impl Property for AssignmentRack {
    fn accepts() -> String {
        "`inherit`, `none` or a rack".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "" => None,
            "inherit" => Some(Self::Inherit),
            "none" => Some(Self::None),
            rack => Some(Self::Rack(rack.into())),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Inherit => "inherit".into(),
            Self::None => "none".into(),
            Self::Rack(rack) => rack.to_string(),
        }
    }
}

/// Reads days, hours, minutes and seconds of an ISO 8601 duration, as Java's `Duration.parse` does;
/// negative parts and parts without a number are refused.
fn iso_duration(text: &str) -> Option<Duration> {
    let text = text.to_ascii_uppercase();
    let body = text.strip_prefix('P')?;
    let (days, time) = match body.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None => (body, ""),
    };
    if days.is_empty() && time.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    let (mut rest, mut units) = (days, [("D", 86_400_u32)].as_slice());
    for part in [time, ""] {
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, tail) = rest.split_at(end);
            let index = units.iter().position(|(unit, _)| tail.starts_with(unit))?;
            let (unit, seconds) = *units.get(index)?;
            // Fractions belong to seconds alone.
            if number.contains('.') && unit != "S" {
                return None;
            }
            let value: f64 = number.parse().ok()?;
            total = total.checked_add(
                Duration::try_from_secs_f64(value)
                    .ok()?
                    .checked_mul(seconds)?,
            )?;
            rest = tail.strip_prefix(unit)?;
            units = units.get(index + 1..)?;
        }
        (rest, units) = (part, &[("H", 3_600), ("M", 60), ("S", 1)]);
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_takes_an_iso_duration() {
        let seconds = |text: &str| match Reset::parse(&format!("by_duration:{text}")) {
            Some(Reset::ByDuration(duration)) => Some(duration.as_millis()),
            Some(_) | None => None,
        };
        assert_eq!(seconds("PT6H"), Some(6 * 3_600_000));
        assert_eq!(
            seconds("P2DT3M4.5S"),
            Some((2 * 86_400 + 184) * 1_000 + 500)
        );
        assert_eq!(seconds("pt1m"), Some(60_000));
        for bad in [
            "", "P", "PT", "6H", "PT6", "PT1M2H", "P1H", "PT-1S", "PT1.5H", "PTS", "P1Y",
        ] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for text in [
            "latest",
            "earliest",
            "none",
            "by_duration:PT90S",
            "by_duration:PT0.250S",
        ] {
            assert_eq!(Reset::parse(text).unwrap().show(), text);
        }
        let java = "org.apache.kafka.clients.consumer.RangeAssignor";
        assert_eq!(Assignor::parse(java).unwrap().show(), "range");
    }
}
