//! Values as simple readers make them, which the trees of the decoders are compared with.

use pelton_core::decode::{Kind, Node};

#[derive(Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    /// Its bits.
    Float(u64),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
    Extension(i8, Vec<u8>),
    List(Vec<Value>),
    Pairs(Vec<(Value, Value)>),
}

/// Panics where the two are not the same.
pub fn assert_same(node: Node<'_>, value: &Value) {
    let same = match (node.kind(), value) {
        (Kind::Null, Value::Null) => true,
        (Kind::True, Value::Bool(value)) => *value,
        (Kind::False, Value::Bool(value)) => !*value,
        (Kind::Int(int), Value::Int(value)) => i128::from(int) == *value,
        (Kind::Unsigned(int), Value::Int(value)) => int > i64::MAX as u64 && i128::from(int) == *value,
        (Kind::Float(float), Value::Float(bits)) => float.to_bits() == *bits,
        (Kind::Str(text), Value::Text(bytes)) => {
            let valid = std::str::from_utf8(bytes).is_ok();
            text.bytes == bytes && text.ascii == bytes.is_ascii() && text.valid == valid
        }
        (Kind::Bytes(found), Value::Bytes(bytes)) => found == bytes,
        (Kind::Extension(kind, found), Value::Extension(number, bytes)) => kind == *number && found == bytes,
        (Kind::Array(items), Value::List(values)) => {
            assert_eq!((items.len(), node.size()), (values.len(), values.len()));
            items.zip(values).for_each(|(item, value)| assert_same(item, value));
            true
        }
        (Kind::Object(fields), Value::Pairs(pairs)) => {
            assert_eq!(fields.len(), pairs.len());
            for ((key, value), (its_key, its_value)) in fields.zip(pairs) {
                assert_same(key, its_key);
                assert_same(value, its_value);
            }
            true
        }
        _ => false,
    };
    assert!(same, "another value than {value:?}");
}
