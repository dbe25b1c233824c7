//! Nearside beside librdkafka and a bare reader, on one real three-broker Apache Kafka.
//!
//! Without arguments it starts a cluster, loads two topics of six partitions (100 B and 1 KiB
//! records) with Kafka's own producer, lets every reader read each of them in alternation, and
//! prints a table. Figures drift with the machine, so only those of one run can be compared. Every
//! reading happens in a process of its own, whose CPU time is what is reported.

mod bench;
mod cut;
mod payload;
mod readers;
mod records;
mod report;

use clap::{Args, Parser, Subcommand};

use readers::{Reader, Task};

/// What goes wrong here ends the run, so its text is all that matters.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(about, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    plan: Plan,
}

#[derive(Subcommand)]
enum Command {
    /// Reads one topic once and prints one line of JSON; used by the run itself.
    #[command(hide = true)]
    Read(Task),
    /// Cuts a client off from one broker of a healthy cluster and measures how long it stands
    /// still.
    Cut(cut::Plan),
    /// Reads batches by our record reader and by the protocol library's, without a cluster.
    Records(records::Plan),
}

/// What to measure.
#[derive(Args, Clone, Debug)]
struct Plan {
    /// How often every reader reads every topic.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Records of 100 B.
    #[arg(long, default_value_t = 5_000_000)]
    small: u64,
    /// Records of 1 KiB.
    #[arg(long, default_value_t = 1_000_000)]
    large: u64,
    /// Readers, in the order of their turns.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Reader::ALL)]
    readers: Vec<Reader>,
    /// Compression of the producer: none, gzip, snappy, lz4 or zstd.
    #[arg(long, default_value = "none")]
    compression: String,
}

fn main() -> Result<()> {
    // Cargo passes --bench to every benchmark; it says nothing here.
    let arguments = std::env::args_os().filter(|argument| argument != "--bench");
    let cli = Cli::parse_from(arguments);
    match cli.command {
        Some(Command::Read(task)) => {
            println!("{}", serde_json::to_string(&task.run()?)?);
            Ok(())
        }
        Some(Command::Cut(plan)) => cut::run(&plan),
        Some(Command::Records(plan)) => records::run(&plan),
        None => bench::run(&cli.plan),
    }
}
