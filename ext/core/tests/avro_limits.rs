//! The largest schemas and documents of Avro that are read, and the names that they may have: what is at a limit is
//! read, and what is one beyond it is not.

use pelton_core::decode::avro::{Framing, Schema, SchemaId, TopicSchemas};
use pelton_core::decode::{Refusal, Tree};
use std::sync::Arc;

fn parsed(text: &str) -> Result<Schema, String> {
    Schema::parse(text, &[] as &[&str]).map_err(|why| why.0)
}

/// The size of what is read, or why it is not.
fn read(writer: &str, reader: Option<&str>, document: &[u8]) -> Result<usize, String> {
    let topic = TopicSchemas::new(Framing::None, reader.map(|text| Arc::new(parsed(text).expect("a schema"))));
    topic.learn(SchemaId::Own, &parsed(writer).expect("a schema"));
    let mut tree = Tree::new();
    match topic.decode(&mut tree, document, 0, document.len()) {
        Ok(root) => Ok(tree.node(document, root).size()),
        Err(Refusal::Malformed(why)) => Err(why.into_owned()),
        Err(other) => panic!("{other:?}"),
    }
}

/// As Avro writes an int or a long.
fn long(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [long(bytes.len() as i64), bytes.to_vec()].concat()
}

#[test]
fn a_schema_has_at_most_so_many_parts_and_a_union_so_many_branches() {
    let symbols = |count: usize| {
        let symbols = (0..count).map(|number| format!(r#""s{number}""#)).collect::<Vec<_>>().join(",");
        parsed(&format!(r#"{{"type":"enum","name":"E","symbols":[{symbols}]}}"#)).map(drop)
    };
    assert_eq!(Ok(()), symbols((1 << 18) - 1));
    assert!(symbols(1 << 18).is_err_and(|why| why.contains("more than 262144 types")));
    let union = |count: usize| {
        let fixed = |number| format!(r#"{{"type":"fixed","name":"F{number}","size":1}}"#);
        parsed(&format!("[{}]", (0..count).map(fixed).collect::<Vec<_>>().join(","))).map(drop)
    };
    assert_eq!(Ok(()), union(1024));
    assert!(union(1025).is_err_and(|why| why.contains("at most 1024")));
}

#[test]
fn a_schema_has_at_most_so_many_bytes_with_its_references() {
    const MOST: usize = 4 << 20;
    let blanks = |count: usize| format!(r#""int"{}"#, " ".repeat(count - 5));
    assert_eq!(Some(MOST), parsed(&blanks(MOST)).ok().map(|schema| schema.bytes()));
    assert!(parsed(&blanks(MOST + 1)).is_err_and(|why| why.contains("4194305 bytes")));
    let together = |count| Schema::parse(&blanks(10), &[blanks(count)]).map(|schema| schema.bytes()).ok();
    assert_eq!((Some(MOST), None), (together(MOST - 10), together(MOST - 9)));
}

#[test]
fn a_list_has_at_most_so_many_items_without_bytes() {
    let nulls = |count: i64| read(r#"{"type":"array","items":"null"}"#, None, &[long(count), vec![0]].concat());
    assert_eq!(Ok(65_536), nulls(65_536));
    assert!(nulls(65_537).is_err_and(|why| why.contains("more than 65536 items")));
}

#[test]
fn a_decimal_has_at_most_so_many_bytes() {
    let schema = r#"{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}"#;
    let decimal = |size: usize| read(schema, None, &sized(&vec![0; size]));
    assert_eq!(Ok(0), decimal(66));
    assert_eq!(Err("a decimal of precision 4 has 67 bytes".into()), decimal(67));
}

#[test]
fn a_big_decimal_has_at_most_so_many_bytes_and_so_many_digits() {
    let schema = r#"{"type":"bytes","logicalType":"big-decimal"}"#;
    let decimal = |size: usize, scale: i64| read(schema, None, &sized(&[sized(&vec![1; size]), long(scale)].concat()));
    assert_eq!([Ok(0), Ok(0), Ok(0)], [decimal(1024, 0), decimal(1, 4096), decimal(1, -4096)]);
    assert!(decimal(1025, 0).is_err_and(|why| why.contains("has 1025 bytes")));
    assert!(decimal(1, 4097).is_err_and(|why| why.contains("the scale 4097")));
    assert!(decimal(1, -4097).is_err_and(|why| why.contains("the scale -4097")));
}

#[test]
fn a_default_has_at_most_so_many_values() {
    let writer = r#"{"type":"record","name":"R","fields":[]}"#;
    let with_default = |count: usize| {
        let items = vec!["0"; count].join(",");
        let field = format!(r#"{{"name":"a","type":{{"type":"array","items":"int"}},"default":[{items}]}}"#);
        read(writer, Some(&format!(r#"{{"type":"record","name":"R","fields":[{field}]}}"#)), &[])
    };
    assert_eq!(Ok(1), with_default(65_535));
    assert!(with_default(65_536).is_err_and(|why| why.contains("has a default of another type")));
}

#[test]
fn a_name_consists_of_words() {
    for (name, valid) in [
        ("a", true),
        ("_a1.B_", true),
        ("", false),
        ("1a", false),
        ("a-b", false),
        ("a..b", false),
        (".a", false),
        ("a.1", false),
        ("ä", false),
    ] {
        let found = parsed(&format!(r#"{{"type":"fixed","name":"{name}","size":1}}"#));
        assert_eq!(valid, found.is_ok(), "{name:?}");
        let field = format!(r#"{{"name":"{name}","type":"int"}}"#);
        let found = parsed(&format!(r#"{{"type":"record","name":"R","fields":[{field}]}}"#));
        assert_eq!(valid && !name.contains('.'), found.is_ok(), "the field {name:?}");
    }
}
