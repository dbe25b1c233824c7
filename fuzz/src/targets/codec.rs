//! Codecs: an output within its cap, and all that was charged given back.

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

use bytes::Bytes;
use nearside::ids::Offset;
use nearside::records::{BatchSet, Charge, ReadSettings};

use crate::forge::Batch;

/// No body may inflate beyond this.
pub(super) const OUTPUT_MAX: usize = 256 * 1024;

thread_local! {
    static CHARGED: Rc<Cell<usize>> = Rc::new(Cell::new(0));
}

/// What the output was granted; given back when it is dropped.
struct Meter(usize);

impl Charge for Meter {
    fn grow(&mut self, bytes: usize) -> bool {
        self.0 += bytes;
        CHARGED.with(|charged| charged.set(charged.get() + bytes));
        true
    }

    fn shrink(&mut self, bytes: usize) {
        self.0 -= bytes;
        CHARGED.with(|charged| charged.set(charged.get() - bytes));
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        CHARGED.with(|charged| charged.set(charged.get() - self.0));
    }
}

/// The input is the compressed body of a batch that claims one record.
pub(super) fn run(codec: i16, data: &[u8]) {
    let batch = Batch {
        attributes: codec,
        producer: -1,
        count: 1,
        body: data.to_vec(),
        ..Batch::default()
    };
    let bytes = Bytes::from(batch.bytes());
    let mut set = BatchSet::new(bytes, Offset(0), ReadSettings::default());
    let Some(Ok(view)) = set.next() else {
        panic!("a sound header");
    };
    let charged = || CHARGED.with(|charged| charged.get());
    if let Ok(open) = view.inflate_charged(OUTPUT_MAX, Meter(0)) {
        assert!(open.held_bytes() <= OUTPUT_MAX);
        assert!(charged() >= open.held_bytes(), "inflated bytes are charged");
    }
    assert_eq!(charged(), 0, "what was charged is given back");
}

/// `body` under a codec number; zstd if it is no other.
pub(super) fn packed(codec: u8, body: &[u8]) -> Vec<u8> {
    match codec {
        1 => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(body).expect("memory");
            encoder.finish().expect("memory")
        }
        2 => snap::raw::Encoder::new().compress_vec(body).expect("small"),
        3 => {
            use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};
            let info = FrameInfo::new().block_mode(BlockMode::Independent);
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(body).expect("memory");
            encoder.finish().expect("memory")
        }
        _ => zstd::bulk::compress(body, 3).expect("memory"),
    }
}

/// `body` in the framing of the Java client.
fn xerial(body: &[u8]) -> Vec<u8> {
    let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in body.chunks(1_000) {
        let block = packed(2, block);
        out.extend((block.len() as u32).to_be_bytes());
        out.extend(block);
    }
    out
}

pub(super) fn seeds(codec: u8) -> Vec<Vec<u8>> {
    let text: Vec<u8> = b"what is repeated and repeated compresses well; ".repeat(60);
    let mixed: Vec<u8> = (0..3_000_u32).map(|n| ((n * n) >> 3) as u8).collect();
    let bomb = vec![0; 8 << 20];
    let bodies = [&text[..], &mixed, &bomb, b""];
    let mut seeds: Vec<_> = bodies.iter().map(|body| packed(codec, body)).collect();
    let twice = [seeds[0].clone(), seeds[1].clone()].concat();
    seeds.push(twice);
    if codec == 2 {
        seeds.push(xerial(&text));
        seeds.push(vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0]);
    }
    seeds.retain(|seed| seed.len() < 60_000);
    seeds
}
