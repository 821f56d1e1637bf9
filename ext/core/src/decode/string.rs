//! JSON strings: found by vectors, copied only when they have escapes.

use super::entry;
use super::simd::{self, Found, Input, Simd};

/// The string whose first byte (after the quote) is at `start`: its entry and the position after its closing quote.
/// UTF-8 is not checked here: `wide` becomes other than 0 if it must be. `base` is added to offsets into `source`.
#[inline(always)]
pub(super) fn string<S: Simd>(
    simd: S,
    text: &mut Vec<u8>,
    source: Input,
    start: usize,
    base: usize,
    wide: &mut u32,
) -> Option<(u64, usize)> {
    let narrow = simd.narrow();
    let found = narrow.text(narrow.load(source, start)?);
    let mut high = 0;
    let (end, quoted) = match stop(found, &mut high) {
        Some((bit, quoted)) => (start.wrapping_add(bit), quoted),
        None => rest(simd, source, start.wrapping_add(S::Narrow::WIDTH), &mut high)?,
    };
    *wide |= high;
    if !quoted {
        // Checks the bytes before it again: the rare way.
        return escaped(text, source, start, end, wide);
    }
    let tag = entry::STRING | if high == 0 { 0 } else { entry::WIDE_TEXT };
    Some((entry::sized(tag, end.wrapping_sub(start), start.wrapping_add(base)), end.wrapping_add(1)))
}

/// The position at which the plain text from `at` on stops, and whether by a quote.
#[inline(always)]
fn rest<S: Simd>(simd: S, source: Input, mut at: usize, high: &mut u32) -> Option<(usize, bool)> {
    loop {
        if let Some((bit, quoted)) = stop(simd.text(simd.load(source, at)?), high) {
            return Some((at.wrapping_add(bit), quoted));
        }
        at = at.wrapping_add(S::WIDTH);
    }
}

/// The position in a block at which the plain text stops, and whether by a quote. `high` gets the bytes above 0x7f
/// before it.
#[inline(always)]
fn stop(found: Found, high: &mut u32) -> Option<(usize, bool)> {
    // All bits up to the first quote, or all there are.
    let upto = found.quote ^ found.quote.wrapping_sub(1);
    *high |= found.high & upto;
    if found.other & upto != 0 {
        return Some((found.other.trailing_zeros() as usize, false));
    }
    if found.quote != 0 { Some((found.quote.trailing_zeros() as usize, true)) } else { None }
}

/// The rest of a string from its first escape at `at` on. Compiled once, without the instructions that were chosen at
/// run time.
#[inline(never)]
fn escaped(text: &mut Vec<u8>, source: Input, start: usize, mut at: usize, wide: &mut u32) -> Option<(u64, usize)> {
    let first = text.len();
    text.extend_from_slice(source.bytes().get(start..at)?);
    loop {
        // `at` is on a stop byte.
        match source.byte(at)? {
            b'"' => {
                let ascii = text.get(first..)?.is_ascii();
                let tag = entry::STRING | entry::OWNED | if ascii { 0 } else { entry::WIDE_TEXT };
                return Some((entry::sized(tag, text.len() - first, first), at + 1));
            }
            b'\\' => at = unescape(text, source, at + 1)?,
            _ => return None,
        }
        if !matches!(source.byte(at)?, b'"' | b'\\') {
            let plain = at;
            at = plain_end(simd::baseline(), source, at, wide)?;
            text.extend_from_slice(source.bytes().get(plain..at)?);
        }
    }
}

/// The position of the next stop byte.
#[inline(always)]
fn plain_end<S: Simd>(simd: S, source: Input, mut at: usize, wide: &mut u32) -> Option<usize> {
    loop {
        let found = simd.text(simd.load(source, at)?);
        let stop = found.quote | found.other;
        *wide |= found.high & (stop ^ stop.wrapping_sub(1));
        if stop != 0 {
            return Some(at + stop.trailing_zeros() as usize);
        }
        at += S::WIDTH;
    }
}

/// Appends what the escape means whose letter is at `at`; gives where it ends.
#[inline(always)]
fn unescape(text: &mut Vec<u8>, source: Input, at: usize) -> Option<usize> {
    let plain = match source.byte(at)? {
        b'"' => b'"',
        b'\\' => b'\\',
        b'/' => b'/',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let (point, end) = code_point(source, at + 1)?;
            push(text, point);
            return Some(end);
        }
        _ => return None,
    };
    text.push(plain);
    Some(at + 1)
}

/// Appends a character; each arm copies a fixed number of bytes.
#[inline(always)]
fn push(text: &mut Vec<u8>, point: char) {
    let mut bytes = [0; 4];
    let length = point.encode_utf8(&mut bytes).len();
    let [a, b, c, d] = bytes;
    match length {
        1 => text.push(a),
        2 => text.extend_from_slice(&[a, b]),
        3 => text.extend_from_slice(&[a, b, c]),
        _ => text.extend_from_slice(&[a, b, c, d]),
    }
}

/// The character of `XXXX` at `at`, or of `XXXX\uXXXX` for a surrogate pair. Lone surrogates: `None`.
#[inline(always)]
fn code_point(source: Input, at: usize) -> Option<(char, usize)> {
    let unit = hex(source, at)?;
    if !(0xd800..0xe000).contains(&unit) {
        return Some((char::from_u32(unit)?, at + 4));
    }
    if unit >= 0xdc00 || source.bytes().get(at + 4..at + 6)? != b"\\u" {
        return None;
    }
    let low = hex(source, at + 6)?;
    if !(0xdc00..0xe000).contains(&low) {
        return None;
    }
    Some((char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00))?, at + 10))
}

/// The value of each hexadecimal digit; for other bytes a value that four digits never reach.
const HEX: [u32; 256] = {
    let mut table = [0x1_0000; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u32;
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u32;
        digit += 1;
    }
    table
};

#[inline(always)]
fn hex(source: Input, at: usize) -> Option<u32> {
    let [a, b, c, d] = *source.bytes().get(at..)?.first_chunk::<4>()?;
    let digit = |byte: u8| HEX[byte as usize];
    let value = digit(a) << 12 | digit(b) << 8 | digit(c) << 4 | digit(d);
    (value <= 0xffff).then_some(value)
}
