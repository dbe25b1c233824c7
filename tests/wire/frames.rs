//! Byte streams become frames, whatever the reads look like and whatever the lengths claim.

use bytes::{BufMut, Bytes, BytesMut};
use nearside::wire::{Caps, Deframer, FrameError, PortMixup, Tier};
use proptest::prelude::*;

const KIB: usize = 1_024;

/// Feeds bytes as reads of at most `step` bytes and collects frames.
fn feed(deframer: &mut Deframer, mut bytes: &[u8], step: usize) -> Result<Vec<Bytes>, FrameError> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let buffer = deframer.buffer();
        let room = buffer.capacity() - buffer.len();
        assert!(room > 0, "no room to read into");
        let (now, rest) = bytes.split_at(step.min(room).min(bytes.len()));
        buffer.put_slice(now);
        bytes = rest;
        while let Some(frame) = deframer.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn framed(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for body in bodies {
        stream.put_i32(i32::try_from(body.len()).unwrap());
        stream.extend_from_slice(body);
    }
    stream
}

fn expecting(tier: Tier, count: usize) -> Deframer {
    let mut deframer = Deframer::new(Caps::default());
    (0..count).for_each(|_| deframer.expect(tier));
    deframer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn frames_are_the_same_for_every_split(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 4..9_000), 1..6),
        step in 1_usize..5_000,
    ) {
        let stream = framed(&bodies);
        let mut deframer = expecting(Tier::Other, bodies.len());
        let frames = feed(&mut deframer, &stream, step).unwrap();
        prop_assert_eq!(frames, bodies);
        prop_assert_eq!(deframer.buffered(), 0);
    }
}

/// wire.md A1
#[test]
fn a_tls_alert_is_named_before_anything_is_reserved() {
    let mut deframer = expecting(Tier::Setup, 1);
    let answer = feed(&mut deframer, &[0x15, 0x03, 0x03, 0x00, 0x02, 0x02], 6);
    assert_eq!(answer, Err(FrameError::Mixup(PortMixup::Tls)));
    assert_eq!(PortMixup::Tls.to_string(), "broker speaks TLS on this port");
    assert!(deframer.buffer().capacity() <= 64 * KIB);
}

/// wire.md A2
#[test]
fn an_http_answer_is_named() {
    let mut deframer = expecting(Tier::Setup, 1);
    let answer = feed(&mut deframer, b"HTTP/1.1 400 Bad Request\r\n", 3);
    assert_eq!(answer, Err(FrameError::Mixup(PortMixup::Http)));
}

#[test]
fn only_the_first_bytes_of_a_stream_are_sniffed() {
    let mut deframer = Deframer::new(Caps {
        fetch: usize::MAX,
        ..Caps::default()
    });
    deframer.expect(Tier::Setup);
    deframer.expect(Tier::Fetch);
    let mut stream = framed(&[vec![0; 8]]);
    stream.extend_from_slice(b"HTTP");
    assert_eq!(feed(&mut deframer, &stream, 64).unwrap().len(), 1);
    assert_eq!(deframer.next_frame(), Ok(None));
}

/// wire.md A3
#[test]
fn a_length_above_its_tier_is_refused_before_reserving() {
    let mut deframer = expecting(Tier::Other, 1);
    let length = 33 * KIB * KIB;
    let claim = i32::try_from(length).unwrap().to_be_bytes();
    let refused = Err(FrameError::TooLong {
        length,
        cap: 32 * KIB * KIB,
    });
    assert_eq!(feed(&mut deframer, &claim, 4), refused);
    assert!(deframer.buffer().capacity() <= 64 * KIB);
    assert_eq!(deframer.next_frame().map(|_| ()), refused.map(|_| ()));
}

#[test]
fn every_tier_has_its_own_cap() {
    for (tier, cap) in [(Tier::Setup, 256 * KIB), (Tier::Other, 32 * KIB * KIB)] {
        let mut deframer = expecting(tier, 1);
        let claim = i32::try_from(cap + 1).unwrap().to_be_bytes();
        let refused = Err(FrameError::TooLong {
            length: cap + 1,
            cap,
        });
        assert_eq!(feed(&mut deframer, &claim, 4), refused);
    }
}

