//! An assigned partition: its own queue, cut off from the subscription's, and the credit that bounds how much of it
//! waits in batches. A partition whose reader is busy is simply not read: no pause, nothing purged and fetched again.
//!
//! A partition counts its seeks; a log that starts again and the end of the assignment count, too. A batch keeps the
//! count from when it was read, and is stale once the count is higher.

mod batch;
mod credit;
mod cursor;
mod given;
mod pending_filters;

use crate::chunk::{LastRead, Packer};
use crate::decode::{Pool, Task};
use crate::filter::Filter;
use crate::format::Format;
use crate::lock;
use crate::poller::Poller;
use crate::rd::fetching::QueueRead;
use crate::rd::{Client, Fetched, FetchedMessage, Origin, Queue, Token, codes, decompression};
pub use batch::Batch;
pub use credit::Credit;
use cursor::Cursor;
pub use given::GivenPartition;
use pending_filters::PendingFilters;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The result of one read of a partition.
pub enum ReadResult {
    Batch(Batch),
    /// `_PARTITION_EOF` (−191) or an error of the partition: code, sentence, offset.
    Notice(i32, String, i64),
}

/// Bounds of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub messages: usize,
    pub bytes: usize,
    /// Batches of one partition that may be out at once.
    pub prefetch: usize,
    /// The most bytes of a partition that may be out before the next batch.
    pub prefetch_bytes: usize,
    /// Messages are read one by one (see `Queue::fetch_singly`).
    pub singly: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { messages: 100, bytes: 1 << 20, prefetch: 16, prefetch_bytes: 2 << 20, singly: false }
    }
}

/// No offset, as librdkafka writes it.
pub const UNKNOWN: i64 = -1001;

/// Messages read from librdkafka in one call, at most: what a batch has no room for waits for the next.
const SLICE: usize = 64;

#[derive(Default)]
struct Reading {
    /// False until it is assigned, and again once it is given up.
    open: bool,
    /// Seeks in progress.
    holds: u32,
    /// The owner paused the partition.
    paused: bool,
    /// Messages that came after the last batch in librdkafka's queue, and had no room in it.
    rest: Fetched,
    /// The last message that was read since the last seek.
    last: LastRead,
    /// librdkafka's position may be behind messages that were not read: since the last seek, an error came in their
    /// place (issue 4844), or the log started again.
    astray: bool,
}

impl Reading {
    /// The offset at which the log starts again, because its topic was deleted and created again, or it lost its end.
    /// What was read belongs to the old log.
    fn restart(&self) -> Option<i64> {
        self.rest.first().filter(|first| self.last.is_behind(*first)).map(|first| first.offset())
    }
}

pub struct Partition {
    pub topic: Arc<str>,
    pub number: i32,
    /// Held while messages are taken and handed over. Declared before the queue: the messages here must be dropped
    /// before their client.
    reading: Mutex<Reading>,
    queue: Queue,
    credit: Arc<Credit>,
    cursor: Arc<Cursor>,
    format: Arc<Format>,
    /// Which messages the owner gets.
    filter: Option<Arc<Filter>>,
    /// Used where there is a filter.
    pending_filters: PendingFilters,
    limits: Limits,
    /// Held by the seek in progress.
    seeking: Mutex<()>,
    /// The number of the seek that was announced last.
    seeks: AtomicU64,
    /// Notices found among messages, kept for the next looks.
    notices: Mutex<VecDeque<(i32, String, i64)>>,
}

impl Partition {
    /// Separates the partition's queue. Call it before the partition is assigned, and `open` afterwards. Position
    /// −1001: not known.
    #[allow(clippy::too_many_arguments)] // made in one place
    pub fn new(
        client: &Arc<Client>,
        topic: Arc<str>,
        number: i32,
        position: i64,
        format: Arc<Format>,
        filter: Option<Arc<Filter>>,
        limits: Limits,
        poller: &Arc<Poller>,
        token: Token,
    ) -> Option<Arc<Self>> {
        let queue = Queue::partition(client, &topic, number)?;
        queue.signal(poller.wakeup(), token);
        let credit = Credit::new(limits, Arc::clone(poller), token, queue.watched());
        Some(Arc::new(Self {
            topic,
            number,
            reading: Mutex::default(),
            queue,
            credit: Arc::new(credit),
            cursor: Cursor::new(position),
            format,
            filter,
            pending_filters: PendingFilters::default(),
            limits,
            seeking: Mutex::default(),
            seeks: AtomicU64::new(0),
            notices: Mutex::default(),
        }))
    }

