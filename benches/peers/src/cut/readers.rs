//! The two readers, members of a group each, both in rack b, both behind their own proxies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearside::prelude::*;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message as _;

use super::PARTITIONS;
use super::times::Times;
use super::writer::number;
use crate::Result;

/// A fleet.
pub struct Nearside {
    times: Arc<Times>,
    fleet: FleetHandle,
    runtime: tokio::runtime::Runtime,
}

impl Nearside {
    pub fn start(bootstrap: &str, group: &str, topic: &str) -> Result<Self> {
        let times = Arc::<Times>::default();
        let noting = Arc::clone(&times);
        let handler = handler_fn(move |message: Message<Raw>, _: Context| {
            if let Some(number) = number(message.payload()) {
                noting.note(number);
            }
            std::future::ready(Ok(Outcome::Done))
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let fleet = Fleet::builder(group)
            .bootstrap(bootstrap)
            .property("client.rack", "b")
            .property("auto.offset.reset", "earliest")
            .subscribe(Subscription::topics([topic]).handler(handler))
            .start();
        let fleet = runtime.block_on(fleet)?;
        Ok(Self {
            times,
            fleet,
            runtime,
        })
    }

    pub fn times(&self) -> Arc<Times> {
        Arc::clone(&self.times)
    }

    /// That every partition is read from `broker`; else how they are read.
    pub fn reads_from(&self, broker: i32) -> std::result::Result<(), String> {
        let rows = self.fleet.report().partitions;
        let there = rows
            .iter()
            .filter(|row| row.broker.is_some_and(|it| it.0 == broker));
        if there.count() == PARTITIONS {
            return Ok(());
        }
        let read = rows.iter().map(|row| (row.state, row.broker));
        Err(format!("{:?}", read.collect::<Vec<_>>()))
    }

    pub fn finish(self) -> Result<()> {
        let stopped = self.runtime.block_on(self.fleet.stop(STOP_LIMIT));
        Ok((*stopped).clone().into_result()?)
    }
}

/// librdkafka with its defaults.
pub struct Librdkafka {
    times: Arc<Times>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Librdkafka {
    pub fn start(bootstrap: &str, group: &str, topic: &str) -> Result<Self> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", group)
            .set("client.rack", "b")
            .set("auto.offset.reset", "earliest")
            .set("check.crcs", "true")
            .create()?;
        consumer.subscribe(&[topic])?;
        let times = Arc::<Times>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (noting, told) = (Arc::clone(&times), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                // An error here is a broker that is away, which is what is being measured.
                if let Some(Ok(message)) = consumer.poll(POLL)
                    && let Some(number) = number(message.payload())
                {
                    noting.note(number);
                }
            }
        });
        Ok(Self {
            times,
            stop,
            thread,
        })
    }

    pub fn times(&self) -> Arc<Times> {
        Arc::clone(&self.times)
    }

    pub fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "librdkafka's thread died")?)
    }
}

const STOP_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
