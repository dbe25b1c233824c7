//! librdkafka's consumer, checking CRCs like the others and reading from its own rack.

use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::{ClientConfig, ClientContext};

use super::{Measured, Meter, Task};
use crate::Result;

pub fn read(task: &Task, mut meter: Meter) -> Result<Measured> {
    let consumer: BaseConsumer<Complaints> = ClientConfig::new()
        .set("bootstrap.servers", &task.bootstrap)
        .set("group.id", format!("librdkafka-{}", std::process::id()))
        .set("client.rack", "b")
        .set("auto.offset.reset", "earliest")
        .set("check.crcs", "true")
        .create_with_context(Complaints)?;
    consumer.subscribe(&[&task.topic])?;
    let mut asked = Instant::now();
    loop {
        // `None` also stands for a rebalance that was dealt with.
        match consumer.poll(PATIENCE) {
            Some(message) => drop(std::hint::black_box(message?)),
            None if asked.elapsed() < PATIENCE => continue,
            None => return Err(format!("no record for {PATIENCE:?}").into()),
        }
        if meter.add(1) {
            return meter.end();
        }
        if meter.seen().is_multiple_of(4096) {
            asked = Instant::now();
        }
    }
}

/// What librdkafka has to say goes to standard error.
struct Complaints;

impl ClientContext for Complaints {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        eprintln!("librdkafka {facility}: {message}");
    }
}

impl ConsumerContext for Complaints {}

const PATIENCE: Duration = Duration::from_secs(30);
