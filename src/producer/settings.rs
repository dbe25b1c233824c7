//! What can be set about producing.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::records::Compression;
use crate::wire::api::produce::Acks;

/// What a producer writes, which decides what doubt means to it (wire.md 10.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Kind {
    /// Records of an application: a possible duplicate beats a loss.
    #[default]
    Data,
    /// Dead letters: as data.
    DeadLetter,
    /// A changelog: no delivery timeout, and a batch in doubt fails rather than being written
    /// twice.
    Changelog,
}

/// Settings of a [`Producer`](super::Producer).
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// What it writes; default [`Kind::Data`].
    pub kind: Kind,
    /// Who must have a batch (`acks`; default all). [`Acks::Leader`] needs `idempotent` off.
    pub acks: Acks,
    /// Sequences and exactly-once appends per partition (`enable.idempotence`; default true).
    /// Without it only one batch per partition is in flight.
    pub idempotent: bool,
    /// From append to a final answer (`delivery.timeout.ms`; default 120 s); not used by
    /// changelogs.
    pub delivery_timeout: Duration,
    /// How long a batch waits for company (`linger.ms`; default 5 ms).
    pub linger: Duration,
    /// Bytes of a batch that waits no longer (`batch.size`; default 65 536). A target, not a limit.
    pub batch_bytes: usize,
    /// Largest request, and so the largest record (`max.request.size`; default 1 048 576).
    pub request_bytes: usize,
    /// Bytes of records held at most, the produce share of the memory budget
    /// (`wire.budget.produce.share`; default 64 MiB).
    pub buffer_bytes: usize,
    /// Codec of batches (`compression.type`; default none).
    pub compression: Compression,
    /// The codec's level; `None` is its default.
    pub compression_level: Option<i32>,
    /// How long a broker may wait for its replicas (`request.timeout.ms`; default 30 s).
    pub request_timeout: Duration,
    /// Delays of retries (`retry.backoff.ms`, `retry.backoff.max.ms`; default 100 ms to 1 s).
    pub retry_backoff: Backoff,
    /// How long answers of an old leader are waited for after a move (`route.move.drain.ms`;
    /// default 1 s).
    pub move_drain: Duration,
    /// Requests in flight per broker; at most and by default 5.
    pub in_flight: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kind: Kind::Data,
            acks: Acks::All,
            idempotent: true,
            delivery_timeout: Duration::from_secs(120),
            linger: Duration::from_millis(5),
            batch_bytes: 65_536,
            request_bytes: 1_048_576,
            buffer_bytes: 64 << 20,
            compression: Compression::None,
            compression_level: None,
            request_timeout: Duration::from_secs(30),
            retry_backoff: Backoff::from_ms(100, 1_000),
            move_drain: Duration::from_secs(1),
            in_flight: 5,
        }
    }
}

impl Settings {
    /// How long after its append a batch is given up; `None` for changelogs.
    pub(super) fn give_up_after(&self) -> Option<Duration> {
        match self.kind {
            Kind::Data | Kind::DeadLetter => Some(self.delivery_timeout),
            Kind::Changelog => None,
        }
    }
}
