//! Consumed messages in native memory. The event thread copies what librdkafka delivers into *chunks*, each one buffer with
//! a record per message; librdkafka's own memory is given back at once. So a message object never keeps a client alive
//! or a whole fetch buffer pinned, and the garbage collector never calls librdkafka.
//!
//! A chunk is the unit of decoding (one native task) and of memory: it goes when its batch was released and no message
//! object of it lives. When only a few are kept by the user, just their bytes are (`keep_the_living`).

use crate::decode::{Node, PADDING, Reject, Root, Task, Tree};
use crate::error::Error;
use crate::rd::{Fetched, FetchedMessage, generation};
use crate::spare::Spare;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

/// A chunk is closed at this size; a larger message has one of its own.
pub const CHUNK_BYTES: usize = 32 * 1024;
pub const CHUNK_MESSAGES: usize = 128;

/// Length of what is not there (a null payload or key), other than empty.
const NULL: u32 = u32::MAX;

/// How payloads are decoded ahead of being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As they are.
    Bytes,
    Json,
}

/// One message: what it says of itself, and where its bytes are: payload, key, headers, one behind the other.
pub struct Record {
    pub offset: i64,
    /// Milliseconds since 1970, −1 where unknown.
    pub timestamp: i64,
    pub leader_epoch: i32,
    start: u32,
    payload: u32,
    key: u32,
    headers: u32,
    /// Whether a message object of the owner's stands for it.
    living: AtomicBool,
    /// A word for the owner of that object; 0 at first and after `bury`.
    pub word: AtomicUsize,
}

fn length(part: Option<&[u8]>) -> u32 {
    part.map_or(NULL, |bytes| bytes.len() as u32)
}

impl Record {
    fn payload_len(&self) -> usize {
        if self.payload == NULL { 0 } else { self.payload as usize }
    }

    fn key_len(&self) -> usize {
        if self.key == NULL { 0 } else { self.key as usize }
    }

    /// Bytes of payload; `None` for a tombstone.
    pub fn payload_size(&self) -> Option<usize> {
        (self.payload != NULL).then_some(self.payload as usize)
    }

    fn size(&self) -> usize {
        self.payload_len() + self.key_len() + self.headers as usize
    }
}

/// Where the bytes are.
enum Store {
    Whole {
        bytes: Arc<Buffer>,
        decoded: Option<Decoded>,
    },
    /// The living only, by index, each with its own bytes.
    Kept(Vec<(usize, Box<[u8]>)>),
}

/// Messages' bytes, then the decoder's padding.
struct Buffer(Vec<u8>);

static BUFFERS: Spare<Vec<u8>> = Spare::new(512);
/// Smaller buffers are left to the allocator, larger ones are not kept.
const SPARE_BUFFERS: std::ops::RangeInclusive<usize> = CHUNK_BYTES / 4..=CHUNK_BYTES * 2;

impl Buffer {
    /// An empty one for about that many bytes.
    fn with_capacity(bytes: usize) -> Vec<u8> {
        let spare = if SPARE_BUFFERS.contains(&bytes) { BUFFERS.take() } else { None };
        spare.unwrap_or_else(|| Vec::with_capacity(bytes))
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if SPARE_BUFFERS.contains(&self.0.capacity()) {
            self.0.clear();
            BUFFERS.give(std::mem::take(&mut self.0));
        }
    }
}

struct Decoded {
    tree: Tree,
    roots: Vec<Option<Root>>,
}

static TREES: Spare<Tree> = Spare::new(64);
const SPARE_TREE_BYTES: usize = 256 * 1024;

impl Drop for Decoded {
    fn drop(&mut self) {
        if self.tree.memory() <= SPARE_TREE_BYTES {
            self.tree.clear();
            TREES.give(std::mem::take(&mut self.tree));
        }
    }
}

/// States of decoding ahead.
const NEVER: u8 = 0;
const WAITING: u8 = 1;
const RUNNING: u8 = 2;
const DONE: u8 = 3;

pub struct Chunk {
    pub topic: Arc<str>,
    pub partition: i32,
    records: Box<[Record]>,
    /// Replaced as a whole and not locked while somebody reads: whoever builds Ruby objects of it may have to stop for
    /// another Ractor's garbage collection, which would never come if that Ractor waited here for the lock.
    store: RwLock<Arc<Store>>,
    decoding: AtomicU8,
    living: AtomicUsize,
    /// The batch is done with: what no object stands for may go.
    released: AtomicBool,
    bytes: usize,
    made_in: u64,
}

/// One message's bytes, lent for the time of a call.
pub struct View<'a> {
    pub payload: Option<&'a [u8]>,
    pub key: Option<&'a [u8]>,
    headers: &'a [u8],
}

impl<'a> View<'a> {
    fn new(record: &Record, bytes: &'a [u8]) -> Self {
        let (payload, rest) = bytes.split_at(record.payload_len());
        let (key, headers) = rest.split_at(record.key_len());
        Self {
            payload: (record.payload != NULL).then_some(payload),
            key: (record.key != NULL).then_some(key),
            headers: &headers[..record.headers as usize],
        }
    }

