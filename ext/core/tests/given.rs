//! Batches of messages that come from the caller, as tests without a broker have them.

use pelton_core::chunk::{CHUNK_BYTES, CHUNK_MESSAGES, GivenMessage};
use pelton_core::format::Format;
use pelton_core::partition::GivenPartition;

fn message<'a>(offset: i64, payload: Option<&'a [u8]>, value: &'a [u8]) -> GivenMessage<'a> {
    GivenMessage {
        offset,
        timestamp: 7,
        payload,
        key: Some(b"k"),
        headers: vec![(b"name", Some(value)), (b"none", None)],
    }
}

static LARGE: [u8; CHUNK_BYTES / 2] = [b'h'; CHUNK_BYTES / 2];

#[test]
fn headers_count_for_the_bytes_of_a_batch_and_of_its_chunks() {
    let partition = GivenPartition::new("t", 3, Format::LAZY, None);
    let small = partition.batch(&[message(1, Some(b"payload"), b"v"), message(2, None, b"value")], 9);
    let headers = [b"namev".len() + b"none".len(), b"namevalue".len() + b"none".len()];
    // 4 bytes of length before each name and value.
    assert_eq!(7 + 1 + headers[0] + 16 + 1 + headers[1] + 16, small.bytes());
    assert_eq!((2, 1), (small.len(), small.chunks().len()));
    // A chunk has room for one of these beside another's headers, not for two.
    let large: Vec<_> = (0..4).map(|offset| message(offset, Some(b"p"), &LARGE)).collect();
    let batch = partition.batch(&large, 9);
    assert_eq!(4, batch.chunks().len());
    assert!(batch.chunks().iter().all(|chunk| chunk.bytes() <= CHUNK_BYTES));
}

/// How many messages each chunk has, of messages with these payloads and nothing else.
fn messages_of_chunks(payloads: &[usize]) -> Vec<usize> {
    let payloads: Vec<_> = payloads.iter().map(|size| vec![b'x'; *size]).collect();
    let given = |(offset, payload)| GivenMessage {
        offset,
        timestamp: 7,
        payload: Some(payload),
        key: None,
        headers: Vec::new(),
    };
    let messages: Vec<_> = (0..).zip(payloads.iter().map(Vec::as_slice)).map(given).collect();
    let batch = GivenPartition::new("t", 3, Format::LAZY, None).batch(&messages, 9);
    assert_eq!(messages.len(), batch.len());
    batch.chunks().iter().map(|chunk| chunk.records().len()).collect()
}

#[test]
fn a_message_without_room_in_a_chunk_begins_the_next_one() {
    const HALF: usize = CHUNK_BYTES / 2;
    assert_eq!(vec![2, 1], messages_of_chunks(&[HALF, HALF, 1]));
    assert_eq!(vec![1, 2], messages_of_chunks(&[HALF + 1, HALF, HALF]));
    assert_eq!(vec![1, 1, 1], messages_of_chunks(&[1, 2 * CHUNK_BYTES, 1]));
    assert_eq!(vec![CHUNK_MESSAGES, 1], messages_of_chunks(&[1; CHUNK_MESSAGES + 1]));
    assert_eq!(Vec::<usize>::new(), messages_of_chunks(&[]));
}

#[test]
fn facts_of_messages_are_those_that_were_given() {
    let partition = GivenPartition::new("t", 3, Format::LAZY, None);
    let batch = partition.batch(&[message(5, Some(b"payload"), b"v"), message(8, None, b"v")], 9);
    let chunk = &batch.chunks()[0];
    assert_eq!(("t", 3, 9), (&*chunk.topic, chunk.partition, chunk.received));
    assert_eq!((false, false, 0), (batch.restarted, batch.is_crowded(), batch.dropped()));
    let facts = chunk.records().iter().map(|record| (record.offset, record.timestamp, record.payload_size()));
    assert_eq!(vec![(5, 7, Some(7)), (8, 7, None)], facts.collect::<Vec<_>>());
    assert!(chunk.records().iter().all(|record| record.has_key()));
}

#[test]
fn a_given_batch_is_stale_once_its_partition_begins_again() {
    let partition = GivenPartition::new("t", 3, Format::LAZY, None);
    let batch = partition.batch(&[message(5, Some(b"payload"), b"v")], 9);
    let empty = batch.emptied();
    assert_eq!((false, false), (batch.is_stale(), empty.is_stale()));
    assert_eq!((0, 0, 0, 0), (empty.len(), empty.dropped(), empty.bytes(), empty.chunks().len()));
    partition.begin();
    assert_eq!((true, true), (batch.is_stale(), empty.is_stale()));
    assert!(!partition.batch(&[message(6, Some(b"payload"), b"v")], 9).is_stale());
}
