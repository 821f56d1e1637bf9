//! Avro cases that the vectors of Java's reader do not cover: logical types that it ignores, aliases, and bytes behind
//! Confluent's frame.

#[path = "support/avro.rs"]
mod support;

use pelton_core::decode::avro::{Datum, Framing, Schema, SchemaId, TopicSchemas, encode, encode_framed};
use pelton_core::decode::{Refusal, Tree};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{hex, shown};

/// Reads a document of the writer's as the reader wants it.
fn resolved(writer: &str, reader: &str, document: &[u8]) -> Result<Value, String> {
    let parse = |text| Schema::parse(text, &[] as &[&str]).unwrap_or_else(|error| panic!("{text}: {error}"));
    let topic = TopicSchemas::new(Framing::None, Some(Arc::new(parse(reader))));
    topic.learn(SchemaId::Own, &parse(writer));
    let mut tree = Tree::new();
    match topic.decode(&mut tree, document, 0, document.len()) {
        Ok(root) => Ok(shown(tree.node(document, root))),
        Err(Refusal::Malformed(why)) => Err(why.into_owned()),
        Err(other) => panic!("{other:?}"),
    }
}

/// A time of 1000 ms would be one of 1000 µs, day 20,000 a moment in 1970.
#[test]
fn a_promotion_makes_no_other_value_of_a_logical_type() {
    let logical = |of: &str, name: &str| format!(r#"{{"type":"{of}","logicalType":"{name}"}}"#);
    let (millis, micros) = (logical("int", "time-millis"), logical("long", "time-micros"));
    let (date, moment) = (logical("int", "date"), logical("long", "timestamp-millis"));
    let refused = |writer: &str, reader: &str| resolved(writer, reader, &[0x54]).expect_err("it is another value");
    assert_eq!(
        refused(&millis, &micros),
        "the writer's schema has int (time-millis), the reader's has long (time-micros)"
    );
    assert_eq!(refused(&date, &moment), "the writer's schema has int (date), the reader's has long (timestamp-millis)");
    assert_eq!(
        refused(&date, &format!(r#"["null",{moment}]"#)),
        "the writer's schema has int (date), the reader's has union"
    );
    let decimal = r#"{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}"#;
    assert_eq!(
        refused(decimal, &logical("string", "uuid")),
        "the writer's schema has bytes (decimal(4, 2)), the reader's has string (uuid)"
    );
    // If one of them says nothing, the reader's schema decides.
    assert_eq!(resolved("\"int\"", &moment, &[0x54]), Ok(json!({ "$time": [0, 42_000_000] })));
    assert_eq!(resolved(&date, "\"long\"", &[0x54]), Ok(json!(42)));
    assert_eq!(resolved(&date, &format!("[{moment},{date}]"), &[0x54]), Ok(json!({ "$days": 42 })));
}

#[test]
fn an_alias_is_for_a_field_that_is_not_there_by_its_name() {
    let record = |fields: &str| format!(r#"{{"type":"record","name":"R","fields":[{fields}]}}"#);
    let both = record(r#"{"name":"customer","type":"int"},{"name":"customer_id","type":"int"}"#);
    let turned = record(r#"{"name":"customer_id","type":"int"},{"name":"customer","type":"int"}"#);
    let old = record(r#"{"name":"customer","type":"int"}"#);
    let reader = record(r#"{"name":"customer_id","aliases":["customer"],"type":"int"}"#);
    assert_eq!(resolved(&both, &reader, &[2, 4]), Ok(json!({ "customer_id": 2 })));
    assert_eq!(resolved(&turned, &reader, &[2, 4]), Ok(json!({ "customer_id": 1 })));
    assert_eq!(resolved(&old, &reader, &[2]), Ok(json!({ "customer_id": 1 })));
    // Two fields that had its name one after the other: the first that was written.
    let twice = record(r#"{"name":"a","type":"int"},{"name":"b","type":"int"}"#);
    let aliases = record(r#"{"name":"c","aliases":["b","a"],"type":"int"}"#);
    assert_eq!(resolved(&twice, &aliases, &[2, 4]), Ok(json!({ "c": 1 })));
}

/// As Confluent's Java clients write and read them.
#[test]
fn bytes_alone_have_no_length_behind_confluents_frame() {
    let parse = |text: &str| Schema::parse(text, &[] as &[&str]).expect("a schema");
    let written = |text: &str, value: Datum| {
        let (mut framed, mut plain) = (vec![9], vec![9]);
        encode_framed(&parse(text), &value, &mut framed).expect("it fits");
        encode(&parse(text), &value, &mut plain).expect("it fits");
        (framed.split_off(1), plain.split_off(1))
    };
    assert_eq!(written("\"bytes\"", Datum::Bytes(b"hello".to_vec())), (b"hello".to_vec(), b"\x0ahello".to_vec()));
    assert_eq!(written("\"bytes\"", Datum::Bytes(Vec::new())), (Vec::new(), vec![0]));
    let long = Datum::Bytes(vec![0x80; 300]);
    assert_eq!(written("\"bytes\"", long.clone()), (vec![0x80; 300], [vec![0xd8, 0x04], vec![0x80; 300]].concat()));
    assert_eq!(written("\"string\"", Datum::Text("a".into())).0, b"\x02a");

    let read = |framing: Framing, writer: &str, reader: Option<&str>, payload: &[u8]| {
        let topic = TopicSchemas::new(framing, reader.map(|reader| Arc::new(parse(reader))));
        let header = (framing == Framing::Registry).then_some(&[0, 0, 0, 0, 7][..]);
        let id = if header.is_some() { SchemaId::Number(7) } else { SchemaId::Own };
        topic.learn(id, &parse(writer));
        let mut tree = Tree::new();
        let root =
            topic.decode_named(&mut tree, payload, 0..payload.len(), header).map_err(|error| format!("{error:?}"));
        root.map(|root| shown(tree.node(payload, root)))
    };
    let bytes = |text: &[u8]| Ok(json!({ "$bytes": hex(text) }));
    assert_eq!(read(Framing::Registry, "\"bytes\"", None, b"hello"), bytes(b"hello"));
    assert_eq!(read(Framing::Registry, "\"bytes\"", None, b"\x02a"), bytes(b"\x02a"));
    assert_eq!(read(Framing::Registry, "\"bytes\"", None, b""), bytes(b""));
    assert_eq!(read(Framing::Registry, "\"bytes\"", Some("\"string\""), b"hello"), Ok(json!("hello")));
    assert_eq!(read(Framing::Registry, "\"bytes\"", Some(r#"["null","bytes"]"#), b"hello"), bytes(b"hello"));
    assert_eq!(read(Framing::Registry, r#"["null","bytes"]"#, None, b"\x02\x02a"), bytes(b"a"));
    assert_eq!(read(Framing::Registry, "\"string\"", Some("\"bytes\""), b"\x02a"), bytes(b"a"));
    assert_eq!(read(Framing::None, "\"bytes\"", None, b"\x02a"), bytes(b"a"));
}

/// Fields of the local clock are what is written; of other timestamps, the moment.
#[test]
fn a_local_timestamp_is_what_the_clock_showed() {
    let noon = Datum::Time { seconds: 36_000, nanos: 5_000_000, offset: 7200 };
    for (name, millis) in [("timestamp-millis", 36_000_005), ("local-timestamp-millis", 43_200_005)] {
        let text = format!(r#"{{"type":"long","logicalType":"{name}"}}"#);
        let mut document = Vec::new();
        encode(&Schema::parse(&text, &[] as &[&str]).expect("a schema"), &noon, &mut document).expect("it fits");
        assert_eq!(resolved(&text, "\"long\"", &document), Ok(json!(millis)));
    }
}
