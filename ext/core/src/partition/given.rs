//! A partition whose messages come from the caller instead of from Kafka, for tests without a broker. Its batches are
//! decoded and filtered as those of a real one, but on the calling thread.

use super::cursor::Cursor;
use super::{Batch, UNKNOWN};
use crate::chunk::{GivenMessage, Packer};
use crate::filter::Filter;
use crate::format::Format;
use crate::rd::Origin;
use std::sync::{Arc, Mutex};

pub struct GivenPartition {
    topic: Arc<str>,
    number: i32,
    format: Arc<Format>,
    filter: Option<Arc<Filter>>,
    cursor: Arc<Cursor>,
}

impl GivenPartition {
    pub fn new(topic: &str, number: i32, format: Format, filter: Option<Filter>) -> Self {
        let (format, filter) = (Arc::new(format), filter.map(Arc::new));
        Self { topic: topic.into(), number, format, filter, cursor: Cursor::new(UNKNOWN) }
    }

    /// Makes the batches up to now stale, as a seek or the end of an assignment does.
    pub fn begin(&self) {
        self.cursor.begin(UNKNOWN);
    }

    /// A batch of these messages, in the order of their offsets. received: milliseconds since 1970.
    pub fn batch(&self, messages: &[GivenMessage<'_>], received: i64) -> Batch {
        let (format, filter, seek_count) = (Arc::clone(&self.format), self.filter.clone(), self.cursor.seek_count());
        let mut packer = Packer::new(Arc::clone(&self.topic), self.number, seek_count, format, filter, usize::MAX);
        packer.add_given(messages, received);
        let (chunks, tasks) = packer.finish();
        tasks.iter().for_each(|task| task.run());
        let mut batch = Batch {
            topic: Arc::clone(&self.topic),
            partition: self.number,
            len: messages.len(),
            dropped: 0,
            bytes: chunks.iter().map(|chunk| chunk.bytes()).sum(),
            cursor: Arc::clone(&self.cursor),
            seek_count,
            restarted: false,
            next: UNKNOWN, // it has no position
            chunks: Mutex::new(chunks),
            credit: Mutex::new(None),
            origin: Origin::here(),
        };
        batch.count_admitted();
        batch
    }
}

#[cfg(test)]
mod tests;
