//! The floor: fetch every partition from one follower over one connection, check the CRCs, forget
//! the bytes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::{Buf, Bytes, BytesMut};
use crc_fast::CrcAlgorithm;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{
    BrokerId, FetchRequest, FetchResponse, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use nearside::cli::kafka::Admin;

use super::{Measured, Meter, Task};
use crate::Result;

pub fn read(task: &Task, mut meter: Meter) -> Result<Measured> {
    let address = broker_of_rack_b(&task.bootstrap)?;
    let mut positions: BTreeMap<i32, i64> = Admin::connect(address)?
        .partitions(&task.topic)?
        .into_keys()
        .map(|partition| (partition, 0))
        .collect();
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        stream.write_all(&request(&task.topic, &positions)?)?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        meter.first();
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        stream.read_exact(&mut buffer[..length])?;
        let whole = Bytes::from(buffer);
        let counted = discard(whole.slice(..length), &mut positions)?;
        if meter.add(counted) {
            return meter.end();
        }
        // Nothing else holds the buffer by now, so this is no copy.
        buffer = Vec::from(whole);
    }
}

/// The second broker of the bootstrap list is the one of rack b.
fn broker_of_rack_b(bootstrap: &str) -> Result<SocketAddr> {
    Ok(bootstrap
        .split(',')
        .nth(1)
        .ok_or("three bootstrap servers are needed")?
        .parse()?)
}

fn request(topic: &str, positions: &BTreeMap<i32, i64>) -> Result<Vec<u8>> {
    let partitions = positions.iter().map(|(partition, position)| {
        FetchPartition::default()
            .with_partition(*partition)
            .with_fetch_offset(*position)
            .with_partition_max_bytes(1 << 20)
    });
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(partitions.collect());
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    let header = RequestHeader::default()
        .with_request_api_key(FetchRequest::KEY)
        .with_request_api_version(VERSION);
    let mut frame = BytesMut::zeroed(4);
    header.encode(&mut frame, FetchRequest::header_version(VERSION))?;
    request.encode(&mut frame, VERSION)?;
    let length = u32::try_from(frame.len() - 4)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame.to_vec())
}

/// Checks every whole batch of an answer, moves the positions, and counts the records.
fn discard(mut frame: Bytes, positions: &mut BTreeMap<i32, i64>) -> Result<u64> {
    ResponseHeader::decode(&mut frame, FetchResponse::header_version(VERSION))?;
    let answer = FetchResponse::decode(&mut frame, VERSION)?;
    let mut counted = 0;
    for row in answer
        .responses
        .into_iter()
        .flat_map(|topic| topic.partitions)
    {
        if row.error_code != 0 {
            return Err(format!(
                "partition {}: error {}",
                row.partition_index, row.error_code
            )
            .into());
        }
        let position = positions.entry(row.partition_index).or_default();
        let mut rest = row.records.unwrap_or_default();
        while rest.len() >= HEADER_BYTES {
            let base = (&rest[..8]).get_i64();
            let size = 12 + (&rest[8..12]).get_u32() as usize;
            if rest.len() < size {
                break;
            }
            let batch = rest.split_to(size);
            let checksum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &batch[21..]);
            if checksum != u64::from((&batch[17..21]).get_u32()) {
                return Err(format!("checksum of the batch at {base}").into());
            }
            let records = u64::from((&batch[57..61]).get_u32());
            counted += records;
            *position = base + i64::from((&batch[23..27]).get_u32()) + 1;
        }
    }
    Ok(counted)
}

const VERSION: i16 = 12;
const HEADER_BYTES: usize = 61;
