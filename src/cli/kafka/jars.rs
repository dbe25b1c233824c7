//! Kafka's jars: fetched once by Maven, kept outside the tree.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::KafkaError;

/// The directory that holds the jars of one Kafka version; fetches them when it does not exist yet.
///
/// Parallel callers wait for each other, and a directory appears only when it is complete.
pub(super) fn resolve(version: &str) -> Result<PathBuf, KafkaError> {
    let cache = cache_root()?;
    let home = cache.join(format!("kafka-{version}"));
    let pom = pom(version);
    if is_complete(&home, &pom) {
        return Ok(home);
    }
    fs::create_dir_all(&cache).map_err(KafkaError::doing("creating the jar cache"))?;
    let lock = File::create(cache.join(format!("kafka-{version}.lock")))
        .map_err(KafkaError::doing("creating the lock of the jar cache"))?;
    lock.lock()
        .map_err(KafkaError::doing("locking the jar cache"))?;
    if !is_complete(&home, &pom) {
        fetch(&home, &pom)?;
    }
    Ok(home)
}

/// Whether the jars of `version` are here already, so that Maven is not needed.
pub(super) fn are_cached(version: &str) -> bool {
    cache_root()
        .is_ok_and(|root| is_complete(&root.join(format!("kafka-{version}")), &pom(version)))
}

/// The kept `pom.xml` tells a directory made from other coordinates from a usable one.
fn is_complete(home: &Path, pom: &str) -> bool {
    fs::read_to_string(home.join("pom.xml")).is_ok_and(|kept| kept == pom)
}

fn fetch(home: &Path, pom: &str) -> Result<(), KafkaError> {
    let partial = home.with_extension(format!("partial-{}", std::process::id()));
    let result = fetch_into(&partial, pom).and_then(|()| replace(&partial, home));
    if result.is_err() {
        drop(fs::remove_dir_all(&partial));
    }
    result
}

fn fetch_into(dir: &Path, pom: &str) -> Result<(), KafkaError> {
    fs::create_dir_all(dir).map_err(KafkaError::doing("creating the jar cache"))?;
    fs::write(dir.join("pom.xml"), pom).map_err(KafkaError::doing("writing pom.xml"))?;
    let output = Command::new("mvn")
        .args([
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
        ])
        .arg(format!("-DoutputDirectory={}", dir.display()))
        .current_dir(dir)
        .output()
        .map_err(|error| KafkaError::Unavailable(format!("mvn does not run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let reason = text
        .lines()
        .find(|line| line.contains("ERROR"))
        .unwrap_or("no reason given");
    Err(KafkaError::Unavailable(format!(
        "mvn could not fetch Kafka: {reason}"
    )))
}

fn replace(partial: &Path, home: &Path) -> Result<(), KafkaError> {
    if home.exists() {
        fs::remove_dir_all(home).map_err(KafkaError::doing("removing outdated jars"))?;
    }
    fs::rename(partial, home).map_err(KafkaError::doing("moving the jars into place"))
}

fn cache_root() -> Result<PathBuf, KafkaError> {
    let base = env::var_os("XDG_CACHE_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
        .ok_or_else(|| KafkaError::failed("neither XDG_CACHE_HOME nor HOME is set"))?;
    Ok(base.join("nearside"))
}

/// Kafka logs through slf4j 1.7; without a binding the broker is silent. The binding changed with
/// 4.0.
fn pom(version: &str) -> String {
    let mut dependencies = dependency("org.apache.kafka", "kafka_2.13", version);
    if version.starts_with("3.") {
        dependencies += &dependency("org.slf4j", "slf4j-reload4j", "1.7.36");
    } else {
        dependencies += &dependency("org.apache.kafka", "kafka-tools", version);
        dependencies += &dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3");
    }
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n\
         <modelVersion>4.0.0</modelVersion>\n\
         <groupId>nearside</groupId><artifactId>kafka</artifactId><version>1</version>\n\
         <packaging>pom</packaging>\n<dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )
}

fn dependency(group: &str, artifact: &str, version: &str) -> String {
    format!(
        "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
         <version>{version}</version></dependency>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_kafka_gets_the_log_binding_it_can_load() {
        assert!(pom("3.9.2").contains("slf4j-reload4j"));
        assert!(!pom("3.9.2").contains("kafka-tools"));
        assert!(pom("4.4.0").contains("log4j-slf4j-impl"));
    }
}