/// wire.md A4
#[test]
fn a_large_claim_costs_no_more_than_the_bytes_that_came() {
    let mut deframer = expecting(Tier::Fetch, 1);
    let mut stream = BytesMut::new();
    stream.put_i32(90 * 1_024 * 1_024);
    stream.put_bytes(7, KIB);
    assert!(feed(&mut deframer, &stream, KIB).unwrap().is_empty());
    assert!(deframer.buffer().capacity() <= 64 * KIB);
    let megabyte = vec![7; KIB * KIB];
    assert!(feed(&mut deframer, &megabyte, 64 * KIB).unwrap().is_empty());
    assert!(deframer.buffer().capacity() <= 2 * (KIB * KIB + KIB) + 64 * KIB);
}

#[test]
fn impossible_lengths_and_unasked_frames_end_the_stream() {
    for length in [-1, 0, 3, i32::MIN] {
        let mut deframer = expecting(Tier::Other, 1);
        let answer = feed(&mut deframer, &length.to_be_bytes(), 4);
        assert_eq!(answer, Err(FrameError::TooShort(length)));
    }
    let mut deframer = expecting(Tier::Other, 1);
    let stream = framed(&[vec![1; 8], vec![2; 8]]);
    assert_eq!(feed(&mut deframer, &stream, 64), Err(FrameError::Unasked));
}

#[test]
fn a_size_the_peer_has_paid_for_is_reserved_at_once() {
    let mut deframer = expecting(Tier::Fetch, 2);
    let body = vec![7; 4 * KIB * KIB];
    let stream = framed(&[body.clone(), body]);
    let (first, second) = stream.split_at(stream.len() / 2);
    let frames = feed(&mut deframer, first, 64 * KIB).unwrap();
    assert!(
        feed(&mut deframer, &second[..64 * KIB], 64 * KIB)
            .unwrap()
            .is_empty()
    );
    let reserved = deframer.buffer().capacity();
    assert!(
        (3 * KIB * KIB..5 * KIB * KIB).contains(&reserved),
        "{reserved}"
    );
    assert_eq!(
        feed(&mut deframer, &second[64 * KIB..], 64 * KIB).unwrap(),
        frames
    );
}

/// Where the next frame would be read to.
fn place(deframer: &mut Deframer) -> *const u8 {
    deframer.buffer().as_ptr()
}

#[test]
fn the_memory_of_a_large_frame_serves_again_once_its_records_are_gone() {
    let stream = framed(&[vec![1; 1_024 * KIB]]);
    let mut deframer = expecting(Tier::Fetch, 8);
    drop(feed(&mut deframer, &stream, 64 * KIB).unwrap());
    let first = place(&mut deframer);
    let held = feed(&mut deframer, &stream, 64 * KIB).unwrap();
    let second = place(&mut deframer);
    assert_ne!(first, second, "records are still held");
    assert!(held[0].iter().all(|byte| *byte == 1));
    drop(held);
    let held = feed(&mut deframer, &stream, 64 * KIB).unwrap();
    assert_eq!(place(&mut deframer), first, "the first frame is long gone");
    assert!(held[0].iter().all(|byte| *byte == 1));
}

#[test]
fn after_a_run_of_small_frames_no_large_buffer_is_kept() {
    let mut deframer = expecting(Tier::Fetch, 20);
    drop(feed(&mut deframer, &framed(&[vec![1; 1_024 * KIB]]), 64 * KIB).unwrap());
    assert!(deframer.buffer().capacity() >= 1_024 * KIB);
    for _ in 0..10 {
        drop(feed(&mut deframer, &framed(&[vec![2; 64]]), 64 * KIB).unwrap());
    }
    assert!(deframer.buffer().capacity() <= 256 * KIB);
}
