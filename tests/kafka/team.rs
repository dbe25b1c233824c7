//! Three fleets of one group, one in each rack.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use nearside::cli::kafka::{Cluster, RACKS, until};
use nearside::fleet::{LaneName, Stopped, Zone};
use nearside::prelude::*;
use tokio::runtime::Runtime;

use crate::journal::Journal;

/// The members of one group on one topic, and what their handlers did.
pub(crate) struct Team {
    group: String,
    topic: String,
    bootstrap: String,
    pub(crate) journal: Arc<Journal>,
    members: BTreeMap<&'static str, FleetHandle>,
    runtime: Runtime,
}

impl Team {
    /// A member in every rack, whose handlers only note what they get.
    pub(crate) fn start(cluster: &Cluster, topic: &str) -> Result<Self, Failed> {
        let mut team = Self::empty(cluster, topic)?;
        for rack in RACKS {
            team.join(rack)?;
        }
        Ok(team)
    }

    /// A team without members.
    pub(crate) fn empty(cluster: &Cluster, topic: &str) -> Result<Self, Failed> {
        Ok(Self {
            group: format!("{topic}-readers"),
            topic: topic.to_owned(),
            bootstrap: cluster.bootstrap(),
            journal: Arc::default(),
            members: BTreeMap::new(),
            runtime: Runtime::new()?,
        })
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Starts the member of a rack.
    pub(crate) fn join(&mut self, rack: &'static str) -> Result<(), Failed> {
        let journal = Arc::clone(&self.journal);
        let subscription =
            self.subscription()
                .handler(handler_fn(move |message: Message<Raw>, _: Context| {
                    journal.note(&message);
                    std::future::ready(Ok(Outcome::Done))
                }));
        self.join_with(rack, subscription)
    }

    /// A subscription to the team's topic that still needs its handler.
    pub(crate) fn subscription(&self) -> nearside::handler::SubscriptionBuilder {
        Subscription::topics([self.topic.as_str()])
    }

    /// Starts the member of a rack with a subscription of its own.
    pub(crate) fn join_with(
        &mut self,
        rack: &'static str,
        subscription: Subscription,
    ) -> Result<(), Failed> {
        let builder = Fleet::builder(self.group.as_str())
            .bootstrap(&self.bootstrap)
            .property("client.rack", rack)
            .property("auto.offset.reset", "earliest")
            .subscribe(subscription);
        let handle = self.runtime.block_on(builder.start())?;
        self.members.insert(rack, handle);
        Ok(())
    }

    /// Stops the member of a rack, which must finish its work.
    pub(crate) fn leave(&mut self, rack: &str) -> Result<Arc<Stopped>, Failed> {
        let handle = self.members.remove(rack).ok_or("no member in that rack")?;
        let stopped = self.runtime.block_on(handle.stop(STOP_LIMIT));
        Stopped::clone(&stopped).into_result()?;
        Ok(stopped)
    }

    /// Stops everybody.
    pub(crate) fn dissolve(mut self) -> Result<(), Failed> {
        for rack in RACKS {
            if self.members.contains_key(rack) {
                self.leave(rack)?;
            }
        }
        Ok(())
    }

    /// The handle of a rack's member.
    pub(crate) fn member(&self, rack: &str) -> Result<&FleetHandle, Failed> {
        self.members
            .get(rack)
            .ok_or_else(|| "no member in that rack".into())
    }

    /// Waits until `records` different records were handled.
    pub(crate) fn wait_handled(&self, records: u64) -> Result<(), Failed> {
        let what = format!("{records} records of {} handled", self.topic);
        Ok(until(&what, PATIENCE, || match self.journal.handled() {
            handled if handled >= records => Ok(()),
            handled => Err(format!("{handled} handled, {}", self.sketch())),
        })?)
    }

    /// Waits until `more` records were handled beside those before, or all of `records`: a slow
    /// machine may take longer over a fault than the producer over its load.
    pub(crate) fn wait_flowing(&self, more: u64, records: u64) -> Result<(), Failed> {
        let wanted = self.journal.handled() + more;
        if wanted > records {
            eprintln!("{}: the load ended before the fault did", self.topic);
        }
        self.wait_handled(wanted.min(records))
    }

    /// Waits until the members together own every partition and each reads as `expected` says,
    /// given its rack and the id of the broker it reads from.
    pub(crate) fn wait_routes(
        &self,
        partitions: usize,
        what: &str,
        expected: impl Fn(&str, i32) -> bool,
    ) -> Result<(), Failed> {
        Ok(until(what, PATIENCE, || {
            let mut owned = BTreeSet::new();
            for (rack, member) in &self.members {
                for row in member.report().partitions {
                    let broker = row.broker.filter(|_| row.state != "parked");
                    if broker.is_some_and(|broker| expected(rack, broker.0)) {
                        owned.insert(row.partition.partition);
                    }
                }
            }
            if owned.len() == partitions {
                Ok(())
            } else {
                Err(self.sketch())
            }
        })?)
    }

    /// Record bytes received by all members, per broker.
    pub(crate) fn bytes_by_broker(&self) -> BTreeMap<i32, u64> {
        let mut bytes = BTreeMap::new();
        for row in self
            .members
            .values()
            .flat_map(|member| member.report().fetched)
        {
            *bytes.entry(row.broker.0).or_default() += row.bytes;
        }
        bytes
    }

    /// Record bytes received from other racks, probes left out.
    pub(crate) fn foreign_bytes(&self) -> u64 {
        let rows = self
            .members
            .values()
            .flat_map(|member| member.report().fetched);
        let foreign = rows.filter(|row| row.zone != Zone::SameZone && row.lane != LaneName::Probe);
        foreign.map(|row| row.bytes).sum()
    }

    /// Every change of route so far, one a line, for failure messages.
    pub(crate) fn routes_taken(&self) -> String {
        let mut text = String::new();
        for (rack, event) in self.events() {
            if let Event::RoutingChange(change) = event {
                let end = |end: &nearside::fleet::RouteEnd| {
                    format!("{} {}", end.state, end.broker.map_or(-1, |broker| broker.0))
                };
                let (from, to) = (end(&change.from), end(&change.to));
                text += &format!(
                    "\n{rack}: {} {from} -> {to} ({})",
                    change.partition, change.reason
                );
            }
        }
        for (rack, member) in &self.members {
            text += &format!("\n{rack}: {:?}", member.report().fetched);
        }
        text
    }

    /// All events of all members, with the rack they come from.
    pub(crate) fn events(&self) -> Vec<(&'static str, Event)> {
        let of = |(rack, member): (&&'static str, &FleetHandle)| {
            let rack = *rack;
            let events = member.recent_events();
            events
                .into_iter()
                .map(move |event| (rack, event.event.clone()))
                .collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of).collect()
    }

    /// No offset reset policy and no truncation moved a position.
    pub(crate) fn assert_no_position_was_reset(&self) {
        for (rack, event) in self.events() {
            // Without a commit the policy gives the first position; that is no reset.
            let reset = matches!(event, Event::PositionReset { from: Some(_), .. });
            let truncated = matches!(event, Event::Truncated { .. });
            assert!(!reset && !truncated, "{rack}: {event:?}");
        }
    }

    /// One line about every member, for failure messages.
    fn sketch(&self) -> String {
        let mut text = String::new();
        for (rack, member) in &self.members {
            text += &format!("[{rack}:");
            for row in member.report().partitions {
                let broker = row.broker.map_or(-1, |broker| broker.0);
                let position = row.position.map_or(-1, |position| position.0);
                let (partition, state) = (row.partition.partition, row.state);
                text += &format!(" {partition} {state} {broker} @{position}");
            }
            text += "]";
        }
        text
    }
}

/// Long enough for a failover and its return on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const STOP_LIMIT: Duration = Duration::from_secs(30);
