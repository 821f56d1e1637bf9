//! Avro compared with the results of Apache's Java library for the same schemas and bytes (test/vectors/avro), and with
//! damaged bytes.

#[path = "support/avro.rs"]
mod support;

use pelton_core::decode::avro::{Datum, Framing, Schema, SchemaId, TopicSchemas, encode};
use pelton_core::decode::{Kind, Node, Refusal, Tree};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{bytes, days, hex, shown};

const VECTORS: &str = include_str!("../../../test/vectors/avro/vectors.jsonl");

fn vectors() -> impl Iterator<Item = Value> {
    VECTORS.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"))
}

fn schema(text: &Value) -> Schema {
    let text = text.as_str().expect("a schema is text");
    Schema::parse(text, &[] as &[&str]).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn topic(vector: &Value) -> TopicSchemas {
    let reader = vector.get("reader").map(|reader| Arc::new(schema(reader)));
    let topic = TopicSchemas::new(Framing::None, reader);
    topic.learn(SchemaId::Own, &schema(&vector["writer"]));
    topic
}

fn wanted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(wanted).collect(),
        Value::Object(fields) => match fields.get("$date") {
            Some(date) => json!({ "$days": days(date.as_str().expect("a date")) }),
            None => Value::Object(fields.iter().map(|(key, value)| (key.clone(), wanted(value))).collect()),
        },
        other => other.clone(),
    }
}

fn datum(node: Node<'_>) -> Datum {
    match node.kind() {
        Kind::Null => Datum::Null,
        Kind::True => Datum::Bool(true),
        Kind::False => Datum::Bool(false),
        Kind::Int(value) => Datum::Int(value),
        Kind::Float(value) => Datum::Float(value),
        Kind::Str(text) => Datum::Text(String::from_utf8(text.bytes.to_vec()).expect("UTF-8")),
        Kind::Bytes(bytes) => Datum::Bytes(bytes.to_vec()),
        Kind::Array(items) => Datum::Array(items.map(datum).collect()),
        Kind::Object(fields) => Datum::Map(
            fields
                .map(|(key, value)| {
                    let Datum::Text(key) = datum(key) else { unreachable!("a name") };
                    (key, datum(value))
                })
                .collect(),
        ),
        Kind::Decimal(bytes, scale) => Datum::Decimal { unscaled: bytes.to_vec(), scale: scale.into() },
        Kind::Date(days) => Datum::Date(days.into()),
        Kind::Time(value, unit) => {
            let unit = unit.per_second();
            let nanos = (value.rem_euclid(unit) * (1_000_000_000 / unit)) as u32;
            Datum::Time { seconds: value.div_euclid(unit), nanos, offset: 0 }
        }
        Kind::Unsigned(_) | Kind::Extension(..) => unreachable!("Avro has none"),
    }
}

#[test]
fn schemas_have_javas_canonical_forms_and_fingerprints() {
    for vector in vectors() {
        let schema = schema(&vector["writer"]);
        assert_eq!(vector["canonical"].as_str(), Some(&*schema.canonical()));
        assert_eq!(vector["fingerprint"].as_str(), Some(&*schema.fingerprint().to_string()), "{}", vector["writer"]);
    }
}

#[test]
fn documents_mean_what_java_reads() {
    let mut count = 0;
    for vector in vectors() {
        let (topic, mut tree) = (topic(&vector), Tree::new());
        for document in vector["documents"].as_array().expect("a list") {
            let bytes = bytes(document["bytes"].as_str().expect("hex"));
            let read = topic.decode(&mut tree, &bytes, 0, bytes.len());
            match (read, document.get("value")) {
                (Ok(root), Some(value)) => {
                    assert_eq!(shown(tree.node(&bytes, root)), wanted(value), "{} {document}", vector["writer"]);
                }
                (Err(Refusal::Malformed(_)), None) => {}
                (other, _) => panic!("{} => {}: {other:?} of {document}", vector["writer"], vector["reader"]),
            }
            count += 1;
        }
    }
    assert!(count > 500, "{count} documents");
}

