//! `nearside produce`: lines or JSON from standard input to a topic, without duplicates or gaps.

mod client;
mod input;
mod line;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::actors::{canonical_bootstrap, unix_ms};
use crate::cli::exit::{Exit, Failure};
use crate::cli::guard::{Signs, judge};
use crate::cli::options::{ConnectionOptions, refuse_contradictions};
use crate::cli::signal::StopSignals;
use crate::config::{Acks, Config};
use crate::error::{Error, ErrorKind};
use crate::handler::not_a_topic;
use crate::ids::{PartitionIndex, TopicName};
use crate::producer::RecordToken;

pub(super) use client::Client;
use input::Lot;
use line::Reading;

/// Writes each line of standard input as one record; succeeds when all are acknowledged by every
/// in-sync replica.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ProduceOptions {
    #[command(flatten)]
    connection: ConnectionOptions,
    /// The topic.
    #[arg(short, long)]
    topic: String,
    /// Split each line at the first DELIMITER into key and value.
    #[arg(short = 'K', long, value_name = "DELIMITER", conflicts_with = "json")]
    key_delimiter: Option<String>,
    /// The partition; default: by the key, or any.
    #[arg(short, long, value_name = "PARTITION")]
    partition: Option<i32>,
    /// Lines are JSON objects with key, value, headers, partition and timestamp, as `consume
    /// --json` prints them.
    #[arg(long)]
    json: bool,
}

/// Produces until the input ends or a signal comes, and then until all is acknowledged or another
/// signal comes.
///
/// # Errors
/// A [`Failure`] with its exit code, naming the line whose record was not written.
pub(super) async fn run(options: &ProduceOptions) -> Result<(), Failure> {
    let mut config = options.config()?;
    let lots = input::read(io::stdin())?;
    // Connections run as tasks of this thread.
    let run = async {
        canonical_bootstrap(&mut config, None).await;
        Run::new(options, &config)?.drive(lots).await
    };
    LocalSet::new().run_until(run).await
}

impl ProduceOptions {
    fn config(&self) -> Result<Config, Failure> {
        if self.key_delimiter.as_deref() == Some("") {
            return Err(Failure::usage("the key delimiter is empty"));
        }
        let config = self
            .connection
            .config(&[("client.id", "nearside-produce")])?;
        config.require_bootstrap()?;
        refuse_contradictions(&config)?;
        let (share, request) = (
            config.producer_settings().buffer_bytes,
            config.produce.request_bytes,
        );
        if u32::try_from(share).is_ok_and(|share| share < request) {
            return Err(Failure::usage(format!(
                "`wire.budget.produce.share` leaves {share} bytes of `memory.budget.bytes` to \
                 produce, and a request may have {request} (`max.request.size`); a share of 0.25 \
                 with `memory.budget.bytes={}` works",
                u64::from(request) * 4,
            )));
        }
        if config.produce.acks != Acks::All {
            return Err(Failure::usage(
                "`acks` is 1, but what the leader alone has may be lost, and without sequence \
                 numbers a retry writes twice; `acks=all` works",
            ));
        }
        Ok(config)
    }

    fn reading(&self) -> Reading {
        if self.json {
            return Reading::Json;
        }
        let key_delimiter = self
            .key_delimiter
            .as_ref()
            .map(|text| text.as_bytes().to_vec());
        Reading::Text { key_delimiter }
    }
}

/// A run of the command.
struct Run {
    client: Client,
    io: mpsc::UnboundedReceiver<crate::actors::IoInput>,
    topic: TopicName,
    partition: Option<PartitionIndex>,
    reading: Reading,
    /// Lines taken; a record's token is the number of its line.
    lines: u64,
    /// Records made of them.
    appended: u64,
    patience: Duration,
    /// Free bytes of the produce buffer with which the next lot is taken.
    room: usize,
    /// Why no more lines are taken, if it is a failure.
    broken: Option<Failure>,
}

