//! Native decoding against serde_json: whatever the native side accepts, serde_json must accept with an equal value,
//! and on well-formed documents of ordinary numbers the native side must not refuse.
//!
//! Seeded, so a failure repeats. `PELTON_FUZZ=<n>` multiplies the rounds.

mod random;

use pelton_core::decode::{Kind, Node, PADDING, Tree};
use random::Random;
use serde_json::Value;

fn rounds(count: usize) -> usize {
    count * std::env::var("PELTON_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
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
fn compare(tree: &mut Tree, bytes: &[u8], start: usize, end: usize) -> bool {
    tree.clear();
    let Ok(root) = tree.parse_json(bytes, start, end) else { return false };
    let document = &bytes[start..end];
    match serde_json::from_slice::<Value>(document) {
        Ok(value) => assert_equal(tree.node(bytes, root), &value),
        Err(error) => panic!("native accepted, serde_json says {error}: {:?}", String::from_utf8_lossy(document)),
    }
    true
}

fn compare_document(tree: &mut Tree, document: &[u8]) -> bool {
    let bare = compare(tree, document, 0, document.len());
    let padded = [b"\"[", document, &[b'1'; PADDING]].concat();
    assert_eq!(compare(tree, &padded, 2, 2 + document.len()), bare);
    bare
}

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    paths.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

/// A random document, legal but for numbers that only Ruby may judge.
fn document(random: &mut Random, depth: usize, out: &mut Vec<u8>) {
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

fn float(random: &mut Random, out: &mut Vec<u8>) {
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
const BYTES: &[u8] = b"{}[]:,\"\\0123456789-+.eE tfnu/\x00\x1f\x7f\x80\xc3\xff";

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

#[test]
fn real_documents() {
    let mut tree = Tree::new();
    for (path, document) in corpus() {
        assert!(compare_document(&mut tree, &document), "{path} refused");
    }
}

#[test]
fn random_documents() {
    let (mut random, mut tree) = (Random(1), Tree::new());
    let mut accepted = 0;
    let rounds = rounds(20_000);
    for _ in 0..rounds {
        let mut text = Vec::new();
        document(&mut random, 0, &mut text);
        accepted += compare_document(&mut tree, &text) as usize;
    }
    assert!(accepted > rounds * 3 / 4, "{accepted} of {rounds}");
}

#[test]
fn random_mutations() {
    let (mut random, mut tree) = (Random(2), Tree::new());
    let mut accepted = 0;
    for _ in 0..rounds(2_000) {
        let mut text = Vec::new();
        while text.len() < 20 {
            text.clear();
            document(&mut random, 0, &mut text);
        }
        for _ in 0..30 {
            let mut mutant = text.clone();
            for _ in 0..1 + random.below(3) {
                let (at, other) = (random.below(mutant.len()), random.below(mutant.len()));
                match random.below(5) {
                    0 => mutant[at] ^= 1 << random.below(8),
                    1 => mutant[at] = BYTES[random.below(BYTES.len())],
                    2 => mutant.swap(at, other),
                    3 => mutant.insert(at, BYTES[random.below(29)]),
                    _ => drop(mutant.drain(at..(at + random.below(4)).min(mutant.len()))),
                }
                if mutant.is_empty() {
                    mutant.push(b'1');
                }
            }
            accepted += compare_document(&mut tree, &mutant) as usize;
        }
    }
    assert!(accepted > 1000, "{accepted}");
}

#[test]
fn cut_off_at_every_length() {
    let (mut random, mut tree) = (Random(3), Tree::new());
    for _ in 0..rounds(100) {
        let mut text = Vec::new();
        document(&mut random, 0, &mut text);
        for end in 0..text.len() {
            // What follows in the chunk would complete it.
            compare(&mut tree, &text, 0, end);
            compare_document(&mut tree, &text[..end]);
        }
    }
}

#[test]
fn real_documents_mutated_and_cut() {
    let (mut random, mut tree) = (Random(4), Tree::new());
    for (_, document) in corpus().into_iter().filter(|(_, document)| document.len() < 700_000) {
        for _ in 0..rounds(20) {
            let mut mutant = document.clone();
            let at = random.below(mutant.len());
            mutant[at] = random.next() as u8;
            compare(&mut tree, &mutant, 0, document.len());
            let (start, end) = (random.below(document.len()), random.below(document.len()));
            compare(&mut tree, &document, start.min(end), start.max(end));
        }
    }
}

#[test]
fn floats_are_rounded_as_by_the_standard_library() {
    let (mut random, mut tree) = (Random(5), Tree::new());
    let mut refused = 0;
    let rounds = rounds(300_000);
    for round in 0..rounds {
        let mut text = b"[".to_vec();
        match round % 3 {
            // Halfway between two floats, and next to it: 54 bits over a power of two, in decimal.
            0 => {
                let half = (1u64 << 53) + random.next() % (1 << 53);
                let shift = random.below(9);
                let value = (half as u128 * 2 + 1) * 5u128.pow(shift as u32);
                let digits = value.to_string();
                let at = digits.len() - shift;
                text.extend_from_slice(format!("{}.{}0", &digits[..at], &digits[at..]).as_bytes());
            }
            1 => {
                let digits = random.next().to_string();
                let at = 1 + random.below(digits.len() - 1);
                text.extend_from_slice(format!("{}.{}", &digits[..at], &digits[at..]).as_bytes());
            }
            _ => float(&mut random, &mut text),
        }
        let expected: f64 = std::str::from_utf8(&text[1..]).unwrap().parse().unwrap();
        text.push(b']');
        tree.clear();
        let Ok(root) = tree.parse_json(&text, 0, text.len()) else {
            refused += 1;
            continue;
        };
        match tree.node(&text, root).at(0).unwrap().kind() {
            Kind::Float(value) => assert_eq!(value.to_bits(), expected.to_bits(), "{}", String::from_utf8_lossy(&text)),
            Kind::Int(value) => assert_eq!(value as f64, expected),
            _ => panic!(),
        }
    }
    assert!(refused < rounds / 10, "{refused}");
}
