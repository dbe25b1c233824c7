//! `nearside chaos`: a group on a real Kafka under every fault we can make, and a report.
//!
//! Five brokers in three racks, a fleet member in each rack, a writer that numbers its records and
//! never stops. One fault after the other; after each the run waits until everything is as before.
//! What was acknowledged and what was delivered, when and in which order, is noted outside of
//! nearside, and judged at the end.

mod book;
mod crew;
mod report;
mod stage;
mod steady;
mod step;
mod steps;
mod verdict;
mod writer;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

pub use report::Report;
pub use steady::{Traffic, steady};

use super::exit::Failure;
use super::kafka::{KafkaError, Options, until};
use report::Setting;
use stage::Stage;
use steps::{DEATH, PROTOCOL};

/// Runs a fleet through every fault on a real Apache Kafka that it starts, and reports.
///
/// Needs Java and, the first time, Maven. Ends with an error unless nothing was lost, nothing came
/// out of order, and records flowed again in time after every fault.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ChaosOptions {
    /// Longer faults: half an hour rather than eight minutes.
    #[arg(long)]
    long: bool,
    /// Only this step; may be repeated: steady, kill, preferred, rolling, freeze, refused,
    /// vanishing, late, moves, reassign, rack, retention, death.
    #[arg(long = "step", value_name = "NAME")]
    steps: Vec<String>,
    /// Where the report goes.
    #[arg(long, value_name = "FILE", default_value = "chaos-report.md")]
    report: PathBuf,
    /// Record every member's routing here, one file each, for `nearside replay`.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "steady")]
    traces: Option<PathBuf>,
    /// No fault at all: read for so long, and compare the bytes from other zones with the probes.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["long", "steps"])]
    steady: Option<u64>,
}

/// What to run, and how long everything takes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The times.
    pub pace: Pace,
    /// Names of the steps to run; empty for all.
    pub steps: Vec<String>,
    /// Where the members' route traces go; `None` for nowhere.
    pub traces: Option<PathBuf>,
}

/// How much of everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Partitions of the topic.
    pub partitions: usize,
    /// Time between two records of one partition.
    pub every: Duration,
    /// How long a fault on one client's path lasts.
    pub fault: Duration,
    /// How long a broker stands still.
    pub freeze: Duration,
    /// How long a killed broker stays away once it is out of the ISR.
    pub down: Duration,
    /// How long the next fault waits for partitions that are not read nearby again. Longer is no
    /// failure.
    pub home: Duration,
    /// The members' `session.timeout.ms`: longer than a fault that may hit the path to the
    /// coordinator.
    pub session: Duration,
}

impl Pace {
    /// For every change: some seven minutes.
    pub const SHORT: Self = Self {
        partitions: 12,
        every: Duration::from_millis(40),
        fault: Duration::from_secs(6),
        freeze: Duration::from_secs(10),
        down: Duration::from_secs(1),
        home: Duration::from_secs(5),
        session: Duration::from_secs(20),
    };

    /// For every night.
    pub const LONG: Self = Self {
        fault: Duration::from_secs(30),
        freeze: Duration::from_secs(60),
        down: Duration::from_secs(20),
        home: Duration::from_secs(60),
        session: Duration::from_secs(45),
        ..Self::SHORT
    };
}

/// Runs the protocol; progress goes to `out`, a line a step.
///
/// A step that cannot be carried out ends the run; the report tells of it and of the steps before.
///
/// # Errors
///
/// [`KafkaError`] when the cluster or the members cannot be started.
pub fn run(plan: &Plan, out: &mut (dyn Write + Send)) -> Result<Report, KafkaError> {
    let before = load_average();
    let mut stage = Stage::set(plan, out)?;
    let wanted = |name: &str| plan.steps.is_empty() || plan.steps.iter().any(|it| it == name);
    let mut failure = None;
    for entry in PROTOCOL.into_iter().chain([DEATH]) {
        if wanted(entry.name)
            && let Err(error) = (entry.run)(&mut stage)
        {
            failure = Some(format!("{}: {error}", entry.name));
            break;
        }
    }
    let ended = conclude(&mut stage);
    let setting = Setting {
        version: Options::default().version,
        partitions: plan.pace.partitions,
        every: plan.pace.every,
        took: stage.book.elapsed(),
        records: stage.book.acknowledged(),
        loads: [before, load_average()],
    };
    let log = stage
        .log
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let mut report = Report::new(setting, stage.steps.clone(), &stage.book.tracks(), &log);
    for what in failure
        .into_iter()
        .chain(ended.err().map(|it| it.to_string()))
    {
        report.failed(what);
    }
    if let Err(error) = stage.crew.dissolve() {
        report.failed(error.to_string());
    }
    Ok(report)
}

/// Ends the writing and waits for the last record.
fn conclude(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    if let Some(writer) = stage.writer.take() {
        writer.finish()?;
    }
    until("the delivery of every record", LAST_LIMIT, || {
        match stage.book.missing() {
            0 => Ok(()),
            missing => Err(format!("{missing} are missing")),
        }
    })
}

/// Runs what was asked for and writes the report.
///
/// # Errors
/// A [`Failure`] if Kafka cannot be started, or if something did not hold.
pub(super) async fn run_command(options: ChaosOptions) -> Result<(), Failure> {
    // All of it waits for processes.
    let running = tokio::task::spawn_blocking(move || execute(&options, &mut io::stdout()));
    let ended = running.await;
    ended.map_err(|error| Failure::running(format!("the run died: {error}")))?
}

fn execute(options: &ChaosOptions, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let failed = |error: KafkaError| Failure::running(error.to_string());
    if let Some(minutes) = options.steady {
        let traffic = steady(Duration::from_secs(60 * minutes), out).map_err(failed)?;
        write!(out, "{traffic}")?;
        return traffic.check().map_err(Failure::running);
    }
    let known = |name: &&String| !PROTOCOL.iter().chain([&DEATH]).any(|it| it.name == *name);
    if let Some(unknown) = options.steps.iter().find(known) {
        return Err(Failure::usage(format!(
            "there is no step `{unknown}`; see --help"
        )));
    }
    let plan = Plan {
        pace: if options.long {
            Pace::LONG
        } else {
            Pace::SHORT
        },
        steps: options.steps.clone(),
        traces: options.traces.clone(),
    };
    if let Some(directory) = &plan.traces {
        fs::create_dir_all(directory)?;
    }
    let report = run(&plan, out).map_err(failed)?;
    fs::write(&options.report, report.to_string())?;
    writeln!(out, "the report is in {}", options.report.display())?;
    if report.broken.is_empty() {
        return Ok(());
    }
    Err(Failure::running(report.broken.join("; ")))
}

/// The load of this machine, which every time in a report depends on.
fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

const LAST_LIMIT: Duration = Duration::from_secs(60);
