//! What one kept message of each batch holds in native memory: its own bytes and its chunk's records, not the batch.
//! The allocator counts, so nothing else may run in this process.

#[path = "support/counting.rs"]
mod counting;
mod support;

use pelton_core::chunk::{CHUNK_MESSAGES, Chunk, Record};
use pelton_core::partition::Limits;
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
use std::sync::Arc;
use support::*;

const SIZE: usize = 1_000;
const ROUND: usize = 1_000;
/// Of a kept message: its payload, the records of a chunk of such messages, and the chunk itself.
const OF_ONE: usize = SIZE + (CHUNK_MESSAGES / 4) * size_of::<Record>() + 1_000;
/// Buffers to be used again, the poller's and the test's own.
const BESIDE: isize = 1 << 20;

/// Reads a round of messages; keeps one message of each batch, releases the rest.
fn read_round(reader: &Subscription, kept: &mut Vec<(Arc<Chunk>, usize)>) {
    let mut seen = 0;
    while seen < ROUND {
        match next(reader) {
            SubscriptionEvent::Batch(batch) => {
                seen += batch.len();
                let chunk = Arc::clone(batch.chunks().first().expect("a chunk"));
                let index = chunk.records().len() - 1;
                assert!((0..=index).all(|index| chunk.add_object(index)));
                batch.release();
                // A message that came alone is its chunk's few.
                assert_eq!(index == 0, chunk.thin(), "all of it is kept");
                (0..index).for_each(|index| chunk.remove_object(index));
                assert!(chunk.thin(), "one is kept");
                kept.push((chunk, index));
            }
            SubscriptionEvent::Error { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
}

#[test]
fn one_kept_message_of_each_batch_holds_its_own_bytes() {
    let cluster = cluster("kept", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[]);
    let limits = Limits { messages: 100, prefetch: 1, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let reader = subscription(&cluster.bootstrap_servers(), "g", options, &[("fetch.wait.max.ms", "10")]);
    reader.assign(&[("kept", 0, -2)]).expect("assigned");
    let payloads: Vec<_> = (0..ROUND).map(|_| vec![b'x'; SIZE]).collect();
    let mut kept = Vec::with_capacity(100_000);
    let round = |kept: &mut Vec<_>| {
        produce_all(&producer, "kept", 1, &payloads);
        read_round(&reader, kept);
        counting::held()
    };
    // Until the buffers that are used again are there.
    let before = (0..4).fold(0, |_, _| round(&mut kept));
    let first = kept.len();
    let after = (0..20).fold(before, |_, _| round(&mut kept));
    let more = (kept.len() - first) as isize;
    let grown = after - before;
    assert!(grown < more * OF_ONE as isize + BESIDE, "{grown} bytes for {more} kept messages");
    assert!(grown < (20 * ROUND * SIZE / 4) as isize, "{grown} bytes: batches are kept, not messages");
    for (chunk, index) in &kept {
        assert_eq!(Some(Some(SIZE)), chunk.view(*index, |view| view.payload.map(<[u8]>::len)));
    }
    for (chunk, index) in kept.drain(..) {
        chunk.remove_object(index);
    }
    let left = counting::held() - before;
    assert!(left < BESIDE, "{left} bytes are left of messages that are not kept");
    close_subscription(&reader);
    close_producer(&producer);
}
