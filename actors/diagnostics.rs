//! Looks at the fleet as a whole every few seconds: gauges, and what is wrong with the set-up.
//!
//! It reads the blackboard that all others write and asks nobody anything. Without it nothing else
//! stops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use arc_swap::ArcSwap;

use super::clock::Clock;
use super::supervise::{DeathWatch, Watched, guarded};
use super::telemetry::Telemetry;
use crate::cluster::Snapshot;
use crate::fleet::{DiagnosticReport, Event, FetchedBytes, LaneName, PartitionReport, Zone};
use crate::ids::{Moment, Rack, TopicPartition};
use crate::routing::diagnostics::{BrokerSeen, Diagnostics, Facts, Output, Zones};

/// Hosts the machine of the diagnostics. Runs on the control thread.
pub(crate) struct DiagnosticsActor {
    machine: Diagnostics,
    rack: Option<Rack>,
    published: Arc<ArcSwap<Snapshot>>,
    telemetry: Arc<Telemetry>,
    clock: Clock,
    /// Labels of `route_partitions` set so far: one that no partition has any more is set to 0.
    states: BTreeMap<(&'static str, &'static str), u64>,
    watch: DeathWatch<&'static str>,
}

impl DiagnosticsActor {
    /// An actor that begins to look with its start. `rack` is the one that requests name.
    pub(crate) fn new(
        rack: Option<Rack>,
        published: Arc<ArcSwap<Snapshot>>,
        (telemetry, clock): (Arc<Telemetry>, Clock),
        watch: DeathWatch<&'static str>,
    ) -> Self {
        Self {
            machine: Diagnostics::new(rack.clone()),
            rack,
            published,
            telemetry,
            clock,
            states: BTreeMap::new(),
            watch,
        }
    }

    fn look(&mut self, _: &mut Context<Self>) {
        let now = self.clock.now();
        let partitions = self.telemetry.report().partitions;
        self.set_states(&partitions);
        set_partition_gauges(&self.telemetry, &partitions, now);
        let facts = self.facts(&partitions);
        self.machine.handle(&facts, now);
        let mut changed = false;
        while let Some(output) = self.machine.poll_output() {
            changed = true;
            self.tell(output);
        }
        if changed {
            let report = |one: &crate::routing::diagnostics::Diagnostic| DiagnosticReport {
                name: one.name(),
                detail: one.to_string(),
            };
            let raised = self.machine.raised().map(report).collect();
            self.telemetry.set_diagnostics(raised);
        }
    }

    fn tell(&self, output: Output) {
        let (name, detail, cleared) = match output {
            Output::Raised(diagnostic) => (diagnostic.name(), diagnostic.to_string(), false),
            Output::Cleared(name) => (name, String::new(), true),
        };
        match cleared {
            true => tracing::info!(name, "no longer so"),
            false => tracing::warn!(name, "{detail}"),
        }
        self.telemetry.emit(Event::Diagnostic {
            name,
            detail,
            cleared,
        });
    }

    fn facts(&self, partitions: &[PartitionReport]) -> Facts {
        let snapshot = self.published.load();
        let fetched = self.telemetry.report().fetched;
        let reading = |row: &&FetchedBytes| match row.lane {
            LaneName::Rack | LaneName::NoRack | LaneName::V10 => true,
            LaneName::Probe | LaneName::Hedge => false,
        };
        let which =
            |test: fn(&PartitionReport) -> bool| partitions.iter().filter(move |one| test(one));
        let leader = |one: &PartitionReport| snapshot.partition(&one.partition)?.leader();
        let starve: BTreeSet<_> = which(|one| one.starving).filter_map(leader).collect();
        Facts {
            brokers: snapshot
                .brokers()
                .map(|broker| {
                    let known = self.telemetry.link(broker.id, starve.contains(&broker.id));
                    let seen = BrokerSeen {
                        rack: broker.rack.clone(),
                        ..known
                    };
                    (broker.id, seen)
                })
                .collect(),
            received: zones(fetched.iter()),
            read: zones(fetched.iter().filter(reading)),
            hints: self.telemetry.hints(),
            replica_passed_over: partitions
                .iter()
                .any(|one| self.passes_over(one, &snapshot)),
            unreachable: which(|one| one.leader_unreachable)
                .map(|one| one.partition.clone())
                .collect(),
            not_in_isr: which(|one| one.why == Some("not_in_isr")).count(),
            partitions: partitions.len(),
        }
    }

