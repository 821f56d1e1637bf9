//! An assigned partition: its own queue, cut off from the consumer's, and the credit that bounds how much of it waits in
//! batches. A partition whose reader is busy is simply not read: no pause, nothing purged and fetched again.

use crate::chunk::{Chunk, Format, Packer};
use crate::decode::Pool;
use crate::lock;
use crate::poller::Poller;
use crate::rd::{Client, Fetched, Queue, Token, generation};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Batches of a partition that may be out at once, and their bytes.
pub struct Credit {
    /// Batches and bytes that are out.
    out: Mutex<(usize, usize)>,
    limits: Limits,
    poller: Arc<Poller>,
    token: Token,
}

impl Credit {
    fn spent(&self, (batches, bytes): (usize, usize)) -> bool {
        batches >= self.limits.prefetch || bytes >= self.limits.prefetch_bytes
    }

    fn is_spent(&self) -> bool {
        self.spent(*lock(&self.out))
    }

    fn take(&self, bytes: usize) {
        let mut out = lock(&self.out);
        *out = (out.0 + 1, out.1 + bytes);
    }

    fn give_back(&self, bytes: usize) {
        let mut out = lock(&self.out);
        let was_spent = self.spent(*out);
        *out = (out.0 - 1, out.1 - bytes);
        // Who had no credit is not being read: it has to be looked at again.
        if was_spent && !self.spent(*out) {
            self.poller.wake(self.token);
        }
    }
}

/// What one look at a partition brought.
pub enum Taken {
    Batch(Batch),
    /// Nothing is there, or nothing may be taken now.
    Nothing,
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
}

impl Default for Limits {
    fn default() -> Self {
        Self { messages: 100, bytes: 1 << 20, prefetch: 8, prefetch_bytes: 2 << 20 }
    }
}

/// Messages read from librdkafka in one call, so that the bytes bound is met nearly.
const SLICE: usize = 64;

pub struct Partition {
    pub topic: Arc<str>,
    pub number: i32,
    queue: Queue,
    credit: Arc<Credit>,
    format: Format,
    limits: Limits,
    /// False once it is given up: nothing more is taken or handed on.
    open: Mutex<bool>,
    /// Notices found among messages, kept for the next looks.
    notices: Mutex<VecDeque<(i32, String, i64)>>,
}

impl Partition {
    /// Cuts the partition's queue off; to be called before the partition is assigned.
    pub fn new(
        client: &Arc<Client>,
        topic: Arc<str>,
        number: i32,
        format: Format,
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
            queue,
            credit: Arc::new(credit),
            format,
            limits,
            open: Mutex::new(true),
            notices: Mutex::default(),
        }))
    }

    /// What was handed on before this returns was handed on before it; nothing is afterwards.
    pub fn close(&self) {
        *lock(&self.open) = false;
        self.queue.unsignal();
    }

    /// Hands something on, unless the partition was given up since it was taken.
    pub fn hand_on(&self, push: impl FnOnce()) {
        let open = lock(&self.open);
        if *open {
            push();
        }
    }

    fn notice(&self) -> Option<Taken> {
        lock(&self.notices).pop_front().map(|(code, reason, offset)| Taken::Notice(code, reason, offset))
    }

    /// Takes a batch of what is there, without waiting; its decoding has begun when this returns.
    pub fn take(&self, fetched: &mut Fetched) -> Taken {
        if !*lock(&self.open) || self.credit.is_spent() {
            return Taken::Nothing;
        }
        if let Some(notice) = self.notice() {
            return notice;
        }
        let mut packer = Packer::new(Arc::clone(&self.topic), self.number, self.format);
        let (mut count, mut bytes) = (0, 0);
        while count < self.limits.messages && bytes < self.limits.bytes {
            let wanted = SLICE.min(self.limits.messages - count);
            let came = self.queue.fetch(wanted, 0, fetched);
            let (messages, size) = packer.add_all(fetched);
            count += messages;
            bytes += size;
            for message in fetched.iter().filter(|message| message.error() != 0) {
                lock(&self.notices).push_back((message.error(), message.error_text(), message.offset()));
            }
            fetched.clear();
            if came < wanted {
                break;
            }
        }
        if count == 0 {
            return self.notice().unwrap_or(Taken::Nothing);
        }
        let (chunks, tasks) = packer.finish();
        Pool::global().submit_many(tasks);
        let bytes = chunks.iter().map(|chunk| chunk.bytes()).sum();
        self.credit.take(bytes);
        Taken::Batch(Batch {
            topic: Arc::clone(&self.topic),
            partition: self.number,
            len: count,
            bytes,
            chunks: Mutex::new(chunks),
            credit: Mutex::new(Some(Arc::clone(&self.credit))),
            made_in: generation(),
        })
    }
}

/// Messages of one partition, in order.
pub struct Batch {
    pub topic: Arc<str>,
    pub partition: i32,
    len: usize,
    bytes: usize,
    /// Emptied by `release`.
    chunks: Mutex<Vec<Arc<Chunk>>>,
    /// Given back by `release`, or when the batch is dropped.
    credit: Mutex<Option<Arc<Credit>>>,
    /// Fork generation: a child must not touch its parent's poller.
    made_in: u64,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of payloads, keys and headers.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunks; none after `release`.
    pub fn chunks(&self) -> Vec<Arc<Chunk>> {
        lock(&self.chunks).clone()
    }

    /// Lets the partition be read on, and frees what no message object stands for. Idempotent.
    pub fn release(&self) {
        if self.made_in != generation() {
            return;
        }
        for chunk in std::mem::take(&mut *lock(&self.chunks)) {
            chunk.release();
        }
        if let Some(credit) = lock(&self.credit).take() {
            credit.give_back(self.bytes);
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.release();
    }
}
