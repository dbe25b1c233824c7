//! Damaged and lying answers: an error or a value, never a panic, never memory on the peer's word.

use bytes::{BufMut, Bytes, BytesMut};
use nearside::wire::api::{fetch, metadata};
use nearside::wire::{ApiKey, Flaw, Response};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::samples;

/// One change to a body.
#[derive(Clone, Debug)]
enum Damage {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Cut(Index),
    Length(Index, i32),
}

fn damage() -> impl Strategy<Value = Damage> {
    let interesting = prop_oneof![
        Just(i32::MAX),
        Just(-1),
        Just(-2),
        Just(i32::MIN),
        Just(0),
        any::<i32>()
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        (any::<Index>(), prop::collection::vec(any::<u8>(), 1..6))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), interesting).prop_map(|(at, length)| Damage::Length(at, length)),
    ]
}

fn apply(body: &Bytes, changes: &[Damage]) -> Bytes {
    let mut bytes = body.to_vec();
    for change in changes.iter().filter(|_| !body.is_empty()) {
        match change {
            Damage::Replace(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Damage::Replace(..) => {}
            Damage::Insert(at, new) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, new.iter().copied());
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
            Damage::Length(at, length) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..(at + 4).min(bytes.len()), length.to_be_bytes());
            }
        }
    }
    bytes.into()
}

/// Decodes and, for Fetch, iterates everything.
fn exercise(api: ApiKey, version: i16, body: &Bytes) {
    let Ok((response, _)) = Response::decode(api, version, body) else {
        return;
    };
    if let Response::Fetch(response) = response {
        let rows: Vec<_> = response.rows().collect();
        assert_eq!(
            rows.len(),
            response.row_count(),
            "a validated row cannot fail later"
        );
        let inside = body.as_ptr_range();
        for row in rows {
            assert_eq!(row.aborted.iter().count(), row.aborted.len());
            assert!(row.records.is_empty() || inside.contains(&row.records.as_ptr()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_damaged_answer_panics(changes in prop::collection::vec(damage(), 1..4)) {
        for (api, version, body) in samples::all() {
            exercise(api, version, &apply(&body, &changes));
        }
    }

    #[test]
    fn no_random_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        for (api, version, _) in samples::all() {
            exercise(api, version, &bytes);
        }
    }
}

#[test]
fn a_body_cut_anywhere_is_malformed() {
    for (api, version, body) in samples::all() {
        for length in 0..body.len() {
            let cut = body.slice(..length);
            let decoded = Response::decode(api, version, &cut);
            assert!(decoded.is_err(), "{api} v{version} cut at {length}");
        }
    }
}

#[test]
fn bytes_behind_the_last_field_are_counted() {
    for (api, version, body) in samples::all() {
        let longer = [&body[..], &[1, 2, 3]].concat().into();
        let (_, oddities) = Response::decode(api, version, &longer).unwrap();
        assert_eq!(oddities.trailing_bytes, 3, "{api} v{version}");
    }
}

/// wire.md A6
#[test]
fn a_count_beyond_the_bytes_is_malformed_and_says_where() {
    let mut body = BytesMut::new();
    body.put_i32(0);
    body.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x07]);
    let error = metadata::Response::decode(9, &body.freeze()).unwrap_err();
    assert_eq!(
        (error.field, error.at, error.flaw),
        ("brokers", 9, Flaw::CountTooLarge)
    );
    let text = "malformed Metadata v9 response: brokers at byte 9 \
                counts more elements than bytes remain";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_count_the_bytes_could_hold_still_costs_no_more_than_its_share() {
    // 18 bytes a partition on the wire, a hundred in memory: an honest frame fits, and so does this
    // one.
    let response = samples::metadata(9, 0);
    let topic = response.topics[0].clone();
    let mut partitions = topic.partitions.clone();
    partitions = partitions.iter().cycle().take(20_000).cloned().collect();
    for (index, partition) in partitions.iter_mut().enumerate() {
        partition.partition_index = i32::try_from(index).unwrap();
    }
    let body = samples::encode(
        &response.with_topics(vec![topic.with_partitions(partitions)]),
        9,
    );
    let decoded = metadata::Response::decode(9, &body).unwrap();
    assert_eq!(decoded.topics[0].partitions.len(), 20_000);
}

#[test]
fn a_varint_with_bits_beyond_32_is_malformed() {
    let mut body = BytesMut::new();
    body.put_i32(0);
    body.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x1f]);
    let error = metadata::Response::decode(9, &body.freeze()).unwrap_err();
    assert_eq!(error.flaw, Flaw::Varint);
}

