//! How many MB/s does one core parse, by document size? Ours against `serde_json::Value`; and the same as MessagePack.
//! And what does handing a task to the pool cost?
//!
//! `cargo bench --bench decode`; the best of several runs, in 10^6 bytes per second.

use pelton_core::decode::{Node, PADDING, Pool, Task, Tree};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A JSON event about an order with `lines` lines, compact as services write them.
fn order(seed: usize, lines: usize) -> String {
    let line = |index: usize| {
        let number = seed * 31 + index * 7;
        format!(
            r#"{{"sku":"SKU-{:06}","title":"Article number {} of the catalogue","quantity":{},"price":{}.{:02},"tax":{:.3},"gift":{},"tags":["a{}","shop"],"note":{}}}"#,
            number % 1_000_000,
            number,
            index % 9 + 1,
            number % 500,
            number % 100,
            (number % 77) as f64 / 1000.0,
            index.is_multiple_of(3),
            index % 5,
            if index.is_multiple_of(4) { "\"leave at the door\"" } else { "null" },
        )
    };
    let lines: Vec<_> = (0..lines).map(line).collect();
    format!(
        r#"{{"id":"{:08x}-7c1e-4d0a-9b1f-{:012x}","type":"order.created","version":3,"created_at":"2025-11-20T10:{:02}:07.123Z","timestamp":{},"customer":{{"id":{},"email":"customer{}@example.com","country":"DE","loyal":{},"score":{}.{}}},"status":"paid","total":{}.{:02},"lines":[{}]}}"#,
        seed * 2_654_435_761 % (1 << 32),
        seed * 7_919,
        seed % 60,
        1_763_632_000_000 + seed,
        seed * 13,
        seed,
        seed.is_multiple_of(2),
        seed % 100,
        seed % 10,
        seed % 10_000,
        seed % 100,
        lines.join(",")
    )
}

/// Documents side by side in one chunk, as the event thread lays them.
struct Case {
    name: String,
    chunk: Vec<u8>,
    places: Vec<(usize, usize)>,
}

impl Case {
    fn new(name: String, documents: impl IntoIterator<Item = Vec<u8>>) -> Case {
        let (mut chunk, mut places) = (Vec::new(), Vec::new());
        for document in documents {
            let start = chunk.len();
            chunk.extend_from_slice(&document);
            places.push((start, chunk.len()));
        }
        chunk.extend([0; PADDING]);
        Case { name, chunk, places }
    }

    fn bytes(&self) -> usize {
        self.chunk.len() - PADDING
    }
}

/// Best time of one `round`.
fn best(mut round: impl FnMut()) -> Duration {
    let (begin, mut best) = (Instant::now(), Duration::MAX);
    while begin.elapsed() < Duration::from_millis(600) {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed());
    }
    best
}

fn report(case: &Case, parser: &str, time: Duration) {
    let rate = case.bytes() as f64 / time.as_secs_f64() / 1e6;
    let each = time.as_nanos() as f64 / case.places.len() as f64;
    println!("{:<34} {parser:<22} {rate:>7.0} MB/s {each:>12.0} ns/document", case.name);
}

fn measure(case: &Case) {
    let mut tree = Tree::new();
    let parse = best(|| {
        tree.clear();
        for &(start, end) in &case.places {
            black_box(tree.parse_json(&case.chunk, start, end)).expect("a document of the bench is refused");
        }
    });
    report(case, "pelton", parse);
    let filter = best(|| {
        tree.clear();
        for &(start, end) in &case.places {
            let root = tree.parse_json(&case.chunk, start, end).unwrap();
            let node: Node = tree.node(&case.chunk, root);
            black_box(node.get(b"status").map(Node::kind));
        }
    });
    report(case, "pelton + get", filter);
    let serde = best(|| {
        for &(start, end) in &case.places {
            black_box(serde_json::from_slice::<serde_json::Value>(&case.chunk[start..end]).unwrap());
        }
    });
    report(case, "serde_json Value", serde);
}

/// The same document as MessagePack.
fn pack(value: &serde_json::Value, out: &mut Vec<u8>) {
    use serde_json::Value::{Array, Bool, Null, Number, Object, String};
    match value {
        Null => out.push(0xc0),
        Bool(value) => out.push(0xc2 + u8::from(*value)),
        Number(number) => match number.as_i64() {
            Some(value @ 0..=127) => out.push(value as u8),
            Some(value) if i32::try_from(value).is_ok() => {
                out.push(0xd2);
                out.extend((value as i32).to_be_bytes());
            }
            Some(value) => {
                out.push(0xd3);
                out.extend(value.to_be_bytes());
            }
            None => {
                out.push(0xcb);
                out.extend(number.as_f64().unwrap().to_be_bytes());
            }
        },
        String(text) if text.len() < 32 => {
            out.push(0xa0 + text.len() as u8);
            out.extend(text.as_bytes());
        }
        String(text) => {
            out.push(0xda);
            out.extend((text.len() as u16).to_be_bytes());
            out.extend(text.as_bytes());
        }
        Array(items) => {
            out.push(0xdc);
            out.extend((items.len() as u16).to_be_bytes());
            items.iter().for_each(|item| pack(item, out));
        }
        Object(fields) => {
            out.push(0x80 + fields.len() as u8);
            for (name, value) in fields {
                pack(&String(name.clone()), out);
                pack(value, out);
            }
        }
    }
}

fn measure_packed(name: String, documents: &[Vec<u8>]) {
    let packed = documents.iter().map(|document| {
        let mut bytes = Vec::new();
        pack(&serde_json::from_slice(document).expect("JSON"), &mut bytes);
        bytes
    });
    let case = Case::new(name, packed);
    let mut tree = Tree::new();
    let parse = best(|| {
        tree.clear();
        for &(start, end) in &case.places {
            black_box(tree.parse_msgpack(&case.chunk, start, end)).expect("a document of the bench is refused");
        }
    });
    report(&case, "pelton, MessagePack", parse);
}

/// Does nothing.
struct Nothing;

impl Task for Nothing {
    fn run(&self) {}
}

/// What one `submit` costs its caller, while a thread is busy with the tasks before.
fn measure_submit() {
    let task: Arc<dyn Task> = Arc::new(Nothing);
    let time = best(|| (0..10_000).for_each(|_| Pool::global().submit_many(vec![Arc::clone(&task)])));
    println!("pool: {:.0} ns/submit", time.as_nanos() as f64 / 1e4);
    Pool::global().shutdown(Duration::from_secs(10));
}

fn main() {
    measure_submit();
    for (size, lines) in [("0.4", 1), ("5", 27), ("19", 112), ("78", 465)] {
        let documents: Vec<_> =
            (0..20 + 400 / (lines + 1)).map(|seed| order(seed + 1000, lines).into_bytes()).collect();
        let length = documents[0].len();
        measure_packed(format!("orders {size} KB as MessagePack"), &documents);
        measure(&Case::new(format!("orders {size} KB ({length} B)"), documents));
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    for name in ["github_events", "twitter", "twitterescaped", "citm_catalog", "canada", "numbers"] {
        let Ok(document) = std::fs::read(format!("{folder}/{name}.json")) else { continue };
        measure(&Case::new(format!("{name}.json"), [document]));
    }
}