    pub fn is(&self, topic: &str, number: i32) -> bool {
        self.number == number && &*self.topic == topic
    }

    pub fn is_open(&self) -> bool {
        lock(&self.reading).open
    }

    /// It is assigned: what comes now is of this assignment.
    pub fn open(&self) {
        lock(&self.reading).open = true;
        self.schedule_read();
    }

    /// Batches that are handed over come before this call returns; none comes afterwards.
    pub fn close(&self) {
        let mut reading = lock(&self.reading);
        reading.open = false;
        self.drop_rest(&mut reading);
        drop(reading);
        self.credit.close();
        self.queue.unsignal();
        self.cursor.begin(UNKNOWN);
        self.pending_filters.clear();
    }

    /// What comes next has nothing to do with what was read.
    fn drop_rest(&self, reading: &mut Reading) {
        reading.rest.clear();
        reading.last = LastRead::default();
        reading.astray = false;
        self.credit.drop_rest();
    }

    /// Whether a message came since the last seek: librdkafka knows the place, then.
    pub fn has_read(&self) -> bool {
        !lock(&self.reading).last.is_none()
    }

    pub fn announce_seek(&self) -> u64 {
        self.seeks.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn last_seek(&self) -> u64 {
        self.seeks.load(Ordering::SeqCst)
    }

    pub fn turn_to_seek(&self) -> MutexGuard<'_, ()> {
        lock(&self.seeking)
    }

    /// Stops reading until `release`, which must follow.
    pub fn hold(&self) {
        lock(&self.reading).holds += 1;
    }

    pub fn release(&self) {
        lock(&self.reading).holds -= 1;
        self.schedule_read();
    }

    /// Leaves messages in their queue until `resume`.
    pub fn pause(&self) {
        lock(&self.reading).paused = true;
    }

    pub fn resume(&self) {
        lock(&self.reading).paused = false;
        self.schedule_read();
    }

    /// Makes everything read up to now stale. Call it between `hold` and `release`.
    pub fn begin(&self, position: i64) {
        self.drop_rest(&mut lock(&self.reading));
        lock(&self.notices).clear();
        self.cursor.begin(position);
        self.pending_filters.clear();
    }

    /// The next message that the owner gets. `None`: not known before the first one.
    pub fn position(&self) -> Option<i64> {
        Some(lock(&self.cursor.state).position).filter(|position| *position >= 0)
    }

    /// Does the owner have every message that was taken from the queue since the last seek, and at least one?
    pub fn is_all_given(&self) -> bool {
        let reading = lock(&self.reading);
        reading.rest.is_empty() && self.position().is_some_and(|position| reading.last.ends_at(position))
    }

    /// librdkafka's position and its leader epoch, which `ask` returns, if only ends of transactions and aborted
    /// messages are between `offset` and it. `None`: there is nothing, or a message before the position is not read or
    /// is not before `offset`. Does not wait for a read in progress.
    pub fn behind(&self, offset: i64, ask: impl FnOnce() -> Option<(i64, i32)>) -> Option<(i64, i32)> {
        // Held while `ask` runs, so that nothing is taken from the queue meanwhile.
        let reading = self.reading.try_lock().ok()?;
        let all_read = reading.open && reading.holds == 0 && !reading.astray && reading.rest.is_empty();
        if !all_read || !reading.last.ends_before(offset) {
            return None;
        }
        ask().filter(|(position, _)| *position > offset)
    }

    /// Signals may have come while it was not read.
    fn schedule_read(&self) {
        self.credit.schedule_read();
    }

    /// Takes a batch, without waiting, and hands it on. Returns false if nothing can be taken now. By then, decoding
    /// and filtering of the batch have started.
    pub fn read(&self, fetched: &mut Fetched, hand_on: impl FnOnce(ReadResult)) -> bool {
        let mut reading = lock(&self.reading);
        if !reading.open || reading.holds > 0 || reading.paused {
            return false;
        }
        self.take(fetched, &mut reading).map(hand_on).is_some()
    }

