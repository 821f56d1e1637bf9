//! The memory that decoding a chunk takes, although its documents become much larger than their bytes. The allocator
//! counts, so nothing else may run in this process.

#[path = "support/counting.rs"]
mod counting;
mod support;

use pelton_core::budget;
use pelton_core::decode::avro::{Framing, Schema, SchemaId, TopicSchemas};
use pelton_core::decode::{Node, Tree};
use pelton_core::filter::{Check, Filter, PathStep, Subject};
use pelton_core::format::{Encoding, Format, Shape};
use pelton_core::subscription::{Options, SubscriptionEvent};
use std::sync::Arc;
use std::time::Instant;
use support::*;

const MEMORY: usize = 16 << 20;
const COUNT: usize = 50;
/// Items of a document, of one byte each; the reader's default makes 1,000 values of each.
const ITEMS: usize = 500;

fn schema(fields: &str) -> Schema {
    let fields = format!(r#"[{{"name":"b","type":"boolean"}}{fields}]"#);
    let text = format!(r#"{{"type":"array","items":{{"type":"record","name":"R","fields":{fields}}}}}"#);
    Schema::parse(&text, &[] as &[&str]).expect("a schema")
}

fn format() -> Arc<Format> {
    let zeros = vec!["0"; 1_000].join(",");
    let reader = schema(&format!(r#",{{"name":"d","type":{{"type":"array","items":"int"}},"default":[{zeros}]}}"#));
    let topic = TopicSchemas::new(Framing::None, Some(Arc::new(reader)));
    topic.learn(SchemaId::Own, &schema(""));
    Format::ahead(Encoding::Avro(Arc::new(topic)), Shape::default()).into()
}

/// Of a number alone, of a document with escapes, and of a nested one: each needs memory of another kind.
fn a_tree_knows_the_memory_that_it_holds() {
    let before = counting::held();
    let mut tree = Tree::new();
    let number = format!("{}1", " ".repeat(100_000));
    let text = format!("[{:?}]", "\n".repeat(50_000));
    let nested = format!("[{}[]]", "[1,2,3],".repeat(20_000));
    let documents = [number, text, nested];
    for document in &documents {
        tree.parse_json(document.as_bytes(), 0, document.len()).expect("a good one");
    }
    drop(documents);
    let held = counting::held() - before;
    // The test's runner may allocate something meanwhile.
    assert!((tree.memory() as isize - held).abs() < 20_000, "{} of {held}", tree.memory());
    assert!(held > 400_000, "{held}");
}

#[test]
fn documents_that_become_large_are_decoded_ahead_as_far_as_there_is_memory() {
    a_tree_knows_the_memory_that_it_holds();
    budget::configure(MEMORY);
    let cluster = cluster("large", 1);
    let writer = producer(&cluster.bootstrap_servers(), &[]);
    // Zigzag: two bytes for 500 items.
    let document = [vec![0xe8, 0x07], vec![1; ITEMS], vec![0]].concat();
    produce_all(&writer, "large", 1, &vec![document; COUNT]);
    close_producer(&writer);
    let first = Subject::Field(vec![PathStep::At(0), PathStep::Name(b"b".to_vec())]);
    for filter in [None, Some(Arc::new(Filter::Test(first, Check::Exists)))] {
        let before = counting::watch();
        let options = Options {
            formats: [("large".into(), format())].into(),
            filters: [("large".into(), filter)].into(),
            ..Options::default()
        };
        let reader = subscription(&cluster.bootstrap_servers(), "g", options, &[]);
        reader.assign(&[("large", 0, 0)]).expect("assigned");
        let mut seen = 0;
        while seen < COUNT {
            match next(&reader) {
                SubscriptionEvent::Batch(batch) => {
                    seen += batch.len();
                    for chunk in batch.chunks() {
                        for index in 0..chunk.records().len() {
                            let of_last = |node: Node<'_>| Some(node.at(-1)?.get(b"d")?.size());
                            let size = chunk.decoded(index, of_last);
                            assert_eq!(Ok(Some(1_000)), size);
                            assert!(!chunk.is_undecided(index), "the filter was asked of all");
                        }
                    }
                }
                SubscriptionEvent::Error { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
        let most = counting::most() - before;
        // All of it would be 200 MB. A tree doubles as it grows, and two threads may be at it.
        assert!(most < 6 * MEMORY as isize, "{most} bytes");
        let deadline = Instant::now() + SECONDS;
        while budget::taken() > 0 {
            assert!(Instant::now() < deadline, "what was begun and not kept still counts");
            std::thread::yield_now(); // a decoding thread may be working
        }
        close_subscription(&reader);
    }
}
