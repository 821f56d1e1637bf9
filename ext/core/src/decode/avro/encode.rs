//! Values to documents, checked against their schema.

mod logical;

use super::MAX_DEPTH;
use super::datum::{Datum, bytes};
use super::decimal::MOST_BYTES;
use super::default::Budget;
use super::logical::Logical;
use super::schema::Schema;
use super::types::{Id, RecordType, Type};
pub(super) use logical::uuid;
use std::collections::HashMap;
use std::fmt;

const MILLIS_OF_DAY: i64 = 86_400_000;

/// Bytes of one that is no text.
const UUID: usize = 16;

/// Up to this many names, a search is faster than a hash table.
const FEW: usize = 16;

/// A value does not fit its schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit {
    /// To the value: `["items", "[2]", "price"]`, innermost first.
    path: Vec<String>,
    why: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.path.iter().rev().enumerate() {
            let dot = if index == 0 || step.starts_with('[') { "" } else { "." };
            write!(to, "{dot}{step}")?;
        }
        write!(to, "{}{}", if self.path.is_empty() { "" } else { ": " }, self.why)
    }
}

impl Unfit {
    fn within(mut self, step: impl Into<String>) -> Self {
        self.path.push(step.into());
        self
    }
}

fn unfit<T>(why: impl Into<String>) -> Result<T, Unfit> {
    Err(Unfit { path: Vec::new(), why: why.into() })
}

/// Appends the document; after an error there may be a part of it.
///
/// # Errors
/// The value that does not fit, and where it is.
pub fn encode(schema: &Schema, value: &Datum, to: &mut Vec<u8>) -> Result<(), Unfit> {
    schema.put(schema.root, value, to, 0, &mut Tried::default())
}