    fn notice(&self) -> Option<ReadResult> {
        lock(&self.notices).pop_front().map(|(code, reason, offset)| ReadResult::Notice(code, reason, offset))
    }

    fn take(&self, fetched: &mut Fetched, reading: &mut Reading) -> Option<ReadResult> {
        loop {
            if let Some(batch) = self.pending_filters.pop() {
                return Some(ReadResult::Batch(batch));
            }
            if self.credit.is_spent() {
                return None;
            }
            // A notice comes after the batches before it.
            let notice = if self.pending_filters.is_empty() { self.notice() } else { None };
            if notice.is_some() {
                return notice;
            }
            let Some((batch, tasks)) = self.read_batch(fetched, reading) else { break };
            if self.filter.is_none() {
                Pool::global().submit_many(tasks);
                return Some(ReadResult::Batch(batch));
            }
            Pool::global().submit_many(self.pending_filters.push(batch, &self.credit));
        }
        if self.pending_filters.is_empty() { self.notice() } else { None }
    }

    /// Reads the next batch. Also returns the tasks that decode it. The batch begins with the messages that had no room
    /// in the last one.
    fn read_batch(&self, fetched: &mut Fetched, reading: &mut Reading) -> Option<(Batch, Vec<Arc<dyn Task>>)> {
        let (topic, format, filter) = (Arc::clone(&self.topic), Arc::clone(&self.format), self.filter.clone());
        let restart = reading.restart();
        if let Some(offset) = restart {
            self.cursor.begin(offset);
            reading.last = LastRead::default();
            reading.astray = true;
        }
        let seek_count = self.cursor.seek_count();
        let mut packer = Packer::new(topic, self.number, seek_count, format, filter, self.limits.bytes);
        self.fill(&mut packer, fetched, reading);
        let count = packer.count();
        if count == 0 {
            return if reading.restart().is_some() { self.read_batch(fetched, reading) } else { None };
        }
        let (chunks, tasks) = packer.finish();
        let bytes = chunks.iter().map(|chunk| chunk.bytes()).sum();
        let next = chunks.last().and_then(|chunk| chunk.records().last()).map_or(UNKNOWN, |record| record.offset + 1);
        self.credit.take(QueueRead { bytes, messages: count, rest: reading.rest.len() });
        let batch = Batch {
            topic: Arc::clone(&self.topic),
            partition: self.number,
            len: count,
            dropped: 0,
            bytes,
            cursor: Arc::clone(&self.cursor),
            seek_count,
            restarted: restart.is_some(),
            next,
            chunks: Mutex::new(chunks),
            credit: Mutex::new(Some(Arc::clone(&self.credit))),
            origin: Origin::here(),
        };
        Some((batch, tasks))
    }

    /// Takes messages from the queue until the batch is full, or none is left. Keeps errors as notices.
    fn fill(&self, packer: &mut Packer, fetched: &mut Fetched, Reading { rest, last, astray, .. }: &mut Reading) {
        rest.move_rest(0, fetched);
        while packer.count() < self.limits.messages && !packer.is_full() && rest.is_empty() {
            let wanted = SLICE.min(self.limits.messages - packer.count());
            let came = if !fetched.is_empty() {
                wanted
            } else if self.limits.singly {
                self.queue.fetch_singly(wanted, fetched)
            } else {
                self.queue.fetch(wanted, 0, fetched)
            };
            packer.add_all(fetched, rest, last);
            for message in fetched.iter().filter(|message| message.error() != 0) {
                *astray |= message.error() != codes::PARTITION_EOF;
                lock(&self.notices).push_back((message.error(), explained(&message), message.offset()));
            }
            fetched.clear();
            if came < wanted {
                break;
            }
        }
    }
}

/// librdkafka's sentence; where a batch may have been too large, with the limit.
fn explained(message: &FetchedMessage) -> String {
    let text = message.error_text();
    if message.error() != codes::BAD_COMPRESSION {
        return text;
    }
    format!(
        "{text}; it is damaged, or more than {} bytes when decompressed (receive.message.max.bytes)",
        decompression::limit()
    )
}

#[cfg(test)]
mod tests;
