//! JSON numbers: eight digits at a time, floats rounded correctly.

use super::simd::Input;

/// A number that Ruby reads the same way.
pub(super) enum JsonNumber {
    Int(i64),
    Float(f64),
}

/// Digits that surely fit a u64.
const EXACT_DIGITS: usize = 19;
/// Ruby reads longer ones, because its own conversion ignores digits after the 60th.
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

/// Eight bytes as the values of digits, with the top bit set in each byte that is no digit. Exact up to the first byte
/// above 0x7f, which carries into those behind it.
#[inline(always)]
fn split(bytes: u64) -> (u64, u64) {
    let digits = bytes ^ 0x3030_3030_3030_3030;
    (digits, (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080)
}

/// The number that the first `count` (1 to 8) of eight digits are.
#[inline(always)]
fn join(digits: u64, count: usize) -> u64 {
    // Leading zeros take the place of what follows them.
    let padded = digits << (64 - 8 * count);
    let pairs = (padded.wrapping_mul(10 * 256 + 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 * 65536 + 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 * (1 << 32) + 1) >> 32
}

/// The leading digits among eight bytes, as (value, how many).
#[inline(always)]
fn eight(source: Input, at: usize) -> (u64, usize) {
    let (digits, others) = split(source.eight(at).unwrap_or(0));
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 { (0, 0) } else { (join(digits, count), count) }
}

/// All digits from `at` on, continuing `before` (an integer part followed by its fraction).
#[inline(always)]
fn digits(source: Input, at: usize, before: u64) -> Digits {
    let (value, count) = eight(source, at);
    let value = before.wrapping_mul(TENS[count & 15]).wrapping_add(value);
    if count < 8 { Digits { value, count } } else { more_digits(source, at, value) }
}

/// The digits after the first eight.
#[inline(never)]
fn more_digits(source: Input, at: usize, mut value: u64) -> Digits {
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
fn byte(source: Input, at: usize) -> u8 {
    source.byte(at).unwrap_or(0)
}

/// The number whose first byte is at `start`, and where it ends. `None`: malformed or doubtful. The caller checks what
/// follows.
#[inline(always)]
pub(super) fn number(source: Input, start: usize) -> Option<(JsonNumber, usize)> {
    if byte(source, start) == b'-' { negative(source, start) } else { unsigned(source, start, false) }
}

/// Any number that JSON has, a float where it is no integer of 64 bits: of documents that are not Ruby's to decide.
#[cold]
pub(super) fn any_number(source: Input, start: usize) -> Option<(JsonNumber, usize)> {
    let rest = source.bytes().get(start..)?;
    let part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let text = std::str::from_utf8(rest.get(..rest.iter().take_while(part).count())?).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    // The standard library takes "01", "1." and ".5", too.
    let begins = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    let extra_zero = digits.strip_prefix('0').is_some_and(begins);
    let valid = !extra_zero && digits.split('.').all(begins);
    valid.then(|| Some((JsonNumber::Float(text.parse().ok()?), start + text.len())))?
}

/// A function of its own, so that the start of ordinary numbers is not computed from whether there is a minus.
#[inline(never)]
fn negative(source: Input, start: usize) -> Option<(JsonNumber, usize)> {
    unsigned(source, start + 1, true)
}

/// The number whose first digit is at `start`.
#[inline(always)]
fn unsigned(source: Input, start: usize, negative: bool) -> Option<(JsonNumber, usize)> {
    let (digits, others) = split(source.eight(start)?);
    let count = others.trailing_zeros() as usize / 8;
    let zero = digits as u8 == 0;
    let behind = others & others.wrapping_sub(1);
    if count == 0 || (zero && digits >> 8 & 0xff <= 9) {
        return None;
    }
    if behind != 0 && byte(source, start + count) == b'.' {
        // A point and what follows the fraction are among the eight bytes: the digits around the point, in one go.
        let end = behind.trailing_zeros() as usize / 8;
        let whole = (1u64 << (8 * count)) - 1;
        if end == count + 1 {
            return None;
        }
        let mantissa = join(digits & whole | digits >> 8 & !whole, end - 1);
        let decimal = Decimal { mantissa, significant: end - 1, power: (count + 1) as i32 - end as i32 };
        return float(source, start, negative, decimal, start + end);
    }
    let value = join(digits, count);
    let digits = if count < 8 { Digits { value, count } } else { more_digits(source, start, value) };
    let end = start + digits.count;
    match byte(source, end) {
        b'.' => {
            let fraction = self::digits(source, end + 1, digits.value);
            if fraction.count == 0 {
                return None;
            }
            let decimal = Decimal {
                mantissa: fraction.value,
                // A lone zero before the point is no significant digit.
                significant: fraction.count + if zero { 0 } else { digits.count },
                power: -i32::try_from(fraction.count).ok()?,
            };
            float(source, start, negative, decimal, end + 1 + fraction.count)
        }
        b'e' | b'E' => {
            let decimal = Decimal { mantissa: digits.value, significant: digits.count, power: 0 };
            float(source, start, negative, decimal, end)
        }
        _ => Some((JsonNumber::Int(signed(digits, negative)?), end)),
    }
}

#[inline(always)]
fn signed(digits: Digits, negative: bool) -> Option<i64> {
    if digits.count > EXACT_DIGITS {
        return None;
    }
    if negative { 0i64.checked_sub_unsigned(digits.value) } else { i64::try_from(digits.value).ok() }
}

/// `mantissa` × 10^`power`.
struct Decimal {
    /// Exact up to `EXACT_DIGITS` significant ones.
    mantissa: u64,
    significant: usize,
    power: i32,
}

/// `start` is the first digit, `at` the position after the last one, maybe an exponent.
#[inline(always)]
fn float(source: Input, start: usize, negative: bool, decimal: Decimal, mut at: usize) -> Option<(JsonNumber, usize)> {
    let mut power = decimal.power;
    if byte(source, at) | 0x20 == b'e' {
        let (exponent, end) = exponent(source, at + 1)?;
        power = power.checked_add(exponent)?;
        at = end;
    }
    let value = if decimal.significant <= EXACT_DIGITS { exact(decimal.mantissa, power) } else { None };
    let value = match value {
        Some(value) => value,
        None => slow(source.bytes().get(start..at)?)?,
    };
    Some((JsonNumber::Float(if negative { -value } else { value }), at))
}

/// The digits after the `e`: (value, end).
#[inline(never)]
fn exponent(source: Input, mut at: usize) -> Option<(i32, usize)> {
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

/// More than 53 bits over a power of ten, as floats printed with 17 digits need. This is an exact integer division,
/// whose remainder becomes a sticky bit below the rounding bit. The quotient has at least 54 bits, and at most 125
/// because `power` is below 0.
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
