//! A field's default, which a schema gives as JSON, as bytes of its type.

use super::MAX_DEPTH;
use super::encode::{put_long, put_sized};
use super::schema::Schema;
use super::types::{Id, Type};
use crate::decode::json_value::Json;
use std::collections::HashMap;

/// Values that are tried for one default, at most: types whose defaults are of each other can ask for 2 ** 100.
const MOST_TRIED: usize = 1 << 16;

/// Values that may still be tried for all defaults of a plan, or of a document.
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(1 << 20)
    }
}

impl Schema {
    /// `None`: it does not fit the type.
    pub(super) fn default_bytes(&self, of: Id, json: &Json, budget: &mut Budget) -> Option<Vec<u8>> {
        let mut to = Vec::new();
        let most = MOST_TRIED.min(budget.0);
        let mut left = most;
        let done = self.put_default(of, json, &mut to, 0, &mut left);
        budget.0 -= most - left;
        done.map(|()| to)
    }

    #[allow(clippy::too_many_lines, reason = "one short arm for each type of a schema")]
    fn put_default(&self, of: Id, json: &Json, to: &mut Vec<u8>, depth: usize, left: &mut usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        *left = left.checked_sub(1)?;
        match (self.at(of), json) {
            (Type::Null, Json::Null) => {}
            (Type::Boolean, Json::Bool(value)) => to.push(u8::from(*value)),
            (Type::Int, Json::Int(value)) => put_long(to, i64::from(i32::try_from(*value).ok()?)),
            (Type::Long, Json::Int(value)) => put_long(to, *value),
            (Type::Float, number) => to.extend_from_slice(&(real(number)? as f32).to_le_bytes()),
            (Type::Double, number) => to.extend_from_slice(&real(number)?.to_le_bytes()),
            (Type::String, Json::Text(text)) => put_sized(to, text.as_bytes()),
            (Type::Bytes, Json::Text(text)) => put_sized(to, &bytes(text)?),
            (Type::Fixed(fixed), Json::Text(text)) => {
                to.extend(bytes(text).filter(|bytes| bytes.len() == fixed.size)?);
            }
            (Type::Enum(kind), Json::Text(text)) => {
                put_long(to, *kind.indexes.get(text)? as i64);
            }
            (Type::Array(items), Json::Array(list)) => {
                self.put_all(list.iter(), to, |item, to| self.put_default(*items, item, to, depth + 1, left))?;
            }
            (Type::Map(values), Json::Object(pairs)) => self.put_all(pairs.iter(), to, |(key, value), to| {
                put_sized(to, key.as_bytes());
                self.put_default(*values, value, to, depth + 1, left)
            })?,
            (Type::Record(record), Json::Object(pairs)) => {
                // Of duplicate names the last one counts.
                let given: HashMap<&str, &Json> = pairs.iter().map(|(name, value)| (&**name, value)).collect();
                for field in &record.fields {
                    let given = given.get(&*field.name).copied().or(field.default.as_ref())?;
                    self.put_default(field.of, given, to, depth + 1, left)?;
                }
            }
            // The first branch by the letter; others are common, and not ambiguous.
            (Type::Union(branches), json) => {
                let before = to.len();
                return branches.iter().enumerate().find_map(|(index, branch)| {
                    to.truncate(before);
                    put_long(to, index as i64);
                    self.put_default(*branch, json, to, depth + 1, left)
                });
            }
            _ => return None,
        }
        Some(())
    }

    fn put_all<T>(
        &self,
        items: impl ExactSizeIterator<Item = T>,
        to: &mut Vec<u8>,
        mut put: impl FnMut(T, &mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        if items.len() > 0 {
            put_long(to, items.len() as i64);
        }
        for item in items {
            put(item, to)?;
        }
        to.push(0);
        Some(())
    }
}

fn real(json: &Json) -> Option<f64> {
    match json {
        Json::Int(value) => Some(*value as f64),
        Json::Float(value) => Some(*value),
        // As Java's writes them.
        Json::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Characters 0 to 255 are bytes.
fn bytes(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}
