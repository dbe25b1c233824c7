//! The run: one cluster, two topics, every reader in turn.

use std::process::{Command, Stdio};

use nearside::cli::kafka::{Cluster, Options, ProduceLoad};

use crate::readers::{Measured, Reader};
use crate::report::Report;
use crate::{Plan, Result, payload};

/// One of the two topics.
struct Topic {
    name: &'static str,
    records: u64,
    payload_bytes: usize,
}

pub fn run(plan: &Plan) -> Result<()> {
    eprintln!("starting three brokers");
    let cluster = Cluster::start(&Options::default())?;
    let topics = [
        Topic {
            name: "small",
            records: plan.small,
            payload_bytes: 100,
        },
        Topic {
            name: "large",
            records: plan.large,
            payload_bytes: 1024,
        },
    ];
    for topic in topics.iter().filter(|topic| topic.records > 0) {
        load(&cluster, topic, &plan.compression)?;
        let mut report = Report::default();
        for round in 1..=plan.rounds {
            for reader in &plan.readers {
                let measured = read(&cluster, topic, *reader)?;
                eprintln!("{} round {round} {}", topic.name, measured.line(*reader));
                report.add(*reader, measured);
            }
        }
        println!(
            "\n{} records of {} B, 6 partitions",
            topic.records, topic.payload_bytes
        );
        print!("{report}");
    }
    Ok(())
}

fn load(cluster: &Cluster, topic: &Topic, compression: &str) -> Result<()> {
    eprintln!(
        "producing {} records of {} B",
        topic.records, topic.payload_bytes
    );
    let lines = std::env::temp_dir().join(format!("nearside-peers-{}.txt", std::process::id()));
    payload::write_lines(&lines, topic.payload_bytes)?;
    cluster.create_topic(topic.name, 6)?;
    let load = ProduceLoad::numbered(topic.name, topic.records)
        .from_lines(&lines)
        .with("linger.ms=20")
        .with("batch.size=65536")
        .with(&format!("compression.type={compression}"));
    let produced = cluster.produce(&load);
    std::fs::remove_file(&lines)?;
    produced?;
    let ends: i64 = cluster.end_offsets(topic.name)?.into_values().sum();
    if u64::try_from(ends) != Ok(topic.records) {
        return Err(format!("{ends} records in the log, not {}", topic.records).into());
    }
    Ok(())
}

/// Reads in a child process: its whole CPU time is the reader's.
fn read(cluster: &Cluster, topic: &Topic, reader: Reader) -> Result<Measured> {
    let output = Command::new(std::env::current_exe()?)
        .args(["read", "--reader", reader.name(), "--topic", topic.name])
        .args([
            "--records",
            &topic.records.to_string(),
            "--bootstrap",
            &cluster.bootstrap(),
        ])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", reader.name(), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
