//! Zstandard, one shot into our buffer: no frame header can make the decoder reserve a window.

use std::cell::RefCell;

use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode::{
    ZSTD_error_dstSize_tooSmall, ZSTD_error_memory_allocation,
};
use zstd::zstd_safe::{CompressionLevel, DCtx, get_frame_content_size, is_error_kind};

use super::{Fault, Sink};

/// First guess at the output without a declared size.
const RATIO_GUESS: usize = 8;
/// Smallest output worth trying.
const OUTPUT_BYTES_MIN: usize = 256;

thread_local! {
    /// A context costs about 100 KiB to set up; it holds no state between calls.
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

pub(super) fn inflate(input: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
    CONTEXT.with_borrow_mut(|slot| inflate_in(slot, DCtx::try_create, input, sink))
}

fn inflate_in(
    slot: &mut Option<DCtx<'static>>,
    create: impl FnOnce() -> Option<DCtx<'static>>,
    input: &[u8],
    sink: &mut Sink<'_>,
) -> Result<(), Fault> {
    if slot.is_none() {
        *slot = create();
    }
    let result = slot
        .as_mut()
        .ok_or(Fault::NoMemory)
        .and_then(|it| decode(it, input, sink));
    if result.is_err() {
        // Whatever a damaged frame did to the context ends here.
        *slot = None;
    }
    result
}

fn decode(context: &mut DCtx<'_>, input: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
    let mut room = first_room(input).min(sink.limit);
    loop {
        sink.reserve(room)?;
        let Err(code) = context.decompress(&mut sink.buffer, input) else {
            return Ok(());
        };
        sink.buffer.clear();
        if is_error_kind(code, ZSTD_error_memory_allocation) {
            return Err(Fault::NoMemory);
        }
        if !is_error_kind(code, ZSTD_error_dstSize_tooSmall) {
            return Err(Fault::Corrupt);
        }
        if sink.buffer.capacity() >= sink.limit {
            return Err(Fault::Limit);
        }
        // A first frame may declare nothing and others follow: twice nothing is no progress.
        let twice = sink.buffer.capacity().saturating_mul(2);
        room = twice.max(OUTPUT_BYTES_MIN).min(sink.limit);
    }
}

/// Output to try first: what the frame declares, but never much more than its bytes make likely.
fn first_room(input: &[u8]) -> usize {
    let likely = input
        .len()
        .saturating_mul(RATIO_GUESS)
        .max(OUTPUT_BYTES_MIN);
    let declared = get_frame_content_size(input).ok().flatten();
    declared
        .and_then(|size| usize::try_from(size).ok())
        .map_or(likely, |size| size.min(likely))
}

pub(super) fn deflate(input: &[u8], level: Option<i32>) -> Option<Vec<u8>> {
    let level: CompressionLevel = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
    zstd::bulk::compress(input, level).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Uncharged;
    use super::*;

    #[test]
    fn a_context_that_finds_no_memory_says_nothing_of_the_batch() {
        let input = deflate(b"seven", None).expect("compressible");
        let mut sink = Sink {
            buffer: Vec::new(),
            limit: 100,
            charge: &mut Uncharged,
        };
        let mut slot = None;
        let refused = inflate_in(&mut slot, || None, &input, &mut sink);
        assert_eq!(refused, Err(Fault::NoMemory));
        let later = inflate_in(&mut slot, DCtx::try_create, &input, &mut sink);
        assert_eq!((later, sink.buffer.as_slice()), (Ok(()), &b"seven"[..]));
    }
}
