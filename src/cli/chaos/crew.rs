//! One fleet member in each rack, all of one group, each behind proxies of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::broadcast::error::RecvError;

use super::book::Book;
use crate::cli::kafka::KafkaError;
use crate::config::Config;
use crate::fleet::{Event, Fleet, FleetHandle, FleetReport, Stopped};
use crate::handler::{Context, Message, Outcome, Raw, Subscription, handler_fn};
use crate::ids::Moment;

/// The members of the group.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) members: Vec<Member>,
    runtime: Runtime,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) rack: String,
    fleet: FleetHandle,
}

/// An event of one member.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) at: Moment,
    pub(super) member: usize,
    pub(super) event: Event,
}

/// Everything the members told, in the order it was heard.
pub(super) type Log = Arc<Mutex<Vec<Told>>>;

/// How one partition is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    pub(super) member: usize,
    pub(super) state: &'static str,
    pub(super) broker: Option<i32>,
    /// Why it is not read from where it would be best.
    pub(super) why: Option<&'static str>,
}

/// Who starts where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat<'a> {
    pub(super) rack: &'a str,
    pub(super) bootstrap: &'a str,
    pub(super) group: &'a str,
    pub(super) session: Duration,
    /// The directory of its route trace.
    pub(super) traces: Option<&'a Path>,
}

impl Crew {
    pub(super) fn empty() -> Result<Self, KafkaError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| KafkaError::Failed(format!("no threads for the members: {error}")))?;
        Ok(Self {
            members: Vec::new(),
            runtime,
        })
    }

    /// Starts a member that notes in `book` what it gets of `topic`, and in `log` what it tells.
    pub(super) fn join(
        &mut self,
        seat: Seat<'_>,
        topic: &str,
        book: &Arc<Book>,
        log: &Log,
    ) -> Result<(), KafkaError> {
        let noting = Arc::clone(book);
        let handler = handler_fn(move |message: Message<Raw>, _: Context| {
            let partition = usize::try_from(message.partition().0).unwrap_or(usize::MAX);
            if let Some(number) = number(&message) {
                noting.delivered(partition, number, message.offset());
            }
            std::future::ready(Ok(Outcome::Done))
        });
        let subscription = Subscription::topics([topic]).handler(handler);
        let mut fleet = Fleet::builder(seat.group).config(config(seat)?);
        if let Some(directory) = seat.traces {
            fleet = fleet.route_trace(directory.join(format!("{}.jsonl", seat.rack)));
        }
        let fleet = self
            .runtime
            .block_on(fleet.subscribe(subscription).start())
            .map_err(|error| KafkaError::Failed(format!("member {}: {error}", seat.rack)))?;
        self.listen(&fleet, book, log);
        self.members.push(Member {
            rack: seat.rack.to_owned(),
            fleet,
        });
        Ok(())
    }

    fn listen(&self, fleet: &FleetHandle, book: &Arc<Book>, log: &Log) {
        let member = self.members.len();
        let mut events = fleet.events();
        let (book, log) = (Arc::clone(book), Arc::clone(log));
        let listening = async move {
            loop {
                match events.recv().await {
                    Ok(event) => {
                        let told = Told {
                            at: book.at_unix(event.at_ms),
                            member,
                            event: event.event.clone(),
                        };
                        log.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(told);
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        };
        // It ends with the fleet.
        drop(self.runtime.spawn(listening));
    }

    /// How each partition is read at this moment; partitions without an owner are left out.
    pub(super) fn readings(&self) -> BTreeMap<i32, Reading> {
        let mut readings = BTreeMap::new();
        for (member, report) in self.reports().into_iter().enumerate() {
            for row in report.partitions {
                let reading = Reading {
                    member,
                    state: row.state,
                    broker: row.broker.map(|broker| broker.0),
                    why: row.why,
                };
                readings.insert(row.partition.partition.0, reading);
            }
        }
        readings
    }

    pub(super) fn reports(&self) -> Vec<FleetReport> {
        let of = |member: &Member| member.fleet.report();
        self.members.iter().map(of).collect()
    }

    pub(super) fn rack(&self, member: usize) -> &str {
        self.members.get(member).map_or("", |member| &member.rack)
    }

    /// Stops everybody; each must finish its work.
    pub(super) fn dissolve(self) -> Result<(), KafkaError> {
        for member in &self.members {
            let stopped = self.runtime.block_on(member.fleet.stop(STOP_LIMIT));
            Stopped::clone(&stopped)
                .into_result()
                .map_err(|error| KafkaError::Failed(format!("member {}: {error}", member.rack)))?;
        }
        Ok(())
    }
}

fn config(seat: Seat<'_>) -> Result<Config, KafkaError> {
    let session_ms = seat.session.as_millis().to_string();
    Config::from_pairs([
        ("bootstrap.servers", seat.bootstrap),
        ("client.rack", seat.rack),
        ("client.id", "nearside-chaos"),
        ("auto.offset.reset", "earliest"),
        ("auto.commit.interval.ms", "1000"),
        ("session.timeout.ms", session_ms.as_str()),
        ("heartbeat.interval.ms", "1000"),
        ("data.arbiters", "1"),
        ("handler.threads", "1"),
    ])
    .map_err(|error| KafkaError::Failed(error.to_string()))
}

/// The number in a record.
pub(super) fn number<T>(message: &Message<T>) -> Option<u64> {
    std::str::from_utf8(message.payload()?).ok()?.parse().ok()
}

const STOP_LIMIT: Duration = Duration::from_secs(30);
