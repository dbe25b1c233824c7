//! Running Kafka's own programs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{KafkaError, jars};

/// Whether a cluster of `version` can be started here; the error says what is missing.
///
/// # Errors
///
/// [`KafkaError::Unavailable`] without Java, or without Maven while the jars are not cached.
pub fn availability(version: &str) -> Result<(), KafkaError> {
    answers("java")?;
    if jars::are_cached(version) {
        Ok(())
    } else {
        answers("mvn")
    }
}

fn answers(program: &str) -> Result<(), KafkaError> {
    let status = Command::new(program)
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(KafkaError::Unavailable(format!(
            "`{program} -version` ends with {status}"
        ))),
        Err(error) => Err(KafkaError::Unavailable(format!(
            "{program} does not run: {error}"
        ))),
    }
}

/// A Java with the class path of one Kafka version.
#[derive(Clone, Debug)]
pub(super) struct Java {
    version: String,
    heap_mib: u32,
    jars: PathBuf,
}

impl Java {
    pub(super) fn new(version: &str, heap_mib: u32) -> Result<Self, KafkaError> {
        availability(version)?;
        Ok(Self {
            version: version.to_owned(),
            heap_mib,
            jars: jars::resolve(version)?,
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn heap_mib(&self) -> u32 {
        self.heap_mib
    }

    /// `java` with the class path, `options` and a main class; program arguments are added by the
    /// caller.
    pub(super) fn command(&self, class: &str, options: &[String]) -> Command {
        let mut command = Command::new("java");
        command
            .args(options)
            .arg("-cp")
            .arg(self.jars.join("*"))
            .arg(class)
            .stdin(Stdio::null());
        command
    }

    /// A short-lived tool, told to start fast rather than to run fast, its output captured.
    pub(super) fn tool(&self, class: &str) -> Command {
        let options =
            ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"].map(str::to_owned);
        self.command(class, &options)
    }
}

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
    pub fn numbered(topic: &str, records: u64) -> Self {
        Self {
            topic: topic.to_owned(),
            records,
            rate: None,
            payload_file: None,
            properties: vec!["enable.idempotence=true".to_owned(), "acks=all".to_owned()],
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

    pub(super) fn spawn(&self, java: &Java, bootstrap: &str) -> Result<Child, KafkaError> {
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
            .map_err(KafkaError::doing("starting the performance producer"))
    }
}
