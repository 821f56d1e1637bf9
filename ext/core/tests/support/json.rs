//! What the native JSON parser makes of a document, in a readable form.
#![allow(dead_code)] // each test binary uses a part

use pelton_core::decode::{Kind, Node, PADDING, Reject, Tree};

/// A readable form in which 1 and 1.0, and 0.0 and -0.0, differ.
pub fn show(node: Node) -> String {
    match node.kind() {
        Kind::Null => "null".into(),
        Kind::True => "true".into(),
        Kind::False => "false".into(),
        Kind::Int(value) => value.to_string(),
        Kind::Float(value) => format!("{value:?}"),
        Kind::Str(text) => {
            assert_eq!(text.ascii, text.bytes.is_ascii());
            format!("{:?}", std::str::from_utf8(text.bytes).unwrap())
        }
        Kind::Array(items) => format!("[{}]", items.map(show).collect::<Vec<_>>().join(",")),
        Kind::Object(fields) => {
            let pairs = fields.map(|(key, value)| {
                let key = key.text().expect("a name");
                assert_eq!(key.ascii, key.bytes.is_ascii());
                format!("{:?}:{}", std::str::from_utf8(key.bytes).unwrap(), show(value))
            });
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        Kind::Unsigned(_)
        | Kind::Bytes(_)
        | Kind::Extension(..)
        | Kind::Decimal(..)
        | Kind::Date(_)
        | Kind::Time(..) => panic!("not of JSON"),
    }
}

/// Parses it at several places of a chunk, with hostile neighbours and without padding: always the same result.
pub fn parse(document: &[u8]) -> Result<String, Reject> {
    let mut tree = Tree::new();
    let alone = tree.parse_json(document, 0, document.len()).map(|root| show(tree.node(document, root)));
    for around in
        [&b"0123456789"[..], b"\"\"\"\"\"", b"]}]}]}", b"   \n", b"\\\\\\", b"e5.5e5", b"\0\0", b",,", b"\xff"]
    {
        for padding in [0, 1, 31, PADDING - 1, PADDING, 200] {
            let mut chunk: Vec<u8> = around.iter().copied().cycle().take(padding / 2).collect();
            let start = chunk.len();
            chunk.extend_from_slice(document);
            let end = chunk.len();
            chunk.extend(around.iter().copied().cycle().take(padding));
            let there = tree.parse_json(&chunk, start, end).map(|root| show(tree.node(&chunk, root)));
            assert_eq!(there, alone, "{:?} at {start} before {padding} bytes", String::from_utf8_lossy(document));
        }
    }
    alone
}

#[track_caller]
pub fn accepts(document: &str, expected: &str) {
    assert_eq!(parse(document.as_bytes()).as_deref(), Ok(expected), "{document:?}");
}

#[track_caller]
pub fn rejects(document: impl AsRef<[u8]>) {
    let document = document.as_ref();
    assert_eq!(parse(document), Err(Reject), "{:?}", String::from_utf8_lossy(document));
}
