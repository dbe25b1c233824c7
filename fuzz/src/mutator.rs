//! Damages bytes the way peers, proxies and attackers do.

use crate::forge::repair;
use crate::rng::Rng;

/// Inputs stay below this, so that a run has many of them.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Numbers at which readers go wrong.
const EDGES: [i64; 16] = [
    0,
    1,
    -1,
    -2,
    127,
    128,
    255,
    i16::MAX as i64,
    i16::MIN as i64,
    65_536,
    i32::MAX as i64,
    i32::MIN as i64,
    i32::MAX as i64 - 61,
    1 << 32,
    i64::MAX,
    i64::MIN,
];

/// Whether checksums are made right again after the damage, so that it is read at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// There are none.
    None,
    /// Those of a record set that begins at this byte, mostly.
    RecordsAt(usize),
}

/// Changes `input` in one to six places; `other` lends bytes.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], repairing: Repair, rng: &mut Rng) {
    for _ in 0..1 + rng.below(6) {
        mutate_once(input, other, rng);
    }
    input.truncate(INPUT_BYTES_MAX);
    match repairing {
        Repair::RecordsAt(at) if !rng.once_in(8) => {
            if let Some(records) = input.get_mut(at..) {
                repair(records);
            }
        }
        Repair::RecordsAt(_) | Repair::None => {}
    }
}

fn mutate_once(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = rng.below(input.len() + 1);
    match rng.below(10) {
        0 => change(input, at, |byte| *byte ^= 1 << rng.below(8)),
        1 => change(input, at, |byte| *byte = rng.draw() as u8),
        2 => overwrite(input, at, &(*rng.pick(&EDGES) as i16).to_be_bytes()),
        3 => overwrite(input, at, &(*rng.pick(&EDGES) as i32).to_be_bytes()),
        4 => overwrite(input, at, &rng.pick(&EDGES).to_be_bytes()),
        5 => {
            let varint = varint(*rng.pick(&EDGES) as u64);
            overwrite(input, at, &varint);
        }
        6 => {
            let end = at + rng.below(16).min(input.len() - at);
            input.drain(at..end);
        }
        7 => {
            let noise: Vec<u8> = (0..rng.below(16)).map(|_| rng.draw() as u8).collect();
            input.splice(at..at, noise);
        }
        8 => {
            let from = rng.below(other.len() + 1);
            let to = from + rng.below(200).min(other.len() - from);
            input.splice(at..at, other[from..to].iter().copied());
        }
        _ => input.truncate(at),
    }
}

fn change(input: &mut [u8], at: usize, how: impl FnOnce(&mut u8)) {
    if let Some(byte) = input.get_mut(at) {
        how(byte);
    }
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in input.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}
