//! Decimals: two's complement bytes, the highest first.

use super::datum::Datum;

/// Digits beyond which nobody means a number: its bytes would be computed for long.
pub(super) const MOST_DIGITS: i64 = 4096;

/// As a whole number of the schema's smallest unit; `None` where that is not exact, has too many digits, or is no number.
pub(super) fn unscaled(value: &Datum, precision: u32, scale: u32) -> Option<Vec<u8>> {
    let (mut bytes, own) = raw(value)?;
    let missing = i64::from(scale) - own;
    if !(0..=MOST_DIGITS).contains(&missing) {
        return None;
    }
    (0..missing).for_each(|_| times_ten(&mut bytes));
    let count = digits(&bytes).trim_start_matches('-').len();
    (count <= precision as usize || bytes == [0]).then_some(bytes)
}

/// Unscaled bytes and scale, which is 0 or more.
pub(super) fn parts(value: &Datum) -> Option<(Vec<u8>, i32)> {
    let (mut bytes, scale) = raw(value)?;
    if scale < -MOST_DIGITS {
        return None;
    }
    (scale..0).for_each(|_| times_ten(&mut bytes));
    Some((bytes, i32::try_from(scale.max(0)).ok()?))
}

fn raw(value: &Datum) -> Option<(Vec<u8>, i64)> {
    match value {
        Datum::Int(value) => Some((shortened(&value.to_be_bytes()), 0)),
        // BigDecimal says "0.0".
        Datum::Decimal { unscaled, .. } if *unscaled == [0] => Some((vec![0], 0)),
        Datum::Decimal { unscaled, scale } => Some((unscaled.clone(), *scale)),
        _ => None,
    }
}

/// To `size` bytes; `None` where it has more.
pub(super) fn padded(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let fill = if is_negative(bytes) { 0xff } else { 0 };
    let missing = size.checked_sub(bytes.len())?;
    Some(std::iter::repeat_n(fill, missing).chain(bytes.iter().copied()).collect())
}

fn is_negative(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| *first >= 0x80)
}

/// Without bytes that only repeat the sign.
fn shortened(mut bytes: &[u8]) -> Vec<u8> {
    while let [first, second, ..] = bytes
        && ((*first == 0 && *second < 0x80) || (*first == 0xff && *second >= 0x80))
    {
        bytes = &bytes[1..];
    }
    bytes.to_vec()
}

fn times_ten(bytes: &mut Vec<u8>) {
    let fill = if is_negative(bytes) { 0xff } else { 0 };
    bytes.insert(0, fill);
    let mut carry = 0u16;
    for byte in bytes.iter_mut().rev() {
        carry += u16::from(*byte) * 10;
        *byte = carry as u8;
        carry >>= 8;
    }
    *bytes = shortened(bytes);
}

/// The number as Ruby writes it: "-1207". So many bytes take long: whoever has them from elsewhere sees to their number.
pub fn digits(bytes: &[u8]) -> String {
    let mut rest: Vec<u8> = if is_negative(bytes) { negated(bytes) } else { bytes.to_vec() };
    let mut digits = Vec::new();
    while rest.iter().any(|byte| *byte != 0) {
        let mut remainder = 0u16;
        for byte in &mut rest {
            remainder = remainder << 8 | u16::from(*byte);
            *byte = (remainder / 10) as u8;
            remainder %= 10;
        }
        digits.push(char::from(b'0' + remainder as u8));
    }
    if digits.is_empty() {
        digits.push('0');
    }
    if is_negative(bytes) {
        digits.push('-');
    }
    digits.into_iter().rev().collect()
}

/// The bytes of a number as Ruby writes it; `None` for anything else, and for too many digits.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    if digits.is_empty() || digits.len() > MOST_DIGITS as usize || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mut bytes = vec![0];
    for digit in digits.bytes() {
        times_ten(&mut bytes);
        bytes.insert(0, 0);
        let mut carry = u16::from(digit - b'0');
        for byte in bytes.iter_mut().rev() {
            carry += u16::from(*byte);
            *byte = carry as u8;
            carry >>= 8;
        }
    }
    bytes.insert(0, 0);
    Some(shortened(&if negative { negated(&bytes) } else { bytes }))
}

fn negated(bytes: &[u8]) -> Vec<u8> {
    let mut carry = true;
    let mut negated: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    for byte in negated.iter_mut().rev() {
        (*byte, carry) = if carry { byte.overflowing_add(1) } else { (*byte, false) };
    }
    negated
}
