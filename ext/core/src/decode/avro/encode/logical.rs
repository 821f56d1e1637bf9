//! Values of logical types: decimals, dates, times and UUIDs.

use super::{MILLIS_OF_DAY, Unfit, put_long, put_sized, unfit};
use crate::decode::avro::datum::Datum;
use crate::decode::avro::decimal;
use crate::decode::avro::logical::Logical;
use crate::decode::avro::plan::DURATION;
use crate::decode::avro::schema::Schema;
use crate::decode::avro::types::{Id, Type};
use crate::decode::entry::MAX_LENGTH;
use crate::decode::node::Unit;

impl Schema {
    /// `None`: as the underlying type says.
    #[allow(clippy::too_many_lines, reason = "one short arm for each logical type")]
    pub(super) fn put_logical(
        &self,
        of: Id,
        logical: Logical,
        value: &Datum,
        to: &mut Vec<u8>,
    ) -> Option<Result<(), Unfit>> {
        let refuse = || Some(unfit(format!("expected {}, got {}", self.wanted(of), value.shown())));
        match (logical, value) {
            (Logical::TimeMillis, Datum::Int(time)) if !(0..MILLIS_OF_DAY).contains(time) => return refuse(),
            (Logical::TimeMicros, Datum::Int(time)) if !(0..1000 * MILLIS_OF_DAY).contains(time) => return refuse(),
            (Logical::Date, Datum::Date(days)) => match i32::try_from(*days) {
                Ok(days) => put_long(to, days.into()),
                Err(_) => return refuse(),
            },
            (Logical::Timestamp(unit) | Logical::LocalTimestamp(unit), Datum::Time { seconds, nanos, offset }) => {
                let offset = if matches!(logical, Logical::LocalTimestamp(_)) { *offset } else { 0 };
                match seconds.checked_add(offset).and_then(|seconds| ticks(unit, seconds, *nanos)) {
                    Some(ticks) => put_long(to, ticks),
                    None => return Some(unfit("the Time is too far away")),
                }
            }
            (Logical::Uuid, Datum::Text(text)) => match (uuid(text), self.at(of)) {
                (None, _) => return refuse(),
                (Some(bytes), Type::Fixed(_)) => to.extend(bytes),
                (Some(_), _) => put_sized(to, text.as_bytes()),
            },
            (Logical::Decimal { precision, scale }, given) => {
                let Some(unscaled) = decimal::unscaled(given, precision, scale) else {
                    let Datum::Int(number) = given else { return refuse() };
                    let digits = number.unsigned_abs().to_string().len();
                    return Some(unfit(format!("expected {}, got an Integer of {digits} digits", self.wanted(of))));
                };
                match self.at(of) {
                    Type::Fixed(fixed) if fixed.size > MAX_LENGTH.saturating_sub(to.len()) => {
                        return Some(unfit(format!("a document of more than {MAX_LENGTH} bytes")));
                    }
                    Type::Fixed(fixed) => to.extend(decimal::padded(&unscaled, fixed.size)?),
                    _ => put_sized(to, &unscaled),
                }
            }
            (Logical::BigDecimal, given) => {
                let Some((unscaled, scale)) = decimal::parts(given) else { return refuse() };
                let mut inside = Vec::new();
                put_sized(&mut inside, &unscaled);
                put_long(&mut inside, scale.into());
                put_sized(to, &inside);
            }
            (Logical::Duration, Datum::Map(pairs)) => {
                let number = |name: &str| match pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value) {
                    Some(Datum::Int(value)) => u32::try_from(*value).ok(),
                    _ => None,
                };
                let parts: Option<Vec<u32>> = DURATION.iter().map(|name| number(name)).collect();
                match parts.filter(|_| pairs.len() == DURATION.len()) {
                    Some(parts) => to.extend(parts.iter().flat_map(|part| part.to_le_bytes())),
                    None => return refuse(),
                }
            }
            _ => return None,
        }
        Some(Ok(()))
    }
}

/// Units since 1970, rounded down.
fn ticks(unit: Unit, seconds: i64, nanos: u32) -> Option<i64> {
    let per_second = unit.per_second();
    seconds.checked_mul(per_second)?.checked_add(i64::from(nanos) / (1_000_000_000 / per_second))
}

/// The bytes of "8-4-4-4-12" digits.
pub(in super::super) fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let dashes =
        text.len() == 36 && text.bytes().enumerate().all(|(at, byte)| (byte == b'-') == [8, 13, 18, 23].contains(&at));
    let mut digits = text.chars().filter(|digit| *digit != '-').map(|digit| digit.to_digit(16));
    for byte in &mut bytes {
        *byte = (digits.next()?? << 4 | digits.next()??) as u8;
    }
    dashes.then_some(bytes)
}
