//! A value on its way into a document.

use super::decimal;

/// A value to be written; its type says how.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Valid UTF-8.
    Text(String),
    Bytes(Vec<u8>),
    /// A value that may be characters or bytes. For texts it is UTF-8 (`None` if it has none); for bytes it is as it
    /// is.
    Foreign {
        text: Option<String>,
        bytes: Vec<u8>,
        encoding: String,
        /// Characters of another encoding; else it is a binary String of ASCII.
        is_text: bool,
    },
    Array(Vec<Datum>),
    Map(Vec<(String, Datum)>),
    /// Since 1970; nanoseconds of the second, 0 to 999,999,999; seconds that its clock is ahead of UTC.
    Time {
        seconds: i64,
        nanos: u32,
        offset: i64,
    },
    /// Days since 1970.
    Date(i64),
    /// Two's complement, the highest byte first, as short as possible, and the number of digits after the decimal point
    /// (negative: zeros before it).
    Decimal {
        unscaled: Vec<u8>,
        scale: i64,
    },
    /// A value that no type takes, as shown to the user.
    Other(String),
}

impl Datum {
    /// Of its own, without its parts.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Foreign { text, bytes, .. } => text.as_ref().map_or(0, String::len) + bytes.len(),
            Self::Bytes(bytes) | Self::Decimal { unscaled: bytes, .. } => bytes.len(),
            _ => 0,
        }
    }

    /// For errors: short, and without what may be private.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Null => "nil".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => format!("an Integer of {} bits", 64 - value.unsigned_abs().leading_zeros()),
            Self::Float(_) => "a Float".to_owned(),
            Self::Text(text) => format!("a String of {}", bytes(text.len())),
            Self::Bytes(text) => format!("a binary String of {}", bytes(text.len())),
            Self::Foreign { bytes: text, is_text: false, .. } => format!("a binary String of {}", bytes(text.len())),
            Self::Foreign { encoding, bytes: text, .. } => format!("a String of {} in {encoding}", bytes(text.len())),
            Self::Array(items) => format!("an Array of {}", items.len()),
            Self::Map(pairs) => format!("a Hash of {}", pairs.len()),
            Self::Time { .. } => "a Time".to_owned(),
            Self::Date(_) => "a Date".to_owned(),
            Self::Decimal { unscaled, scale } => {
                let (before, after) = decimal::places(unscaled, *scale);
                format!("a decimal with {before} digits before and {after} after the decimal point")
            }
            Self::Other(what) => what.clone(),
        }
    }
}

/// "1 byte", "2 bytes".
pub(super) fn bytes(count: usize) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}