    /// Whether a partition is read from another rack although a replica in ours is in sync.
    fn passes_over(&self, partition: &PartitionReport, snapshot: &Snapshot) -> bool {
        let Some(rack) = &self.rack else {
            return false;
        };
        let ours = |id| {
            snapshot
                .broker(id)
                .is_some_and(|broker| broker.rack.as_ref() == Some(rack))
        };
        let row = snapshot.partition(&partition.partition);
        partition.broker.is_some_and(|read| !ours(read))
            && row.is_some_and(|row| row.isr.iter().any(|member| ours(*member)))
    }

    fn set_states(&mut self, partitions: &[PartitionReport]) {
        self.states.values_mut().for_each(|count| *count = 0);
        for one in partitions {
            let labels = (one.state, one.why.unwrap_or(""));
            *self.states.entry(labels).or_default() += 1;
        }
        for ((state, why), count) in &self.states {
            metrics::gauge!("nearside_route_partitions", "state" => *state, "why" => *why)
                .set(float(*count));
        }
    }
}

fn zones<'a>(rows: impl Iterator<Item = &'a FetchedBytes>) -> Zones {
    let mut zones = Zones::default();
    for row in rows {
        match row.zone {
            Zone::SameZone => zones.same += row.bytes,
            Zone::CrossZone => zones.cross += row.bytes,
            Zone::Unknown => zones.unknown += row.bytes,
        }
    }
    zones
}

fn set_partition_gauges(telemetry: &Telemetry, partitions: &[PartitionReport], now: Moment) {
    for one in partitions {
        let labels = labels(&one.partition);
        let flag = |value: bool| if value { 1.0 } else { 0.0 };
        metrics::gauge!("nearside_route_lease_overdue", &labels).set(flag(one.lease_overdue));
        metrics::gauge!("nearside_route_starving", &labels).set(flag(one.starving));
        let Some(told) = telemetry.told(&one.partition) else {
            continue;
        };
        let age = |at: Moment| now.since(at).as_secs_f64() * 1_000.0;
        if let Some(at) = told.confirmed_at {
            metrics::gauge!("nearside_route_truth_age_ms", &labels).set(age(at));
        }
        if let Some(at) = told.end_told_at {
            metrics::gauge!("nearside_route_lag_age_ms", &labels).set(age(at));
        }
    }
}

/// A partition that is gone would keep its last values for ever.
pub(crate) fn forget(partition: &TopicPartition) {
    let labels = labels(partition);
    metrics::gauge!("nearside_route_lease_overdue", &labels).set(0.0);
    metrics::gauge!("nearside_route_starving", &labels).set(0.0);
    metrics::gauge!("nearside_route_truth_age_ms", &labels).set(0.0);
    metrics::gauge!("nearside_route_lag_age_ms", &labels).set(0.0);
}

fn labels(partition: &TopicPartition) -> [(&'static str, String); 1] {
    [("partition", partition.to_string())]
}

fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

impl Actor for DiagnosticsActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // The first snapshot is there within moments; what is wrong with the racks is told soon.
        ctx.run_later(FIRST, |actor, ctx| guarded(actor, ctx, Self::look));
        ctx.run_interval(PAUSE, |actor, ctx| guarded(actor, ctx, Self::look));
    }
}

impl Watched for DiagnosticsActor {
    type Id = &'static str;

    fn watch(&mut self) -> &mut DeathWatch<&'static str> {
        &mut self.watch
    }
}

/// From the start to the first look.
const FIRST: Duration = Duration::from_secs(1);
/// Between looks.
const PAUSE: Duration = Duration::from_secs(5);
