//! The deframer: the same frames however the reads are cut, and no more memory than was paid for.

use bytes::{BufMut, Bytes};
use nearside::wire::{Caps, Deframer, FrameError, Tier};

/// Frames that may come before one was not asked for.
const EXPECTED: usize = 32;

/// Two bytes say how long the reads are, the rest is the stream.
pub(super) fn run(data: &[u8]) {
    let Some((step, stream)) = data.split_first_chunk::<2>() else {
        return;
    };
    let step = usize::from(u16::from_be_bytes(*step)).max(1);
    let whole = feed(stream, stream.len().max(1));
    let cut = feed(stream, step);
    assert_eq!(whole, cut, "reads of {step} bytes");
}

fn feed(mut stream: &[u8], step: usize) -> (Vec<Bytes>, Option<FrameError>) {
    let mut deframer = Deframer::new(Caps::default());
    (0..EXPECTED).for_each(|_| deframer.expect(Tier::Other));
    let (mut frames, mut fed) = (Vec::new(), 0);
    while !stream.is_empty() {
        let buffer = deframer.buffer();
        let room = buffer.capacity() - buffer.len();
        assert!(room > 0, "no room to read into");
        let (now, rest) = stream.split_at(step.min(room).min(stream.len()));
        buffer.put_slice(now);
        fed += now.len();
        stream = rest;
        loop {
            match deframer.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(deframer.buffered() <= fed);
    }
    (frames, None)
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let framed = |bodies: &[&[u8]]| {
        let mut out = vec![0, 7];
        for body in bodies {
            out.extend((body.len() as u32).to_be_bytes());
            out.extend(*body);
        }
        out
    };
    vec![
        framed(&[b"four", b"and then some", &[7; 3_000]]),
        framed(&[&[1; 20_000]]),
        [&[0, 3][..], &[0x15, 3, 3, 0, 2, 2, 80]].concat(),
        [&[0, 3][..], b"HTTP/1.1 400 Bad Request\r\n\r\n"].concat(),
        vec![0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 0],
    ]
}
