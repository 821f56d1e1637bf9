//! Random bytes at each decoder: whatever they are, the answer is a tree that can be walked or a refusal; never a
//! panic, and never much memory. A million inputs, seeded; `PELTON_FUZZ=<n>` multiplies them.

mod random;

use pelton_core::decode::avro::{Framing, Schema, SchemaId, TopicSchemas};
use pelton_core::decode::{Kind, Node, Tree};
use pelton_core::format::{Encoding, Format, Shape};
use random::Random;
use std::sync::Arc;

const INPUTS: usize = 250_000;
const LONGEST: usize = 64;

/// Walks all of it, and returns the number of values.
fn walk(node: Node<'_>) -> usize {
    match node.kind() {
        Kind::Array(items) => 1 + items.map(walk).sum::<usize>(),
        Kind::Object(fields) => 1 + fields.map(|(key, value)| walk(key) + walk(value)).sum::<usize>(),
        Kind::Str(text) => usize::from(text.bytes.len() <= 1 << 20),
        Kind::Decimal(bytes, _) => pelton_core::decode::avro::decimal::digits(bytes).len().min(1),
        _ => 1,
    }
}

/// Noise of some bytes that are `likely`, and others. How many were accepted, of how many.
fn accepted(format: &Format, seed: u64, likely: &[u8]) -> (usize, usize) {
    let rounds = INPUTS * std::env::var("PELTON_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let mut tree = Tree::new();
    let mut chunk = [0; LONGEST + 128];
    let mut accepted = 0;
    for round in 0..rounds {
        let (start, length) = (random.below(32), random.below(LONGEST));
        for byte in &mut chunk {
            *byte = if random.below(3) == 0 { random.next() as u8 } else { likely[random.below(likely.len())] };
        }
        tree.clear();
        if let Ok(root) = format.decode(&mut tree, &chunk, start, start + length) {
            accepted += 1;
            assert!(walk(tree.node(&chunk, root)) > 0);
        }
        assert!(tree.memory() < 32 << 20, "round {round}: {} bytes of memory", tree.memory());
    }
    (accepted, rounds)
}

fn format(encoding: Encoding) -> Format {
    Format::ahead(encoding, Shape::default())
}

#[test]
fn noise_for_json() {
    let (some, all) = accepted(&format(Encoding::Json), 1, b"{}[],:\"\\u0123456789.eE+-truefalsnl \n");
    assert!(some > 0 && some < all, "{some} of {all}");
}

#[test]
fn noise_for_msgpack() {
    let likely: Vec<u8> = (0x80..=0xdf).chain(0..16).collect();
    let (some, all) = accepted(&format(Encoding::MessagePack), 2, &likely);
    assert!(some > 0 && some < all, "{some} of {all}");
}

const SCHEMAS: [&str; 2] = [
    r#"{"type":"record","name":"R","fields":[
      {"name":"list","type":{"type":"array","items":["null","R","string",{"type":"map","values":"long"}]}},
      {"name":"kind","type":{"type":"enum","name":"E","symbols":["A","B"]}},
      {"name":"sum","type":["null",{"type":"bytes","logicalType":"decimal","precision":40,"scale":2}]},
      {"name":"empty","type":{"type":"array","items":"null"}}]}"#,
    r#"{"type":"array","items":["double","float","boolean",{"type":"bytes","logicalType":"big-decimal"},
      {"type":"fixed","name":"U","size":16,"logicalType":"uuid"},{"type":"long","logicalType":"timestamp-nanos"},
      {"type":"int","logicalType":"date"},{"type":"fixed","name":"D","size":12,"logicalType":"duration"},
      {"type":"map","values":"bytes"}]}"#,
];

fn avro(number: usize, framing: Framing, id: SchemaId) -> Format {
    let schema = Schema::parse(SCHEMAS[number], &[] as &[&str]);
    let topic = TopicSchemas::new(framing, None);
    topic.learn(id, &schema.unwrap_or_else(|error| panic!("{error}")));
    format(Encoding::Avro(Arc::new(topic)))
}

#[test]
fn noise_for_avro() {
    for number in 0..SCHEMAS.len() {
        let format = avro(number, Framing::None, SchemaId::Own);
        let (some, all) = accepted(&format, 3 + number as u64, &[0, 0, 0, 1, 2, 2, 3, 4, 6, 8, 10, 12, 0x80]);
        assert!(some > 0 && some < all, "{some} of {all}");
    }
}

#[test]
fn noise_for_framed_avro() {
    for (framing, id) in [(Framing::Registry, SchemaId::Number(0)), (Framing::SingleObject, SchemaId::Fingerprint(0))] {
        let (some, all) = accepted(&avro(0, framing, id), 9, &[0, 0, 0, 0xc3, 1, 2]);
        assert!(some < all, "{some} of {all}");
    }
}
