//! Varints as their definition reads, without a fast path: what the quick ones are compared with.

/// What a varint says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Varint {
    /// Its value, and the bytes it takes.
    Value(u128, usize),
    /// It goes on behind the end.
    Cut,
    /// It has more bytes or bits than its type.
    TooLong,
}

/// Reads a varint of at most `bits` bits at the front of `bytes`.
pub fn varint(bytes: &[u8], bits: u32) -> Varint {
    let (mut value, mut weight) = (0, 1);
    for index in 0..bits.div_ceil(7) as usize {
        let Some(byte) = bytes.get(index).copied().map(u128::from) else {
            return Varint::Cut;
        };
        value += byte % 128 * weight;
        weight *= 128;
        if byte < 128 {
            return match value >> bits {
                0 => Varint::Value(value, index + 1),
                _ => Varint::TooLong,
            };
        }
    }
    Varint::TooLong
}

/// The number a zigzag varint stands for: 0, -1, 1, -2, ...
pub fn unzigzag(raw: u128) -> i128 {
    let half = (raw / 2) as i128;
    if raw.is_multiple_of(2) {
        half
    } else {
        -half - 1
    }
}

/// Appends `value` as a zigzag varint of as few bytes as possible.
pub fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    let value = i128::from(value);
    let raw = if value < 0 { -2 * value - 1 } else { 2 * value };
    put_varint(out, raw as u128);
}

/// Appends `value` as a varint of as few bytes as possible.
pub fn put_varint(out: &mut Vec<u8>, mut value: u128) {
    while value > 127 {
        out.push((value % 128) as u8 + 128);
        value /= 128;
    }
    out.push(value as u8);
}
