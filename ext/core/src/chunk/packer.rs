//! From librdkafka's memory into chunks.

use super::{Buffer, CHUNK_BYTES, CHUNK_MESSAGES, Chunk, NEVER, Record, Store, WAITING};
use crate::budget::Copied;
use crate::decode::{PADDING, Task};
use crate::filter::Filter;
use crate::format::Format;
use crate::rd::{Fetched, FetchedMessage, Origin};
use crate::view::{NULL, length, put, put_size};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::UNIX_EPOCH;

/// Collects messages into chunks.
pub struct Packer {
    topic: Arc<str>,
    partition: i32,
    seek_count: u64,
    format: Arc<Format>,
    filter: Option<Arc<Filter>>,
    bytes: Vec<u8>,
    records: Vec<Record>,
    chunks: Vec<Arc<Chunk>>,
    /// Bytes that all of them may have, unless there is one message only.
    most: usize,
    /// Messages that were added, and their bytes.
    count: usize,
    size: usize,
    /// The messages and bytes that the present slice still holds. They decide the next chunk's size.
    messages_left: usize,
    bytes_left: usize,
    /// When the messages were received, in milliseconds since 1970. `None`: when their chunk is closed.
    received: Option<i64>,
}

/// A message that comes from the caller instead of from Kafka.
pub struct GivenMessage<'a> {
    pub offset: i64,
    /// Milliseconds since 1970, −1 where unknown.
    pub timestamp: i64,
    pub payload: Option<&'a [u8]>,
    pub key: Option<&'a [u8]>,
    /// Name and value of each header, in order.
    pub headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

impl GivenMessage<'_> {
    fn size(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| put_size(Some(name)) + put_size(*value));
        self.payload.map_or(0, <[u8]>::len) + self.key.map_or(0, <[u8]>::len) + headers.sum::<usize>()
    }
}

/// Bytes that it takes in a chunk.
fn size_of(message: FetchedMessage<'_>) -> usize {
    let mut size = message.payload().map_or(0, <[u8]>::len) + message.key().map_or(0, <[u8]>::len);
    message.headers(|name, value| size += put_size(Some(name)) + put_size(value));
    size
}

fn put_header(bytes: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) {
    put(bytes, Some(name));
    put(bytes, value);
}

/// The last message that was read of a partition.
#[derive(Default)]
pub struct LastRead {
    /// The offset behind it; 0 if none was read.
    next: i64,
    timestamp: i64,
    size: usize,
}

impl LastRead {
    pub fn is_none(&self) -> bool {
        self.next == 0
    }

    /// Whether a message was read, and this offset is the next one.
    pub fn ends_at(&self, offset: i64) -> bool {
        !self.is_none() && self.next == offset
    }

    /// Whether a message was read, and none at this offset or behind it.
    pub fn ends_before(&self, offset: i64) -> bool {
        !self.is_none() && self.next <= offset
    }

    fn set(&mut self, message: FetchedMessage<'_>, size: usize) {
        *self = Self { next: message.offset() + 1, timestamp: message.timestamp(), size };
    }

    /// Whether the log starts again with this message.
    pub fn is_behind(&self, message: FetchedMessage<'_>) -> bool {
        message.offset() < self.next && !self.is(message)
    }

    /// Whether it is this message. A message of another log may have its offset, but not its time, too.
    fn is(&self, message: FetchedMessage<'_>) -> bool {
        message.offset() + 1 == self.next
            && message.timestamp() >= 0
            && (message.timestamp(), size_of(message)) == (self.timestamp, self.size)
    }
}

impl Packer {
    /// Of `most` bytes, or one larger message.
    pub fn new(
        topic: Arc<str>,
        partition: i32,
        seek_count: u64,
        format: Arc<Format>,
        filter: Option<Arc<Filter>>,
        most: usize,
    ) -> Self {
        let (bytes, records, chunks) = (Vec::new(), Vec::new(), Vec::new());
        let (count, size, messages_left, bytes_left, received) = (0, 0, 0, 0, None);
        Self {
            topic,
            partition,
            seek_count,
            format,
            filter,
            bytes,
            records,
            chunks,
            most,
            count,
            size,
            messages_left,
            bytes_left,
            received,
        }
    }

    /// Messages that were added.
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn is_full(&self) -> bool {
        self.size >= self.most
    }

    /// Adds the messages; the others are errors. The first message that has no room, or with which the log starts
    /// again, goes to `rest`, and so does all behind it.
    ///
    /// librdkafka may deliver the last message again. It takes a message from its queue, and only then moves the
    /// position to which it returns after a rebalance, if the partition stays. A rebalance may start in between.
    pub fn add_all(&mut self, fetched: &mut Fetched, rest: &mut Fetched, last: &mut LastRead) {
        let (before, mut sizes, mut passed) = (self.size, Vec::with_capacity(fetched.len()), 0);
        for message in fetched.iter() {
            if message.error() == 0 {
                let size = size_of(message);
                let comes_again = last.is(message);
                if !comes_again && (self.size + size > self.most && self.count > 0 || last.is_behind(message)) {
                    break;
                }
                if !comes_again {
                    last.set(message, size);
                    self.count += 1;
                    self.size += size;
                }
                sizes.push((!comes_again).then_some(size));
            }
            passed += 1;
        }
        fetched.move_rest(passed, rest);
        (self.messages_left, self.bytes_left) = (sizes.iter().flatten().count(), self.size - before);
        let messages = fetched.iter().filter(|message| message.error() == 0);
        messages.zip(sizes).for_each(|(message, size)| size.into_iter().for_each(|size| self.add(message, size)));
    }

