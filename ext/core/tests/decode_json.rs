//! What the native JSON parser takes, what it leaves to Ruby, and how its trees are walked.
//!
//! Each accepted value was compared with JSON.parse of json 2.6.1, 2.6.3 and 2.18.0.

use pelton_core::decode::{Kind, Node, PADDING, Reject, Tree};

/// A readable form in which 1 and 1.0, and 0.0 and -0.0, differ.
fn show(node: Node) -> String {
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
fn parse(document: &[u8]) -> Result<String, Reject> {
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
fn accepts(document: &str, expected: &str) {
    assert_eq!(parse(document.as_bytes()).as_deref(), Ok(expected), "{document:?}");
}

#[track_caller]
fn rejects(document: impl AsRef<[u8]>) {
    let document = document.as_ref();
    assert_eq!(parse(document), Err(Reject), "{:?}", String::from_utf8_lossy(document));
}

#[test]
fn scalars_at_the_top() {
    accepts("true", "true");
    accepts("false", "false");
    accepts("null", "null");
    accepts("10", "10");
    accepts("-5", "-5");
    accepts("0", "0");
    accepts(" 1 \n", "1");
    accepts("1.5", "1.5");
    accepts(" 1.5 ", "1.5");
    accepts("1e5", "100000.0");
    accepts("\"a\"", "\"a\"");
    accepts("\"\"", "\"\"");
}

#[test]
fn integers() {
    accepts("[-0]", "[0]");
    accepts("-0", "0");
    for value in [0, 7, 12, 1234567, 12345678, 123456789, 1234567890123456, 12345678901234567, i64::MAX, i64::MIN] {
        accepts(&value.to_string(), &value.to_string());
        accepts(&format!("[{value},{value} ,-1]"), &format!("[{value},{value},-1]"));
    }
    for exponent in 0..63 {
        for value in [(1i64 << exponent) - 1, 1 << exponent, -(1i64 << exponent), -(1i64 << exponent) - 1] {
            accepts(&value.to_string(), &value.to_string());
        }
    }
    rejects("[9223372036854775808]");
    rejects("[-9223372036854775809]");
    rejects("[18446744073709551616]");
    rejects("[99999999999999999999999999]");
    rejects("[100000000000000000000]");
    for malformed in ["01", "-01", "00", "+1", "-", "- 1", "0x10", "1_000", "--1", "1-2", "-a", "1 2", "1a", "0b1"] {
        rejects(malformed);
        rejects(format!("[{malformed}]"));
        rejects(format!("{{\"a\":{malformed}}}"));
    }
}

#[test]
fn floats() {
    for (text, value) in [
        ("-0.0", "-0.0"),
        ("0.0", "0.0"),
        ("1E5", "100000.0"),
        ("1e+5", "100000.0"),
        ("1.0E+2", "100.0"),
        ("1e05", "100000.0"),
        ("1e00", "1.0"),
        ("0e5", "0.0"),
        ("-0e5", "-0.0"),
        ("0E0", "0.0"),
        ("0.0e400", "0.0"),
        ("0.1", "0.1"),
        ("12.0e-5", "0.00012"),
        ("-1.5E-05", "-1.5e-5"),
        ("9007199254740993.0", "9007199254740992.0"),
        ("9007199254740993.5", "9007199254740994.0"),
        ("1.2345678901234567", "1.2345678901234567"),
        ("-65.613616999999977", "-65.61361699999998"),
        ("1.234567890123456789", "1.2345678901234567"),
        ("0.000000123456789012", "1.23456789012e-7"),
        ("1e22", "1e22"),
        ("1e23", "1e23"),
        ("1e308", "1e308"),
        ("1.7976931348623157e308", "1.7976931348623157e308"),
        ("2.2250738585072014e-308", "2.2250738585072014e-308"),
    ] {
        accepts(text, value);
        accepts(&format!("[{text}]"), &format!("[{value}]"));
    }
    for malformed in ["1.", "1.e5", ".5", "1e", "1e+", "1e-", "1.5.5", "1e5.5", "1.0-", "00.5", "-00.5", "01.5", "1.5e"]
    {
        rejects(malformed);
        rejects(format!("[{malformed}]"));
    }
    for other in ["NaN", "-NaN", "Infinity", "-Infinity", "nan", "inf"] {
        rejects(other);
        rejects(format!("[{other}]"));
    }
}

#[test]
fn floats_where_rubies_warn_or_round_otherwise_are_left_to_ruby() {
    for doubtful in ["1e309", "-1e400", "1.7976931348623159e308", "1e-400", "3e-324", "2.2250738585072011e-308"] {
        rejects(format!("[{doubtful}]"));
    }
    for exponent in ["1e999999999", "1e-999999999", "0e99999999999999999999", "1e99999999999999999999"] {
        rejects(format!("[{exponent}]"));
    }
    rejects(format!("[0.{}1]", "0".repeat(60)));
    rejects(format!("[{}.5]", "1".repeat(60)));
}

#[test]
fn literals() {
    accepts("[true,false,null]", "[true,false,null]");
    for malformed in ["tru", "truex", "True", "true1", "nul", "nullnull", "fals", "falsey", "f", "t", "n", "falsd"] {
        rejects(malformed);
        rejects(format!("[{malformed}]"));
    }
}

#[test]
fn strings() {
    accepts(r#"["a\u0000b"]"#, "[\"a\\0b\"]");
    accepts("[\"\x7f\"]", "[\"\\u{7f}\"]");
    accepts(r#"["\"\\\/\b\f\n\r\t"]"#, r#"["\"\\/\u{8}\u{c}\n\r\t"]"#);
    accepts(r#"["\u00e9\u00E9é"]"#, "[\"ééé\"]");
    accepts(r#"["\ud83d\ude00\uD83D\uDE00"]"#, "[\"😀😀\"]");
    accepts(r#"["\udbff\udfff"]"#, "[\"\\u{10ffff}\"]");
    accepts(r#"["\u0041","\u007f","\u0080"]"#, "[\"A\",\"\\u{7f}\",\"\\u{80}\"]");
    accepts("[\"\u{feff}\"]", "[\"\\u{feff}\"]");
    for control in 0..0x20u8 {
        rejects([b'[', b'"', control, b'"', b']']);
        rejects([b'[', b'"', b'\\', b'n', control, b'"', b']']);
    }
    for letter in (0..=255u8).filter(|letter| !b"\"\\/bfnrtu".contains(letter)) {
        rejects([b'[', b'"', b'\\', letter, b'"', b']']);
    }
    for malformed in [
        r#"["a]"#,
        r#"["\"#,
        r#"["\"]"#,
        r#"["\u"]"#,
        r#"["\u12"]"#,
        r#"["\u123"]"#,
        r#"["\u 123"]"#,
        r#"["\u+123"]"#,
        r#"["\uXYZW"]"#,
        "['a']",
        r#"["a" "b"]"#,
        r#"["a"1]"#,
        r#"[1"a"]"#,
    ] {
        rejects(malformed);
    }
}

#[test]
fn lone_surrogates_are_left_to_ruby() {
    for unit in ["\\ud800", "\\udbff", "\\udc00", "\\udfff"] {
        let behind = ["", "x", "\\u0041", "\\ud83d", "\\n", "\\ud83d\\ude00", "\\ud7ff", "\\ue000", "\\uffff"];
        for behind in behind {
            rejects(format!("[\"{unit}{behind}\"]"));
            rejects(format!("[\"a{unit}{behind}b\"]"));
        }
    }
}

#[test]
fn invalid_utf8_is_left_to_ruby() {
    for bytes in [
        &b"\xff"[..],
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xe2\x82",
        b"\x80",
        b"\xf4\x90\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xc3\\n",
        b"\\n\xc3",
    ] {
        for before in ["", "plain ", "é", "\\n", "0123456789012345678901234567890123456789"] {
            rejects([b"[\"", before.as_bytes(), bytes, b"\"]"].concat());
            rejects([b"{\"", before.as_bytes(), bytes, b"\":1}"].concat());
            rejects([b"\"", before.as_bytes(), bytes, b"\""].concat());
        }
    }
}

#[test]
fn strings_of_every_length() {
    for length in 0..200 {
        let plain = "x".repeat(length);
        accepts(&format!("[\"{plain}\",1]"), &format!("[\"{plain}\",1]"));
        accepts(&format!("[\"{plain}é\"]"), &format!("[\"{plain}é\"]"));
        accepts(&format!("[\"{plain}\\\"{plain}\"]"), &format!("[\"{plain}\\\"{plain}\"]"));
        rejects(format!("[\"{plain}\x01\"]"));
        rejects(format!("[\"{plain}]"));
    }
}

#[test]
fn white_space() {
    accepts(" \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n", "[1,2]");
    accepts(" { \"a\" : 1 , \"b\" :\n2 } ", "{\"a\":1,\"b\":2}");
    accepts("[ ]", "[]");
    accepts("{ }", "{}");
    for count in 1..100 {
        let blanks = " ".repeat(count);
        accepts(
            &format!("{blanks}[{blanks}1{blanks},{blanks}{{{blanks}\"a\"{blanks}:{blanks}2{blanks}}}{blanks}]{blanks}"),
            "[1,{\"a\":2}]",
        );
    }
    for other in
        ["\x0c", "\x0b", "\0", "\u{a0}", "\u{85}", "\u{feff}", "\u{2028}", "\x08", "\x1f", "/**/", "//\n", "#\n"]
    {
        rejects(format!("{other}[1]"));
        rejects(format!("[1]{other}"));
        rejects(format!("[1,{other}2]"));
        rejects(format!("[1, {other}2]"));
        rejects(format!("[1{other}]"));
        rejects(format!("{{\"a\"{other}:1}}"));
        rejects(format!("{other}1"));
        rejects(format!("1{other}"));
    }
}

#[test]
fn malformed_structure() {
    for document in [
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "[1,]",
        "[,1]",
        "[1,,2]",
        "[,]",
        "[1 2]",
        "[1}",
        "{\"a\":1]",
        "{\"a\":1,}",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{1:2}",
        "{null:2}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\",1}",
        "[1]x",
        "[1] x",
        "[1][2]",
        "[1],",
        "1,2",
        "[1:2]",
        "{\"a\":1:2}",
        "[[]",
        "[]]",
        "{{}}",
        "{[]}",
        "{\"a\":1",
        "[1,2",
        "[\"a\"",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,",
        "[\"a\",",
        "[{",
        "{\"a\":[",
        "\"",
        "tru]",
        "[1/2]",
    ] {
        rejects(document);
    }
}

#[test]
fn nesting() {
    let nested = |depth: usize, inside: &str| "[".repeat(depth) + inside + &"]".repeat(depth);
    for inside in ["", "1", "\"a\""] {
        accepts(&nested(100, inside), &nested(100, inside));
        rejects(nested(101, inside));
    }
    accepts(&nested(99, "{}"), &nested(99, "{}"));
    rejects(nested(100, "{}"));
    let objects = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    accepts(&objects(100), &objects(100));
    rejects(objects(101));
    rejects("[".repeat(1_000_000));
    rejects("{\"a\":".repeat(200_000));
    let wide = format!("[{}]", vec![nested(99, ""); 50].join(","));
    accepts(&wide, &wide);
}

#[test]
fn duplicate_and_empty_keys() {
    let document = br#"{"a":1,"":2,"a":3,"\u0061":4,"":5,"b":6}"#;
    let mut tree = Tree::new();
    let root = tree.parse_json(document, 0, document.len()).unwrap();
    let node = tree.node(document, root);
    assert_eq!(node.size(), 6);
    let found = |key: &[u8]| node.get(key).map(show);
    assert_eq!(found(b"a").as_deref(), Some("4"));
    assert_eq!(found(b"").as_deref(), Some("5"));
    assert_eq!(found(b"b").as_deref(), Some("6"));
    assert_eq!(found(b"c"), None);
    assert!(node.at(0).is_none());
}

#[test]
fn ways_into_arrays() {
    let document = br#"[10,"x",[1,2,3],{"k":[]}]"#;
    let mut tree = Tree::new();
    let root = tree.parse_json(document, 0, document.len()).unwrap();
    let node = tree.node(document, root);
    let at = |index| node.at(index).map(show);
    assert_eq!(at(0).as_deref(), Some("10"));
    assert_eq!(at(2).as_deref(), Some("[1,2,3]"));
    assert_eq!(at(-1).as_deref(), Some("{\"k\":[]}"));
    assert_eq!(at(-4).as_deref(), Some("10"));
    for outside in [4, -5, i64::MAX, i64::MIN] {
        assert_eq!(at(outside), None);
    }
    assert!(node.get(b"k").is_none());
    assert!(node.at(0).unwrap().at(0).is_none());
    assert!(node.at(1).unwrap().get(b"x").is_none());
    let Kind::Array(items) = node.kind() else { panic!() };
    assert_eq!(items.len(), 4);
    let Kind::Object(fields) = node.at(3).unwrap().kind() else { panic!() };
    assert_eq!(fields.len(), 1);
    assert_eq!(node.at(3).and_then(|object| object.get(b"k")).map(Node::size), Some(0));
}

#[test]
fn many_documents_in_one_tree() {
    let mut chunk = Vec::new();
    let mut places = Vec::new();
    for number in 0..1000 {
        let start = chunk.len();
        let document = match number % 4 {
            0 => format!("{{\"id\":{number},\"name\":\"n\\n{number}\"}}"),
            1 => format!("[{number},{number}.5"),
            2 => format!("\"{number}\""),
            _ => format!("[{number},\"é{number}\",{}]", i64::MAX - number),
        };
        chunk.extend_from_slice(document.as_bytes());
        places.push((start, chunk.len(), number));
    }
    chunk.extend([0; PADDING]);
    let mut tree = Tree::new();
    for _ in 0..3 {
        tree.clear();
        let roots: Vec<_> = places.iter().map(|&(start, end, _)| tree.parse_json(&chunk, start, end)).collect();
        for (root, &(_, _, number)) in roots.iter().zip(&places) {
            let shown = root.map(|root| show(tree.node(&chunk, root)));
            let expected = match number % 4 {
                0 => Ok(format!("{{\"id\":{number},\"name\":\"n\\n{number}\"}}")),
                1 => Err(Reject),
                2 => Ok(format!("\"{number}\"")),
                _ => Ok(format!("[{number},\"é{number}\",{}]", i64::MAX - number)),
            };
            assert_eq!(shown, expected);
        }
    }
    let memory = tree.memory();
    tree.clear();
    assert_eq!(tree.memory(), memory);
    assert!(memory > 0 && memory < 1 << 20);
}

#[test]
fn wrong_ranges_and_wrong_bytes_do_no_harm() {
    let mut tree = Tree::new();
    let document = br#"{"abc":"def","e":["\n",1.5,9223372036854775807]}"#;
    for (start, end) in [(0, 1000), (5, 3), (usize::MAX, usize::MAX), (0, usize::MAX), (48, 48), (100, 100)] {
        assert_eq!(tree.parse_json(document, start, end), Err(Reject));
    }
    let root = tree.parse_json(document, 0, document.len()).unwrap();
    for other in [&b""[..], b"x", b"0123456789"] {
        assert!(matches!(tree.node(other, root).kind(), Kind::Object(_)));
        assert!(tree.node(other, root).get(b"abc").is_none());
        let Kind::Object(fields) = tree.node(other, root).kind() else { panic!() };
        assert_eq!(fields.count(), 2);
    }
    tree.clear();
    assert!(matches!(tree.node(document, root).kind(), Kind::Null));
}

#[test]
fn too_long_is_left_to_ruby() {
    let mut tree = Tree::new();
    let zeros = vec![0; (1 << 31) + 1];
    assert_eq!(tree.parse_json(&zeros, 0, 10), Err(Reject));
    assert_eq!(tree.parse_json(&zeros[..1 << 31], 0, 1 << 28), Err(Reject));
    assert_eq!(tree.memory(), 0);
}

#[test]
fn the_worst_of_every_length() {
    let mut tree = Tree::new();
    for count in 0..3000 {
        let list = format!("[{}1]", "1,".repeat(count));
        assert_eq!(
            tree.parse_json(list.as_bytes(), 0, list.len()).map(|root| tree.node(b"", root).size()),
            Ok(count + 1)
        );
        let object = format!("{{{}\"\":1}}", "\"\":1,".repeat(count));
        let root = tree.parse_json(object.as_bytes(), 0, object.len());
        assert_eq!(root.map(|root| tree.node(b"", root).size()), Ok(count + 1));
        tree.clear();
    }
}

#[test]
fn a_long_document_leaves_no_more_memory_than_its_values() {
    let document = format!("[{}1]", "1,".repeat(2_000_000));
    let mut tree = Tree::new();
    let root = tree.parse_json(document.as_bytes(), 0, document.len()).unwrap();
    assert_eq!(tree.node(document.as_bytes(), root).size(), 2_000_001);
    assert!(tree.memory() < 2 * 8 * 2_000_002, "{}", tree.memory());
}

#[test]
fn a_tree_may_change_threads() {
    fn check<T: Send + Sync>() {}
    check::<Tree>();
}
