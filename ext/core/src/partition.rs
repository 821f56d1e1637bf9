//! An assigned partition: its own queue, cut off from the subscription's, and the credit that bounds how much of it
//! waits in batches. A partition whose reader is busy is simply not read: no pause, nothing purged and fetched again.
//!
//! What is read belongs to an epoch: a seek, and the end of the assignment, begin another, and batches of the last are
//! stale.

mod pending_filters;
#[cfg(test)]
mod tests;

use crate::chunk::{Chunk, LastRead, Packer};
use crate::decode::{Pool, Task};
use crate::filter::Filter;
use crate::format::Format;
use crate::lock;
use crate::poller::Poller;
use crate::rd::{Client, Fetched, FetchedMessage, Queue, Token, codes, generation, gzip};
use pending_filters::PendingFilters;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Batches of a partition that may be out at once, and their bytes.
pub struct Credit {
    out: Mutex<Out>,
    limits: Limits,
    poller: Arc<Poller>,
    token: Token,
}

#[derive(Default)]
struct Out {
    batches: usize,
    bytes: usize,
    /// The partition found its credit spent, and is not read until half of it is back: looked at again for each batch that
    /// comes back, it would cost two changes of thread a batch.
    spent: bool,
}

impl Credit {
    /// Whether no batch may be read now; `give_back` has the partition looked at again then.
    fn is_spent(&self) -> bool {
        let mut out = lock(&self.out);
        out.spent |= out.batches >= self.limits.prefetch || out.bytes >= self.limits.prefetch_bytes;
        out.spent
    }

    fn take(&self, bytes: usize) {
        let mut out = lock(&self.out);
        out.batches += 1;
        out.bytes += bytes;
    }

    fn give_back(&self, bytes: usize) {
        let mut out = lock(&self.out);
        out.batches -= 1;
        out.bytes -= bytes;
        if out.spent && out.batches <= self.limits.prefetch / 2 && out.bytes < self.limits.prefetch_bytes {
            out.spent = false;
            self.schedule_read();
        }
    }

    /// Has the partition looked at again.
    fn schedule_read(&self) {
        self.poller.wake(self.token);
    }
}

/// Where the owner of a partition is: shared with its batches.
struct Cursor {
    state: Mutex<CursorState>,
}

#[derive(Clone, Copy)]
struct CursorState {
    epoch: u64,
    /// The next message that the owner gets; −1001 as long as nobody knows.
    position: i64,
}

impl Cursor {
    fn new(position: i64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(CursorState { epoch: 0, position }) })
    }

    fn epoch(&self) -> u64 {
        lock(&self.state).epoch
    }

    fn begin(&self, position: i64) {
        let mut place = lock(&self.state);
        *place = CursorState { epoch: place.epoch + 1, position };
    }

    /// The owner has what was read in this epoch, up to this offset.
    fn advance(&self, epoch: u64, next: i64) {
        let mut place = lock(&self.state);
        if place.epoch == epoch {
            place.position = next;
        }
    }
}

/// What one look at a partition brought.
pub enum Taken {
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
    /// No further batch of a partition of which so many bytes are out.
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
    /// Seeks under way.
    holds: u32,
    /// The owner wants nothing of it at the moment.
    paused: bool,
    /// What came behind the last batch in librdkafka's queue, and had no room in it.
    rest: Fetched,
    /// The last message that was read in this epoch.
    last: LastRead,
}

impl Reading {
    /// Where the log begins anew: its topic was made again, say, or it lost its end. What came is not of the one before.
    fn restart(&self) -> Option<i64> {
        self.rest.first().filter(|first| self.last.is_behind(*first)).map(|first| first.offset())
    }
}

pub struct Partition {
    pub topic: Arc<str>,
    pub number: i32,
    /// Held while messages are taken and handed on. Before the queue: what waits here goes before its client may.
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
    /// Held by the seek that is under way.
    seeking: Mutex<()>,
    /// The number of the seek that was announced last.
    seeks: AtomicU64,
    /// Notices found among messages, kept for the next looks.
    notices: Mutex<VecDeque<(i32, String, i64)>>,
}

impl Partition {
    /// Cuts the partition's queue off; to be called before the partition is assigned, as `open` is after it. Position
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
        let credit = Credit { out: Mutex::default(), limits, poller: Arc::clone(poller), token };
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

