//! Properties of producing (wire.md 15).

use std::num::NonZeroU32;
use std::time::Duration;

use super::choices::{Acks, Compression};
use super::property::Property;
use super::section::{count, ms, section};

section! {
    /// How records are written.
    Produce {
        /// Replicas that must have a record.
        "acks" acks: Acks = Acks::All;
        /// Requests in flight per connection.
        "max.in.flight.requests.per.connection" in_flight: InFlight = InFlight(count(5));
        /// How long a moved partition waits for the old leader's answers.
        "route.move.drain.ms" move_drain: Duration = ms(1_000);
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

/// Requests in flight per connection: 1 to 5, since brokers keep the last five batches of a
/// producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlight(pub NonZeroU32);

impl Property for InFlight {
    fn accepts() -> String {
        "a whole number from 1 to 5".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse()
            .ok()
            .filter(|count: &NonZeroU32| count.get() <= 5)
            .map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}
