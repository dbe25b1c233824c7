//! The readers, and what is measured of them.

mod bare;
mod librdkafka;
mod nearside;

use std::time::Instant;

use clap::{Args, ValueEnum};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::Result;

/// Who reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Reader {
    /// Fetch, CRC, discard: one connection, one broker, no group.
    Bare,
    /// librdkafka through the rdkafka crate, a group member of rack b.
    Librdkafka,
    /// A nearside fleet with a batch handler, a group member of rack b.
    Nearside,
}

/// One reading of one topic.
#[derive(Args, Clone, Debug)]
pub struct Task {
    #[arg(long, value_enum)]
    reader: Reader,
    #[arg(long)]
    bootstrap: String,
    #[arg(long)]
    topic: String,
    /// How many records the topic holds.
    #[arg(long)]
    records: u64,
}

/// What one reading cost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub records: u64,
    /// From the start of the process's work to the first record, joining the group included.
    pub first_s: f64,
    /// From the first record to the last.
    pub reading_s: f64,
    /// User and system time of the whole process.
    pub cpu_s: f64,
}

/// Counts records and notes when the first and the last one came.
pub struct Meter {
    wanted: u64,
    seen: u64,
    started: Instant,
    first: Option<Instant>,
}

impl Reader {
    pub const ALL: [Self; 3] = [Self::Bare, Self::Librdkafka, Self::Nearside];

    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Librdkafka => "librdkafka",
            Self::Nearside => "nearside",
        }
    }
}

impl std::fmt::Display for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Task {
    pub fn run(&self) -> Result<Measured> {
        let meter = Meter::new(self.records);
        match self.reader {
            Reader::Bare => bare::read(self, meter),
            Reader::Librdkafka => librdkafka::read(self, meter),
            Reader::Nearside => nearside::read(self, meter),
        }
    }
}

impl Meter {
    fn new(wanted: u64) -> Self {
        Self {
            wanted,
            seen: 0,
            started: Instant::now(),
            first: None,
        }
    }

    /// Notes that reading begins with the records at hand; later calls change nothing.
    pub fn first(&mut self) {
        self.first.get_or_insert_with(Instant::now);
    }

    /// Counts `records`; true once all are there.
    pub fn add(&mut self, records: u64) -> bool {
        self.first();
        self.seen += records;
        self.seen >= self.wanted
    }

    /// How many records were counted so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Reads the clocks; an error when a record is missing or came twice.
    pub fn end(&self) -> Result<Measured> {
        let last = Instant::now();
        let first = self.first.ok_or("no record came")?;
        if self.seen != self.wanted {
            return Err(format!("{} records read, not {}", self.seen, self.wanted).into());
        }
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let cpu_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Ok(Measured {
            records: self.seen,
            first_s: (first - self.started).as_secs_f64(),
            reading_s: (last - first).as_secs_f64(),
            cpu_s: cpu_us as f64 / 1e6,
        })
    }
}

impl Measured {
    /// Records per second between the first and the last one.
    pub fn rate(&self) -> f64 {
        self.records as f64 / self.reading_s
    }

    /// CPU-seconds per million records, the whole process's.
    pub fn cpu_per_million(&self) -> f64 {
        self.cpu_s * 1e6 / self.records as f64
    }

    pub fn line(&self, reader: Reader) -> String {
        format!(
            "{:<10} {:>10.0} records/s {:>7.3} CPU-s per million, first after {:.2} s",
            reader.name(),
            self.rate(),
            self.cpu_per_million(),
            self.first_s,
        )
    }
}