#[test]
fn a_padded_varint_is_accepted() {
    // Heartbeat v4: throttle, error, and no tags in two bytes instead of one.
    let body = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0x80, 0x00]);
    let (_, oddities) = Response::decode(ApiKey::Heartbeat, 4, &body).unwrap();
    assert_eq!(oddities.trailing_bytes, 0);
}

#[test]
fn unknown_tags_are_skipped_and_counted_but_must_ascend() {
    let heartbeat = |tags: &[u8]| {
        let body = Bytes::from([&[0; 6][..], tags].concat());
        Response::decode(ApiKey::Heartbeat, 4, &body).map(|(_, oddities)| oddities.unknown_tags)
    };
    assert_eq!(heartbeat(&[2, 5, 1, 0xaa, 9, 0]), Ok(2));
    assert_eq!(
        heartbeat(&[2, 9, 1, 0xaa, 5, 0]).unwrap_err().flaw,
        Flaw::Tags
    );
    assert_eq!(heartbeat(&[200, 1]).unwrap_err().flaw, Flaw::Tags);
    assert_eq!(heartbeat(&[1, 5, 9]).unwrap_err().flaw, Flaw::Truncated);
}

#[test]
fn the_first_of_two_equal_rows_wins() {
    let mut response = samples::metadata(9, 0);
    let mut second = response.brokers[0].clone();
    second.host = samples::text("z.kafka");
    response.brokers.push(second);
    let body = samples::encode(&response, 9);
    let (decoded, oddities) = Response::decode(ApiKey::Metadata, 9, &body).unwrap();
    let Response::Metadata(decoded) = decoded else {
        panic!("another API")
    };
    let hosts: Vec<_> = decoded.brokers.iter().map(|broker| &*broker.host).collect();
    assert_eq!(hosts, ["a.kafka", "b.kafka"]);
    assert_eq!(oddities.duplicates, 1);
}

#[test]
fn a_fetch_answer_is_whole_or_an_error() {
    let mut body = samples::body(ApiKey::Fetch, 12, 0).to_vec();
    let records = body
        .windows(samples::RECORDS.len())
        .position(|at| at == samples::RECORDS);
    body[records.unwrap() - 1] = 0xff;
    assert!(fetch::Response::decode(12, &body.into()).is_err());
}

#[test]
fn a_topic_name_longer_than_kafka_allows_is_malformed() {
    let commit = |length: i16| {
        let mut body = BytesMut::new();
        body.put_i32(0);
        body.put_i32(1);
        body.put_i16(length);
        body.put_bytes(b'a', length.try_into().unwrap());
        body.put_i32(0);
        Response::decode(ApiKey::OffsetCommit, 7, &body.freeze())
    };
    assert!(commit(249).is_ok());
    assert_eq!(commit(250).unwrap_err().flaw, Flaw::TooLong);
}

