//! The targets, by name.

mod aborted;
mod batch;
mod codec;
mod connection;
mod decode;
mod encode;
mod frame;
mod oauth_error;
mod producer;
mod round_trip;
mod scram;
mod sniff;
mod tagged;
mod varint;
mod versus;

use nearside::wire::ApiKey;

use crate::golden;
use crate::mutator::Repair;

/// One way to feed bytes to nearside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, that of its file for `cargo fuzz` as well.
    pub name: &'static str,
    /// Feeds one input. Panics if an invariant breaks.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What the mutator makes right again.
    pub repair: Repair,
    /// Bytes that may be held beside 16 times the input.
    pub room: usize,
    /// How many inputs a run has if nobody says otherwise: about 20 s of one core.
    pub inputs: u64,
}

/// What every decoder may hold whatever the input (wire.md 14).
const BASE: usize = 64 * 1024;

const MILLION: u64 = 1_000_000;

/// A target per API.
macro_rules! decoders {
    ($($name:literal $api:ident,)+) => {
        [$(Target {
            name: $name,
            run: |data| decode::run(ApiKey::$api, data),
            seeds: || decode::seeds(ApiKey::$api),
            repair: Repair::None,
            room: BASE,
            inputs: 30 * MILLION,
        },)+]
    };
}

/// A target per codec.
macro_rules! codecs {
    ($($name:literal $number:literal $inputs:literal,)+) => {
        [$(Target {
            name: $name,
            run: |data| codec::run($number, data),
            seeds: || codec::seeds($number),
            repair: Repair::None,
            // The inflated bytes with what they grew from, and the state of the decoder itself.
            room: BASE + codec::OUTPUT_MAX + codec::OUTPUT_MAX / 2 + 2 * BASE,
            inputs: $inputs,
        },)+]
    };
}

/// Every target.
pub fn all() -> Vec<Target> {
    let decoders = decoders! {
        "decode_produce" Produce,
        "decode_fetch" Fetch,
        "decode_list_offsets" ListOffsets,
        "decode_metadata" Metadata,
        "decode_offset_commit" OffsetCommit,
        "decode_offset_fetch" OffsetFetch,
        "decode_find_coordinator" FindCoordinator,
        "decode_join_group" JoinGroup,
        "decode_heartbeat" Heartbeat,
        "decode_leave_group" LeaveGroup,
        "decode_sync_group" SyncGroup,
        "decode_sasl_handshake" SaslHandshake,
        "decode_api_versions" ApiVersions,
        "decode_create_topics" CreateTopics,
        "decode_init_producer_id" InitProducerId,
        "decode_offset_for_leader_epoch" OffsetForLeaderEpoch,
        "decode_describe_configs" DescribeConfigs,
        "decode_sasl_authenticate" SaslAuthenticate,
        "decode_consumer_group_heartbeat" ConsumerGroupHeartbeat,
    };
    let codecs = codecs! {
        "codec_gzip" 1 700_000,
        "codec_snappy" 2 18_000_000,
        "codec_lz4" 3 5_000_000,
        "codec_zstd" 4 1_000_000,
    };
    let others = [
        Target {
            name: "frame",
            run: frame::run,
            seeds: frame::seeds,
            repair: Repair::None,
            // Frames given out are held until the end, beside the buffer.
            room: 4 * BASE,
            inputs: 2 * MILLION,
        },
        Target {
            name: "decode_vs_crate",
            run: versus::run,
            seeds: versus::seeds,
            repair: Repair::None,
            // The library's decoder is measured with ours, and it believes counts.
            room: usize::MAX / 2,
            inputs: 24 * MILLION,
        },
        Target {
            name: "batch_v2",
            run: batch::run,
            seeds: batch::seeds,
            repair: Repair::RecordsAt(1),
            room: batch::ROOM,
            inputs: 14 * MILLION,
        },
        Target {
            name: "batch_legacy",
            run: batch::run,
            seeds: batch::legacy_seeds,
            repair: Repair::RecordsAt(1),
            room: batch::ROOM,
            inputs: 20 * MILLION,
        },
        Target {
            name: "aborted",
            run: aborted::run,
            seeds: aborted::seeds,
            repair: Repair::None,
            // The oracle keeps whole logs.
            room: usize::MAX / 2,
            inputs: MILLION / 2,
        },
        Target {
            name: "batch_round_trip",
            run: round_trip::run,
            seeds: round_trip::seeds,
            repair: Repair::None,
            room: usize::MAX / 2,
            inputs: 2 * MILLION,
        },
        Target {
            name: "scram",
            run: scram::run,
            seeds: scram::seeds,
            repair: Repair::None,
            room: BASE,
            inputs: 200_000,
        },
        Target {
            name: "oauth_error",
            run: oauth_error::run,
            seeds: oauth_error::seeds,
            repair: Repair::None,
            room: BASE,
            inputs: 12 * MILLION,
        },
        Target {
            name: "connection",
            run: connection::run,
            seeds: connection::seeds,
            repair: Repair::None,
            // The requests, and the books of the host.
            room: usize::MAX / 2,
            inputs: MILLION,
        },
        Target {
            name: "encode",
            run: encode::run,
            seeds: encode::seeds,
            repair: Repair::None,
            // Our requests are our own data.
            room: usize::MAX / 2,
            inputs: 3 * MILLION,
        },
        Target {
            name: "sniff",
            run: sniff::run,
            seeds: sniff::seeds,
            repair: Repair::None,
            // The buffer, and a connection.
            room: 3 * BASE,
            inputs: 26 * MILLION,
        },
        Target {
            name: "varint",
            run: varint::run,
            seeds: varint::seeds,
            repair: Repair::None,
            // A value of up to 64 KiB that is written, and the same by hand.
            room: 8 * BASE,
            inputs: 22 * MILLION,
        },
        Target {
            name: "tagged",
            run: tagged::run,
            seeds: tagged::seeds,
            repair: Repair::None,
            room: BASE,
            inputs: 38 * MILLION,
        },
        Target {
            name: "producer",
            run: producer::run,
            seeds: producer::seeds,
            repair: Repair::None,
            // The cluster is kept whole.
            room: usize::MAX / 2,
            inputs: 2 * MILLION / 5,
        },
    ];
    decoders.into_iter().chain(codecs).chain(others).collect()
}

/// The target called `name`.
///
/// # Panics
/// If there is none.
pub fn find(name: &str) -> Target {
    let found = all().into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target is called {name}"))
}

/// Splits off the first byte, which chooses among `count` things.
fn choose(data: &[u8], count: usize) -> Option<(usize, &[u8])> {
    let (choice, rest) = data.split_first()?;
    Some((usize::from(*choice) % count, rest))
}

/// Golden bodies of an API with the byte that chooses their version.
fn chosen(api: ApiKey) -> Vec<Vec<u8>> {
    let first = golden::versions(api).next().unwrap_or_default();
    let chosen = |(version, body): (i16, Vec<u8>)| {
        let choice = u8::try_from(version - first).unwrap_or_default();
        [vec![choice], body].concat()
    };
    golden::bodies(api).into_iter().map(chosen).collect()
}
