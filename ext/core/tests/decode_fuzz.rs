//! Native decoding against serde_json: whatever the native side accepts, serde_json must accept with an equal value,
//! and on well-formed documents of ordinary numbers the native side must not refuse.
//!
//! Seeded, so a failure repeats. `PELTON_FUZZ=<n>` multiplies the rounds.

mod fuzz;
mod random;

use fuzz::Fuzz;
use fuzz::avro::Avro;
use fuzz::json::{BYTES, compare, compare_document, document, float};
use fuzz::msgpack::MessagePack;
use fuzz::schema::Schemas;
use pelton_core::decode::{Kind, Tree};
use random::Random;

fn rounds(count: usize) -> usize {
    count * std::env::var("PELTON_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    paths.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
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

/// More than 53 bits over a power of ten, zeros first. Without the remainder of the division one in twenty was another
/// float.
#[test]
fn small_floats_with_many_digits_are_rounded_as_by_the_standard_library() {
    let (mut random, mut tree) = (Random(6), Tree::new());
    let known = ["0.0053463368124240540", "-0.0053463368124240540", "0.00000000000000000012345678901234567"];
    let made = (0..rounds(60_000)).map(|round| {
        let digits = (1_000_000_000_000_000 + random.next() % (u64::MAX / 2)).to_string();
        match round % 3 {
            0 => format!("0.{}{digits}", "0".repeat(random.below(20))),
            1 => format!("{digits}e-{}", 1 + random.below(40)),
            _ => format!("{}.{}{digits}", 1 + random.below(9), "0".repeat(random.below(4))),
        }
    });
    for text in known.map(str::to_owned).into_iter().chain(made) {
        let document = format!("[{text}]");
        tree.clear();
        let Ok(root) = tree.parse_json(document.as_bytes(), 0, document.len()) else { panic!("{text} is refused") };
        let Some(Kind::Float(value)) = tree.node(document.as_bytes(), root).at(0).map(|node| node.kind()) else {
            panic!("{text} is no float");
        };
        assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
    }
}

/// A few of what `bin/fuzz` has many of.
fn some_inputs(mut decoder: impl Fuzz, count: usize) {
    let mut accepted = 0;
    let rounds = rounds(count);
    let mut input = Vec::new();
    for index in 0..rounds {
        input.clear();
        decoder.make(7, index as u64, &mut input);
        accepted += decoder.check(&input) as usize;
    }
    assert!(accepted > 0 && accepted < rounds, "{accepted} of {rounds}");
}

#[test]
fn msgpack_has_the_values_that_a_simple_reader_has() {
    some_inputs(MessagePack::default(), 100_000);
}

#[test]
fn avro_has_the_values_that_a_simple_reader_has() {
    some_inputs(Avro::default(), 100_000);
}

#[test]
fn schemas_are_read_or_refused() {
    some_inputs(Schemas::default(), 20_000);
}

/// A value of another kind, another number, one more, one less: none of them passes for the same.
#[test]
#[should_panic(expected = "another value")]
fn a_wrong_value_is_noticed() {
    let mut tree = Tree::new();
    let root = tree.parse_msgpack(&[0xd0, 0xff], 0, 2).unwrap();
    fuzz::value::assert_same(tree.node(&[0xd0, 0xff], root), &fuzz::value::Value::Int(255));
}