/// The flaw of a Metadata v9 answer with one broker, whose host, port and rack are these bytes.
fn flaw_of_broker(fields: &[u8]) -> Option<(&'static str, Flaw)> {
    let mut body = BytesMut::new();
    body.put_i32(0);
    body.put_u8(2);
    body.put_i32(1);
    body.put_slice(fields);
    // Tags; no cluster id, controller 0, no topics, no operations; tags.
    body.put_slice(&[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    let decoded = metadata::Response::decode(9, &body.freeze());
    decoded.err().map(|error| (error.field, error.flaw))
}

/// A string as flexible versions have it.
fn compact(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len() + 1).unwrap();
    let [high, low] = (length << 1).to_be_bytes();
    let prefix = if high > 0 {
        vec![0x80 | low >> 1, high]
    } else {
        vec![low >> 1]
    };
    [prefix, text.to_vec()].concat()
}

/// wire.md 7 D3
#[test]
fn identifiers_are_utf_8_and_no_longer_than_kafka_allows() {
    let named = |host: &[u8], port: i32, rack: &[u8]| {
        let fields = [&compact(host)[..], &port.to_be_bytes(), &compact(rack)];
        flaw_of_broker(&fields.concat())
    };
    assert_eq!(named(b"a.kafka", 9092, b"zone-a"), None);
    assert_eq!(named(&[b'a'; 255], 9092, b"a"), None);
    assert_eq!(
        named(&[b'a'; 256], 9092, b"a"),
        Some(("host", Flaw::TooLong))
    );
    assert_eq!(named(b"\xff", 9092, b"a"), Some(("host", Flaw::NotUtf8)));
    assert_eq!(named(b"a", 9092, b"\xff"), Some(("rack", Flaw::NotUtf8)));
    assert_eq!(named(b"a", 70_000, b"a"), Some(("port", Flaw::OutOfRange)));
    assert_eq!(named(b"a", -1, b"a"), Some(("port", Flaw::OutOfRange)));
    let null_host = [&[0][..], &9092_i32.to_be_bytes(), &[0]].concat();
    assert_eq!(
        flaw_of_broker(&null_host),
        Some(("host", Flaw::UnexpectedNull))
    );
}

/// wire.md 7 D2 to D4
#[test]
fn lengths_below_minus_one_are_malformed_and_minus_one_only_where_null_may_be() {
    let commit = |rest: &[u8]| {
        let body = [&0_i32.to_be_bytes()[..], rest].concat();
        let decoded = Response::decode(ApiKey::OffsetCommit, 7, &body.into());
        decoded.map(|_| ()).map_err(|error| error.flaw)
    };
    let count = |count: i32| commit(&count.to_be_bytes());
    assert_eq!(count(0), Ok(()));
    assert_eq!(count(-1), Err(Flaw::UnexpectedNull));
    assert_eq!(count(-2), Err(Flaw::NegativeLength));
    assert_eq!(count(i32::MIN), Err(Flaw::NegativeLength));
    let topic =
        |length: i16| commit(&[&1_i32.to_be_bytes()[..], &length.to_be_bytes(), &[0; 6]].concat());
    assert_eq!(topic(-1), Err(Flaw::UnexpectedNull));
    assert_eq!(topic(-2), Err(Flaw::NegativeLength));
    assert_eq!(topic(i16::MIN), Err(Flaw::NegativeLength));
}

/// A Fetch v12 answer of one row with these tagged fields.
fn row_with_tags(tags: &[u8]) -> Result<(fetch::Row, u32), Flaw> {
    let mut body = BytesMut::new();
    body.put_slice(&[0; 10]);
    body.put_slice(&[2, 2, b't', 2]);
    body.put_slice(&[0; 30]);
    // No aborted transactions, preferred replica 0, no records.
    body.put_slice(&[0, 0, 0, 0, 0, 0]);
    body.put_slice(tags);
    body.put_slice(&[0, 0]);
    let body = body.freeze();
    let decoded = Response::decode(ApiKey::Fetch, 12, &body);
    let (Response::Fetch(answer), oddities) = decoded.map_err(|error| error.flaw)? else {
        panic!("another API")
    };
    let row = answer.rows().next().expect("one row");
    Ok((row, oddities.unknown_tags))
}

/// wire.md 7 D5
#[test]
fn a_known_tag_is_read_inside_its_own_size() {
    let leader = [0, 0, 0, 3, 0, 0, 0, 9, 0];
    let told = |tags: &[u8]| {
        row_with_tags(tags).map(|(row, odd)| (row.current_leader.and_then(|it| it.leader), odd))
    };
    let three = Some(nearside::ids::BrokerId(3));
    assert_eq!(told(&[0]), Ok((None, 0)));
    assert_eq!(told(&[&[1, 1, 9][..], &leader].concat()), Ok((three, 0)));
    // A longer one: the rest is passed over and counted.
    let longer = [&[1, 1, 11][..], &leader, &[7, 7]].concat();
    assert_eq!(told(&longer), Ok((three, 1)));
    // A shorter one does not help itself to what follows.
    assert_eq!(told(&[1, 1, 4, 0, 0, 0, 3]), Err(Flaw::Truncated));
}

/// wire.md 7 D6
#[test]
fn codes_of_later_releases_stay_numbers() {
    let body = Bytes::from_static(&[0, 0, 0, 0, 0x30, 0x39, 0]);
    let (answer, oddities) = Response::decode(ApiKey::Heartbeat, 4, &body).unwrap();
    let Response::Heartbeat(answer) = answer else {
        panic!("another API")
    };
    assert_eq!(answer.error, nearside::wire::ErrorCode(12_345));
    assert_eq!((answer.error.name(), oddities.unknown_tags), (None, 0));
}
