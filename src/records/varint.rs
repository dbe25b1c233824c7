//! Zigzag varints as records use them, read from a slice that shrinks.
//!
//! Lengths and deltas of ordinary records take one or two bytes, so those cases are inlined and the
//! rest is a call. A varint is refused if it is cut, longer than its type allows, or sets bits
//! beyond it (wire.md 7 D4).

/// Reads a 32-bit varint off the front of `input`.
#[inline(always)]
pub(super) fn read_i32(input: &mut &[u8]) -> Option<i32> {
    match **input {
        [a, ref rest @ ..] if a < 0x80 => {
            *input = rest;
            Some(unzigzag_32(u32::from(a)))
        }
        [a, b, ref rest @ ..] if b < 0x80 => {
            *input = rest;
            Some(unzigzag_32(u32::from(a & 0x7f) | (u32::from(b) << 7)))
        }
        _ => read_i32_slow(input),
    }
}

/// Reads a 64-bit varint off the front of `input`.
#[inline(always)]
pub(super) fn read_i64(input: &mut &[u8]) -> Option<i64> {
    match **input {
        [a, ref rest @ ..] if a < 0x80 => {
            *input = rest;
            Some(unzigzag_64(u64::from(a)))
        }
        [a, b, ref rest @ ..] if b < 0x80 => {
            *input = rest;
            Some(unzigzag_64(u64::from(a & 0x7f) | (u64::from(b) << 7)))
        }
        _ => read_slow(input, 10).map(unzigzag_64),
    }
}

/// Appends `value` as a varint.
pub(super) fn write_i64(out: &mut Vec<u8>, value: i64) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        out.push(low_seven(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_seven(rest));
}

/// Writes `value` as a varint at the front of `out` and returns its size; `None` without room.
pub(super) fn put_i64(out: &mut [u8], value: i64) -> Option<usize> {
    let mut rest = zigzag(value);
    let size = size(value);
    for (index, byte) in out.get_mut(..size)?.iter_mut().enumerate() {
        let more = if index + 1 < size { 0x80 } else { 0 };
        *byte = low_seven(rest) | more;
        rest >>= 7;
    }
    Some(size)
}

/// Bytes that [`write_i64`] appends for `value`.
pub(super) fn size(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros();
    usize::try_from(bits.div_ceil(7)).unwrap_or(10)
}

#[inline(never)]
fn read_i32_slow(input: &mut &[u8]) -> Option<i32> {
    let raw = read_slow(input, 5)?;
    u32::try_from(raw).ok().map(unzigzag_32)
}

#[inline(never)]
fn read_slow(input: &mut &[u8], bytes_max: u32) -> Option<u64> {
    let mut raw = 0_u64;
    for index in 0..bytes_max {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return None;
        }
        raw |= bits << (7 * index);
        if *byte < 0x80 {
            return Some(raw);
        }
    }
    None
}

#[inline(always)]
fn unzigzag_32(raw: u32) -> i32 {
    (raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()
}

#[inline(always)]
fn unzigzag_64(raw: u64) -> i64 {
    (raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn low_seven(raw: u64) -> u8 {
    u8::try_from(raw & 0x7f).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: i64) {
        let mut out = Vec::new();
        write_i64(&mut out, value);
        assert_eq!(out.len(), size(value), "size of {value}");
        let mut put = [0; 10];
        assert_eq!(put_i64(&mut put, value), Some(out.len()));
        assert_eq!(put[..out.len()], out[..]);
        assert_eq!(put_i64(&mut put[..out.len() - 1], value), None);
        let mut input = &out[..];
        assert_eq!(read_i64(&mut input), Some(value));
        assert!(input.is_empty());
        let mut input = &out[..];
        assert_eq!(
            read_i32(&mut input),
            i32::try_from(value).ok(),
            "{value} as 32 bits"
        );
    }

    #[test]
    fn every_bit_length_survives_a_round_trip() {
        for shift in 0..64 {
            for value in [
                1_i64 << shift,
                (1_i64 << shift).wrapping_sub(1),
                !(1_i64 << shift),
            ] {
                round_trip(value);
            }
        }
        for value in [
            0,
            -1,
            63,
            64,
            -64,
            -65,
            i64::MAX,
            i64::MIN,
            2_147_483_647,
            -2_147_483_648,
        ] {
            round_trip(value);
        }
    }

    #[test]
    fn cut_and_over_long_varints_are_refused() {
        assert_eq!(read_i32(&mut &[][..]), None);
        assert_eq!(read_i32(&mut &[0x80][..]), None);
        assert_eq!(read_i32(&mut &[0x80; 6][..]), None);
        assert_eq!(
            read_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]),
            None,
            "33 bits"
        );
        assert_eq!(read_i64(&mut &[0x80; 11][..]), None);
        let mut beyond_64_bits = [0xff; 10];
        beyond_64_bits[9] = 0x02;
        assert_eq!(read_i64(&mut &beyond_64_bits[..]), None);
    }

    #[test]
    fn padded_forms_are_accepted() {
        assert_eq!(read_i32(&mut &[0x82, 0x80, 0x80, 0x80, 0x00][..]), Some(1));
    }
}
