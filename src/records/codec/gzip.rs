//! gzip: concatenated members, checksum and size trailers checked.

use std::io::{Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::{Fault, Sink};

/// Output is asked for in steps of at most this many bytes, so that a bomb is met early.
const STEP_BYTES_MAX: usize = 64 * 1024;
/// Smallest step worth a call.
const STEP_BYTES_MIN: usize = 256;
/// What text comes to, roughly: the first step of a small batch.
const RATIO_GUESS: usize = 4;

pub(super) fn inflate(input: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
    let mut decoder = MultiGzDecoder::new(input);
    let likely = input.len().saturating_mul(RATIO_GUESS);
    let step_max = likely.clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
    loop {
        let step = sink.left().min(step_max);
        if step == 0 {
            let more = decoder.read(&mut [0]).map_err(|_| Fault::Corrupt)?;
            return if more == 0 { Ok(()) } else { Err(Fault::Limit) };
        }
        let start = sink.buffer.len();
        let read = decoder
            .read(sink.grow_by(step)?)
            .map_err(|_| Fault::Corrupt)?;
        sink.buffer.truncate(start + read);
        if read == 0 {
            return Ok(());
        }
    }
}

pub(super) fn deflate(input: &[u8], level: Option<i32>) -> Option<Vec<u8>> {
    let level = level
        .and_then(|level| u32::try_from(level).ok())
        .map_or(flate2::Compression::default(), flate2::Compression::new);
    let mut encoder = GzEncoder::new(Vec::with_capacity(input.len() / 2), level);
    encoder.write_all(input).ok()?;
    encoder.finish().ok()
}
