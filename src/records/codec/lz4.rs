//! LZ4 frames, walked by hand over the block decoder: a library's frame reader takes a cut frame
//! for the end and reserves by what the descriptor claims.

use std::io::Write;

use lz4_flex::block::{DecompressError, decompress_into};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::{Fault, Sink};

const MAGIC: u32 = 0x184D_2204;
/// The block format's best ratio.
const RATIO_MAX: usize = 255;
const VERSION_MASK: u8 = 0b1100_0000;
const VERSION_1: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 1 << 5;
const BLOCK_CHECKSUM: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const DICTIONARY: u8 = 1;
/// Set in a block's size if the block is stored as it is.
const STORED: u32 = 1 << 31;

/// What a frame's descriptor settles for its blocks.
struct Descriptor {
    block_bytes_max: usize,
    block_checksum: bool,
    content_checksum: bool,
}

pub(super) fn inflate(input: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
    let mut rest = input;
    let frame = descriptor(&mut rest).ok_or(Fault::Corrupt)?;
    loop {
        let size = u32::from_le_bytes(take(&mut rest).ok_or(Fault::Corrupt)?);
        if size == 0 {
            break;
        }
        let length = usize::try_from(size & !STORED).map_err(|_| Fault::Corrupt)?;
        if length > frame.block_bytes_max {
            return Err(Fault::Corrupt);
        }
        let (block, after) = rest.split_at_checked(length).ok_or(Fault::Corrupt)?;
        rest = after;
        if size & STORED == 0 {
            inflate_block(block, frame.block_bytes_max, sink)?;
        } else {
            sink.append(block)?;
        }
        if frame.block_checksum {
            take::<4>(&mut rest).ok_or(Fault::Corrupt)?;
        }
    }
    if frame.content_checksum {
        take::<4>(&mut rest).ok_or(Fault::Corrupt)?;
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Fault::Corrupt)
    }
}

fn descriptor(rest: &mut &[u8]) -> Option<Descriptor> {
    if u32::from_le_bytes(take(rest)?) != MAGIC {
        return None;
    }
    let [flags, sizes] = take(rest)?;
    if flags & VERSION_MASK != VERSION_1 || flags & INDEPENDENT == 0 || flags & DICTIONARY != 0 {
        return None;
    }
    if flags & CONTENT_SIZE != 0 {
        // A claim: nothing is reserved by it.
        take::<8>(rest)?;
    }
    // The batch checksum covers the same bytes as the frame's own.
    let [_header_checksum] = take(rest)?;
    let block_bytes_max = match sizes >> 4 & 0b111 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return None,
    };
    Some(Descriptor {
        block_bytes_max,
        block_checksum: flags & BLOCK_CHECKSUM != 0,
        content_checksum: flags & CONTENT_CHECKSUM != 0,
    })
}

fn inflate_block(block: &[u8], block_bytes_max: usize, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let bound = block.len().saturating_mul(RATIO_MAX).min(block_bytes_max);
    let room = bound.min(sink.left());
    let start = sink.buffer.len();
    let written = decompress_into(block, sink.grow_by(room)?).map_err(|error| {
        let full = matches!(error, DecompressError::OutputTooSmall { .. });
        if full && room < bound {
            Fault::Limit
        } else {
            Fault::Corrupt
        }
    })?;
    sink.buffer.truncate(start + written);
    Ok(())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

pub(super) fn deflate(input: &[u8]) -> Option<Vec<u8>> {
    let info = FrameInfo::new()
        .block_mode(BlockMode::Independent)
        .block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::with_capacity(input.len() / 2));
    encoder.write_all(input).ok()?;
    encoder.finish().ok()
}
