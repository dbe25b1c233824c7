//! A reader of one partition from one broker: requests by kafka-protocol, records by nearside.

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{BrokerId, FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use libtest_mimic::Failed;
use nearside::cli::kafka::Admin;
use nearside::ids::Offset;
use nearside::records::{BatchSet, ReadSettings};

/// What one partition held.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Bytes of record sets received, as the brokers count them.
    pub(crate) bytes: u64,
    /// The numbers the records carry, in the order of their offsets.
    pub(crate) numbers: Vec<u64>,
}

/// Reads `topic`-`partition` from its start to `end`, all of it from the broker `admin` is
/// connected to.
pub(crate) fn read(
    admin: &mut Admin,
    topic: &str,
    partition: i32,
    end: i64,
) -> Result<Read, Failed> {
    let mut read = Read::default();
    let mut position = Offset(0);
    while position.0 < end {
        let row = fetch(admin, topic, partition, position)?;
        if row.error_code != 0 {
            return Err(format!(
                "{topic}-{partition} at {position}: error {}",
                row.error_code
            )
            .into());
        }
        let records = row.records.unwrap_or_default();
        read.bytes += records.len() as u64;
        let mut set = BatchSet::new(records, position, ReadSettings::default());
        for view in &mut set {
            for record in view?.records() {
                read.numbers.push(number(record?.value)?);
            }
        }
        position = set.position();
    }
    Ok(read)
}

/// One fetch of one partition, as the broker answered it.
pub(crate) fn fetch(
    admin: &mut Admin,
    topic: &str,
    partition: i32,
    position: Offset,
) -> Result<PartitionData, Failed> {
    let wanted = FetchPartition::default()
        .with_partition(partition)
        .with_current_leader_epoch(-1)
        .with_fetch_offset(position.0)
        .with_log_start_offset(-1)
        .with_partition_max_bytes(1 << 20);
    let wanted = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(vec![wanted]);
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(200)
        .with_min_bytes(1)
        .with_max_bytes(16 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![wanted]);
    let answer = admin.call(&request, 12)?;
    let rows = answer
        .responses
        .into_iter()
        .flat_map(|topic| topic.partitions);
    rows.into_iter()
        .next()
        .ok_or_else(|| "a fetch answer without a row".into())
}

fn number(value: Option<&[u8]>) -> Result<u64, Failed> {
    Ok(std::str::from_utf8(value.ok_or("a record without a value")?)?.parse()?)
}
