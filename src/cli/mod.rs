//! The `nearside` command.
//!
//! Exit codes: 0 done, 1 failed while running, 2 wrong call, 3 no broker reached, 4 refused. A
//! failure is one line on standard error.

#[doc(hidden)]
pub mod chaos;
mod cluster;
mod consume;
mod demo;
mod exit;
mod guard;
#[doc(hidden)]
pub mod kafka;
mod options;
mod produce;
mod replay;
mod signal;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use exit::{Exit, Failure};

/// Reads Kafka from the nearest replica.
#[derive(Parser, Debug)]
#[command(name = "nearside", version, about, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Shows a fleet at work on an embedded cluster, faults included; ends by itself.
    Demo(demo::DemoOptions),
    /// Reads topics and prints their records, or runs a command for each.
    Consume(consume::ConsumeOptions),
    /// Writes lines or JSON from standard input to a topic.
    Produce(produce::ProduceOptions),
    /// Explains from a recorded routing trace why a consumer read from where it did.
    Replay(replay::ReplayOptions),
    /// Serves a cluster to play with.
    Cluster(cluster::ClusterOptions),
    /// Runs a fleet through every fault on a real Kafka, and reports.
    Chaos(chaos::ChaosOptions),
}

/// Runs the command that this process was started with. Exits by itself for `--help`, `--version`
/// and wrong arguments (code 2).
pub fn run() -> ExitCode {
    let line = CommandLine::parse();
    log_to_stderr();
    let result = runtime().and_then(|runtime| runtime.block_on(dispatch(line.command)));
    match result {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            // Without a standard error there is nobody to tell.
            writeln!(io::stderr(), "error: {failure}").ok();
            failure.exit.into()
        }
    }
}

async fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(options) => demo::run(&options, &mut io::stdout()).await,
        Command::Consume(options) => consume::run(&options).await,
        Command::Produce(options) => Box::pin(produce::run(&options)).await,
        Command::Replay(options) => replay::run(&options, &mut io::stdout().lock()),
        Command::Cluster(options) => cluster::run(&options, &mut io::stdout()).await,
        Command::Chaos(options) => chaos::run_command(options).await,
    }
}

/// Logs to standard error what `NEARSIDE_LOG` asks for, such as `nearside=debug`; errors otherwise.
fn log_to_stderr() {
    let wanted = std::env::var("NEARSIDE_LOG");
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::ERROR.into())
        .parse_lossy(wanted.as_deref().unwrap_or(UNASKED));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
}

/// What a command logs if nobody asks: an event that ends it is its last line anyway.
const UNASKED: &str = "error,nearside::actors::telemetry=off";

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| Failure::running(format!("cannot start threads: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        CommandLine::command().debug_assert();
    }
}