    /// Name and value of each header, in order; a null value is `None`.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let mut rest = self.headers;
        std::iter::from_fn(move || {
            let name = take(&mut rest)??;
            let value = take(&mut rest)?;
            Some((name, value))
        })
    }
}

/// A length and that many bytes, as `put` wrote them; the outer `None` is the end.
#[allow(clippy::option_option)] // the end, null and bytes are three things
fn take<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let length = u32::from_ne_bytes(*length);
    let (part, tail) = tail.split_at(if length == NULL { 0 } else { length as usize });
    *rest = tail;
    Some((length != NULL).then_some(part))
}

fn put(bytes: &mut Vec<u8>, part: Option<&[u8]>) {
    bytes.extend_from_slice(&length(part).to_ne_bytes());
    bytes.extend_from_slice(part.unwrap_or_default());
}

/// Collects messages into chunks.
pub struct Packer {
    topic: Arc<str>,
    partition: i32,
    format: Format,
    bytes: Vec<u8>,
    records: Vec<Record>,
    chunks: Vec<Arc<Chunk>>,
    /// What of the present slice is still to come: the next chunk's size is made to fit.
    messages_left: usize,
    bytes_left: usize,
}

fn size_of(message: FetchedMessage<'_>) -> usize {
    message.payload().map_or(0, <[u8]>::len) + message.key().map_or(0, <[u8]>::len)
}

impl Packer {
    pub fn new(topic: Arc<str>, partition: i32, format: Format) -> Self {
        let (bytes, records, chunks) = (Vec::new(), Vec::new(), Vec::new());
        Self { topic, partition, format, bytes, records, chunks, messages_left: 0, bytes_left: 0 }
    }

    /// Adds the messages among these (the others are errors); returns how many, and the bytes of their payloads and keys.
    pub fn add_all(&mut self, fetched: &Fetched) -> (usize, usize) {
        let messages = || fetched.iter().filter(|message| message.error() == 0);
        let (count, bytes) = messages().fold((0, 0), |(count, bytes), message| (count + 1, bytes + size_of(message)));
        (self.messages_left, self.bytes_left) = (count, bytes);
        messages().for_each(|message| self.add(message));
        (count, bytes)
    }

    fn add(&mut self, message: FetchedMessage<'_>) {
        let (payload, key, size) = (message.payload(), message.key(), size_of(message));
        if !self.records.is_empty() && (self.bytes.len() + size > CHUNK_BYTES || self.records.len() == CHUNK_MESSAGES) {
            self.seal();
        }
        if self.records.is_empty() {
            self.bytes = Buffer::with_capacity(self.bytes_left.min(CHUNK_BYTES).max(size) + PADDING);
            self.records = Vec::with_capacity(self.messages_left.min(CHUNK_MESSAGES));
        }
        self.messages_left -= 1;
        self.bytes_left -= size;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(payload.unwrap_or_default());
        self.bytes.extend_from_slice(key.unwrap_or_default());
        message.headers(|name, value| {
            put(&mut self.bytes, Some(name));
            put(&mut self.bytes, value);
        });
        self.records.push(Record {
            offset: message.offset(),
            timestamp: message.timestamp(),
            leader_epoch: message.leader_epoch(),
            start: start as u32,
            payload: length(payload),
            key: length(key),
            headers: (self.bytes.len() - start - size) as u32,
            living: AtomicBool::new(false),
            word: AtomicUsize::new(0),
        });
    }

