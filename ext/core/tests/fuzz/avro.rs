//! Avro: random schemas, documents of theirs and changed ones, against a reader that is as simple as the specification.

use super::value::{Value, assert_same};
use super::{Fuzz, assert_little_memory, mutate, random};
use crate::random::Random;
use pelton_core::decode::avro::{Framing, Schema, SchemaId, TopicSchemas};
use pelton_core::decode::{Refusal, Tree};
use serde_json::json;

/// Documents per schema, because parsing a schema takes longer than parsing them.
const OF_A_SCHEMA: u64 = 200;
/// Items without bytes that a document may have.
const MOST_EMPTY: usize = 1 << 16;
const LIKELY: &[u8] = &[0, 0, 1, 2, 3, 4, 6, 8, 0x7f, 0x80, 0xff];

pub enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum(usize),
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    Record(Vec<Type>),
}

#[derive(Default)]
pub struct Avro {
    tree: Option<Tree>,
    chunk: Vec<u8>,
    /// The number of the schema that the others are of.
    block: Option<(u64, u64)>,
    schema: Option<(Type, TopicSchemas)>,
}

impl Fuzz for Avro {
    fn make(&mut self, seed: u64, index: u64, input: &mut Vec<u8>) {
        let block = (seed, index / OF_A_SCHEMA);
        if self.block != Some(block) {
            let kind = a_type(&mut random(seed, u64::MAX - block.1), 0);
            let text = as_json(&kind, &mut 0).to_string();
            let schema = Schema::parse(&text, &[] as &[&str]).unwrap_or_else(|error| panic!("{text}: {error}"));
            let topic = TopicSchemas::new(Framing::None, None);
            topic.learn(SchemaId::Own, &schema);
            (self.schema, self.block) = (Some((kind, topic)), Some(block));
        }
        let (kind, _) = self.schema.as_ref().expect("made above");
        let mut random = random(seed, index);
        document(kind, &mut random, input);
        if random.below(3) > 0 {
            mutate(&mut random, LIKELY, input);
        }
    }

    fn check(&mut self, input: &[u8]) -> bool {
        let tree = self.tree.get_or_insert_with(Tree::new);
        tree.clear();
        self.chunk.clear();
        self.chunk.extend([2; 5]);
        self.chunk.extend(input);
        self.chunk.extend([2; 9]);
        let (kind, topic) = self.schema.as_ref().expect("made before");
        let mut reader = Reader { rest: input, empty: 0 };
        let expected = reader.value(kind).filter(|_| reader.rest.is_empty());
        let found = topic.decode(tree, &self.chunk, 5, 5 + input.len());
        match (&found, &expected) {
            (Ok(root), Some(value)) => assert_same(tree.node(&self.chunk, *root), value),
            (Err(Refusal::Malformed(_)), None) => {}
            (found, expected) => panic!("{found:?}, expected {expected:?} of {}", as_json(kind, &mut 0)),
        }
        assert_little_memory(tree);
        found.is_ok()
    }
}

fn a_type(random: &mut Random, depth: usize) -> Type {
    let inner = |random: &mut Random| Box::new(a_type(random, depth + 1));
    match random.below(if depth > 3 { 10 } else { 16 }) {
        0 => Type::Null,
        1 => Type::Boolean,
        2 => Type::Int,
        3 => Type::Long,
        4 => Type::Float,
        5 => Type::Double,
        6 => Type::Bytes,
        7 => Type::String,
        8 => Type::Fixed(random.below(20)),
        9 => Type::Enum(1 + random.below(4)),
        10 | 11 => Type::Array(inner(random)),
        12 => Type::Map(inner(random)),
        // No two of a kind, none in another: by the specification.
        13 => Type::Union(vec![Type::Null, Type::String, Type::Long, *inner_record(random, depth)]),
        _ => *inner_record(random, depth),
    }
}

fn inner_record(random: &mut Random, depth: usize) -> Box<Type> {
    let count = random.below(6);
    Box::new(Type::Record((0..count).map(|_| a_type(random, depth + 1)).collect()))
}

/// `names`: how many are taken.
fn as_json(kind: &Type, names: &mut usize) -> serde_json::Value {
    let mut name = || {
        *names += 1;
        format!("n{names}")
    };
    match kind {
        Type::Null => json!("null"),
        Type::Boolean => json!("boolean"),
        Type::Int => json!("int"),
        Type::Long => json!("long"),
        Type::Float => json!("float"),
        Type::Double => json!("double"),
        Type::Bytes => json!("bytes"),
        Type::String => json!("string"),
        Type::Fixed(size) => json!({ "type": "fixed", "name": name(), "size": size }),
        Type::Enum(count) => {
            let symbols: Vec<String> = (0..*count).map(symbol).collect();
            json!({ "type": "enum", "name": name(), "symbols": symbols })
        }
        Type::Array(items) => json!({ "type": "array", "items": as_json(items, names) }),
        Type::Map(values) => json!({ "type": "map", "values": as_json(values, names) }),
        Type::Union(branches) => branches.iter().map(|branch| as_json(branch, names)).collect(),
        Type::Record(fields) => {
            let name = name();
            let field = |(index, kind)| json!({ "name": field_name(index), "type": as_json(kind, names) });
            let fields: Vec<serde_json::Value> = fields.iter().enumerate().map(field).collect();
            json!({ "type": "record", "name": name, "fields": fields })
        }
    }
}

