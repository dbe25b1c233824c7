//! Nearside against a real three-broker, three-rack Apache Kafka.
//!
//! All tests share one cluster, started by the first that runs, and run one after the other.
//! Without Java and Maven they say so and count as ignored; with `NEARSIDE_REQUIRE_KAFKA=1` that is
//! a failure.

#![expect(
    clippy::indexing_slicing,
    reason = "a missing partition should fail the test"
)]

mod client;
mod harness;
mod lab;
mod proxies;
mod reader;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;

use lab::Lab;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One cluster, and faults in it: never two tests at a time.
    arguments.test_threads = Some(1);
    let lab = Arc::new(Lab::new());
    let trials = [
        harness::trials(&lab),
        proxies::trials(&lab),
        wire::trials(&lab),
    ]
    .into_iter()
    .flatten()
    .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    lab.close();
    conclusion.exit_code()
}