#[test]
fn values_become_javas_bytes() {
    for vector in vectors().filter(|vector| vector.get("reader").is_none()) {
        let (topic, schema) = (topic(&vector), schema(&vector["writer"]));
        for document in vector["documents"].as_array().expect("a list") {
            let bytes = bytes(document["bytes"].as_str().expect("hex"));
            let mut tree = Tree::new();
            let root = topic.decode(&mut tree, &bytes, 0, bytes.len()).expect("it was read before");
            let mut again = Vec::new();
            encode(&schema, &datum(tree.node(&bytes, root)), &mut again).expect("what was read can be written");
            assert_eq!(hex(&again), hex(&bytes), "{}", vector["writer"]);
        }
    }
}

/// Walks all of it, as a builder does.
fn size(node: Node<'_>) -> usize {
    1 + match node.kind() {
        Kind::Array(items) => items.map(size).sum(),
        Kind::Object(fields) => fields.map(|(key, value)| size(key) + size(value)).sum(),
        _ => 0,
    }
}

#[test]
fn broken_documents_are_refused_or_read_but_never_more() {
    let mut state = 0x2026_1122u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let mut refused = 0;
    for vector in vectors() {
        let (topic, mut tree) = (topic(&vector), Tree::new());
        for document in vector["documents"].as_array().expect("a list") {
            let whole = bytes(document["bytes"].as_str().expect("hex"));
            for cut in 0..whole.len() {
                let end = tree.end();
                refused += usize::from(topic.decode(&mut tree, &whole, 0, cut).is_err());
                tree.cut(end);
            }
            for _ in 0..200 {
                let mut broken = whole.clone();
                for _ in 0..=random(3) {
                    let at = random(broken.len());
                    match (random(4), broken.is_empty()) {
                        (0, false) => broken[at] = random(256) as u8,
                        (1, false) => broken[at] ^= 1 << random(8),
                        (2, false) => drop(broken.remove(at)),
                        _ => broken.insert(at, [0xff, 0x7f, 0x80, 0x01][random(4)]),
                    }
                }
                tree.clear();
                match topic.decode(&mut tree, &broken, 0, broken.len()) {
                    Ok(root) => assert!(size(tree.node(&broken, root)) <= 2 * (1 << 16) + 64 * broken.len().max(1)),
                    Err(_) => refused += 1,
                }
                assert!(tree.memory() < 8 << 20, "{} bytes of memory for {broken:02x?}", tree.memory());
            }
        }
    }
    assert!(refused > 1000, "{refused} refused");
}

fn plain(writer: &str) -> TopicSchemas {
    let topic = TopicSchemas::new(Framing::None, None);
    topic.learn(SchemaId::Own, &Schema::parse(writer, &[] as &[&str]).expect("a schema"));
    topic
}

