//! A batch on its way: first a draft that takes records, then sealed bytes with a sequence range.

use std::time::Duration;

use bytes::Bytes;

use crate::ids::{BrokerId, LeaderEpoch, Moment, Offset};
use crate::records::{
    BatchSet, BatchView, BatchWriter, NewRecord, ReadSettings, Sealer, WriteError, reseal,
};
use crate::wire::api::init_producer_id::Producer as Identity;

use super::leaders::Leader;
use super::message::{Outcome, Record, RecordToken, SendToken};
use super::settings::Settings;

/// Retries without a delay that a batch gets per second at most (metadata.md 10).
const FREE_RETRIES_MAX: u32 = 5;
const FREE_RETRIES_WINDOW: Duration = Duration::from_secs(1);

/// A batch that still takes records.
#[derive(Debug)]
pub(super) struct Draft {
    writer: BatchWriter,
    tokens: Vec<RecordToken>,
    /// When its first record came.
    pub(super) since: Moment,
    /// Bytes of its records in the produce buffer.
    held: usize,
}

impl Draft {
    pub(super) fn new(settings: &Settings, now: Moment) -> Self {
        let mut writer = BatchWriter::new(settings.compression);
        if let Some(level) = settings.compression_level {
            writer = writer.with_level(level);
        }
        Self {
            writer,
            tokens: Vec::new(),
            since: now,
            held: 0,
        }
    }

    /// Size with `record` appended, in bytes.
    pub(super) fn size_with(&self, record: &Record) -> usize {
        with_borrowed(record, |record| {
            self.writer.size() + self.writer.size_of(record)
        })
    }

    pub(super) fn push(&mut self, token: RecordToken, record: &Record) -> Result<(), WriteError> {
        with_borrowed(record, |record| self.writer.push(record))?;
        self.tokens.push(token);
        self.held += record.held_bytes();
        Ok(())
    }

    pub(super) fn size(&self) -> usize {
        self.writer.size()
    }

    pub(super) fn into_parts(self) -> (Vec<RecordToken>, usize) {
        (self.tokens, self.held)
    }

    /// Freezes the bytes under `seal`; gives the tokens back if that fails.
    pub(super) fn seal(self, id: u64, seal: Seal) -> Result<Batch, (Vec<RecordToken>, WriteError)> {
        match self.writer.seal_as(seal.sealer()) {
            Ok(bytes) => Ok(Batch::new(
                id,
                bytes,
                self.tokens,
                seal,
                (self.since, self.held),
            )),
            Err(error) => Err((self.tokens, error)),
        }
    }
}

/// Under whose name, and from which sequence on, a batch is sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seal {
    /// `None` without idempotence.
    pub(super) identity: Option<Identity>,
    pub(super) sequence: i32,
}

impl Seal {
    fn sealer(self) -> Sealer {
        let (producer_id, producer_epoch, base_sequence) = match self.identity {
            Some(identity) => (identity.id, identity.epoch, self.sequence),
            None => (-1, -1, -1),
        };
        Sealer {
            producer_id,
            producer_epoch,
            base_sequence,
            transactional: false,
        }
    }

    /// The seal of the batch behind one of `count` records. Sequences wrap from `i32::MAX` to 0.
    pub(super) fn behind(self, count: usize) -> Self {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let sequence = self.sequence.wrapping_add(count) & i32::MAX;
        Self { sequence, ..self }
    }
}

/// Where a sealed batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flight {
    /// On its way to a leader.
    Out { token: SendToken, to: Leader },
    /// To be sent again, not before this moment.
    Waiting { until: Moment },
}

/// A sealed batch: the bytes stay as they are for every attempt.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) id: u64,
    pub(super) bytes: Bytes,
    pub(super) tokens: Vec<RecordToken>,
    pub(super) seal: Seal,
    pub(super) since: Moment,
    pub(super) held: usize,
    pub(super) flight: Flight,
    /// Join of the attempts so far.
    pub(super) outcome: Outcome,
    /// Attempts that ended without success.
    pub(super) failures: u32,
    /// Of these, attempts whose bytes arrived damaged.
    pub(super) damaged: u32,
    /// The delivery timeout passed while it was in flight.
    pub(super) expired: bool,
    /// Highest epoch at which it failed.
    failed_epoch: Option<LeaderEpoch>,
    free_since: Moment,
    free_used: u32,
}