impl Run {
    fn new(options: &ProduceOptions, config: &Config) -> Result<Self, Error> {
        let topic = TopicName::from(options.topic.as_str());
        if !topic.is_legal() {
            return Err(Error::new(ErrorKind::Config, not_a_topic(&topic)));
        }
        let (client, io) = Client::new(config, topic.clone())?;
        let room = ROOM_BYTES.min(client.room());
        Ok(Self {
            room,
            client,
            io,
            topic,
            partition: options.partition.map(PartitionIndex),
            reading: options.reading(),
            lines: 0,
            appended: 0,
            patience: Duration::from_secs(options.connection.connect_timeout),
            broken: None,
        })
    }

    async fn drive(mut self, mut lots: mpsc::Receiver<Lot>) -> Result<(), Failure> {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut elapsed = Duration::ZERO;
        let mut reading = true;
        // One for the whole run: a signal between two waits would be lost.
        let mut signals = StopSignals::listen();
        while reading || !self.client.is_idle() {
            let due = self.client.next_deadline();
            tokio::select! {
                Some(input) = self.io.recv() => self.client.io(input),
                lot = lots.recv(), if reading && self.client.room() >= self.room => {
                    reading = lot.is_some_and(|lot| self.take(lot));
                    if !reading {
                        self.client.flush();
                    }
                }
                () = sleep(due.unwrap_or(LOOK_INTERVAL)) => self.client.tick(),
                _ = looks.tick() => {
                    if let Some(failure) = self.look(elapsed) {
                        return Err(failure);
                    }
                    elapsed += LOOK_INTERVAL;
                }
                () = signals.next() => {
                    if !reading {
                        break;
                    }
                    reading = false;
                    self.client.flush();
                }
            }
            if self.client.findings.failed.is_some() {
                break;
            }
        }
        self.conclude()
    }

    /// Appends the records of a lot. False if no more are wanted.
    fn take(&mut self, lot: Lot) -> bool {
        let lines = match lot {
            Ok(lines) => lines,
            Err(error) => {
                self.broken = Some(Failure::running(format!("cannot read the input: {error}")));
                return false;
            }
        };
        let now_ms = unix_ms();
        for line in lines {
            self.lines += 1;
            let mut record = match self.reading.record(&line, &self.topic, now_ms) {
                Ok(record) => record,
                Err(error) => {
                    self.broken = Some(Failure::running(format!("line {}: {error}", self.lines)));
                    return false;
                }
            };
            record.partition = self.partition.or(record.partition);
            self.appended += 1;
            self.client.append(RecordToken(self.lines), record);
        }
        true
    }

    /// Gives up if the start proves hopeless.
    fn look(&self, elapsed: Duration) -> Option<Failure> {
        let findings = &self.client.findings;
        let signs = Signs {
            elapsed,
            connected: findings.connected,
            connection_error: findings.connection_error.clone(),
            topic_error: self.client.topic_error(&self.topic),
            topic_denied: self.client.is_denied(&self.topic),
            topic_answers: findings.answers,
        };
        judge(&signs, self.patience).filter(|_| findings.acked == 0)
    }

    fn conclude(self) -> Result<(), Failure> {
        let acked = self.client.findings.acked;
        if let Some((RecordToken(line), error)) = self.client.findings.failed {
            let failure = Failure::from(Error::from(error));
            let exit = if failure.exit == Exit::Denied {
                Exit::Denied
            } else {
                Exit::Failure
            };
            let message = format!("line {line}: {failure}; {acked} records were written");
            return Err(Failure { exit, message });
        }
        if self.client.is_idle() {
            return self.broken.map_or(Ok(()), Err);
        }
        let (taken, open) = (self.appended, self.appended.saturating_sub(acked));
        let cause = self.broken.map(|failure| format!("{failure}; "));
        Err(Failure::running(format!(
            "{}stopped by a signal while {open} of {taken} records were not acknowledged, which \
             may be written or not",
            cause.unwrap_or_default()
        )))
    }
}

/// Room that a lot may need. A smaller buffer, and larger records, wait until all is written.
const ROOM_BYTES: usize = 4 << 20;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
