//! Running Kafka's own programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

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
