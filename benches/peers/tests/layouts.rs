//! Batches as librdkafka lays them out, kept by the embedded cluster and read by nearside.
//!
//! With `NEARSIDE_WRITE_GOLDEN` set, the Fetch answers become golden frames of nearside.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, RequestHeader, TopicName};
use kafka_protocol::protocol::{Encodable, StrBytes};
use nearside::embedded::Settings;
use nearside::embedded::listener::Serving;
use nearside::ids::{Offset, TopicPartition};
use nearside::records::{BatchSet, ReadSettings};
use nearside::wire::{ApiKey, ErrorCode, Response};
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const VERSION: i16 = 12;
const TOPIC: &str = "layouts";
const RECORDS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(30);
/// Codecs that need no library beside librdkafka.
const CODECS: [&str; 3] = ["none", "snappy", "lz4"];

#[test]
fn what_librdkafka_writes_reads_as_it_was_meant() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    for codec in CODECS {
        let settings = Settings::default().on_loopback(None);
        let serving = runtime
            .block_on(Serving::listen(settings))
            .expect("free ports");
        let created = serving
            .handle()
            .with(|cluster| cluster.create_topic(TOPIC, 1, 1));
        created.expect("room for a topic");
        produce(&serving.handle().bootstrap(), codec);
        let frame = fetch(&serving);
        check(&frame);
        if std::env::var_os("NEARSIDE_WRITE_GOLDEN").is_some() {
            keep(codec, &frame);
        }
    }
}

/// What record `at` holds: nothing, something, and empty things beside them.
fn key(at: usize) -> Option<String> {
    (!at.is_multiple_of(3)).then(|| "k".repeat(at % 5))
}

fn value(at: usize) -> Option<String> {
    (!at.is_multiple_of(4)).then(|| format!("value {at} ").repeat(at % 7))
}

fn produce(bootstrap: &str, codec: &str) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("compression.codec", codec)
        // One batch of all, and another one when half are there.
        .set("linger.ms", "1000")
        .create()
        .expect("a producer");
    for at in 0..RECORDS {
        let (key, value) = (key(at), value(at));
        let headers = OwnedHeaders::new()
            .insert(Header {
                key: "number",
                value: Some(&at.to_string()),
            })
            .insert(Header::<&str> {
                key: "number",
                value: None,
            });
        let mut record = BaseRecord::<str, str>::to(TOPIC).timestamp(1_000 + at as i64);
        record.key = key.as_deref();
        record.payload = value.as_deref();
        let sent = producer.send(record.headers(headers));
        sent.map_err(|(error, _)| error).expect("room");
        if at == RECORDS / 2 {
            producer.flush(PATIENCE).expect("acknowledged");
        }
    }
    producer.flush(PATIENCE).expect("acknowledged");
}

/// Fetches from the beginning; the whole answer with its length.
fn fetch(serving: &Serving) -> Bytes {
    let at = TopicPartition::new(TOPIC, 0);
    let address = serving.handle().with(|cluster| {
        let leader = cluster.partition(&at)?.leader?;
        let mut brokers = cluster.settings().brokers.iter();
        let broker = brokers.find(|broker| broker.id == leader)?;
        Some((broker.host.clone(), broker.port))
    });
    let mut socket = TcpStream::connect(address.expect("a leader")).expect("served");
    socket.write_all(&request()).expect("sent");
    let mut length = [0; 4];
    socket.read_exact(&mut length).expect("a length");
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut frame).expect("a frame");
    [&length[..], &frame].concat().into()
}

fn request() -> Bytes {
    let partition = FetchPartition::default().with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_static_str(TOPIC)))
        .with_partitions(vec![partition]);
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    let header = RequestHeader::default()
        .with_request_api_key(1)
        .with_request_api_version(VERSION);
    let mut body = BytesMut::new();
    header.encode(&mut body, 2).expect("sound");
    request.encode(&mut body, VERSION).expect("sound");
    let mut frame = BytesMut::new();
    frame.put_u32(u32::try_from(body.len()).expect("small"));
    frame.put_slice(&body);
    frame.freeze()
}

fn check(frame: &Bytes) {
    // Length, correlation id and the tags of the header.
    let body = frame.slice(9..);
    let (response, _) = Response::decode(ApiKey::Fetch, VERSION, &body).expect("sound");
    let Response::Fetch(response) = response else {
        panic!("another API");
    };
    let row = response.rows().next().expect("a row");
    assert_eq!(row.error, ErrorCode::NONE);
    let settings = ReadSettings {
        strict: true,
        ..ReadSettings::default()
    };
    let mut seen = 0;
    for view in BatchSet::new(row.records, Offset(0), settings) {
        let view = view.expect("sound").inflate(1 << 20).expect("sound");
        for record in view.records() {
            let record = record.expect("sound");
            assert_eq!(record.offset, Offset(seen as i64));
            assert_eq!(record.timestamp, 1_000 + seen as i64);
            assert_eq!(record.key, key(seen).as_deref().map(str::as_bytes));
            assert_eq!(record.value, value(seen).as_deref().map(str::as_bytes));
            let headers: Vec<_> = record.headers.iter().map(|it| it.expect("sound")).collect();
            let number = seen.to_string();
            assert_eq!(headers.len(), 2);
            assert!(headers.iter().all(|header| header.key == b"number"));
            assert_eq!(headers[0].value, Some(number.as_bytes()));
            assert_eq!(headers[1].value, None);
            seen += 1;
        }
    }
    assert_eq!(seen, RECORDS);
}

fn keep(codec: &str, frame: &[u8]) {
    let case = format!("librdkafka-{codec}");
    let (_, version) = rdkafka::util::get_rdkafka_version();
    let mut text = format!(
        "# Batches of librdkafka {version}, kept by the embedded cluster, Fetch v{VERSION}: {case}\n"
    );
    for line in frame.chunks(32) {
        for byte in line {
            write!(text, "{byte:02x}").expect("memory");
        }
        text.push('\n');
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/fetch");
    let file = folder.join(format!("{VERSION}-{case}.hex"));
    std::fs::write(file, text).expect("writable");
}
