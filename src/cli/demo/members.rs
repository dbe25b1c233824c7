//! The demo's fleet: one member per rack, all counting into one tally.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;

use crate::cli::demo::stage::{GROUP, Stage, TOPIC};
use crate::cli::demo::table::{Member, Row};
use crate::cli::demo::tally::{Tally, Totals};
use crate::cli::exit::Failure;
use crate::config::Config;
use crate::fleet::{Event, Fleet, FleetHandle, FleetReport, NumberedEvent, RouteEnd, Zone};
use crate::handler::{Batch, BatchOutcome, Context, Raw, Subscription, batch_fn};

/// The members and what they did.
#[derive(Debug)]
pub(super) struct Members {
    members: Vec<One>,
    tally: Arc<Mutex<Tally>>,
    news: VecDeque<String>,
}

#[derive(Debug)]
struct One {
    rack: &'static str,
    fleet: FleetHandle,
    events: broadcast::Receiver<Arc<NumberedEvent>>,
}

impl Members {
    /// Starts a member in each rack.
    pub(super) async fn start(bootstrap: &str) -> Result<Self, Failure> {
        let tally = Arc::default();
        let mut members = Vec::new();
        for rack in RACKS {
            let config = Config::from_pairs([
                ("bootstrap.servers", bootstrap),
                ("client.rack", rack),
                ("client.id", "nearside-demo"),
                ("auto.offset.reset", "earliest"),
                ("auto.commit.interval.ms", "1000"),
                ("data.arbiters", "1"),
                ("handler.threads", "1"),
            ])?;
            let fleet = Fleet::builder(GROUP)
                .config(config)
                .subscribe(counting(&tally))
                .start();
            let fleet = fleet.await?;
            members.push(One {
                rack,
                events: fleet.events(),
                fleet,
            });
        }
        Ok(Self {
            members,
            tally,
            news: VecDeque::new(),
        })
    }

    /// Takes up what the members told since the last call.
    pub(super) fn listen(&mut self) {
        let mut heard = Vec::new();
        for member in &mut self.members {
            while let Ok(event) = member.events.try_recv() {
                heard.extend(in_words(member.rack, &event.event));
            }
        }
        for news in heard {
            self.tell(news);
        }
    }

    /// One line per partition, with its owner and the broker it is read from.
    pub(super) fn rows(&self, stage: &Stage) -> Vec<Row> {
        let reports: Vec<(&str, FleetReport)> = self
            .members
            .iter()
            .map(|member| (member.rack, member.fleet.report()))
            .collect();
        let row = |partition| {
            let owner = reports.iter().find_map(|(rack, report)| {
                let mut assigned = report.partitions.iter();
                assigned
                    .find(|assigned| assigned.partition == partition)
                    .map(|it| (*rack, it))
            });
            let records = self.tally().records(partition.partition);
            Row {
                member: owner.map(|(rack, _)| rack.to_owned()),
                replica: owner
                    .and_then(|(_, it)| it.broker)
                    .map(|broker| stage.place(broker)),
                leader: stage.leader(&partition),
                lag: stage.lag(&partition, records),
                records,
                partition: partition.to_string(),
            }
        };
        Stage::partitions().map(row).collect()
    }

    /// One line per member.
    pub(super) fn lines(&self) -> Vec<Member> {
        let line = |member: &One| {
            let report = member.fleet.report();
            let (same_zone_bytes, cross_zone_bytes) = zone_bytes(&report);
            let partitions = report.partitions.len();
            Member {
                rack: member.rack.to_owned(),
                partitions,
                same_zone_bytes,
                cross_zone_bytes,
            }
        };
        self.members.iter().map(line).collect()
    }

    /// The newest news, oldest first.
    pub(super) fn news(&self) -> Vec<String> {
        self.news.iter().cloned().collect()
    }

    pub(super) fn totals(&self) -> Totals {
        self.tally().totals()
    }

    /// Stops all members at once; returns the bytes they read inside and across zones.
    pub(super) async fn stop(&self, deadline: Duration) -> (u64, u64) {
        let stops = self
            .members
            .iter()
            .map(|member| member.fleet.stop(deadline));
        let stopped = futures::future::join_all(stops).await;
        let sum = |sum: (u64, u64), (same, cross): (u64, u64)| (sum.0 + same, sum.1 + cross);
        stopped
            .iter()
            .map(|stopped| zone_bytes(&stopped.report))
            .fold((0, 0), sum)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        // Counts are added one record at a time; a panic leaves none half added.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line of news.
    pub(super) fn tell(&mut self, news: String) {
        self.news.push_back(news);
        if self.news.len() > NEWS_MAX {
            self.news.pop_front();
        }
    }
}

fn counting(tally: &Arc<Mutex<Tally>>) -> Subscription {
    let tally = Arc::clone(tally);
    Subscription::topics([TOPIC]).handler(batch_fn(move |batch: Batch<Raw>, _: Context| {
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        for record in batch.records() {
            tally.handled(batch.partition(), record.offset);
        }
        async { Ok(BatchOutcome::done()) }
    }))
}

fn zone_bytes(report: &FleetReport) -> (u64, u64) {
    let of = |zone| {
        let fetched = report
            .fetched
            .iter()
            .filter(move |fetched| fetched.zone == zone);
        fetched.map(|fetched| fetched.bytes).sum()
    };
    (of(Zone::SameZone), of(Zone::CrossZone))
}

/// What is worth a line on the screen.
fn in_words(rack: &str, event: &Event) -> Option<String> {
    if let Event::RoutingChange(change) = event {
        let (from, to) = (end_in_words(&change.from), end_in_words(&change.to));
        return Some(format!(
            "{}: {from} -> {to} ({})",
            change.partition, change.reason
        ));
    }
    let Event::Assigned { partitions } = event else {
        return None;
    };
    let count = partitions.len();
    (count > 0).then(|| format!("the member in rack {rack} got {count} partitions"))
}

fn end_in_words(end: &RouteEnd) -> String {
    match end.broker {
        Some(broker) => format!("{} {broker}", end.state),
        None => end.state.to_owned(),
    }
}

const RACKS: [&str; 3] = ["a", "b", "c"];
const NEWS_MAX: usize = 8;
