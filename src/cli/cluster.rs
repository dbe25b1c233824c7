//! `nearside cluster`: a cluster to play with, embedded or real.

use std::io::Write;

use crate::cli::exit::Failure;
use crate::cli::kafka;
use crate::cli::signal;
use crate::embedded::Settings;
use crate::embedded::listener::Serving;

/// Serves an embedded cluster until it is told to stop: three brokers in racks a, b and c, for any
/// Kafka client. Nothing is kept.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ClusterOptions {
    /// Port of the first broker; the others take the ports behind it. 0 takes free ones.
    #[arg(short, long, value_name = "PORT", default_value_t = 9092)]
    port: u16,
    /// A topic to begin with, as NAME or NAME:PARTITIONS; may be repeated.
    #[arg(short, long = "topic", value_name = "NAME[:PARTITIONS]")]
    topics: Vec<String>,
    /// Partitions of topics that clients make by asking for them; 0 makes none.
    #[arg(long, value_name = "PARTITIONS", default_value_t = 3)]
    auto_create: u32,
    /// Start a real Apache Kafka instead. Needs Java and, the first time, Maven.
    #[arg(long, conflicts_with_all = ["port", "topics", "auto_create"])]
    kafka: bool,
    /// Version of the real one.
    #[arg(long, value_name = "VERSION", requires = "kafka")]
    kafka_version: Option<String>,
    /// A node of the real one for each rack named; default: a,b,c.
    #[arg(long, value_name = "RACKS", value_delimiter = ',', requires = "kafka")]
    racks: Vec<String>,
}

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// A [`Failure`] if a port is taken, or the real cluster cannot be started.
pub(super) async fn run(
    options: &ClusterOptions,
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    if options.kafka {
        return run_kafka(options, out).await;
    }
    let topics = options.topics()?;
    let mut settings = Settings::default().on_loopback(Some(options.port).filter(|port| *port > 0));
    settings.auto_create_partitions =
        Some(options.auto_create).filter(|partitions| *partitions > 0);
    let replicas = settings.brokers.len();
    let serving = Serving::listen(settings).await.map_err(|error| {
        Failure::running(format!(
            "cannot listen at port {}: {error}; try --port 0",
            options.port
        ))
    })?;
    let handle = serving.handle();
    for (topic, partitions) in topics {
        let created =
            handle.with(|cluster| cluster.create_topic(topic.as_str(), partitions, replicas));
        created.map_err(|error| Failure::usage(format!("topic `{topic}`: {error}")))?;
    }
    let racks = handle.with(|cluster| {
        let brokers = cluster.settings().brokers.iter();
        brokers
            .map(|broker| broker.rack.clone())
            .collect::<Vec<_>>()
    });
    for ((host, port), rack) in handle.addresses().into_iter().zip(racks) {
        let rack = rack.map_or_else(String::new, |rack| format!("  rack {rack}"));
        writeln!(out, "broker {host}:{port}{rack}")?;
    }
    writeln!(out, "bootstrap.servers={}", handle.bootstrap())?;
    out.flush()?;
    signal::asked_to_stop().await;
    Ok(())
}

async fn run_kafka(options: &ClusterOptions, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let mut wanted = kafka::Options::default();
    if let Some(version) = &options.kafka_version {
        wanted.version.clone_from(version);
    }
    if !options.racks.is_empty() {
        wanted.racks.clone_from(&options.racks);
    }
    let (version, racks) = (&wanted.version, wanted.racks.join(", "));
    writeln!(
        out,
        "starting Apache Kafka {version}, a node in each of the racks {racks}"
    )?;
    out.flush()?;
    let start = move || kafka::Cluster::start(&wanted);
    let started = tokio::task::spawn_blocking(start)
        .await
        .map_err(|error| Failure::running(format!("the starter died: {error}")))?;
    let cluster = started.map_err(|error| Failure::running(error.to_string()))?;
    for (broker, rack) in cluster.racks() {
        writeln!(out, "broker {broker}  rack {rack}")?;
    }
    writeln!(out, "bootstrap.servers={}", cluster.bootstrap())?;
    out.flush()?;
    signal::asked_to_stop().await;
    // Ending the nodes waits for processes.
    let ended = tokio::task::spawn_blocking(move || drop(cluster)).await;
    ended.map_err(|error| Failure::running(format!("the nodes may still run: {error}")))
}

impl ClusterOptions {
    fn topics(&self) -> Result<Vec<(String, u32)>, Failure> {
        let parse = |text: &String| match text.rsplit_once(':') {
            None => Ok((text.clone(), DEFAULT_PARTITIONS)),
            Some((name, partitions)) => match partitions.parse() {
                Ok(partitions @ 1..) => Ok((name.to_owned(), partitions)),
                Ok(0) | Err(_) => Err(Failure::usage(format!(
                    "`{text}`: `{partitions}` is no number of partitions; write NAME:PARTITIONS"
                ))),
            },
        };
        self.topics.iter().map(parse).collect()
    }
}

const DEFAULT_PARTITIONS: u32 = 6;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        cluster: ClusterOptions,
    }

    fn topics(line: &str) -> Result<Vec<(String, u32)>, String> {
        let words = std::iter::once("cluster").chain(line.split_whitespace());
        let options = Line::try_parse_from(words).unwrap().cluster;
        options.topics().map_err(|failure| failure.message)
    }

    #[test]
    fn topics_come_with_or_without_partitions() {
        let expected = vec![("a".to_owned(), 6), ("b".to_owned(), 12)];
        assert_eq!(topics("-t a -t b:12"), Ok(expected));
        assert!(
            topics("-t a:0")
                .unwrap_err()
                .contains("`0` is no number of partitions")
        );
        assert!(topics("-t a:x").unwrap_err().contains("NAME:PARTITIONS"));
    }
}
