//! Texts of Avro schemas, most of them changed somewhere, and documents read with one of them as another wants them: an
//! answer or an error, whatever they are.

use super::{Fuzz, assert_little_memory, mutate, random};
use pelton_core::decode::avro::{Framing, Schema, SchemaId, TopicSchemas};
use pelton_core::decode::{Kind, Node, Tree};
use std::sync::Arc;

const LIKELY: &[u8] = b"{}[]\",:0123456789-ainrtsu\\ .";
const SCHEMAS: [&str; 8] = [
    r#"{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","R"],"default":null}]}"#,
    r#"{"type":"record","name":"R","fields":[{"name":"b","type":["null","R"],"default":null},{"name":"c","type":"long","default":7}]}"#,
    r#"{"type":"array","items":{"type":"map","values":["int","string",{"type":"enum","name":"E","symbols":["A","B"],"default":"A"}]}}"#,
    r#"{"type":"array","items":{"type":"map","values":["long","bytes",{"type":"enum","name":"E","symbols":["B","C"]}]}}"#,
    r#"{"type":"record","name":"n.R","aliases":["S"],"fields":[{"name":"d","aliases":["a"],"type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},{"name":"f","type":{"type":"fixed","name":"F","size":16,"logicalType":"uuid"}}]}"#,
    r#"["null",{"type":"long","logicalType":"timestamp-micros"},{"type":"bytes","logicalType":"big-decimal"},"double"]"#,
    r#"{"type":"record","name":"S","fields":[{"name":"a","type":{"type":"array","items":"null"}},{"name":"s","type":["string","int"],"default":"x"}]}"#,
    r#""bytes""#,
];

#[derive(Default)]
pub struct Schemas {
    tree: Option<Tree>,
}

impl Fuzz for Schemas {
    /// The writer's schema, a zero, the reader's, a zero, a document.
    fn make(&mut self, seed: u64, index: u64, input: &mut Vec<u8>) {
        let mut random = random(seed, index);
        let first = random.below(SCHEMAS.len());
        for place in [first, if random.below(2) == 0 { first ^ 1 } else { random.below(SCHEMAS.len()) }] {
            let mut text = SCHEMAS[place].as_bytes().to_vec();
            if random.below(3) == 0 {
                mutate(&mut random, LIKELY, &mut text);
            }
            text.retain(|byte| *byte != 0);
            input.extend(text);
            input.push(0);
        }
        (0..random.below(24)).for_each(|_| input.push(if random.below(3) == 0 { random.next() as u8 } else { 2 }));
    }

    fn check(&mut self, input: &[u8]) -> bool {
        let mut parts = input.splitn(3, |byte| *byte == 0);
        let mut schema = || {
            let text = String::from_utf8_lossy(parts.next().unwrap_or_default());
            Schema::parse(&text, &[] as &[&str])
        };
        let (writer, reader) = (schema(), schema());
        let document = parts.next().unwrap_or_default();
        let (Ok(writer), Ok(reader)) = (writer, reader) else { return false };
        assert_eq!(canonical(&writer).fingerprint(), writer.fingerprint());
        let tree = self.tree.get_or_insert_with(Tree::new);
        tree.clear();
        let topic = TopicSchemas::new(Framing::None, Some(Arc::new(reader)));
        topic.learn(SchemaId::Own, &writer);
        let root = topic.decode(tree, document, 0, document.len());
        let accepted = root.is_ok_and(|root| walk(tree.node(document, root)) > 0);
        assert_little_memory(tree);
        accepted
    }
}

/// The canonical form of a schema is one, and its own canonical form.
fn canonical(schema: &Schema) -> Schema {
    let text = schema.canonical();
    let again = Schema::parse(&text, &[] as &[&str]).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(again.canonical(), text);
    again
}

fn walk(node: Node<'_>) -> usize {
    match node.kind() {
        Kind::Array(items) => 1 + items.map(walk).sum::<usize>(),
        Kind::Object(fields) => 1 + fields.map(|(key, value)| walk(key) + walk(value)).sum::<usize>(),
        _ => 1,
    }
}
