//! Properties of producing (wire.md 15).

use std::time::Duration;

use super::choices::{Acks, Compression};
use super::section::{ms, section};

section! {
    /// How records are written.
    Produce {
        /// Replicas that must have a record.
        "acks" acks: Acks = Acks::All;
        /// Time until a record counts as not delivered.
        "delivery.timeout.ms" delivery: Duration = ms(120_000);
        /// How long a batch waits for company.
        "linger.ms" linger: Duration = ms(5);
        /// Bytes of a batch that waits no longer.
        "batch.size" batch_bytes: u32 = 65_536;
        /// Largest produce request, in bytes.
        "max.request.size" request_bytes: u32 = 1_048_576;
        /// Codec of batches.
        "compression.type" compression: Compression = Compression::None;
        /// Gzip level.
        "compression.gzip.level" gzip_level: Option<i32> = None;
        /// Zstandard level.
        "compression.zstd.level" zstd_level: Option<i32> = None;
    }
}
