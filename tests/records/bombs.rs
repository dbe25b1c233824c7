//! Compressed bodies that want more memory than they are worth.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearside::ids::Offset;
use nearside::records::{BatchError, BatchView, Charge, Corruption, InflateError, PoisonReason};

use crate::forge::{Forge, drain, join, open, values};

const LIMIT: usize = 1 << 20;

/// A budget of bytes that remembers the most it ever gave.
#[derive(Clone, Default)]
struct Budget {
    held: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
    room: usize,
}

struct Permit {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    fn with_room(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    fn permit(&self) -> Permit {
        Permit {
            budget: self.clone(),
            bytes: 0,
        }
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }
}

impl Charge for Permit {
    fn grow(&mut self, bytes: usize) -> bool {
        if self.budget.held() + bytes > self.budget.room {
            return false;
        }
        let held = self.budget.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.budget.peak.fetch_max(held, Ordering::Relaxed);
        self.bytes += bytes;
        true
    }

    fn shrink(&mut self, bytes: usize) {
        self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The zero bytes of a bomb, by codec number: none of these is above 70 KB.
fn bomb(codec: i16) -> Vec<u8> {
    let zeros = vec![0; 16 << 20];
    match codec {
        1 => {
            use std::io::Write;
            let level = flate2::Compression::new(9);
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(&zeros).unwrap();
            encoder.finish().unwrap()
        }
        // Six bytes that claim 4 GiB.
        2 => vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0],
        3 => {
            use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
            use std::io::Write;
            let info = FrameInfo::new()
                .block_mode(BlockMode::Independent)
                .block_size(BlockSize::Max4MB);
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(&zeros).unwrap();
            encoder.finish().unwrap()
        }
        // One gigabyte in about 30 KB.
        _ => zstd::bulk::compress(&zeros, 3).unwrap().repeat(64),
    }
}

fn view_of(codec: i16, body: Vec<u8>) -> BatchView {
    let batch = Forge::filled(10, 5).packed(codec, body);
    open(batch.bytes(), 10).next().unwrap().unwrap()
}

/// wire.md A38
#[test]
fn a_bomb_stops_at_the_cap_and_gives_its_charge_back() {
    for codec in [1, 3, 4] {
        let body = bomb(codec);
        assert!(body.len() < 70_000, "codec {codec}: {} bytes", body.len());
        let view = view_of(codec, body);
        let budget = Budget::with_room(usize::MAX);
        let error = view.inflate_charged(LIMIT, budget.permit()).unwrap_err();
        let InflateError::Batch(error) = error else {
            panic!("{error}")
        };
        let BatchError::Poison { at, reason } = error else {
            panic!("{error}")
        };
        assert_eq!(reason, PoisonReason::Inflated { limit: LIMIT });
        assert_eq!((at.base, at.next), (Offset(10), Some(Offset(15))));
        assert!(
            budget.peak() <= LIMIT,
            "codec {codec} held {}",
            budget.peak()
        );
        assert_eq!(budget.held(), 0);
    }
}

/// wire.md A38
#[test]
fn a_snappy_claim_beyond_the_formats_ratio_is_corrupt_before_anything_is_held() {
    let budget = Budget::with_room(usize::MAX);
    let error = view_of(2, bomb(2))
        .inflate_charged(LIMIT, budget.permit())
        .unwrap_err();
    let InflateError::Batch(BatchError::Corrupt { reason, .. }) = error else {
        panic!("{error}")
    };
    assert!(matches!(reason, Corruption::Codec(_)));
    assert_eq!(budget.peak(), 0);
}

/// wire.md A38
#[test]
fn a_bomb_leaves_other_sets_alone() {
    let bad = Forge::filled(10, 5).packed(4, bomb(4));
    assert_eq!(
        drain(open(bad.bytes(), 10)).error.unwrap().label(),
        "inflated"
    );
    let good = zstd::bulk::compress(&Forge::filled(10, 5).body, 3).unwrap();
    let good = Forge::filled(10, 5).packed(4, good);
    assert_eq!(drain(open(join(&[&good]), 10)).records, values(10, 0..5));
}

#[test]
fn without_room_the_batch_stays_compressed_and_nothing_is_held() {
    let body = Forge::at(10).record(0, vec![b'x'; 100_000]).body;
    for (codec, packed) in [
        (1, gzip(&body)),
        (2, snap::raw::Encoder::new().compress_vec(&body).unwrap()),
        (3, lz4(&body)),
        (4, zstd::bulk::compress(&body, 3).unwrap()),
    ] {
        let batch = Forge::at(10).record(0, "").packed(codec, packed);
        let view = open(batch.bytes(), 10).next().unwrap().unwrap();
        let tight = Budget::with_room(50_000);
        let refused = view.inflate_charged(LIMIT, tight.permit()).unwrap_err();
        let InflateError::NoRoom { bytes } = refused else {
            panic!("codec {codec}: {refused}")
        };
        assert!(bytes > 50_000, "codec {codec}: {bytes}");
        assert_eq!(tight.held(), 0);

        let roomy = Budget::with_room(LIMIT);
        let inflated = view.inflate_charged(LIMIT, roomy.permit()).unwrap();
        let value = inflated
            .records()
            .next()
            .unwrap()
            .unwrap()
            .value_bytes()
            .unwrap();
        drop(inflated);
        assert!(roomy.held() >= value.len(), "a slice keeps the charge");
        drop(value);
        assert_eq!(roomy.held(), 0);
    }
}

#[test]
fn every_cut_of_a_compressed_body_is_an_error() {
    let body = (0..40)
        .fold(Forge::at(10), |batch, delta| {
            batch.record(delta, "some value")
        })
        .body;
    let xerial = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    let block = snap::raw::Encoder::new().compress_vec(&body).unwrap();
    let xerial = [
        xerial,
        (block.len() as i32).to_be_bytes().to_vec(),
        block.clone(),
    ]
    .concat();
    for (codec, packed) in [
        (1, gzip(&body)),
        (2, block),
        (2, xerial),
        (3, lz4(&body)),
        (4, zstd::bulk::compress(&body, 3).unwrap()),
    ] {
        let mut batch = Forge::at(10).packed(codec, packed.clone());
        (batch.count, batch.last_delta) = (40, 39);
        assert_eq!(
            drain(open(batch.bytes(), 10)).records.len(),
            40,
            "codec {codec}"
        );
        for cut in 0..packed.len() {
            batch.body = packed[..cut].to_vec();
            let read = drain(open(batch.bytes(), 10));
            assert!(read.error.is_some(), "codec {codec} cut at {cut}");
            assert!(read.records.is_empty());
        }
    }
}

#[test]
fn gzip_members_and_zstd_frames_may_follow_one_another() {
    let whole = Forge::filled(10, 6).body;
    let (head, tail) = whole.split_at(20);
    let zstd = |part: &[u8]| zstd::bulk::compress(part, 3).unwrap();
    for (codec, packed) in [
        (1, [gzip(head), gzip(tail)].concat()),
        (4, [zstd(head), zstd(tail)].concat()),
    ] {
        let batch = Forge::filled(10, 6).packed(codec, packed);
        assert_eq!(
            drain(open(batch.bytes(), 10)).records,
            values(10, 0..6),
            "codec {codec}"
        );
    }
}

#[test]
fn a_zstd_frame_that_declares_nothing_does_not_hold_up_those_behind_it() {
    let body = Forge::filled(10, 6).body;
    let zstd = |part: &[u8]| zstd::bulk::compress(part, 3).unwrap();
    let batch = Forge::filled(10, 6).packed(4, [zstd(b""), zstd(&body)].concat());
    assert_eq!(drain(open(batch.bytes(), 10)).records, values(10, 0..6));
}

#[test]
fn linked_lz4_blocks_and_dictionaries_are_refused() {
    let whole = Forge::filled(10, 6);
    let packed = lz4(&whole.body);
    for flags in [packed[4] & !0b10_0000, packed[4] | 1, packed[4] & 0b11_1111] {
        let mut bad = packed.clone();
        bad[4] = flags;
        let read = drain(open(whole.clone().packed(3, bad).bytes(), 10));
        assert_eq!(read.error.unwrap().label(), "corrupt", "{flags:08b}");
    }
}

pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn lz4(body: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}