    fn seal(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let size = self.bytes.len();
        self.bytes.resize(size + PADDING, 0);
        let bytes = Buffer(std::mem::take(&mut self.bytes));
        let records = std::mem::take(&mut self.records).into_boxed_slice();
        let ahead = self.format == Format::Json && records.iter().any(|record| record.payload != NULL);
        self.chunks.push(Arc::new(Chunk {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            records,
            store: RwLock::new(Arc::new(Store::Whole { bytes: Arc::new(bytes), decoded: None })),
            decoding: AtomicU8::new(if ahead { WAITING } else { NEVER }),
            living: AtomicUsize::new(0),
            released: AtomicBool::new(false),
            bytes: size,
            made_in: generation(),
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

thread_local! {
    /// For documents that were not decoded ahead.
    static SCRATCH: RefCell<Tree> = RefCell::new(Tree::new());
}

impl Chunk {
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Bytes of payloads, keys and headers.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fails in a forked child that looks at its parent's chunk.
    pub fn check_origin(&self) -> Result<(), Error> {
        if self.is_foreign() { Err(Error::forked(self.made_in)) } else { Ok(()) }
    }

    /// Whether a forked child looks at its parent's chunk, whose locks may be held for ever.
    pub fn is_foreign(&self) -> bool {
        self.made_in != generation()
    }

    /// Lends one message's bytes. `None` when they are gone: the batch was released before an object stood for it.
    pub fn view<R>(&self, index: usize, call: impl FnOnce(View<'_>) -> R) -> Option<R> {
        let record = &self.records[index];
        match &*self.store() {
            Store::Whole { bytes, .. } => {
                let start = record.start as usize;
                Some(call(View::new(record, &bytes[start..start + record.size()])))
            }
            Store::Kept(kept) => find(kept, index).map(|bytes| call(View::new(record, bytes))),
        }
    }

    /// Lends one message's decoded JSON; `Err` where the native decoder does not decide (or the payload is null or gone).
    /// A chunk that still waits for its turn is decoded here and now; one that another thread is at is not waited for:
    /// the single document is parsed instead.
    pub fn json<R>(&self, index: usize, call: impl FnOnce(Node<'_>) -> R) -> Result<R, Reject> {
        let record = &self.records[index];
        if record.payload == NULL {
            return Err(Reject);
        }
        self.decode();
        match &*self.store() {
            Store::Whole { bytes, decoded: Some(decoded) } => {
                let root = decoded.roots[index].ok_or(Reject)?;
                Ok(call(decoded.tree.node(bytes, root)))
            }
            Store::Whole { bytes, decoded: None } => {
                let start = record.start as usize;
                parse_alone(bytes, start, start + record.payload_len(), call)
            }
            Store::Kept(kept) => parse_alone(find(kept, index).ok_or(Reject)?, 0, record.payload_len(), call),
        }
    }

    /// Takes a chunk that waits to be decoded through it; does nothing in any other state.
    pub fn decode(&self) {
        let claim = self.decoding.compare_exchange(WAITING, RUNNING, Ordering::AcqRel, Ordering::Relaxed);
        if claim.is_err() {
            return;
        }
        if let Store::Whole { bytes, .. } = &*self.store() {
            let mut tree = TREES.take().unwrap_or_default();
            let mut roots = Vec::with_capacity(self.records.len());
            for record in &self.records {
                let (start, length) = (record.start as usize, record.payload_len());
                let wanted = record.payload != NULL;
                roots.push(if wanted { tree.parse_json(bytes, start, start + length).ok() } else { None });
            }
            let whole = Store::Whole { bytes: Arc::clone(bytes), decoded: Some(Decoded { tree, roots }) };
            let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
            if matches!(**store, Store::Whole { .. }) {
                *store = Arc::new(whole);
            }
        }
        self.decoding.store(DONE, Ordering::SeqCst);
    }

    /// A message object of the owner's stands for the record from now on; false if one does already.
    pub fn raise(&self, index: usize) -> bool {
        let first = !self.records[index].living.swap(true, Ordering::AcqRel);
        if first {
            self.living.fetch_add(1, Ordering::AcqRel);
        }
        first
    }

    /// That object is gone. Never blocks: the garbage collector calls it.
    pub fn bury(&self, index: usize) {
        self.records[index].word.store(0, Ordering::Release);
        self.records[index].living.store(false, Ordering::Release);
        let left = self.living.fetch_sub(1, Ordering::AcqRel) - 1;
        // Worth it once, when few are left; `release` covers what was buried before it.
        if self.released.load(Ordering::Acquire) && left > 0 && left == self.few() {
            self.keep_the_living();
        }
    }

    /// The batch is done with.
    pub fn release(&self) {
        self.released.store(true, Ordering::Release);
        if self.living.load(Ordering::Acquire) <= self.few() {
            self.keep_the_living();
        }
    }

    /// So few living messages that their bytes are copied out: an eighth, at least one.
    fn few(&self) -> usize {
        (self.records.len() / 8).max(1)
    }

    /// Copies out what message objects stand for and frees the rest, as soon as nobody reads it. Skipped in the instant
    /// in which another thread exchanges or fetches the store.
    fn keep_the_living(&self) {
        if self.is_foreign() {
            return;
        }
        let mut store = match self.store.try_write() {
            Ok(store) => store,
            Err(TryLockError::Poisoned(store)) => store.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let Store::Whole { bytes, .. } = &**store else { return };
        let living = self.records.iter().enumerate().filter(|(_, record)| record.living.load(Ordering::Acquire));
        let kept =
            living.map(|(index, record)| (index, bytes[record.start as usize..][..record.size()].into())).collect();
        *store = Arc::new(Store::Kept(kept));
    }
}

fn find(kept: &[(usize, Box<[u8]>)], index: usize) -> Option<&[u8]> {
    kept.binary_search_by_key(&index, |(kept, _)| *kept).ok().map(|found| &*kept[found].1)
}

fn parse_alone<R>(bytes: &[u8], start: usize, end: usize, call: impl FnOnce(Node<'_>) -> R) -> Result<R, Reject> {
    SCRATCH.with_borrow_mut(|tree| {
        tree.clear();
        let root = tree.parse_json(bytes, start, end)?;
        let result = call(tree.node(bytes, root));
        if tree.memory() > SPARE_TREE_BYTES {
            *tree = Tree::new();
        }
        Ok(result)
    })
}

impl Task for Chunk {
    fn run(&self) {
        self.decode();
    }
}
