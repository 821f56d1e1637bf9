//! Blocks with their bytes counted: what Java's BlockingBinaryEncoder and others write, so that readers may skip them.
//! The bytes are written by hand, as the specification has them: a negative count of items, the bytes that these take,
//! the items; 0 ends. Numbers are zigzag: 1 is 02, -1 is 01, -2 is 03.

#[path = "support/avro.rs"]
mod support;

use pelton_core::decode::avro::{Framing, Schema, SchemaId, TopicSchemas};
use pelton_core::decode::{Refusal, Tree};
use serde_json::{Value, json};
use std::sync::Arc;
use support::shown;

fn schema(text: &Value) -> Schema {
    Schema::parse(&text.to_string(), &[] as &[&str]).expect("a schema")
}

fn read(writer: &Value, reader: Option<&Value>, document: &[u8]) -> Result<Value, String> {
    let topic = TopicSchemas::new(Framing::None, reader.map(|reader| Arc::new(schema(reader))));
    topic.learn(SchemaId::Own, &schema(writer));
    let mut tree = Tree::new();
    match topic.decode(&mut tree, document, 0, document.len()) {
        Ok(root) => Ok(shown(tree.node(document, root))),
        Err(Refusal::Malformed(why)) => Err(why.into_owned()),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn arrays_in_blocks_with_their_bytes_counted() {
    let ints = json!({ "type": "array", "items": "int" });
    // -2 items, 3 bytes: 1, 100; end
    assert_eq!(read(&ints, None, &[0x03, 0x06, 0x02, 0xc8, 0x01, 0x00]), Ok(json!([1, 100])));
    // -1 item, 1 byte: 1; 2 items without bytes: 2, 3; -1 item, 1 byte: 4; end
    let mixed = [0x01, 0x02, 0x02, 0x04, 0x04, 0x06, 0x01, 0x02, 0x08, 0x00];
    assert_eq!(read(&ints, None, &mixed), Ok(json!([1, 2, 3, 4])));
    // -65 items are two bytes of count (0x81 0x01), 65 bytes too (0x82 0x01)
    let many: Vec<u8> = [0x81, 0x01, 0x82, 0x01].into_iter().chain([0x02; 65]).chain([0x00]).collect();
    assert_eq!(read(&ints, None, &many), Ok(json!(vec![1; 65])));
    let strings = json!({ "type": "array", "items": "string" });
    // -2 items, 5 bytes: "ab" (04 61 62), "c" (02 63); end
    assert_eq!(read(&strings, None, &[0x03, 0x0a, 0x04, 0x61, 0x62, 0x02, 0x63, 0x00]), Ok(json!(["ab", "c"])));
}

#[test]
fn maps_and_nested_blocks_with_their_bytes_counted() {
    let map = json!({ "type": "map", "values": { "type": "array", "items": "int" } });
    // -1 pair, 7 bytes: "k" (02 6b), its value: -2 items, 2 bytes: 1, 2; end; end
    let nested = [0x01, 0x0e, 0x02, 0x6b, 0x03, 0x04, 0x02, 0x04, 0x00, 0x00];
    assert_eq!(read(&map, None, &nested), Ok(json!({ "k": [1, 2] })));
    // What follows them is still read: an array, then a string.
    let record = json!({ "type": "record", "name": "R", "fields": [
        { "name": "list", "type": { "type": "array", "items": "int" } }, { "name": "text", "type": "string" }] });
    let behind = [0x03, 0x04, 0x02, 0x04, 0x00, 0x02, 0x78];
    assert_eq!(read(&record, None, &behind), Ok(json!({ "list": [1, 2], "text": "x" })));
    // A reader that does not want the list reads over it.
    let narrow = json!({ "type": "record", "name": "R", "fields": [{ "name": "text", "type": "string" }] });
    assert_eq!(read(&record, Some(&narrow), &behind), Ok(json!({ "text": "x" })));
}

#[test]
fn blocks_that_lie_are_refused_or_read_by_their_items() {
    let ints = json!({ "type": "array", "items": "int" });
    // A reader that skips uses the number of bytes; otherwise the items are read one by one.
    assert_eq!(read(&ints, None, &[0x01, 0x7e, 0x02, 0x00]), Ok(json!([1])));
    assert_eq!(read(&ints, None, &[0x01, 0x02]), Err("it ends too early".to_owned()));
    assert_eq!(read(&ints, None, &[0x03, 0x04, 0x02, 0x00]), Err("it ends too early".to_owned()));
    // -2^63 items
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00];
    assert_eq!(read(&ints, None, &most), Err("it ends too early".to_owned()));
    let nulls = json!({ "type": "array", "items": "null" });
    assert_eq!(read(&nulls, None, &most), Err("it has more than 65536 items without bytes".to_owned()));
}
