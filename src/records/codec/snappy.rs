//! Snappy, raw or in the xerial framing that the Java client writes.

use snap::raw::{Decoder, Encoder, decompress_len};

use super::{Fault, Sink};

const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
/// Magic, version, oldest compatible version.
const XERIAL_HEADER_BYTES: usize = 16;
/// Size of the blocks we write, as the Java library does.
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;
/// The format's best ratio is 64 bytes out of 3.
const RATIO_MAX: usize = 22;

pub(super) fn inflate(input: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
    if !input.starts_with(XERIAL_MAGIC) {
        return block(input, sink);
    }
    let mut rest = input.get(XERIAL_HEADER_BYTES..).ok_or(Fault::Corrupt)?;
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let size = usize::try_from(i32::from_be_bytes(*size)).map_err(|_| Fault::Corrupt)?;
        let (compressed, after) = after.split_at_checked(size).ok_or(Fault::Corrupt)?;
        block(compressed, sink)?;
        rest = after;
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Fault::Corrupt)
    }
}

fn block(input: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
    let claimed = decompress_len(input).map_err(|_| Fault::Corrupt)?;
    if claimed > input.len().saturating_mul(RATIO_MAX) {
        return Err(Fault::Corrupt);
    }
    let out = sink.grow_by(claimed)?;
    let written = Decoder::new()
        .decompress(input, out)
        .map_err(|_| Fault::Corrupt)?;
    if written == claimed {
        Ok(())
    } else {
        Err(Fault::Corrupt)
    }
}

pub(super) fn deflate(input: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(XERIAL_HEADER_BYTES + input.len() / 2);
    out.extend_from_slice(XERIAL_MAGIC);
    // Version and oldest compatible version, both 1.
    out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    let mut encoder = Encoder::new();
    for block in input.chunks(XERIAL_BLOCK_BYTES) {
        let compressed = encoder.compress_vec(block).ok()?;
        out.extend_from_slice(&i32::try_from(compressed.len()).ok()?.to_be_bytes());
        out.extend_from_slice(&compressed);
    }
    Some(out)
}
