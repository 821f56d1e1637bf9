//! A filter on what Kafka brings: what it refuses does not come, and the rest comes in order and without a gap.

mod support;

use pelton_core::chunk::Chunk;
use pelton_core::embedded::EmbeddedCluster;
use pelton_core::filter::{Check, Filter, Literal, PathStep, Subject};
use pelton_core::format::Format;
use pelton_core::partition::{Batch, Limits};
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
use std::collections::HashMap;
use std::sync::Arc;
use support::*;

const COUNT: i64 = 60;

/// A cluster whose topics `kept` and `all` have the documents `{"a":0}`, `{"a":1}`, `{"a":2}`, `{"a":0}`, …
fn filled() -> EmbeddedCluster {
    let cluster = cluster("kept", 1);
    cluster.create_topic("all", 1).expect("a topic");
    let documents: Vec<_> = (0..COUNT).map(|offset| format!(r#"{{"a":{}}}"#, offset % 3).into_bytes()).collect();
    let writer = producer(&cluster.bootstrap_servers(), &[]);
    ["kept", "all"].iter().for_each(|topic| produce_all(&writer, topic, 1, &documents));
    close_producer(&writer);
    cluster
}

/// Of all topics but `all`, it wants the documents whose `a` is 0. It is to get at most two batches before it gives one
/// back.
fn reader(cluster: &EmbeddedCluster) -> Arc<Subscription> {
    let path = vec![PathStep::Name(b"a".to_vec())];
    let filter = Filter::Test(Subject::Field(path), Check::OneOf([Literal::Int(0)].into_iter().collect()));
    let options = Options {
        limits: Limits { messages: 7, prefetch: 2, ..Limits::default() },
        formats: HashMap::from([("*".to_owned(), Arc::new(Format::JSON))]),
        filters: HashMap::from([("*".to_owned(), Some(Arc::new(filter))), ("all".to_owned(), None)]),
        ..Options::default()
    };
    subscription(&cluster.bootstrap_servers(), "g", options, &[("enable.partition.eof", "true")])
}

fn offsets(batch: &Batch) -> Vec<i64> {
    let admitted = |chunk: &Arc<Chunk>| chunk.admitted().map(|index| chunk.records()[index].offset).collect::<Vec<_>>();
    batch.chunks().iter().flat_map(admitted).collect()
}

/// What comes until the end of the partition: the offsets, the number of refused messages, and that end.
fn read(reader: &Subscription, topic: &str) -> (Vec<i64>, usize, i64) {
    let (mut seen, mut refused) = (Vec::new(), 0);
    loop {
        match taken(reader) {
            SubscriptionEvent::Batch(batch) => {
                assert_eq!(batch.len(), offsets(&batch).len());
                seen.extend(offsets(&batch));
                refused += batch.dropped();
                let position = seen.len() as i64 + refused as i64;
                assert_eq!(Ok(Some(position)), reader.position(topic, 0), "refused ones are done, too");
            }
            SubscriptionEvent::EndOfPartition { offset, .. } => return (seen, refused, offset),
            _ => {}
        }
    }
}

#[test]
fn what_a_filter_refuses_does_not_come_and_the_end_comes_behind_the_rest() {
    let cluster = filled();
    let reader = reader(&cluster);
    reader.assign(&[("kept", 0, 0)]).expect("assigned");
    let kept: Vec<_> = (0..COUNT).step_by(3).collect();
    assert_eq!((kept, COUNT as usize * 2 / 3, COUNT), read(&reader, "kept"));
    reader.assign(&[("all", 0, 0)]).expect("assigned");
    assert_eq!(((0..COUNT).collect(), 0, COUNT), read(&reader, "all"), "it has no filter");
    close_subscription(&reader);
}

#[test]
fn nothing_that_was_filtered_before_a_seek_comes_after_it() {
    let cluster = filled();
    let reader = reader(&cluster);
    for round in 0..10 {
        reader.assign(&[("kept", 0, 0)]).expect("assigned");
        let batch = loop {
            if let SubscriptionEvent::Batch(batch) = taken(&reader) {
                break batch;
            }
        };
        assert_eq!(0, offsets(&batch)[0]);
        let seek = reader.announce_seek("kept", 0).expect("assigned");
        reader.seek(&seek, 30 + round, SECONDS).expect("sought");
        assert!(batch.is_stale());
        batch.release();
        let next = loop {
            match taken(&reader) {
                SubscriptionEvent::Batch(batch) if !batch.is_empty() => break batch,
                SubscriptionEvent::EndOfPartition { .. } => panic!("too early"),
                _ => {}
            }
        };
        assert_eq!((30 + round + 2) / 3 * 3, offsets(&next)[0], "round {round}");
    }
    close_subscription(&reader);
}