impl Batch {
    fn new(
        id: u64,
        bytes: Bytes,
        tokens: Vec<RecordToken>,
        seal: Seal,
        (since, held): (Moment, usize),
    ) -> Self {
        Self {
            id,
            bytes,
            tokens,
            seal,
            since,
            held,
            flight: Flight::Waiting {
                until: Moment::ZERO,
            },
            outcome: Outcome::NotWritten,
            failures: 0,
            damaged: 0,
            expired: false,
            failed_epoch: None,
            free_since: Moment::ZERO,
            free_used: 0,
        }
    }

    pub(super) fn is_out(&self) -> bool {
        self.out_to().is_some()
    }

    pub(super) fn out_to(&self) -> Option<BrokerId> {
        match self.flight {
            Flight::Out { to, .. } => Some(to.broker),
            Flight::Waiting { .. } => None,
        }
    }

    /// Notes that an attempt at `epoch` ended without success.
    pub(super) fn failed_at(&mut self, epoch: Option<LeaderEpoch>, outcome: Outcome) {
        self.outcome = self.outcome.max(outcome);
        self.failures = self.failures.saturating_add(1);
        self.failed_epoch = self.failed_epoch.max(epoch);
    }

    /// Takes a retry without delay: one per new epoch, and [`FREE_RETRIES_MAX`] per second
    /// (metadata.md 10).
    pub(super) fn take_free_retry(&mut self, epoch: Option<LeaderEpoch>, now: Moment) -> bool {
        // Equal means: that leader was asked already.
        if self.failures == 0 || epoch.is_none() || epoch <= self.failed_epoch {
            return false;
        }
        if now.since(self.free_since) >= FREE_RETRIES_WINDOW {
            (self.free_since, self.free_used) = (now, 0);
        }
        if self.free_used >= FREE_RETRIES_MAX {
            return false;
        }
        self.free_used += 1;
        self.failed_epoch = epoch;
        true
    }

    /// The same records under another seal; what is known about earlier attempts stays known.
    pub(super) fn reseal(&mut self, seal: Seal) {
        self.bytes = reseal(&self.bytes, seal.sealer());
        self.seal = seal;
        self.damaged = 0;
    }

    /// Offset of the record at `index` if the batch begins at `base`.
    pub(super) fn offset(base: Option<Offset>, index: usize) -> Option<Offset> {
        let index = i64::try_from(index).ok()?;
        Some(Offset(base?.0.checked_add(index)?))
    }

    /// Two batches with half of the records each, in the same sequence range.
    pub(super) fn split(&self, settings: &Settings, id: u64) -> Option<[Self; 2]> {
        let view = self.view()?;
        let middle = self.tokens.len().div_ceil(2);
        let (mut head, mut tail) = (
            Draft::new(settings, self.since),
            Draft::new(settings, self.since),
        );
        for (index, record) in view.records().enumerate() {
            let record = record.ok()?;
            let headers = record.headers.iter().map(|header| {
                let header = header.ok()?;
                Some((std::str::from_utf8(header.key).ok()?, header.value))
            });
            let headers: Vec<_> = headers.collect::<Option<_>>()?;
            let half = if index < middle { &mut head } else { &mut tail };
            let (key, value, timestamp) = (record.key, record.value, record.timestamp);
            half.writer
                .push(&NewRecord {
                    timestamp,
                    key,
                    value,
                    headers: &headers,
                })
                .ok()?;
            half.tokens.push(*self.tokens.get(index)?);
        }
        head.held = self.held / 2;
        tail.held = self.held - head.held;
        let behind = self.seal.behind(middle);
        let halves = [
            head.seal(self.id, self.seal).ok()?,
            tail.seal(id, behind).ok()?,
        ];
        Some(halves.map(|half| Self {
            expired: self.expired,
            outcome: self.outcome,
            failures: self.failures,
            ..half
        }))
    }

    /// The batch as a reader sees it.
    fn view(&self) -> Option<BatchView> {
        let settings = ReadSettings {
            check_crcs: false,
            ..ReadSettings::default()
        };
        let view = BatchSet::new(self.bytes.clone(), Offset(0), settings)
            .next()?
            .ok()?;
        view.inflate(usize::MAX).ok()
    }
}

/// Lends `record` in the form the writer takes.
fn with_borrowed<T>(record: &Record, act: impl FnOnce(&NewRecord<'_>) -> T) -> T {
    let headers: Vec<_> = record
        .headers
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_deref()))
        .collect();
    act(&NewRecord {
        timestamp: record.timestamp,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: &headers,
    })
}