fn symbol(index: usize) -> String {
    format!("S{index}")
}

fn field_name(index: usize) -> String {
    format!("field{index}")
}

fn put_long(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn document(kind: &Type, random: &mut Random, out: &mut Vec<u8>) {
    let count = random.below(4);
    match kind {
        Type::Null => {}
        Type::Boolean => out.push(random.below(2) as u8),
        Type::Int => put_long((random.next() as i32 >> random.below(32)).into(), out),
        Type::Long => put_long(random.next() as i64 >> random.below(64), out),
        Type::Float => (0..4).for_each(|_| out.push(random.next() as u8)),
        Type::Double => (0..8).for_each(|_| out.push(random.next() as u8)),
        Type::Bytes | Type::String => {
            let length = random.below(12);
            put_long(length as i64, out);
            (0..length).for_each(|_| out.push(random.next() as u8 & if random.below(9) == 0 { 0xff } else { 0x7f }));
        }
        Type::Fixed(size) => (0..*size).for_each(|_| out.push(random.next() as u8)),
        Type::Enum(count) => put_long(random.below(*count) as i64, out),
        Type::Array(_) | Type::Map(_) => {
            for _ in 0..count {
                let items = 1 + random.below(3);
                let mut block = Vec::new();
                for _ in 0..items {
                    if matches!(kind, Type::Map(_)) {
                        put_long(1, &mut block);
                        block.push(b'a' + random.below(3) as u8);
                    }
                    let (Type::Array(inner) | Type::Map(inner)) = kind else { return };
                    document(inner, random, &mut block);
                }
                if random.below(2) == 0 {
                    put_long(items as i64, out);
                } else {
                    put_long(-(items as i64), out);
                    put_long(block.len() as i64, out);
                }
                out.extend(block);
            }
            out.push(0);
        }
        Type::Union(branches) => {
            let index = random.below(branches.len());
            put_long(index as i64, out);
            document(&branches[index], random, out);
        }
        Type::Record(fields) => fields.iter().for_each(|field| document(field, random, out)),
    }
}

/// Nothing for what is no such document.
struct Reader<'a> {
    rest: &'a [u8],
    empty: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken.to_vec())
    }

    fn long(&mut self) -> Option<i64> {
        let mut value = 0u128;
        for place in 0..10 {
            let byte = self.take(1)?[0];
            value |= u128::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                let value = u64::try_from(value).ok()?;
                return Some((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        None
    }

    fn sized(&mut self) -> Option<Vec<u8>> {
        let length = self.long()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn blocks<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        loop {
            let count = self.long()?;
            if count == 0 {
                return Some(items);
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                let (left, empty) = (self.rest.len(), self.empty);
                items.push(item(self)?);
                if self.rest.len() == left && self.empty == empty {
                    self.empty += 1;
                    if self.empty > MOST_EMPTY {
                        return None;
                    }
                }
            }
        }
    }

    fn value(&mut self, kind: &Type) -> Option<Value> {
        Some(match kind {
            Type::Null => Value::Null,
            Type::Boolean => match self.take(1)?[0] {
                byte @ (0 | 1) => Value::Bool(byte == 1),
                _ => return None,
            },
            Type::Int => Value::Int(i32::try_from(self.long()?).ok()?.into()),
            Type::Long => Value::Int(self.long()?.into()),
            Type::Float => {
                let bytes = self.take(4)?.try_into().ok()?;
                Value::Float(f64::from(f32::from_le_bytes(bytes)).to_bits())
            }
            Type::Double => Value::Float(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            Type::Bytes => Value::Bytes(self.sized()?),
            Type::String => Value::Text(self.sized()?),
            Type::Fixed(size) => Value::Bytes(self.take(*size)?),
            Type::Enum(count) => {
                let index = usize::try_from(self.long()?).ok().filter(|index| index < count)?;
                Value::Text(symbol(index).into_bytes())
            }
            Type::Array(inner) => Value::List(self.blocks(|this| this.value(inner))?),
            Type::Map(inner) => Value::Pairs(self.blocks(|this| {
                let key = Value::Text(this.sized()?);
                Some((key, this.value(inner)?))
            })?),
            Type::Union(branches) => {
                let index = usize::try_from(self.long()?).ok()?;
                return self.value(branches.get(index)?);
            }
            Type::Record(fields) => {
                let mut pairs = Vec::new();
                for (index, field) in fields.iter().enumerate() {
                    pairs.push((Value::Text(field_name(index).into_bytes()), self.value(field)?));
                }
                Value::Pairs(pairs)
            }
        })
    }
}
