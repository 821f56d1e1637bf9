//! JSON: whatever the native side accepts, serde_json must accept with an equal value.

use super::{Fuzz, assert_little_memory, mutate, random};
use crate::random::Random;
use pelton_core::decode::{Kind, Node, PADDING, Tree};
use serde_json::Value;

#[derive(Default)]
pub struct Json {
    tree: Option<Tree>,
}

impl Fuzz for Json {
    fn make(&mut self, seed: u64, index: u64, input: &mut Vec<u8>) {
        let mut random = random(seed, index);
        document(&mut random, 0, input);
        if random.below(3) > 0 {
            mutate(&mut random, BYTES, input);
        }
    }

    fn check(&mut self, input: &[u8]) -> bool {
        let tree = self.tree.get_or_insert_with(Tree::new);
        let accepted = compare_document(tree, input);
        assert_little_memory(tree);
        accepted
    }
}

fn assert_equal(node: Node, value: &Value) {
    match (node.kind(), value) {
        (Kind::Null, Value::Null) | (Kind::True, Value::Bool(true)) | (Kind::False, Value::Bool(false)) => {}
        // `-0` is an integer for Ruby and -0.0 for serde_json.
        (Kind::Int(0), Value::Number(number)) => assert_eq!(number.as_f64(), Some(0.0)),
        (Kind::Int(int), Value::Number(number)) => assert_eq!(Some(int), number.as_i64()),
        (Kind::Float(float), Value::Number(number)) => {
            assert!(number.is_f64(), "{float} {number}");
            // serde_json rounds correctly only with a feature; the last test looks at every bit.
            let other = number.as_f64().unwrap();
            assert_eq!(float.is_sign_negative(), other.is_sign_negative());
            assert!((float - other).abs() <= float.abs() * 1e-15, "{float:?} {other:?}");
        }
        (Kind::Str(text), Value::String(string)) => {
            assert_eq!(text.bytes, string.as_bytes());
            assert_eq!(text.ascii, string.is_ascii());
        }
        (Kind::Array(items), Value::Array(array)) => {
            assert_eq!((items.len(), node.size()), (array.len(), array.len()));
            for (index, (item, value)) in items.zip(array).enumerate() {
                assert_equal(item, value);
                if index < 3 {
                    assert_equal(node.at(index as i64).unwrap(), value);
                    assert_equal(node.at(index as i64 - array.len() as i64).unwrap(), value);
                }
            }
            assert!(node.at(array.len() as i64).is_none());
        }
        (Kind::Object(fields), Value::Object(object)) => {
            assert!(fields.len() >= object.len());
            for (key, _) in fields {
                assert!(object.contains_key(std::str::from_utf8(key.text().unwrap().bytes).unwrap()));
            }
            for (key, value) in object {
                assert_equal(node.get(key.as_bytes()).unwrap(), value);
            }
        }
        (_, value) => panic!("another kind than {value}"),
    }
}

/// Runs both parsers on `bytes[start..end]`; true when the native side accepted.
pub fn compare(tree: &mut Tree, bytes: &[u8], start: usize, end: usize) -> bool {
    tree.clear();
    let Ok(root) = tree.parse_json(bytes, start, end) else { return false };
    let document = &bytes[start..end];
    match serde_json::from_slice::<Value>(document) {
        Ok(value) => assert_equal(tree.node(bytes, root), &value),
        Err(error) => panic!("native accepted, serde_json says {error}: {:?}", String::from_utf8_lossy(document)),
    }
    true
}

pub fn compare_document(tree: &mut Tree, document: &[u8]) -> bool {
    let bare = compare(tree, document, 0, document.len());
    let padded = [b"\"[", document, &[b'1'; PADDING]].concat();
    assert_eq!(compare(tree, &padded, 2, 2 + document.len()), bare);
    bare
}

/// A random document, legal but for numbers that only Ruby may judge.
pub fn document(random: &mut Random, depth: usize, out: &mut Vec<u8>) {
    blanks(random, out);
    match random.below(if depth > 5 { 8 } else { 12 }) {
        0 => out.extend_from_slice(b"null"),
        1 => out.extend_from_slice(b"true"),
        2 => out.extend_from_slice(b"false"),
        3 => out.extend_from_slice(((random.next() as i64) >> random.below(64)).to_string().as_bytes()),
        4 | 5 => float(random, out),
        6 | 7 => string(random, out),
        8 | 9 => {
            out.push(b'[');
            for index in 0..random.below(6) {
                if index > 0 {
                    out.push(b',');
                }
                document(random, depth + 1, out);
            }
            blanks(random, out);
            out.push(b']');
        }
        _ => {
            out.push(b'{');
            for index in 0..random.below(6) {
                if index > 0 {
                    out.push(b',');
                }
                blanks(random, out);
                string(random, out);
                blanks(random, out);
                out.push(b':');
                document(random, depth + 1, out);
            }
            blanks(random, out);
            out.push(b'}');
        }
    }
    blanks(random, out);
}

fn blanks(random: &mut Random, out: &mut Vec<u8>) {
    match random.below(16) {
        0 => out.extend((0..random.below(40)).map(|_| b' ')),
        1 => out.extend((0..random.below(5)).map(|_| b" \t\r\n"[random.below(4)])),
        _ => {}
    }
}

pub fn float(random: &mut Random, out: &mut Vec<u8>) {
    let digits = |random: &mut Random, most: usize| -> String {
        (0..1 + random.below(most)).map(|_| (b'0' + random.below(10) as u8) as char).collect()
    };
    let text = match random.below(5) {
        0 => format!("{:?}", f64::from_bits(random.next())).replace("NaN", "0.5").replace("inf", "1.5"),
        1 => format!("{:.*}", random.below(12), (random.next() as i64 >> random.below(64)) as f64 / 1000.0),
        2 => format!("{}.{}", random.below(1000), digits(random, 20)),
        3 => format!("{}.{}e{}", 1 + random.below(9), digits(random, 18), random.below(600) as i64 - 300),
        _ => format!("-{}E+{}", random.next(), random.below(310)),
    };
    out.extend_from_slice(text.as_bytes());
}

/// What mutations write.
pub const BYTES: &[u8] = b"{}[]:,\"\\0123456789-+.eE tfnu/\x00\x1f\x7f\x80\xc3\xff";

fn string(random: &mut Random, out: &mut Vec<u8>) {
    out.push(b'"');
    for _ in 0..random.below(5) {
        match random.below(8) {
            0 => out.extend_from_slice(
                [r"\n", r"\\", r#"\""#, r"\/", r"\t", r"\u0000", r"\u00e9"][random.below(7)].as_bytes(),
            ),
            1 => out.extend_from_slice(["é", "日本", "😀", r"\ud83d\ude00", "\u{7f}"][random.below(5)].as_bytes()),
            2 => out.extend((0..random.below(70)).map(|_| b'a' + random.below(26) as u8)),
            _ => out.extend((0..random.below(9)).map(|_| b' ' + random.below(2) as u8 + 64 * random.below(2) as u8)),
        }
    }
    out.push(b'"');
}
