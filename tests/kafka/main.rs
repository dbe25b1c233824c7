//! Nearside against a real three-broker, three-rack Apache Kafka.
//!
//! All tests share one cluster, started by the first that runs, and run one after the other.
//! Without Java and Maven they say so and count as ignored; with `NEARSIDE_REQUIRE_KAFKA=1` that is
//! a failure.

#![expect(
    clippy::indexing_slicing,
    reason = "a missing partition should fail the test"
)]

mod chaos;
mod client;
mod failures;
mod fleets;
mod golden;
mod groups;
mod harness;
mod journal;
mod keys;
mod lab;
mod letters;
mod proxies;
mod reader;
mod refused;
mod security;
mod team;
mod versions;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;
use tracing_subscriber::EnvFilter;

use lab::Lab;

fn main() -> ExitCode {
    // NEARSIDE_LOG=nearside=debug shows what the fleets do.
    let filter = EnvFilter::from_env("NEARSIDE_LOG");
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = Arguments::from_args();
    // One cluster, and faults in it: never two tests at a time.
    arguments.test_threads = Some(1);
    let lab = Arc::new(Lab::new());
    let trials = [
        harness::trials(&lab),
        proxies::trials(&lab),
        wire::trials(&lab),
        golden::trials(&lab),
        fleets::trials(&lab),
        letters::trials(&lab),
        failures::trials(&lab),
        versions::trials(&lab),
        security::trials(&lab),
        chaos::trials(&lab),
    ]
    .into_iter()
    .flatten()
    .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    lab.close();
    conclusion.exit_code()
}
