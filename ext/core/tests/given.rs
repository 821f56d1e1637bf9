//! Batches of messages that come from the caller, as tests without a broker have them.

use pelton_core::chunk::{CHUNK_BYTES, GivenMessage};
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
