//! JSON numbers: eight digits at a time, floats rounded correctly.

use super::simd::Source;

/// A number that Ruby reads the same way.
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// Digits that surely fit a u64.
const EXACT_DIGITS: usize = 19;
/// Above this many bytes Ruby's older conversions start to ignore digits.
const MAX_FLOAT_TEXT: usize = 40;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

const TENS: [u64; 20] = {
    let mut tens = [1u64; 20];
    let mut index = 1;
    while index < tens.len() {
        tens[index] = tens[index - 1] * 10;
        index += 1;
    }
    tens
};

/// A run of digits.
struct Digits {
    /// Modulo 2^64: exact up to `EXACT_DIGITS`.
    value: u64,
    count: usize,
}

/// The leading digits among eight bytes, as (value, how many).
#[inline(always)]
fn eight(source: Source, at: usize) -> (u64, usize) {
    let Some(bytes) = source.eight(at) else { return (0, 0) };
    let digits = bytes ^ 0x3030_3030_3030_3030;
    // Top bit of each byte above 9. A carry can only spoil bytes behind the first of them.
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 {
        return (0, 0);
    }
    // Leading zeros take the place of what follows the digits.
    let padded = digits << (64 - 8 * count);
    let pairs = (padded.wrapping_mul(10 * 256 + 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 * 65536 + 1) >> 16) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000 * (1 << 32) + 1) >> 32, count)
}

/// All digits from `at` on, continuing `before` (an integer part followed by its fraction).
#[inline(always)]
fn digits(source: Source, at: usize, before: u64) -> Digits {
    let (value, count) = eight(source, at);
    let value = before.wrapping_mul(TENS[count & 15]).wrapping_add(value);
    if count < 8 { Digits { value, count } } else { more_digits(source, at, value) }
}

/// What follows the first eight.
#[inline(never)]
fn more_digits(source: Source, at: usize, mut value: u64) -> Digits {
    let mut count = 8;
    loop {
        let (next, found) = eight(source, at + count);
        value = value.wrapping_mul(TENS[found & 15]).wrapping_add(next);
        count += found;
        if found < 8 {
            return Digits { value, count };
        }
    }
}

#[inline(always)]
fn byte(source: Source, at: usize) -> u8 {
    source.byte(at).unwrap_or(0)
}

/// The number whose first byte is at `start`, and where it ends. `None`: malformed or doubtful. The caller checks what
/// follows.
#[inline(always)]
pub(super) fn number(source: Source, start: usize) -> Option<(Number, usize)> {
    if byte(source, start) == b'-' { negative(source, start) } else { unsigned(source, start, false) }
}

/// Apart, so that where ordinary numbers begin is not computed from whether there is a minus.
#[inline(never)]
fn negative(source: Source, start: usize) -> Option<(Number, usize)> {
    unsigned(source, start + 1, true)
}

/// The number whose first digit is at `start`.
#[inline(always)]
fn unsigned(source: Source, start: usize, negative: bool) -> Option<(Number, usize)> {
    let whole = digits(source, start, 0);
    if whole.count == 0 || (whole.count > 1 && byte(source, start) == b'0') {
        return None;
    }
    let end = start + whole.count;
    match byte(source, end) {
        b'.' | b'e' | b'E' => float(source, start, negative, whole, end),
        _ => Some((Number::Int(signed(whole, negative)?), end)),
    }
}

#[inline(always)]
fn signed(digits: Digits, negative: bool) -> Option<i64> {
    if digits.count > EXACT_DIGITS {
        return None;
    }
    if negative { 0i64.checked_sub_unsigned(digits.value) } else { i64::try_from(digits.value).ok() }
}

/// `start` = the first digit, `at` = the byte that makes it a float.
#[inline(always)]
fn float(source: Source, start: usize, negative: bool, whole: Digits, mut at: usize) -> Option<(Number, usize)> {
    // A lone zero before the point is no significant digit.
    let mut significant = if whole.value == 0 { 0 } else { whole.count };
    let mut mantissa = whole.value;
    let mut power = 0i32;
    if byte(source, at) == b'.' {
        let fraction = digits(source, at + 1, mantissa);
        if fraction.count == 0 {
            return None;
        }
        at += 1 + fraction.count;
        mantissa = fraction.value;
        significant += fraction.count;
        power = -i32::try_from(fraction.count).ok()?;
    }
    if byte(source, at) | 0x20 == b'e' {
        let (exponent, end) = exponent(source, at + 1)?;
        power = power.checked_add(exponent)?;
        at = end;
    }
    let value = if significant <= EXACT_DIGITS { exact(mantissa, power) } else { None };
    let value = match value {
        Some(value) => value,
        None => slow(source.bytes().get(start..at)?)?,
    };
    Some((Number::Float(if negative { -value } else { value }), at))
}

/// What follows the `e`: (value, end).
#[inline(never)]
fn exponent(source: Source, mut at: usize) -> Option<(i32, usize)> {
    let negative = byte(source, at) == b'-';
    at += (negative || byte(source, at) == b'+') as usize;
    let digits = digits(source, at, 0);
    if digits.count == 0 || digits.count > 8 {
        return None;
    }
    let value = i32::try_from(digits.value).ok()?;
    Some((if negative { -value } else { value }, at + digits.count))
}

/// `mantissa` × 10^`power` when one correctly rounded operation gives it.
#[inline(always)]
fn exact(mantissa: u64, power: i32) -> Option<f64> {
    if mantissa <= 1 << 53 {
        let value = mantissa as f64;
        if let Some(factor) = POWERS.get(power.unsigned_abs() as usize) {
            return Some(if power < 0 { value / factor } else { value * factor });
        }
        return None;
    }
    if power == 0 { Some(mantissa as f64) } else { divide(mantissa, power) }
}

/// More than 53 bits over a power of ten, as floats printed with 17 digits need: an exact integer division, whose
/// remainder becomes a sticky bit below the rounding bit. The quotient has at least 54 bits, and at most 125 as `power`
/// is below 0.
#[inline(always)]
fn divide(mantissa: u64, power: i32) -> Option<f64> {
    let divisor = *TENS.get(usize::try_from(power.checked_neg()?).ok()?)? as u128;
    let dividend = (mantissa as u128) << 64;
    let quotient = dividend / divisor;
    let sticky = (quotient * divisor != dividend) as u128;
    // 2^-65, so the scaling is exact.
    const SCALE: f64 = 1.0 / (1u128 << 65) as f64;
    Some(((quotient << 1) | sticky) as f64 * SCALE)
}

/// The standard library's conversion, also correctly rounded. `None` where Rubies differ or warn: very long numbers,
/// infinity, results that are subnormal or rounded to zero.
#[inline(never)]
fn slow(text: &[u8]) -> Option<f64> {
    if text.len() > MAX_FLOAT_TEXT {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let zero = || text.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).all(|byte| !matches!(byte, b'1'..=b'9'));
    (value.is_normal() || (value == 0.0 && zero())).then_some(value)
}
