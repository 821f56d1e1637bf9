//! librdkafka's statistics as Ruby objects. A consumer's statistics contain all partitions of its topics: megabytes in
//! a large cluster. Only partitions that are assigned to it ("desired") become objects.

use crate::value::{self, build};
use magnus::{Error, IntoValue, RHash, Ruby, Value};
use pelton_core::decode::{Kind, Node, Text};
use std::collections::HashSet;

pub fn build(ruby: &Ruby, root: Node<'_>) -> Result<Value, Error> {
    let Some(Kind::Str(Text { bytes: b"consumer", .. })) = root.get(b"type").map(Node::kind) else {
        return plain(root);
    };
    let assigned = assigned(root);
    let is_assigned = |name: &[u8], topic: &[u8]| assigned.contains(&(topic.to_vec(), name.to_vec()));
    fields(ruby, root, |name, node| match name {
        b"topics" => fields(ruby, node, |topic, node| {
            fields(ruby, node, |name, node| match name {
                b"partitions" => some(ruby, node, |number| is_assigned(number, topic)),
                _ => plain(node),
            })
        }),
        b"brokers" => fields(ruby, node, |_, node| {
            fields(ruby, node, |name, node| match name {
                b"toppars" => some(ruby, node, |key| {
                    let dash = key.iter().rposition(|byte| *byte == b'-').unwrap_or_default();
                    is_assigned(key.get(dash + 1..).unwrap_or_default(), &key[..dash])
                }),
                _ => plain(node),
            })
        }),
        _ => plain(node),
    })
}

/// (topic, number) of each assigned partition.
fn assigned(root: Node<'_>) -> HashSet<(Vec<u8>, Vec<u8>)> {
    let mut found = HashSet::new();
    for (topic, node) in pairs(root.get(b"topics")) {
        for (number, node) in pairs(node.get(b"partitions")) {
            if matches!(node.get(b"desired").map(Node::kind), Some(Kind::True)) {
                found.insert((topic.bytes.to_vec(), number.bytes.to_vec()));
            }
        }
    }
    found
}

fn pairs<'a>(node: Option<Node<'a>>) -> impl Iterator<Item = (Text<'a>, Node<'a>)> {
    let fields = match node.map(Node::kind) {
        Some(Kind::Object(fields)) => Some(fields),
        _ => None,
    };
    fields.into_iter().flatten().filter_map(|(name, node)| match name.kind() {
        Kind::Str(name) => Some((name, node)),
        _ => None,
    })
}

fn plain(node: Node<'_>) -> Result<Value, Error> {
    build::build(node, build::BuildOptions::default())
}

/// A Hash of what `make` makes of each field.
fn fields(ruby: &Ruby, node: Node<'_>, make: impl Fn(&[u8], Node<'_>) -> Result<Value, Error>) -> Result<Value, Error> {
    let hash = ruby.hash_new();
    pairs(Some(node)).try_for_each(|(name, node)| set(hash, name, make(name.bytes, node)?))?;
    Ok(hash.into_value_with(ruby))
}

/// A Hash of the fields whose names are wanted.
fn some(ruby: &Ruby, node: Node<'_>, wanted: impl Fn(&[u8]) -> bool) -> Result<Value, Error> {
    let hash = ruby.hash_new();
    let mut wanted = pairs(Some(node)).filter(|(name, _)| wanted(name.bytes));
    wanted.try_for_each(|(name, node)| set(hash, name, plain(node)?))?;
    Ok(hash.into_value_with(ruby))
}

fn set(hash: RHash, name: Text<'_>, value: Value) -> Result<(), Error> {
    hash.aset(value::interned(std::str::from_utf8(name.bytes).unwrap_or_default())?, value)
}
