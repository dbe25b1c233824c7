//! The lines Kafka's performance producer draws its payloads from.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Result;

/// Writes ten thousand lines of `length` letters and digits; the same ones every time.
pub fn write_lines(path: &Path, length: usize) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..LINES {
        let line: Vec<u8> = (0..length).map(|_| letter(&mut state)).collect();
        file.write_all(&line)?;
        file.write_all(b"\n")?;
    }
    Ok(file.flush()?)
}

/// Marsaglia's xorshift: nearly random letters do not compress, which is what makes lengths
/// comparable.
fn letter(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    ALPHABET[(*state >> 33) as usize % ALPHABET.len()]
}

const LINES: usize = 10_000;
const ALPHABET: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
