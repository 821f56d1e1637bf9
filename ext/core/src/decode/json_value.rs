//! A JSON document as owned values, for documents that are read rarely and kept: schemas.

use super::{Kind, Node, Tree};
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Array(Vec<Json>),
    Object(Vec<(Box<str>, Json)>),
}

/// Types of a schema nest 100 deep at most, and each takes up to four levels of JSON.
const MAX_DEPTH: usize = 512;

impl Json {
    /// `None` where it is not valid JSON that the native parser takes; it takes all numbers here.
    pub(super) fn parse(document: &[u8]) -> Option<Self> {
        let mut tree = Tree::new();
        let root = tree.parse_nested::<MAX_DEPTH>(document, 0, document.len()).ok()?;
        Some(Self::from(tree.node(document, root)))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Json> {
        let Self::Object(fields) = self else { return None };
        fields.iter().rev().find(|(key, _)| **key == *name).map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn integer(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }
}

fn owned(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}

/// The parser bounds the depth.
impl From<Node<'_>> for Json {
    fn from(node: Node<'_>) -> Self {
        match node.kind() {
            Kind::True => Self::Bool(true),
            Kind::False => Self::Bool(false),
            Kind::Int(value) => Self::Int(value),
            Kind::Float(value) => Self::Float(value),
            Kind::Str(text) => Self::Text(owned(text.bytes)),
            Kind::Array(items) => Self::Array(items.map(Self::from).collect()),
            Kind::Object(fields) => {
                let name = |key: Node<'_>| key.text().map_or_else(Box::default, |text| owned(text.bytes));
                Self::Object(fields.map(|(key, value)| (name(key), Self::from(value))).collect())
            }
            _ => Self::Null,
        }
    }
}

/// For errors: short.
impl fmt::Display for Json {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => to.write_str("null"),
            Self::Bool(value) => write!(to, "{value}"),
            Self::Int(value) => write!(to, "{value}"),
            Self::Float(value) => write!(to, "{value}"),
            Self::Text(text) => write!(to, "{text:?}"),
            Self::Array(_) => to.write_str("[…]"),
            Self::Object(_) => match self.get("name").and_then(Self::text) {
                Some(name) => write!(to, "{{\"name\": {name:?}, …}}"),
                None => to.write_str("{…}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of schemas are no payload's, so Ruby's JSON does not decide about them.
    #[test]
    fn numbers_are_those_that_json_has() {
        let float = |text: &str| match Json::parse(text.as_bytes()) {
            Some(Json::Float(value)) => Some(value),
            _ => None,
        };
        assert_eq!([Some(1e23), Some(-0.5e-320), Some(1e300)], ["1e23", "-0.5e-320", "1.0e+300"].map(float));
        for text in ["01", "-01", "00.5", "1.", ".5", "-.5", "1e", "+1", "-", "1.2.3"] {
            assert!(Json::parse(text.as_bytes()).is_none(), "{text}");
        }
    }
}