    /// What was handed on before this returns was handed on before it; nothing is afterwards.
    pub fn close(&self) {
        let mut reading = lock(&self.reading);
        reading.open = false;
        reading.rest.clear();
        reading.last = LastRead::default();
        drop(reading);
        self.queue.unsignal();
        self.cursor.begin(UNKNOWN);
        self.pending_filters.clear();
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

    /// Nothing is read until `release`, which has to follow.
    pub fn hold(&self) {
        lock(&self.reading).holds += 1;
    }

    pub fn release(&self) {
        lock(&self.reading).holds -= 1;
        self.schedule_read();
    }

    /// What comes is left in its queue, until `resume`.
    pub fn pause(&self) {
        lock(&self.reading).paused = true;
    }

    pub fn resume(&self) {
        lock(&self.reading).paused = false;
        self.schedule_read();
    }

    /// What was read up to now is stale. To be called between `hold` and `release`.
    pub fn begin(&self, position: i64) {
        let mut reading = lock(&self.reading);
        reading.rest.clear();
        reading.last = LastRead::default();
        drop(reading);
        lock(&self.notices).clear();
        self.cursor.begin(position);
        self.pending_filters.clear();
    }

    /// The next message that the owner gets; `None`: not known before one came.
    pub fn position(&self) -> Option<i64> {
        Some(lock(&self.cursor.state).position).filter(|position| *position >= 0)
    }

    /// Signals may have come while it was not read.
    fn schedule_read(&self) {
        self.credit.schedule_read();
    }

    /// Takes a batch of what is there, without waiting, and hands it on; false when there is nothing to be taken now. Its
    /// decoding has begun then, and its filter has been asked.
    pub fn read(&self, fetched: &mut Fetched, hand_on: impl FnOnce(Taken)) -> bool {
        let mut reading = lock(&self.reading);
        if !reading.open || reading.holds > 0 || reading.paused {
            return false;
        }
        self.take(fetched, &mut reading).map(hand_on).is_some()
    }

    fn notice(&self) -> Option<Taken> {
        lock(&self.notices).pop_front().map(|(code, reason, offset)| Taken::Notice(code, reason, offset))
    }

    fn take(&self, fetched: &mut Fetched, reading: &mut Reading) -> Option<Taken> {
        loop {
            if let Some(batch) = self.pending_filters.pop() {
                return Some(Taken::Batch(batch));
            }
            if self.credit.is_spent() {
                return None;
            }
            // Notices are of what comes behind the batches before them.
            let notice = if self.pending_filters.is_empty() { self.notice() } else { None };
            if notice.is_some() {
                return notice;
            }
            let Some((batch, tasks)) = self.read_batch(fetched, reading) else { break };
            if self.filter.is_none() {
                Pool::global().submit_many(tasks);
                return Some(Taken::Batch(batch));
            }
            Pool::global().submit_many(self.pending_filters.push(batch, &self.credit));
        }
        if self.pending_filters.is_empty() { self.notice() } else { None }
    }

    /// The next batch, and what is to be run for its decoding. It begins with the rest of what came with the last one.
    fn read_batch(&self, fetched: &mut Fetched, reading: &mut Reading) -> Option<(Batch, Vec<Arc<dyn Task>>)> {
        let (topic, format, filter) = (Arc::clone(&self.topic), Arc::clone(&self.format), self.filter.clone());
        let restart = reading.restart();
        if let Some(offset) = restart {
            self.cursor.begin(offset);
            reading.last = LastRead::default();
        }
        let Reading { rest, last, .. } = reading;
        let epoch = self.cursor.epoch();
        let mut packer = Packer::new(topic, self.number, epoch, format, filter, self.limits.bytes);
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
                lock(&self.notices).push_back((message.error(), explained(&message), message.offset()));
            }
            fetched.clear();
            if came < wanted {
                break;
            }
        }
        let count = packer.count();
        if count == 0 {
            return if reading.restart().is_some() { self.read_batch(fetched, reading) } else { None };
        }
        let (chunks, tasks) = packer.finish();
        let bytes = chunks.iter().map(|chunk| chunk.bytes()).sum();
        let next = chunks.last().and_then(|chunk| chunk.records().last()).map_or(UNKNOWN, |record| record.offset + 1);
        self.credit.take(bytes);
        let batch = Batch {
            topic: Arc::clone(&self.topic),
            partition: self.number,
            len: count,
            dropped: 0,
            bytes,
            cursor: Arc::clone(&self.cursor),
            epoch,
            restarted: restart.is_some(),
            next,
            chunks: Mutex::new(chunks),
            credit: Mutex::new(Some(Arc::clone(&self.credit))),
            made_in: generation(),
        };
        Some((batch, tasks))
    }
}

/// librdkafka's sentence; where a batch may have been too large, with the limit.
fn explained(message: &FetchedMessage) -> String {
    let text = message.error_text();
    if message.error() != codes::BAD_COMPRESSION {
        return text;
    }
    format!("{text}; it is damaged, or more than {} bytes when decompressed (receive.message.max.bytes)", gzip::limit())
}

/// Messages of one partition, in order.
pub struct Batch {
    pub topic: Arc<str>,
    pub partition: i32,
    len: usize,
    dropped: usize,
    bytes: usize,
    cursor: Arc<Cursor>,
    pub epoch: u64,
    /// Whether the partition's log began anew with it.
    pub restarted: bool,
    /// The offset behind its last message.
    next: i64,
    /// Emptied by `release`.
    chunks: Mutex<Vec<Arc<Chunk>>>,
    /// Given back by `release`, or when the batch is dropped.
    credit: Mutex<Option<Arc<Credit>>>,
    /// Fork generation: a child must not touch its parent's poller.
    made_in: u64,
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
    fn count_admitted(&mut self) {
        let read = self.len;
        self.len = self.chunks().iter().map(|chunk| chunk.admitted().count()).sum();
        self.dropped = read - self.len;
    }

    /// Bytes of payloads, keys and headers, refused ones included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the partition was sought, given up or assigned anew since it was read.
    pub fn is_stale(&self) -> bool {
        self.made_in == generation() && self.cursor.epoch() != self.epoch
    }

    /// The owner has it: the position is behind it.
    pub fn advance(&self) {
        self.cursor.advance(self.epoch, self.next);
    }

    /// The chunks; none after `release`.
    pub fn chunks(&self) -> Vec<Arc<Chunk>> {
        lock(&self.chunks).clone()
    }

    /// Lets the partition be read on, and frees what no message object stands for. Idempotent. Returns the bytes that it
    /// freed.
    pub fn release(&self) -> usize {
        if self.made_in != generation() {
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
