//! Rows without what they carry: of records and aborted transactions only the length is kept.

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{BrokerId, LeaderEpoch, Offset, PartitionIndex};
use crate::wire::ErrorCode;
use crate::wire::api::fetch::{Aborted, EpochEnd, Row};
use crate::wire::api::{CurrentLeader, TopicRef};

/// A row as a trace holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bare {
    #[serde(skip_serializing_if = "is_none_code", default)]
    error: ErrorCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    high_watermark: Option<Offset>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_stable: Option<Offset>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_start: Option<Offset>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<BrokerId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diverging: Option<(LeaderEpoch, Offset)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<(Option<BrokerId>, Option<LeaderEpoch>)>,
    bytes: usize,
}

fn is_none_code(code: &ErrorCode) -> bool {
    *code == ErrorCode::NONE
}

pub(in crate::routing) fn serialize<S: Serializer>(
    row: &Row,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    // Written out, so that a new field of a row asks to be traced or left out by name.
    let Row {
        topic: _,
        partition: _,
        error,
        high_watermark,
        last_stable_offset,
        log_start,
        preferred_read_replica,
        diverging_epoch,
        current_leader,
        aborted: _,
        records,
    } = row;
    let bare = Bare {
        error: *error,
        high_watermark: *high_watermark,
        last_stable: *last_stable_offset,
        log_start: *log_start,
        hint: *preferred_read_replica,
        diverging: diverging_epoch.map(|end| (end.epoch, end.end_offset)),
        leader: current_leader.map(|told| (told.leader, told.epoch)),
        bytes: records.len(),
    };
    bare.serialize(serializer)
}

pub(in crate::routing) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Row, D::Error> {
    let bare = Bare::deserialize(deserializer)?;
    if bare.bytes > RECORDS_MAX {
        let text = format!("{} bytes of records are more than a row holds", bare.bytes);
        return Err(D::Error::custom(text));
    }
    let diverging = |(epoch, end_offset)| EpochEnd { epoch, end_offset };
    let leader = |(leader, epoch)| CurrentLeader { leader, epoch };
    Ok(Row {
        topic: nobody(),
        partition: PartitionIndex(0),
        error: bare.error,
        high_watermark: bare.high_watermark,
        last_stable_offset: bare.last_stable,
        log_start: bare.log_start,
        preferred_read_replica: bare.hint,
        diverging_epoch: bare.diverging.map(diverging),
        current_leader: bare.leader.map(leader),
        aborted: Aborted::default(),
        records: blank(bare.bytes),
    })
}

/// The row without records, aborted transactions and the name of its topic.
pub(super) fn bare(row: &Row) -> Row {
    Row {
        topic: nobody(),
        partition: PartitionIndex(0),
        aborted: Aborted::default(),
        records: blank(row.records.len()),
        ..row.clone()
    }
}

/// As many zeros as there were bytes: the machine looks at nothing but the number.
pub(super) fn blank(length: usize) -> Bytes {
    ZEROS
        .get(..length)
        .map_or_else(|| Bytes::from(vec![0; length]), Bytes::from_static)
}

/// The route machine never asks a row which partition it belongs to.
fn nobody() -> TopicRef {
    TopicRef::Id(crate::ids::TopicId(uuid::Uuid::nil()))
}

/// Rows up to this length need no memory of their own.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// A frame's length is an i32.
const RECORDS_MAX: usize = 0x7fff_ffff;
