//! A foreign producer: Kafka's own, made for performance tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::KafkaError;
use super::java::Java;

/// What Kafka's own performance producer is to write.
///
/// Payloads are the numbers 0, 1, 2, ... as text, each once and rising within every partition,
/// unless [`ProduceLoad::payload_file`] names lines to draw from.
#[derive(Clone, Debug)]
pub struct ProduceLoad {
    /// The topic, which must exist.
    pub topic: String,
    /// How many records.
    pub records: u64,
    /// Records per second; `None` for as fast as it goes.
    pub rate: Option<u64>,
    /// A file of payloads, one a line, drawn at random.
    pub payload_file: Option<PathBuf>,
    /// Producer properties, such as `linger.ms=20`.
    pub properties: Vec<String>,
}

impl ProduceLoad {
    /// `records` numbered payloads, as fast as they go, without duplicates.
    ///
    /// One request in flight: with more, a broker that knows nothing of the producer yet (a new
    /// partition, a leader just moved) may take the second batch for the first and refuse the
    /// first for ever (KAFKA-15591).
    pub fn numbered(topic: &str, records: u64) -> Self {
        Self {
            topic: topic.to_owned(),
            records,
            rate: None,
            payload_file: None,
            properties: [
                "enable.idempotence=true",
                "acks=all",
                "max.in.flight.requests.per.connection=1",
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }

    /// The same load, drawing its payloads from the lines of a file.
    #[must_use]
    pub fn from_lines(mut self, file: &Path) -> Self {
        self.payload_file = Some(file.to_owned());
        self
    }

    /// The same load at a steady rate of records per second.
    #[must_use]
    pub fn at_rate(mut self, rate: u64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The same load with one more producer property, as `name=value`.
    #[must_use]
    pub fn with(mut self, property: &str) -> Self {
        self.properties.push(property.to_owned());
        self
    }

    pub(super) fn spawn(&self, java: &Java, bootstrap: &str) -> Result<Producing, KafkaError> {
        let options = ["-Xmx256m", "-XX:+UseSerialGC"].map(str::to_owned);
        let mut command = java.command("org.apache.kafka.tools.ProducerPerformance", &options);
        command.args([
            "--topic",
            &self.topic,
            "--num-records",
            &self.records.to_string(),
        ]);
        let rate = self
            .rate
            .map_or_else(|| "-1".to_owned(), |rate| rate.to_string());
        command.args(["--throughput", &rate, "--bootstrap-server", bootstrap]);
        match &self.payload_file {
            Some(file) => command.arg("--payload-file").arg(file),
            None => command.arg("--payload-monotonic"),
        };
        // A repeated flag would keep only its last property.
        command.arg("--command-property").args(&self.properties);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(|child| Producing {
                child: Some(child),
                records: self.records,
            })
            .map_err(KafkaError::doing("starting the performance producer"))
    }
}

/// A producer at work; dropping it ends it.
#[derive(Debug)]
pub struct Producing {
    child: Option<Child>,
    records: u64,
}

impl Producing {
    /// Waits until everything is written and acknowledged.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] with the producer's output when it failed or gave up a record.
    pub fn wait(mut self) -> Result<(), KafkaError> {
        let Some(child) = self.child.take() else {
            return Ok(());
        };
        let output = child
            .wait_with_output()
            .map_err(KafkaError::doing("waiting for the performance producer"))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        // It tells of records it gave up, and ends in success all the same.
        if output.status.success() && acknowledged(&text) == Some(self.records) {
            return Ok(());
        }
        Err(KafkaError::failed(format!("producing failed: {text}")))
    }
}

/// The count of the closing line: others of its kind tell of some seconds each.
fn acknowledged(output: &str) -> Option<u64> {
    let counts = output.lines().filter_map(|line| {
        let (count, _) = line.split_once(" records sent")?;
        count.trim().parse().ok()
    });
    counts.max()
}

impl Drop for Producing {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // An already ended process is what was asked for.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_tells_what_was_acknowledged() {
        let output = "\
            149 records sent, 29.8 records/sec (0.00 MB/sec), 5.1 ms avg latency, 300.0 ms max\n\
            org.apache.kafka.common.errors.TimeoutException: Expiring 1 record(s) for t-0\n\
            299 records sent, 30.0 records/sec (0.00 MB/sec), 4.0 ms avg latency, 300.0 ms max\n";
        assert_eq!(acknowledged(output), Some(299));
        assert_eq!(acknowledged("no broker"), None);
    }
}
