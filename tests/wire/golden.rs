//! Golden frames: what real brokers answered, and what hands made for the edges. Two
//! implementations read every one of them, without a tolerance used, and understand the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages as wire;
use kafka_protocol::protocol::{Decodable, Encodable};
use nearside::ids::Offset;
use nearside::records::{BatchSet, ReadSettings};
use nearside::wire::{ApiKey, Oddities, Response, ours};

use crate::samples;

/// One file.
struct Golden {
    api: ApiKey,
    version: i16,
    file: PathBuf,
    frame: Vec<u8>,
}

impl Golden {
    fn body(&self) -> Bytes {
        let key = wire::ApiKey::try_from(self.api.code()).unwrap();
        let tagged = key.response_header_version(self.version) > 0;
        Bytes::copy_from_slice(&self.frame[if tagged { 9 } else { 8 }..])
    }

    fn is_captured(&self) -> bool {
        !self.file.to_string_lossy().ends_with("-made.hex")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn folder(api: ApiKey) -> PathBuf {
    let mut name = String::new();
    for letter in api.to_string().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    root().join(name)
}

/// Those whose frames may be kept: what secures a connection is in none.
fn recorded() -> impl Iterator<Item = ApiKey> {
    let secret = [ApiKey::SaslHandshake, ApiKey::SaslAuthenticate];
    ApiKey::ALL
        .into_iter()
        .filter(move |api| !secret.contains(api))
}

fn all() -> Vec<Golden> {
    recorded().flat_map(of).collect()
}

fn of(api: ApiKey) -> Vec<Golden> {
    let mut files: Vec<_> = fs::read_dir(folder(api))
        .unwrap_or_else(|error| panic!("{api}: {error}"))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let golden = |file: PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap();
        let version = name.split('-').next().unwrap().parse().unwrap();
        let frame = bytes_of(&fs::read_to_string(&file).unwrap());
        Golden {
            api,
            version,
            file,
            frame,
        }
    };
    files.into_iter().map(golden).collect()
}

fn bytes_of(text: &str) -> Vec<u8> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let digits: Vec<char> = lines.flat_map(|line| line.trim().chars()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn every_version_of_every_api_was_captured_from_a_broker() {
    let mut captured: BTreeMap<(ApiKey, i16), usize> = BTreeMap::new();
    for golden in all().iter().filter(|golden| golden.is_captured()) {
        *captured.entry((golden.api, golden.version)).or_default() += 1;
    }
    for api in recorded() {
        for version in ours(api).min..=ours(api).max {
            assert!(captured.contains_key(&(api, version)), "{api} v{version}");
        }
    }
}

#[test]
fn a_frame_is_as_long_as_it_says() {
    for golden in all() {
        let told = u32::from_be_bytes(golden.frame[..4].try_into().unwrap());
        let length = golden.frame.len() - 4;
        assert_eq!(
            usize::try_from(told).unwrap(),
            length,
            "{}",
            golden.file.display()
        );
    }
}

#[test]
fn both_implementations_read_every_frame_strictly_and_understand_the_same() {
    for golden in all() {
        let (api, version, file) = (golden.api, golden.version, golden.file.display());
        let body = golden.body();
        let (ours, oddities) =
            Response::decode(api, version, &body).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(oddities, Oddities::default(), "{file}");
        let theirs = rewritten(api, version, body);
        let (theirs, _) = Response::decode(api, version, &theirs).unwrap();
        match (ours, theirs) {
            (Response::Fetch(ours), Response::Fetch(theirs)) => {
                assert!(ours.rows().eq(theirs.rows()), "{file}");
                assert_eq!(ours.error, theirs.error, "{file}");
            }
            (ours, theirs) => assert_eq!(ours, theirs, "{file}"),
        }
    }
}

/// What the library understood, written down by it again.
fn rewritten(api: ApiKey, version: i16, body: Bytes) -> Bytes {
    match api {
        ApiKey::Produce => both::<wire::ProduceResponse>(version, body),
        ApiKey::Fetch => both::<wire::FetchResponse>(version, body),
        ApiKey::ListOffsets => both::<wire::ListOffsetsResponse>(version, body),
        ApiKey::Metadata => both::<wire::MetadataResponse>(version, body),
        ApiKey::OffsetCommit => both::<wire::OffsetCommitResponse>(version, body),
        ApiKey::OffsetFetch => both::<wire::OffsetFetchResponse>(version, body),
        ApiKey::FindCoordinator => both::<wire::FindCoordinatorResponse>(version, body),
        ApiKey::JoinGroup => both::<wire::JoinGroupResponse>(version, body),
        ApiKey::Heartbeat => both::<wire::HeartbeatResponse>(version, body),
        ApiKey::LeaveGroup => both::<wire::LeaveGroupResponse>(version, body),
        ApiKey::SyncGroup => both::<wire::SyncGroupResponse>(version, body),
        ApiKey::SaslHandshake => both::<wire::SaslHandshakeResponse>(version, body),
        ApiKey::ApiVersions => both::<wire::ApiVersionsResponse>(version, body),
        ApiKey::CreateTopics => both::<wire::CreateTopicsResponse>(version, body),
        ApiKey::InitProducerId => both::<wire::InitProducerIdResponse>(version, body),
        ApiKey::OffsetForLeaderEpoch => both::<wire::OffsetForLeaderEpochResponse>(version, body),
        ApiKey::DescribeConfigs => both::<wire::DescribeConfigsResponse>(version, body),
        ApiKey::SaslAuthenticate => both::<wire::SaslAuthenticateResponse>(version, body),
        ApiKey::ConsumerGroupHeartbeat => {
            both::<wire::ConsumerGroupHeartbeatResponse>(version, body)
        }
    }
}

fn both<T: Decodable + Encodable>(version: i16, mut body: Bytes) -> Bytes {
    let read = T::decode(&mut body, version).unwrap();
    assert!(!body.has_remaining(), "the library leaves bytes");
    samples::encode(&read, version)
}

/// `NEARSIDE_WRITE_GOLDEN=1` writes them anew instead.
#[test]
fn hand_made_frames_are_what_the_samples_make() {
    let write = std::env::var_os("NEARSIDE_WRITE_GOLDEN").is_some();
    for (api, version, body) in samples::all() {
        if !recorded().any(|recorded| recorded == api) {
            continue;
        }
        let key = wire::ApiKey::try_from(api.code()).unwrap();
        let header = wire::ResponseHeader::default().with_correlation_id(1);
        let mut frame = BytesMut::new();
        header
            .encode(&mut frame, key.response_header_version(version))
            .unwrap();
        frame.extend_from_slice(&body);
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        let frame = [&length[..], &frame].concat();
        let mut text = format!("# made by hand, {api} v{version}: every field filled\n");
        for line in frame.chunks(32) {
            text.extend(line.iter().map(|byte| format!("{byte:02x}")));
            text.push('\n');
        }
        let file = folder(api).join(format!("{version:02}-made.hex"));
        if write {
            fs::create_dir_all(folder(api)).unwrap();
            fs::write(&file, &text).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap();
        assert_eq!(kept, text, "{}", file.display());
    }
}

/// Keys, values and headers of the program in `tests/golden/franz-go`: nothing, something, and
/// empty things beside them.
#[test]
fn what_franz_go_writes_reads_as_it_was_meant() {
    let frames = of(ApiKey::Fetch).into_iter();
    let frames = frames.filter(|golden| golden.file.to_string_lossy().contains("franz-go"));
    let mut codecs = 0;
    for golden in frames {
        let (answer, _) = Response::decode(golden.api, golden.version, &golden.body()).unwrap();
        let Response::Fetch(answer) = answer else {
            panic!("another API");
        };
        let settings = ReadSettings {
            strict: true,
            ..ReadSettings::default()
        };
        let records = answer.rows().next().unwrap().records;
        let mut seen = 0_usize;
        for view in BatchSet::new(records, Offset(0), settings) {
            let view = view.unwrap().inflate(1 << 20).unwrap();
            for record in view.records() {
                let record = record.unwrap();
                let key = (!seen.is_multiple_of(3)).then(|| "k".repeat(seen % 5));
                let value =
                    (!seen.is_multiple_of(4)).then(|| format!("value {seen} ").repeat(seen % 7));
                assert_eq!(record.timestamp, 1_000 + i64::try_from(seen).unwrap());
                assert_eq!(record.key, key.as_deref().map(str::as_bytes));
                assert_eq!(record.value, value.as_deref().map(str::as_bytes));
                let headers: Vec<_> = record.headers.iter().map(Result::unwrap).collect();
                let values: Vec<_> = headers.iter().map(|header| header.value).collect();
                assert_eq!(values, [Some(seen.to_string().as_bytes()), None]);
                seen += 1;
            }
        }
        assert_eq!(seen, 40, "{:?}", golden.file);
        codecs += 1;
    }
    assert_eq!(codecs, 5);
}