    fn add(&mut self, message: FetchedMessage<'_>, size: usize) {
        let facts = (message.offset(), message.timestamp(), message.leader_epoch());
        self.pack(facts, message.payload(), message.key(), size, |bytes| {
            message.headers(|name, value| put_header(bytes, name, value));
        });
    }

    /// Adds messages of the caller, received at this time.
    pub fn add_given(&mut self, messages: &[GivenMessage<'_>], received: i64) {
        self.received = Some(received);
        self.count += messages.len();
        (self.messages_left, self.bytes_left) = (messages.len(), messages.iter().map(GivenMessage::size).sum());
        for message in messages {
            let facts = (message.offset, message.timestamp, -1);
            self.pack(facts, message.payload, message.key, message.size(), |bytes| {
                message.headers.iter().for_each(|(name, value)| put_header(bytes, name, *value));
            });
        }
    }

    /// One message: offset, timestamp and leader epoch, its bytes, and what writes its headers.
    fn pack(
        &mut self,
        (offset, timestamp, leader_epoch): (i64, i64, i32),
        payload: Option<&[u8]>,
        key: Option<&[u8]>,
        size: usize,
        write_headers: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.make_room(size);
        self.bytes.extend_from_slice(payload.unwrap_or_default());
        self.bytes.extend_from_slice(key.unwrap_or_default());
        let headers = self.bytes.len();
        write_headers(&mut self.bytes);
        self.records.push(Record {
            offset,
            timestamp,
            leader_epoch,
            start: start as u32,
            payload: length(payload),
            key: length(key),
            headers: (self.bytes.len() - headers) as u32,
            word: AtomicUsize::new(0),
        });
    }

    /// Begins another chunk if the present one has no room for a message of this size. Returns where the message
    /// starts.
    fn make_room(&mut self, size: usize) -> usize {
        if !self.records.is_empty() && (self.bytes.len() + size > CHUNK_BYTES || self.records.len() == CHUNK_MESSAGES) {
            self.seal();
        }
        if self.records.is_empty() {
            self.bytes = Buffer::with_capacity(self.bytes_left.min(CHUNK_BYTES).max(size) + PADDING);
            self.records = Vec::with_capacity(self.messages_left.min(CHUNK_MESSAGES));
        }
        self.messages_left -= 1;
        self.bytes_left -= size;
        self.bytes.len()
    }

    fn seal(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let size = self.bytes.len();
        self.bytes.resize(size + PADDING, 0);
        let bytes = Buffer(std::mem::take(&mut self.bytes), Copied::of(size));
        let records = std::mem::take(&mut self.records).into_boxed_slice();
        let decodes = self.format.ahead && records.iter().any(|record| record.payload != NULL);
        let ahead = decodes || self.filter.is_some();
        let kept = if self.format.keeps_parts { records.len() } else { 0 };
        self.chunks.push(Arc::new(Chunk {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            records,
            parts: (0..kept).map(|_| Default::default()).collect(),
            format: Arc::clone(&self.format),
            received: self.received.unwrap_or_else(|| UNIX_EPOCH.elapsed().map_or(-1, |time| time.as_millis() as i64)),
            seek_count: self.seek_count,
            filter: self.filter.clone(),
            answers: OnceLock::new(),
            store: RwLock::new(Arc::new(Store::Whole { bytes: Arc::new(bytes), decoded: None })),
            decoding: AtomicU8::new(if ahead { WAITING } else { NEVER }),
            referenced: Default::default(),
            released: AtomicBool::new(false),
            bytes: size,
            origin: Origin::here(),
        }));
    }

    /// The chunks, and those of them that wait for `run` as decoding tasks.
    pub fn finish(mut self) -> (Vec<Arc<Chunk>>, Vec<Arc<dyn Task>>) {
        self.seal();
        let waiting = self.chunks.iter().filter(|chunk| chunk.decoding.load(Ordering::Relaxed) == WAITING);
        let tasks = waiting.map(|chunk| Arc::clone(chunk) as Arc<dyn Task>).collect();
        (self.chunks, tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_no_more_memory_than_its_messages_may_need() {
        let payload = [b'x'; 1_000];
        for (count, rooms) in [(100, [CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 4_000]), (3, [3_000, 0, 0, 0])] {
            let mut packer = Packer::new("t".into(), 0, 0, Format::LAZY.into(), None, usize::MAX);
            (packer.messages_left, packer.bytes_left) = (count, count * payload.len());
            for offset in 0..count as i64 {
                packer.pack((offset, 7, -1), Some(&payload), None, payload.len(), |_| ());
                let (room, taken) = (rooms[packer.chunks.len()] + PADDING, packer.bytes.capacity());
                // One of a chunk that is gone may be larger.
                let most = if room < CHUNK_BYTES { room } else { CHUNK_BYTES * 2 };
                assert!(taken <= most, "{taken} bytes for {room}");
                assert!(packer.records.capacity() <= count);
            }
            assert_eq!(count, packer.finish().0.iter().map(|chunk| chunk.records().len()).sum());
        }
    }
}
