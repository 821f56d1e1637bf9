//! How many MB/s does one core parse, by document size? Ours against `serde_json::Value`.
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

/// Does nothing.
struct Nothing;

impl Task for Nothing {
    fn run(&self) {}
}

/// What one `submit` costs its caller, while a thread is busy with the tasks before.
fn measure_submit() {
    let task: Arc<dyn Task> = Arc::new(Nothing);
    let time = best(|| (0..10_000).for_each(|_| Pool::global().submit(Arc::clone(&task))));
    println!("pool: {:.0} ns/submit", time.as_nanos() as f64 / 1e4);
    Pool::global().shutdown(Duration::from_secs(10));
}

fn main() {
    measure_submit();
    for (size, lines) in [("0.4", 1), ("5", 27), ("19", 112), ("78", 465)] {
        let documents: Vec<_> =
            (0..20 + 400 / (lines + 1)).map(|seed| order(seed + 1000, lines).into_bytes()).collect();
        let length = documents[0].len();
        measure(&Case::new(format!("orders {size} KB ({length} B)"), documents));
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    for name in ["github_events", "twitter", "twitterescaped", "citm_catalog", "canada", "numbers"] {
        let Ok(document) = std::fs::read(format!("{folder}/{name}.json")) else { continue };
        measure(&Case::new(format!("{name}.json"), [document]));
    }
}
