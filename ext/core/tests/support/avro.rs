//! Values of Avro documents, as the tests compare them.
#![allow(dead_code)] // each test binary uses a part

use pelton_core::decode::{Kind, Node};
use serde_json::{Value, json};

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As the vectors write values.
pub fn shown(node: Node<'_>) -> Value {
    match node.kind() {
        Kind::Null => Value::Null,
        Kind::True => json!(true),
        Kind::False => json!(false),
        Kind::Int(value) => json!(value),
        Kind::Float(value) => json!({ "$double": format!("{:016x}", value.to_bits()) }),
        // Java puts U+FFFD for what is no UTF-8; Ruby keeps the bytes.
        Kind::Str(text) => json!(String::from_utf8_lossy(text.bytes)),
        Kind::Bytes(bytes) => json!({ "$bytes": hex(bytes) }),
        Kind::Array(items) => items.map(shown).collect(),
        Kind::Object(fields) => {
            let pair = |(key, value): (Node<'_>, Node<'_>)| {
                (String::from_utf8(key.text().expect("a text").bytes.to_vec()).expect("UTF-8"), shown(value))
            };
            Value::Object(fields.map(pair).collect())
        }
        Kind::Decimal(bytes, scale) => json!({ "$decimal": decimal(bytes, scale) }),
        Kind::Date(days) => json!({ "$days": days }),
        Kind::Time(value, unit) => {
            let unit = unit.per_second();
            json!({ "$time": [value.div_euclid(unit), value.rem_euclid(unit) * (1_000_000_000 / unit)] })
        }
        Kind::Unsigned(_) | Kind::Extension(..) => unreachable!("Avro has none"),
    }
}

/// Up to 16 bytes are enough here.
fn decimal(bytes: &[u8], scale: i32) -> String {
    let negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let start = if negative { -1i128 } else { 0 };
    let number = bytes.iter().fold(start, |number, byte| number << 8 | i128::from(*byte));
    let digits = format!("{:0width$}", number.unsigned_abs(), width = scale as usize + 1);
    let (whole, rest) = digits.split_at(digits.len() - scale as usize);
    format!("{}{whole}{}{rest}", if negative { "-" } else { "" }, if scale > 0 { "." } else { "" })
}

pub fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex")).collect()
}

/// Java's day as days since 1970 (its years may have five digits).
pub fn days(date: &str) -> i64 {
    let (negative, date) = date.strip_prefix('-').map_or((false, date), |rest| (true, rest));
    let parts: Vec<i64> = date.trim_start_matches('+').split('-').map(|part| part.parse().expect("a number")).collect();
    let (mut year, month, day) = (if negative { -parts[0] } else { parts[0] }, parts[1], parts[2]);
    year -= i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