/// The same with Confluent's frame: see [`Schema::is_bytes`].
///
/// # Errors
/// As of `encode`.
pub fn encode_framed(schema: &Schema, value: &Datum, to: &mut Vec<u8>) -> Result<(), Unfit> {
    let start = to.len();
    encode(schema, value, to)?;
    if schema.is_bytes() {
        let length = to[start..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
        to.drain(start..start + length);
    }
    Ok(())
}

/// What is known of branches that several values could take. To try them again at each level would take forever for a
/// deep value.
#[derive(Default)]
struct Tried {
    /// (branch, address of the value): whether it fits.
    fits: HashMap<(Id, usize), bool>,
    /// Nothing stays written: this only checks whether the value fits.
    dry: bool,
    /// For defaults of fields that are missing.
    budget: Budget,
}

impl Schema {
    #[allow(clippy::too_many_lines, reason = "one short arm for each type of a schema")]
    fn put(&self, of: Id, value: &Datum, to: &mut Vec<u8>, depth: usize, tried: &mut Tried) -> Result<(), Unfit> {
        if depth > MAX_DEPTH {
            return unfit(format!("it is nested deeper than {MAX_DEPTH} levels"));
        }
        if let Some(logical) = self.logical(of)
            && let Some(done) = self.put_logical(of, logical, value, to)
        {
            return done;
        }
        match (self.at(of), value) {
            (Type::Null, Datum::Null) => {}
            (Type::Boolean, Datum::Bool(value)) => to.push(u8::from(*value)),
            (Type::Int, Datum::Int(value)) => match i32::try_from(*value) {
                Ok(value) => put_long(to, value.into()),
                Err(_) => return unfit("expected int, got an Integer with more than 32 bits".to_owned()),
            },
            (Type::Long, Datum::Int(value)) => put_long(to, *value),
            (Type::Float, Datum::Int(value)) => to.extend_from_slice(&(*value as f32).to_le_bytes()),
            (Type::Float, Datum::Float(value)) => {
                let short = *value as f32;
                if short.is_infinite() && value.is_finite() {
                    return unfit(format!("expected float, got {value:?}: the largest float is {:?}", f32::MAX));
                }
                to.extend_from_slice(&short.to_le_bytes());
            }
            (Type::Double, Datum::Int(value)) => to.extend_from_slice(&(*value as f64).to_le_bytes()),
            (Type::Double, Datum::Float(value)) => to.extend_from_slice(&value.to_le_bytes()),
            (Type::String, Datum::Text(text)) => put_sized(to, text.as_bytes()),
            (Type::Bytes, Datum::Text(text)) => put_sized(to, text.as_bytes()),
            (Type::Bytes, Datum::Bytes(bytes)) => put_sized(to, bytes),
            (Type::Fixed(fixed), Datum::Text(text)) if text.len() == fixed.size => to.extend(text.as_bytes()),
            (Type::Fixed(fixed), Datum::Bytes(bytes)) if bytes.len() == fixed.size => to.extend(bytes),
            (Type::Enum(kind), Datum::Text(text)) => match kind.indexes.get(&**text) {
                Some(index) => put_long(to, *index as i64),
                None => return unfit(format!("expected a symbol of {}, got {}", self.shown(of), value.shown())),
            },
            (Type::Array(items), Datum::Array(list)) => {
                put_count(to, list.len());
                for (index, item) in list.iter().enumerate() {
                    self.put(*items, item, to, depth + 1, tried).map_err(|unfit| unfit.within(format!("[{index}]")))?;
                }
                to.push(0);
            }
            (Type::Map(values), Datum::Map(pairs)) => {
                put_count(to, pairs.len());
                for (key, value) in pairs {
                    put_sized(to, key.as_bytes());
                    let done = self.put(*values, value, to, depth + 1, tried);
                    done.map_err(|unfit| unfit.within("[…]".to_owned()))?;
                }
                to.push(0);
            }
            (Type::Record(record), Datum::Map(pairs)) => return self.put_record(record, pairs, to, depth, tried),
            (Type::Union(branches), value) => return self.put_union(of, branches, value, to, depth, tried),
            (Type::Bytes | Type::Fixed(_), Datum::Foreign { bytes, is_text, .. })
                if self.logical(of) != Some(Logical::Uuid) || !is_text && bytes.len() == UUID =>
            {
                return self.put(of, &Datum::Bytes(bytes.clone()), to, depth, tried);
            }
            (_, Datum::Foreign { text: Some(text), .. }) => {
                return self.put(of, &Datum::Text(text.clone()), to, depth, tried);
            }
            (_, Datum::Foreign { text: None, .. }) => {
                return unfit(format!("expected {}, got {}: it is not valid UTF-8", self.wanted(of), value.shown()));
            }
            _ => return unfit(format!("expected {}, got {}", self.wanted(of), value.shown())),
        }
        Ok(())
    }

    fn put_record(
        &self,
        record: &RecordType,
        pairs: &[(String, Datum)],
        to: &mut Vec<u8>,
        depth: usize,
        tried: &mut Tried,
    ) -> Result<(), Unfit> {
        if let Some((name, _)) = pairs.iter().find(|(name, _)| !record.indexes.contains_key(&**name)) {
            return unfit(format!("{} has no such field", record.name.full())).map_err(|it| it.within(name));
        }
        // Of duplicate names the first one counts.
        let by_name: HashMap<&str, &Datum> = match pairs.len() {
            0..=FEW => HashMap::new(),
            _ => pairs.iter().rev().map(|(name, value)| (&**name, value)).collect(),
        };
        for field in &record.fields {
            let given = match pairs.len() {
                0..=FEW => pairs.iter().find(|(name, _)| **name == *field.name).map(|(_, value)| value),
                _ => by_name.get(&*field.name).copied(),
            };
            let done = match (given, &field.default) {
                (Some(value), _) => self.put(field.of, value, to, depth + 1, tried),
                (None, Some(default)) => match self.default_bytes(field.of, default, &mut tried.budget) {
                    Some(bytes) => {
                        to.extend(bytes);
                        Ok(())
                    }
                    None => unfit("is missing, and its default is of another type"),
                },
                (None, None) if self.takes_null(field.of) => self.put(field.of, &Datum::Null, to, depth + 1, tried),
                (None, None) => unfit("is missing"),
            };
            done.map_err(|unfit| unfit.within(&*field.name))?;
        }
        Ok(())
    }

    fn takes_null(&self, of: Id) -> bool {
        match self.at(of) {
            Type::Null => true,
            Type::Union(branches) => branches.iter().any(|branch| matches!(self.at(*branch), Type::Null)),
            _ => false,
        }
    }

    /// The first branch that takes the whole value. Branches of the value's own kind come first (see `distance`). If
    /// only one branch was possible, its own error says more than "none fits".
    fn put_union(
        &self,
        of: Id,
        branches: &[Id],
        value: &Datum,
        to: &mut Vec<u8>,
        depth: usize,
        tried: &mut Tried,
    ) -> Result<(), Unfit> {
        let able = branches.iter().enumerate().filter(|(_, branch)| self.could_take(**branch, value));
        let mut able: Vec<(usize, Id)> = able.map(|(index, branch)| (index, *branch)).collect();
        if let [(index, branch)] = able[..] {
            put_long(to, index as i64);
            return self.put(branch, value, to, depth, tried);
        }
        able.sort_by_key(|(_, branch)| self.distance(*branch, value));
        for (index, branch) in able {
            if self.fits(branch, value, to, depth, tried) {
                put_long(to, index as i64);
                return if tried.dry { Ok(()) } else { self.put(branch, value, to, depth, tried) };
            }
        }
        unfit(format!("expected {}, got {}", self.wanted(of), value.shown()))
    }

    fn fits(&self, branch: Id, value: &Datum, to: &mut Vec<u8>, depth: usize, tried: &mut Tried) -> bool {
        let key = (branch, std::ptr::from_ref(value).addr());
        if let Some(known) = tried.fits.get(&key) {
            return *known;
        }
        let (before, outer) = (to.len(), tried.dry);
        tried.dry = true;
        let fits = self.put(branch, value, to, depth, tried).is_ok();
        tried.dry = outer;
        to.truncate(before);
        tried.fits.insert(key, fits);
        fits
    }

    /// How far a type is from the value's kind; the nearest type that fits is used. This is Java's choice if one Java
    /// type stands for the value, otherwise fastavro's: `test/vectors/avro/unions.jsonl` has both. A number that a
    /// float or double would round goes to a decimal first.
    fn distance(&self, of: Id, value: &Datum) -> u8 {
        let logical = self.logical(of);
        match (self.at(of), value) {
            (Type::Int | Type::Long, Datum::Int(_)) => match logical {
                None | Some(Logical::TimeMillis | Logical::TimeMicros) => 0,
                Some(_) => 1,
            },
            (Type::Double, Datum::Int(number)) => 2 + rounded(*number, (*number as f64) as i128),
            (Type::Float, Datum::Int(number)) => 3 + rounded(*number, (*number as f32) as i128),
            (_, Datum::Int(_)) => 4,
            (Type::Float, Datum::Float(_)) => 1,
            (Type::Fixed(_), _) if logical == Some(Logical::Uuid) => 1,
            (Type::Bytes | Type::Fixed(_), Datum::Text(_) | Datum::Foreign { is_text: true, .. })
            | (Type::String | Type::Enum(_), Datum::Foreign { is_text: false, .. }) => 2,
            (Type::Record(_), Datum::Map(_)) => 1,
            (Type::Fixed(_), Datum::Map(_)) => 2,
            _ => 0,
        }
    }

    /// Whether it is of that kind, at the surface.
    fn could_take(&self, of: Id, value: &Datum) -> bool {
        match (self.at(of), value) {
            (Type::Null, Datum::Null)
            | (Type::Boolean, Datum::Bool(_))
            | (Type::Int | Type::Long | Type::Float | Type::Double, Datum::Int(_))
            | (Type::Float | Type::Double, Datum::Float(_))
            | (Type::String | Type::Bytes | Type::Fixed(_) | Type::Enum(_), Datum::Text(_))
            | (Type::Bytes | Type::Fixed(_), Datum::Bytes(_) | Datum::Foreign { .. })
            | (Type::String | Type::Enum(_), Datum::Foreign { text: Some(_), .. })
            | (Type::Array(_), Datum::Array(_))
            | (Type::Map(_) | Type::Record(_), Datum::Map(_)) => true,
            _ => matches!(
                (self.logical(of), value),
                (Some(Logical::Date), Datum::Date(_))
                    | (Some(Logical::Timestamp(_) | Logical::LocalTimestamp(_)), Datum::Time { .. })
                    | (Some(Logical::Decimal { .. } | Logical::BigDecimal), Datum::Decimal { .. } | Datum::Int(_))
                    | (Some(Logical::Duration), Datum::Map(_))
            ),
        }
    }

    /// For errors: what would fit.
    fn wanted(&self, of: Id) -> String {
        match (self.at(of), self.logical(of)) {
            (Type::Union(branches), _) => {
                branches.iter().map(|branch| self.wanted(*branch)).collect::<Vec<_>>().join(" or ")
            }
            (Type::Fixed(fixed), None) => format!("{} of {}", self.shown(of), bytes(fixed.size)),
            (_, None) => self.shown(of),
            (_, Some(logical)) => match logical {
                Logical::Decimal { precision, scale } => {
                    let before = precision.saturating_sub(scale);
                    format!(
                        "decimal of {precision} digits: at most {before} before and {scale} after the decimal point"
                    )
                }
                Logical::BigDecimal => format!("big-decimal of at most {MOST_BYTES} bytes"),
                Logical::Uuid => "uuid".to_owned(),
                Logical::Date => "date".to_owned(),
                Logical::TimeMillis => format!("time of day in milliseconds (0 to {})", MILLIS_OF_DAY - 1),
                Logical::TimeMicros => format!("time of day in microseconds (0 to {})", 1000 * MILLIS_OF_DAY - 1),
                Logical::Timestamp(_) | Logical::LocalTimestamp(_) => "timestamp".to_owned(),
                Logical::Duration => "duration (months, days, millis)".to_owned(),
            },
        }
    }
}

/// 3, beyond all that hold it, if the number became another one.
fn rounded(number: i64, became: i128) -> u8 {
    if i128::from(number) == became { 0 } else { 3 }
}

fn put_count(to: &mut Vec<u8>, count: usize) {
    if count > 0 {
        put_long(to, count as i64);
    }
}

/// Zigzag, seven bits a byte.
pub(super) fn put_long(to: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest > 0x7f {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

pub(super) fn put_sized(to: &mut Vec<u8>, bytes: &[u8]) {
    put_long(to, bytes.len() as i64);
    to.extend_from_slice(bytes);
}
