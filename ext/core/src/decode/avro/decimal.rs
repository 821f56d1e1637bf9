//! Decimals: two's complement bytes, the highest first.

use super::datum::Datum;

/// No real number has more digits than this. To compute them would take long.
pub(super) const MOST_DIGITS: i64 = 4096;

/// The largest `big-decimal`, without its scale.
pub(super) const MOST_BYTES: usize = 1024;

/// As a whole number of the schema's smallest unit; `None` where that is not exact, has too many digits, or is no
/// number.
pub(super) fn unscaled(value: &Datum, precision: u32, scale: u32) -> Option<Vec<u8>> {
    let (bytes, own) = raw(value)?;
    let missing = i64::from(scale) - own;
    if !(0..=MOST_DIGITS).contains(&missing) {
        return None;
    }
    let number = Whole::read(&bytes).with_zeros(missing);
    (number.digits().trim_start_matches('-').len() <= precision as usize).then(|| number.bytes())
}

/// Unscaled bytes and scale, which is 0 or more; `None` for what a reader refuses.
pub(super) fn parts(value: &Datum) -> Option<(Vec<u8>, i32)> {
    let (bytes, scale) = raw(value)?;
    if !(-MOST_DIGITS..=MOST_DIGITS).contains(&scale) {
        return None;
    }
    let unscaled = Whole::read(&bytes).with_zeros((-scale).max(0)).bytes();
    let scale = i32::try_from(scale.max(0)).ok()?;
    (unscaled.len() <= MOST_BYTES).then_some((unscaled, scale))
}

/// How many digits a number has before the decimal point, and how many after it.
pub(super) fn places(unscaled: &[u8], scale: i64) -> (i64, i64) {
    let digits = Whole::read(unscaled).digits();
    let count = match digits.trim_start_matches('-') {
        "0" => return (0, 0),
        digits => digits.len() as i64,
    };
    (count.saturating_sub(scale).max(0), scale.max(0))
}

fn raw(value: &Datum) -> Option<(Vec<u8>, i64)> {
    match value {
        Datum::Int(value) => Some((value.to_be_bytes().to_vec(), 0)),
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

/// The number as Ruby writes it: "-1207".
pub fn digits(bytes: &[u8]) -> String {
    Whole::read(bytes).digits()
}

/// The bytes of a number as Ruby writes it; `None` for anything else, and for too many digits.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    if digits.is_empty() || digits.len() > MOST_DIGITS as usize || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mut number = Whole { negative, limbs: Vec::new() };
    for part in digits.as_bytes().chunks(LIMB_DIGITS) {
        let value = part.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
        number.multiply(10u32.pow(part.len() as u32), value);
    }
    Some(number.bytes())
}

fn is_negative(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| *first >= 0x80)
}

/// Decimal digits that fit a limb.
const LIMB_DIGITS: usize = 9;

/// A whole number. The work on it grows with the square of its length, in steps of 32 bits and nine digits: some
/// 150,000 steps for the longest that are read (5,000 digits).
struct Whole {
    negative: bool,
    /// Of its absolute value, the lowest first, no zeros at the end.
    limbs: Vec<u32>,
}

impl Whole {
    fn read(bytes: &[u8]) -> Self {
        let negative = is_negative(bytes);
        let absolute = if negative { negated(bytes) } else { bytes.to_vec() };
        let limb = |part: &[u8]| part.iter().fold(0, |limb, byte| limb << 8 | u32::from(*byte));
        let mut number = Self { negative, limbs: absolute.rchunks(4).map(limb).collect() };
        number.trim();
        number
    }

    /// As short as it can be.
    fn bytes(&self) -> Vec<u8> {
        let limbs = self.limbs.iter().rev().flat_map(|limb| limb.to_be_bytes());
        let bytes: Vec<u8> = std::iter::once(0).chain(limbs).collect();
        shortened(if self.negative { negated(&bytes) } else { bytes })
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    /// Times `factor`, plus `carry`.
    fn multiply(&mut self, factor: u32, mut carry: u32) {
        for limb in &mut self.limbs {
            let product = u64::from(*limb) * u64::from(factor) + u64::from(carry);
            *limb = product as u32;
            carry = (product >> 32) as u32;
        }
        if carry > 0 {
            self.limbs.push(carry);
        }
    }

    /// Divides by `divisor` and returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for limb in self.limbs.iter_mut().rev() {
            let part = rest << 32 | u64::from(*limb);
            *limb = (part / u64::from(divisor)) as u32;
            rest = part % u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    fn with_zeros(mut self, mut count: i64) -> Self {
        while count > 0 {
            let some = count.min(LIMB_DIGITS as i64);
            self.multiply(10u32.pow(some as u32), 0);
            count -= some;
        }
        self
    }

    fn digits(&self) -> String {
        let mut rest = Self { negative: false, limbs: self.limbs.clone() };
        let mut parts = Vec::new();
        while !rest.limbs.is_empty() {
            parts.push(rest.divide(10u32.pow(LIMB_DIGITS as u32)));
        }
        let mut digits = if self.negative { "-".to_owned() } else { String::new() };
        digits += &parts.pop().unwrap_or(0).to_string();
        parts.iter().rev().for_each(|part| digits += &format!("{part:09}"));
        digits
    }
}

/// Without bytes that only repeat the sign.
fn shortened(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut first = 0;
    while let [sign, next, ..] = bytes[first..]
        && ((sign == 0 && next < 0x80) || (sign == 0xff && next >= 0x80))
    {
        first += 1;
    }
    bytes.drain(..first);
    bytes
}

fn negated(bytes: &[u8]) -> Vec<u8> {
    let mut carry = true;
    let mut negated: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    for byte in negated.iter_mut().rev() {
        (*byte, carry) = if carry { byte.overflowing_add(1) } else { (*byte, false) };
    }
    negated
}
