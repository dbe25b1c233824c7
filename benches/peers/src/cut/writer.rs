//! A neutral writer: librdkafka's producer, on the undisturbed listener.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

use super::PARTITIONS;
use super::times::Times;
use crate::Result;

/// A thread that writes numbered records until it is told to stop.
pub struct Writer {
    acked: Arc<Times>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

struct Acks(Arc<Times>);

impl ClientContext for Acks {}

impl ProducerContext for Acks {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(message) => self
                .0
                .note(number(message.payload()).expect("we wrote a number")),
            Err((error, _)) => eprintln!("a record was not written: {error}"),
        }
    }
}

impl Writer {
    pub fn start(bootstrap: String, topic: &str, rate: u32) -> Result<Self> {
        let acked = Arc::<Times>::default();
        let producer: ThreadedProducer<Acks> = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("linger.ms", "0")
            .create_with_context(Acks(Arc::clone(&acked)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (told, topic) = (Arc::clone(&stop), topic.to_owned());
        let thread = thread::spawn(move || write(&producer, &topic, rate, &told));
        Ok(Self {
            acked,
            stop,
            thread,
        })
    }

    /// What is acknowledged so far.
    pub fn acked(&self) -> Arc<Times> {
        Arc::clone(&self.acked)
    }

    /// Stops, and waits until everything is acknowledged.
    pub fn finish(self) -> Result<Arc<Times>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the writer died")??;
        Ok(self.acked)
    }
}

fn write(
    producer: &ThreadedProducer<Acks>,
    topic: &str,
    rate: u32,
    stop: &AtomicBool,
) -> Result<()> {
    let started = Instant::now();
    for number in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let due = started + Duration::from_secs(1) * number / rate;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let payload = number.to_string();
        let record = BaseRecord::<(), str>::to(topic)
            .partition(number as i32 % PARTITIONS as i32)
            .payload(&payload);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    Ok(producer.flush(Duration::from_secs(30))?)
}

/// The number that a record carries.
pub fn number(payload: Option<&[u8]>) -> Option<usize> {
    std::str::from_utf8(payload?).ok()?.parse().ok()
}