fn refusal(topic: &TopicSchemas, document: &[u8]) -> String {
    match topic.decode(&mut Tree::new(), document, 0, document.len()) {
        Err(Refusal::Malformed(why)) => why.into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lengths_that_lie_take_no_memory() {
    // 2^62 nulls, empty records, bytes, items.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    let nulls = plain(r#"{"type":"array","items":"null"}"#);
    assert_eq!(refusal(&nulls, &huge), "it has more than 65536 items without bytes");
    let empty = plain(r#"{"type":"array","items":{"type":"record","name":"E","fields":[]}}"#);
    assert_eq!(refusal(&empty, &huge), "it has more than 65536 items without bytes");
    assert_eq!(refusal(&plain(r#""bytes""#), &huge), "it ends too early");
    assert_eq!(refusal(&plain(r#"{"type":"array","items":"int"}"#), &huge), "it ends too early");
    assert_eq!(refusal(&plain(r#""string""#), &[0x01]), "-1 is not a valid length");
    assert_eq!(refusal(&plain(r#""long""#), &[0xff; 10]), "a number has more than 64 bits");
    assert_eq!(refusal(&plain(r#""int""#), &[0x80, 0x80, 0x80, 0x80, 0x10]), "an int has more than 32 bits");
    assert_eq!(refusal(&plain(r#""int""#), &[0x02, 0x00]), "1 extra bytes after the value");
    assert_eq!(refusal(&plain(r#"["null","int"]"#), &[0x04]), "a union has no such branch");
    assert_eq!(refusal(&plain(r#""boolean""#), &[2]), "2 is not a boolean");
    // A skipped field ends, too.
    let reader = Schema::parse(r#"{"type":"record","name":"R","fields":[]}"#, &[] as &[&str]).expect("a schema");
    let writer = r#"{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":"null"}}]}"#;
    let skipping = TopicSchemas::new(Framing::None, Some(Arc::new(reader)));
    skipping.learn(SchemaId::Own, &Schema::parse(writer, &[] as &[&str]).expect("a schema"));
    assert_eq!(refusal(&skipping, &huge), "it has more than 65536 items without bytes");
}

/// A document of one byte, which never ended: 2^n skips read no byte.
#[test]
fn records_that_double_at_each_level_are_not_read_over_for_ever() {
    let skipping = |junk: &str| {
        let record = |fields: &str| {
            let text = format!(r#"{{"type":"record","name":"R","fields":[{fields}{{"name":"id","type":"long"}}]}}"#);
            Schema::parse(&text, &[] as &[&str]).expect("a schema")
        };
        let topic = TopicSchemas::new(Framing::None, Some(Arc::new(record(""))));
        topic.learn(SchemaId::Own, &record(&format!(r#"{{"name":"junk","type":{junk}}},"#)));
        topic
    };
    let doubling = |levels: usize| {
        (1..=levels).fold(r#"{"type":"record","name":"D0","fields":[]}"#.to_owned(), |inside, level| {
            let below = level - 1;
            let fields = format!(r#"{{"name":"a","type":{inside}}},{{"name":"b","type":"D{below}"}}"#);
            format!(r#"{{"type":"record","name":"D{level}","fields":[{fields}]}}"#)
        })
    };
    let read =
        |topic: &TopicSchemas, document: &[u8]| topic.decode(&mut Tree::new(), document, 0, document.len()).is_ok();
    assert_eq!(refusal(&skipping(&doubling(60)), &[2]), "it has more than 65536 items without bytes");
    // 2^16 − 1 of them, and as many as may be in a list: each counts once.
    assert!(read(&skipping(&doubling(15)), &[2]));
    let most = [0x80, 0x80, 0x08, 0x00, 0x02];
    let list = r#"{"type":"array","items":{"type":"record","name":"E","fields":[{"name":"n","type":"null"}]}}"#;
    assert!(read(&skipping(list), &most));
    // The bytes bound values that take bytes.
    let list = r#"{"type":"array","items":{"type":"record","name":"E","fields":[{"name":"n","type":"null"},{"name":"i","type":"int"}]}}"#;
    let long = [vec![0xc0, 0x9a, 0x0c], vec![0; 100_000], vec![0x00, 0x02]].concat();
    assert!(read(&skipping(list), &long));
}

/// The reader's defaults take no byte of a document, but are in each of its items.
#[test]
fn few_bytes_never_become_many_words() {
    let record =
        |fields: &str| format!(r#"{{"type":"record","name":"R","fields":[{{"name":"b","type":"boolean"}}{fields}]}}"#);
    let list = |record: &str| {
        let text = format!(r#"{{"type":"array","items":{record}}}"#);
        Schema::parse(&text, &[] as &[&str]).expect("a schema")
    };
    let zeros = vec!["0"; 1000].join(",");
    let default = format!(r#",{{"name":"d","type":{{"type":"array","items":"int"}},"default":[{zeros}]}}"#);
    let uuids = r#",{"name":"u","type":{"type":"fixed","name":"U","size":16,"logicalType":"uuid"},"default":"0123456789abcdef"}"#;
    // Zigzag counts: two bytes for 500, three for 20,000.
    let (some, many) = (
        [vec![0xe8, 0x07], vec![1; 500], vec![0]].concat(),
        [vec![0xc0, 0xb8, 0x02], vec![1; 20_000], vec![0]].concat(),
    );
    for fields in [&default, uuids] {
        let topic = TopicSchemas::new(Framing::None, Some(Arc::new(list(&record(fields)))));
        topic.learn(SchemaId::Own, &list(&record("")));
        let mut tree = Tree::new();
        let root = topic.decode(&mut tree, &some, 0, some.len()).expect("half a million values");
        assert_eq!(tree.node(&some, root).size(), 500);
        let refused = topic.decode(&mut tree, &many, 0, many.len()).err();
        let why = Refusal::Malformed("it has too many values: more than 16 per byte and more than 1048576".into());
        assert_eq!(refused, (fields == default).then_some(why));
        assert!(tree.memory() < 64 << 20, "{} bytes of memory", tree.memory());
    }
}

#[test]
fn decimals_are_exact_and_quick() {
    use pelton_core::decode::avro::decimal::{digits, parse};
    let small: Vec<String> = (-70_000i64..70_000).step_by(7).map(|number| number.to_string()).collect();
    let edges = [
        i64::MIN,
        i64::MAX,
        i64::from(u32::MAX),
        1 << 32,
        -(1 << 32),
        127,
        128,
        -128,
        -129,
        0,
        999_999_999,
        1_000_000_000,
    ];
    for text in small.iter().cloned().chain(edges.iter().map(ToString::to_string)) {
        let bytes = parse(&text).expect("a number");
        assert_eq!(digits(&bytes), text);
        let number: i64 = text.parse().expect("a number");
        let fill = if number < 0 { 0xff } else { 0 };
        let padded = [vec![fill; 8 - bytes.len()], bytes].concat();
        assert_eq!(padded, number.to_be_bytes(), "{text}");
    }
    // The longest.
    for text in [format!("-{}", "9".repeat(4096)), format!("1{}", "0".repeat(4095))] {
        let bytes = parse(&text).expect("a number");
        assert_eq!(digits(&bytes), text);
    }
    assert_eq!(parse(&"1".repeat(4097)), None);
    assert_eq!(digits(&[0xff; 3000]), "-1");
}

#[test]
fn a_schema_nests_as_deep_as_its_types_may() {
    let record = |inside: String, number: usize| {
        format!(r#"{{"type":"record","name":"R{number}","fields":[{{"name":"f","type":["null",{inside}]}}]}}"#)
    };
    let nested = |count: usize| (0..count).fold("\"int\"".to_owned(), record);
    let parse = |text: String| Schema::parse(&text, &[] as &[&str]);
    assert!(parse(nested(49)).is_ok(), "unions count, too");
    let error = parse(nested(51)).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.ends_with("types are nested deeper than 100 levels"), "{error}");
    let lists = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(99), "}".repeat(99));
    assert!(parse(lists).is_ok());
    // A document of JSON is not read deeper than Ruby's parser does.
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    assert!(Tree::new().parse_json(deep.as_bytes(), 0, deep.len()).is_err());
}

#[test]
fn nesting_is_bounded() {
    let list = plain(r#"{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}"#);
    let of = |depth: usize| [vec![2; depth - 1], vec![0]].concat();
    assert!(list.decode(&mut Tree::new(), &of(100), 0, 100).is_ok());
    assert_eq!(refusal(&list, &of(101)), "it is nested deeper than 100 levels");
    assert_eq!(refusal(&list, &vec![2; 1 << 20]), "it is nested deeper than 100 levels");
    let text = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(120), "}".repeat(120));
    assert!(Schema::parse(&text, &[] as &[&str]).is_err());
    // Each text is flat, but the references nest.
    let chain: Vec<String> = (0..5000)
        .map(|number| {
            let of = if number == 0 { "int".to_owned() } else { format!("R{}", number - 1) };
            format!(r#"{{"type":"record","name":"R{number}","fields":[{{"name":"f","type":"{of}"}}]}}"#)
        })
        .collect();
    let error = Schema::parse("\"R4999\"", &chain).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("types are nested deeper than 100 levels"));
}

#[test]
fn framing_names_the_schema() {
    let schema = Schema::parse("\"int\"", &[] as &[&str]).expect("a schema");
    let confluent = TopicSchemas::new(Framing::Registry, None);
    let read = |topic: &TopicSchemas, bytes: &[u8]| topic.decode(&mut Tree::new(), bytes, 0, bytes.len());
    assert_eq!(read(&confluent, &[0, 0, 0, 1, 2, 0x54]).err(), Some(Refusal::Unknown(SchemaId::Number(258))));
    confluent.learn(SchemaId::Number(258), &schema);
    let mut tree = Tree::new();
    // In the middle of a chunk, as all but the first are.
    let chunk = [9, 9, 0, 0, 0, 1, 2, 0x54, 9];
    let root = confluent.decode(&mut tree, &chunk, 2, 8).expect("known by now");
    assert!(matches!(tree.node(&chunk, root).kind(), Kind::Int(42)));
    assert_eq!(refusal(&confluent, &[0, 0, 0, 1]), "it does not start with byte 0 and a schema number");
    assert_eq!(refusal(&confluent, b"{\"a\":1}"), "it does not start with byte 0 and a schema number");

    // Headers name it in the payload's place: a number, or a GUID.
    let guid = "00112233-4455-6677-8899-aabbccddeeff";
    let id = SchemaId::guid(guid).expect("a GUID");
    assert!(matches!(id, SchemaId::Guid(bytes) if SchemaId::shown(bytes) == guid));
    assert_eq!([SchemaId::guid("00112233"), SchemaId::guid(&"0".repeat(36))], [None, None]);
    confluent.learn(id, &schema);
    assert_eq!(read(&confluent, &[0x54]).err().map(|error| matches!(error, Refusal::Malformed(_))), Some(true));

    // The specification's fingerprint of "int".
    assert_eq!(schema.fingerprint(), 0x7275_d51a_3f39_5c8f);
    let single = TopicSchemas::new(Framing::SingleObject, None);
    let object = [0xc3, 0x01, 0x8f, 0x5c, 0x39, 0x3f, 0x1a, 0xd5, 0x75, 0x72, 0x54];
    assert_eq!(read(&single, &object).err(), Some(Refusal::Unknown(SchemaId::Fingerprint(schema.fingerprint()))));
    single.learn(SchemaId::Fingerprint(schema.fingerprint()), &schema);
    assert!(read(&single, &object).is_ok());
    assert_eq!(refusal(&single, &[0xc3, 0x01, 1, 2]), "it ends inside the schema fingerprint");
}

/// Confluent writes such a value without its length.
#[test]
fn framed_bytes_are_the_rest_of_their_message() {
    let topic = TopicSchemas::new(Framing::Registry, None);
    topic.learn(SchemaId::Number(258), &Schema::parse("\"bytes\"", &[] as &[&str]).expect("a schema"));
    let (mut tree, chunk) = (Tree::new(), [9, 9, 0, 0, 0, 1, 2, 7, 8, 9]);
    let root = topic.decode(&mut tree, &chunk, 2, 9).expect("bytes");
    assert_eq!(Datum::Bytes(vec![7, 8]), datum(tree.node(&chunk, root)));
}

#[test]
fn documents_of_one_tree_keep_their_own_texts() {
    let topic = plain(
        r#"{"type":"record","name":"R","fields":[{"name":"n","type":"string"},{"name":"s","type":{"type":"enum","name":"E","symbols":["ONE","TWO"]}}]}"#,
    );
    let chunk = [4, b'a', b'b', 0, 2, b'c', 2, 6, 0xe2, 0x82, 0xac, 0];
    let mut tree = Tree::new();
    let roots: Vec<_> = [(0, 4), (4, 7), (7, 12)]
        .into_iter()
        .map(|(start, end)| topic.decode(&mut tree, &chunk, start, end).expect("it is whole"))
        .collect();
    let read: Vec<Value> = roots.into_iter().map(|root| shown(tree.node(&chunk, root))).collect();
    assert_eq!(read, [json!({"n":"ab","s":"ONE"}), json!({"n":"c","s":"TWO"}), json!({"n":"€","s":"ONE"})]);
}
