//! The meaning of a type's values beyond their bytes. As the specification says, attributes that do not fit are
//! ignored; the value is then one of its underlying type.

use super::decimal::MOST_DIGITS;
use super::types::Type;
use crate::decode::json_value::Json;
use crate::decode::node::Unit;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Logical {
    Decimal {
        precision: u32,
        scale: u32,
    },
    /// Unscaled bytes and a scale in each value.
    BigDecimal,
    Uuid,
    Date,
    TimeMillis,
    TimeMicros,
    Timestamp(Unit),
    LocalTimestamp(Unit),
    Duration,
}

/// As a schema has it.
impl fmt::Display for Logical {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = |unit| match unit {
            Unit::Millis => "millis",
            Unit::Micros => "micros",
            Unit::Nanos => "nanos",
        };
        match *self {
            Self::Decimal { precision, scale } => write!(to, "decimal({precision}, {scale})"),
            Self::BigDecimal => to.write_str("big-decimal"),
            Self::Uuid => to.write_str("uuid"),
            Self::Date => to.write_str("date"),
            Self::TimeMillis => to.write_str("time-millis"),
            Self::TimeMicros => to.write_str("time-micros"),
            Self::Timestamp(of) => write!(to, "timestamp-{}", unit(of)),
            Self::LocalTimestamp(of) => write!(to, "local-timestamp-{}", unit(of)),
            Self::Duration => to.write_str("duration"),
        }
    }
}

impl Logical {
    /// From a type's JSON object, if it fits that type.
    pub(super) fn read(object: &Json, of: &Type) -> Option<Self> {
        Some(match (object.get("logicalType")?.text()?, of) {
            ("decimal", Type::Bytes) => Self::decimal(object, usize::MAX)?,
            ("decimal", Type::Fixed(fixed)) => Self::decimal(object, fixed.size)?,
            ("big-decimal", Type::Bytes) => Self::BigDecimal,
            ("uuid", Type::String) => Self::Uuid,
            ("uuid", Type::Fixed(fixed)) if fixed.size == 16 => Self::Uuid,
            ("date", Type::Int) => Self::Date,
            ("time-millis", Type::Int) => Self::TimeMillis,
            ("time-micros", Type::Long) => Self::TimeMicros,
            ("timestamp-millis", Type::Long) => Self::Timestamp(Unit::Millis),
            ("timestamp-micros", Type::Long) => Self::Timestamp(Unit::Micros),
            ("timestamp-nanos", Type::Long) => Self::Timestamp(Unit::Nanos),
            ("local-timestamp-millis", Type::Long) => Self::LocalTimestamp(Unit::Millis),
            ("local-timestamp-micros", Type::Long) => Self::LocalTimestamp(Unit::Micros),
            ("local-timestamp-nanos", Type::Long) => Self::LocalTimestamp(Unit::Nanos),
            ("duration", Type::Fixed(fixed)) if fixed.size == 12 => Self::Duration,
            _ => return None,
        })
    }

    fn decimal(object: &Json, size: usize) -> Option<Self> {
        let number = |name| object.get(name).map(|value| value.integer().and_then(|value| u32::try_from(value).ok()));
        let precision = number("precision")??;
        let scale = number("scale").unwrap_or(Some(0))?;
        // The digits that this many bytes can hold; real numbers have no more.
        let most = ((size as f64 * 8.0 - 1.0) * 2f64.log10()).floor().min(MOST_DIGITS as f64);
        let fits = precision > 0 && scale <= precision && f64::from(precision) <= most;
        fits.then_some(Self::Decimal { precision, scale })
    }
}
