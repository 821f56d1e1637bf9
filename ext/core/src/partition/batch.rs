//! Messages of one partition, as the owner gets them.

use super::credit::Credit;
use super::cursor::Cursor;
use crate::chunk::Chunk;
use crate::lock;
use crate::rd::Origin;
use std::sync::{Arc, Mutex};

/// Messages of one partition, in order.
pub struct Batch {
    pub topic: Arc<str>,
    pub partition: i32,
    pub(super) len: usize,
    pub(super) dropped: usize,
    pub(super) bytes: usize,
    pub(super) cursor: Arc<Cursor>,
    /// Seeks of the partition before it was read.
    pub seek_count: u64,
    /// Whether the partition's log starts again with this batch.
    pub restarted: bool,
    /// The offset after its last message.
    pub(super) next: i64,
    /// Emptied by `release`.
    pub(super) chunks: Mutex<Vec<Arc<Chunk>>>,
    /// Given back by `release`, or when the batch is dropped.
    pub(super) credit: Mutex<Option<Arc<Credit>>>,
    /// A forked child must not touch its parent's poller.
    pub(super) origin: Origin,
}

impl Batch {
    /// Messages that the filter let pass (or could not judge).
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Messages that it refused.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// To be called when all have been judged.
    pub(super) fn count_admitted(&mut self) {
        let read = self.len;
        self.len = self.chunks().iter().map(|chunk| chunk.admitted().count()).sum();
        self.dropped = read - self.len;
    }

    /// Bytes of payloads, keys and headers, refused ones included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the partition was sought, revoked or assigned again since the batch was read.
    pub fn is_stale(&self) -> bool {
        !self.origin.is_foreign() && self.cursor.seek_count() != self.seek_count
    }

    /// An empty batch of the same reading, which is stale when this one is. It keeps no messages.
    pub fn emptied(&self) -> Self {
        Self {
            topic: Arc::clone(&self.topic),
            cursor: Arc::clone(&self.cursor),
            chunks: Mutex::default(),
            credit: Mutex::default(),
            len: 0,
            dropped: 0,
            bytes: 0,
            ..*self
        }
    }

    /// The owner has the batch: moves the position behind it.
    pub fn advance(&self) {
        self.cursor.advance(self.seek_count, self.next);
    }

    /// The chunks; none after `release`.
    pub fn chunks(&self) -> Vec<Arc<Chunk>> {
        lock(&self.chunks).clone()
    }

    /// Whether unreleased batches take half of what the partition may have in memory. False after `release`.
    pub fn is_crowded(&self) -> bool {
        !self.origin.is_foreign() && lock(&self.credit).as_ref().is_some_and(|credit| credit.is_half_spent())
    }

    /// Lets the partition be read on, and frees what no message object stands for. Idempotent. Returns the bytes that
    /// it freed.
    pub fn release(&self) -> usize {
        if self.origin.is_foreign() {
            return 0;
        }
        let chunks = std::mem::take(&mut *lock(&self.chunks));
        let freed = chunks.iter().filter(|chunk| chunk.release()).map(|chunk| chunk.bytes()).sum();
        let credit = lock(&self.credit).take();
        if let Some(credit) = credit {
            credit.give_back(self.bytes);
        }
        freed
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.release();
    }
}
