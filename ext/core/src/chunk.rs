//! Consumed messages in native memory. The event thread copies what librdkafka delivers into *chunks*, each one buffer
//! with a record per message; librdkafka's own memory is given back at once. So a message object never keeps a client
//! alive or a whole fetch buffer pinned, and the garbage collector never calls librdkafka.
//!
//! A chunk is the unit of decoding (one native task) and of memory. It is freed when its batch was released and no
//! message object of it lives. If the user keeps only a few messages, only their bytes stay (`thin`).

mod packer;
mod record;
mod store;

use crate::budget::{Copied, Reservation};
use crate::decode::avro::SchemaId;
use crate::decode::{Node, Refusal, Root, Task, Tree};
use crate::error::Error;
use crate::filter::{Document, Filter};
use crate::format::{Encoding, Format};
use crate::rd::Origin;
use crate::view::NULL;
pub use crate::view::View;
pub use packer::{GivenMessage, LastRead, Packer};
pub use record::{MessagePart, Record};
use std::cell::RefCell;
use std::iter::once;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockWriteGuard, TryLockError};
pub use store::SingleDocument;
use store::{Buffer, Decoded, SPARE_TREE_BYTES, Store, TREES, find};

/// A chunk is closed at this size; a larger message has one of its own.
pub const CHUNK_BYTES: usize = 32 * 1024;
pub const CHUNK_MESSAGES: usize = 128;

/// States of decoding ahead.
const NEVER: u8 = 0;
const WAITING: u8 = 1;
const RUNNING: u8 = 2;
const DONE: u8 = 3;

pub struct Chunk {
    pub topic: Arc<str>,
    pub partition: i32,
    records: Box<[Record]>,
    /// The words of each message's key and headers; none where its format keeps none.
    parts: Box<[[AtomicUsize; 2]]>,
    pub format: Arc<Format>,
    /// When it was taken from librdkafka, in milliseconds since 1970.
    pub received: i64,
    /// Seeks of the partition before it was read: see `partition`.
    pub seek_count: u64,
    filter: Option<Arc<Filter>>,
    /// The filter's answer for each message, once it was asked. `None`: Ruby decides.
    answers: OnceLock<Box<[Option<bool>]>>,
    /// Replaced as a whole, and never locked while it is read. A reader builds Ruby objects, so it may have to stop for
    /// another Ractor's garbage collection. That collection would never come if the other Ractor waited here for the
    /// lock.
    store: RwLock<Arc<Store>>,
    decoding: AtomicU8,
    /// One bit per record: whether a message object of the owner stands for it.
    referenced: [AtomicU64; CHUNK_MESSAGES / 64],
    /// The batch was released: memory that no object stands for may be freed.
    released: AtomicBool,
    bytes: usize,
    origin: Origin,
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

    /// Fails in a forked child that uses its parent's chunk.
    pub fn check_origin(&self) -> Result<(), Error> {
        self.origin.check()
    }

    /// Whether this is a forked child with its parent's chunk, whose locks may be held forever.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_foreign()
    }

    /// Lends one message's bytes. `None` if they are gone: the batch was released before an object stood for the
    /// message.
    pub fn view<R>(&self, index: usize, call: impl FnOnce(View<'_>) -> R) -> Option<R> {
        let record = &self.records[index];
        match &*self.store() {
            Store::Whole { bytes, .. } => {
                let start = record.start as usize;
                Some(call(record.view(&bytes[start..start + record.size()])))
            }
            Store::Kept(kept, _) => find(kept, index).map(|bytes| call(record.view(bytes))),
        }
    }

    /// Lends one message's decoded payload. A null payload is undecided. A chunk that still waits for decoding is
    /// decoded here. If another thread decodes it now, this call does not wait: it decodes the single document instead.
    /// It does the same with a document that was refused ahead.
    pub fn decoded<R>(&self, index: usize, call: impl FnOnce(Node<'_>) -> R) -> Result<R, Refusal> {
        self.decode();
        let store = self.store();
        if let Some((tree, bytes, root)) = store.tree(index) {
            return Ok(call(tree.node(bytes, root)));
        }
        // Taken out of its place: the call may come here again.
        let mut tree = SCRATCH.take();
        tree.clear();
        let result = self.parse(&store, &mut tree, index).map(|(bytes, root)| call(tree.node(bytes, root)));
        if tree.memory() <= SPARE_TREE_BYTES {
            SCRATCH.set(tree);
        }
        result
    }

    /// Bytes of the document that `decoded` would parse by itself. `None`: it is parsed already.
    pub fn unparsed(&self, index: usize) -> Option<usize> {
        if self.store().tree(index).is_some() { None } else { self.records[index].payload_size() }
    }

    /// Parses one document alone, on any thread: `decoded` in two steps.
    pub fn decode_alone(&self, index: usize) -> SingleDocument {
        let (store, mut tree) = (self.store(), Tree::new());
        let root = self.parse(&store, &mut tree, index).map(|(_, root)| root);
        SingleDocument { store, tree, root, index }
    }

    /// One document, into a tree that is its own; with the bytes that the tree refers to.
    fn parse<'a>(&self, store: &'a Store, tree: &mut Tree, index: usize) -> Result<(&'a [u8], Root), Refusal> {
        let record = &self.records[index];
        if record.payload == NULL {
            return Err(Refusal::Undecided);
        }
        let (bytes, start) = (store.bytes(index).ok_or(Refusal::Undecided)?, store.start(record));
        let view = record.view(&bytes[start..start + record.size()]);
        let root = self.format.decode_message(tree, bytes, start..start + record.payload_len(), &view)?;
        Ok((bytes, root))
    }

    /// The schemas that its messages name (those that the filter let pass) and its topic has not learnt, `most` at
    /// most.
    pub fn unknown_schemas(&self, most: usize) -> Vec<SchemaId> {
        let (mut found, store) = (Vec::new(), self.store());
        let (Encoding::Avro(topic), Store::Whole { bytes, .. }) = (&self.format.encoding, &*store) else {
            return found;
        };
        for record in self.admitted().map(|index| &self.records[index]) {
            let start = record.start as usize;
            if let Some(id) = topic.unknown_of(&record.view(&bytes[start..start + record.size()]))
                && !found.contains(&id)
                && found.len() < most
            {
                found.push(id);
            }
        }
        found
    }

    /// The bytes that `decode` would read, if no thread has started.
    pub fn waiting(&self) -> Option<usize> {
        let Store::Whole { bytes, .. } = &*self.store() else { return None };
        (self.decoding.load(Ordering::Relaxed) == WAITING).then(|| bytes.len())
    }

    /// Takes a chunk that waits to be decoded (and filtered) through it; does nothing in any other state.
    pub fn decode(&self) {
        let claim = self.decoding.compare_exchange(WAITING, RUNNING, Ordering::AcqRel, Ordering::Relaxed);
        if claim.is_err() {
            return;
        }
        if let Store::Whole { bytes, .. } = &*self.store() {
            // A first guess: a tree is about as large as its documents.
            let room = if self.format.ahead { Reservation::take(bytes.len()) } else { None };
            let decoded = (room.is_some() || self.filter.is_some()).then(|| self.parse_all(bytes, room));
            let decoded = decoded.filter(|decoded| decoded.room.is_some());
            let nothing = self.admitted().next().is_none();
            let bytes = Arc::clone(bytes);
            self.exchange(if nothing {
                Store::Kept(Vec::new(), Copied::of(0))
            } else {
                Store::Whole { bytes, decoded }
            });
        }
        self.decoding.store(DONE, Ordering::SeqCst);
    }

    /// Decodes all documents into one tree. The filter is asked about each document as soon as it is parsed, and those
    /// that it refuses are left out. When the budget is used up, from the first document or a later one on, only the
    /// filter is asked, because few bytes may become a large tree.
    fn parse_all(&self, bytes: &[u8], mut room: Option<Reservation>) -> Decoded {
        let mut tree = TREES.take().unwrap_or_default();
        let mut roots = Vec::with_capacity(self.records.len());
        let mut answers = Vec::with_capacity(self.records.len());
        for record in &self.records {
            let (start, before) = (record.start as usize, tree.end());
            let wanted = self.format.ahead && record.payload != NULL;
            let range = start..start + record.payload_len();
            let view = record.view(&bytes[start..start + record.size()]);
            let decode = |tree: &mut Tree| self.format.decode_message(tree, bytes, range, &view).ok();
            let mut root = if wanted { decode(&mut tree) } else { None };
            if let Some(filter) = &self.filter {
                let document = match root {
                    _ if record.payload == NULL => Document::Absent,
                    Some(root) => Document::Root(tree.node(bytes, root)),
                    None => Document::Undecided,
                };
                let answer = filter.passes(document, &view);
                if answer == Some(false) || room.is_none() {
                    tree.cut(before);
                    root = None;
                }
                answers.push(answer);
            }
            roots.push(root);
            if room.as_mut().is_some_and(|room| !room.resize(tree.memory())) {
                (room, tree) = (None, Tree::new());
            }
            if room.is_none() && self.filter.is_none() {
                break;
            }
        }
        if self.filter.is_some() {
            let _ = self.answers.set(answers.into_boxed_slice());
        }
        Decoded { tree, roots, room }
    }

    fn exchange(&self, new: Store) {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(**store, Store::Whole { .. }) {
            *store = Arc::new(new);
        }
    }

    /// Indices of the messages that its owner gets: all that the filter does not refuse.
    pub fn admitted(&self) -> impl Iterator<Item = usize> {
        let answers = self.answers.get();
        (0..self.records.len()).filter(move |index| answers.is_none_or(|answers| answers[*index] != Some(false)))
    }

    /// Whether a filter left this message undecided, so that Ruby has to decide.
    pub fn is_undecided(&self, index: usize) -> bool {
        self.filter.is_some() && self.answers.get().is_none_or(|answers| answers[index].is_none())
    }

    /// A message object of the owner's stands for the record from now on; false if one does already.
    pub fn add_object(&self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1 << (index % 64));
        let first = self.referenced[word].fetch_or(bit, Ordering::AcqRel) & bit == 0;
        if first {
            self.words(index).for_each(|word| word.store(0, Ordering::Release));
        }
        first
    }

    /// The word of a part; `None` if nothing is kept of it.
    pub fn word(&self, index: usize, part: MessagePart) -> Option<&AtomicUsize> {
        match part {
            MessagePart::Payload => Some(&self.records[index].word),
            MessagePart::Key => self.parts.get(index).map(|[key, _]| key),
            MessagePart::Headers => self.parts.get(index).map(|[_, headers]| headers),
        }
    }

    /// All words of a message.
    pub fn words(&self, index: usize) -> impl Iterator<Item = &AtomicUsize> {
        once(&self.records[index].word).chain(self.parts.get(index).into_iter().flatten())
    }

    /// That object is gone. Never blocks: the garbage collector calls it.
    pub fn remove_object(&self, index: usize) {
        self.referenced[index / 64].fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
    }

    fn is_referenced(&self, index: usize) -> bool {
        self.referenced[index / 64].load(Ordering::Acquire) & 1 << (index % 64) != 0
    }

    /// Ends the batch's use. Returns false if message objects still hold all of its bytes. A document that is read
    /// later is decoded then: few are, and the others' trees would stay until a garbage collection.
    pub fn release(&self) -> bool {
        self.released.store(true, Ordering::Release);
        self.thin() || {
            self.free_trees();
            false
        }
    }

    fn free_trees(&self) {
        let Some(mut store) = self.try_store() else { return };
        if let Store::Whole { bytes, decoded: Some(_) } = &**store {
            *store = Arc::new(Store::Whole { bytes: Arc::clone(bytes), decoded: None });
        }
    }

    /// Frees the messages that no object stands for, if the batch is released and few objects are left, as after a
    /// garbage collection. Returns false if all is still held. Never blocks: the garbage collector calls it.
    pub fn thin(&self) -> bool {
        let referenced: u32 = self.referenced.iter().map(|word| word.load(Ordering::Acquire).count_ones()).sum();
        let few = self.released.load(Ordering::Acquire) && referenced as usize <= self.few();
        if few {
            self.keep_referenced();
        }
        few
    }

    /// So few referenced messages that their bytes are copied out: an eighth, at least one.
    fn few(&self) -> usize {
        (self.records.len() / 8).max(1)
    }

    /// The store, to be exchanged. `None` while another thread exchanges or fetches it, and in a forked child.
    fn try_store(&self) -> Option<RwLockWriteGuard<'_, Arc<Store>>> {
        if self.is_foreign() {
            return None;
        }
        match self.store.try_write() {
            Ok(store) => Some(store),
            Err(TryLockError::Poisoned(store)) => Some(store.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Copies out the messages that objects stand for, and frees the rest as soon as no thread reads it.
    fn keep_referenced(&self) {
        let Some(mut store) = self.try_store() else { return };
        let Store::Whole { bytes, .. } = &**store else { return };
        let referenced = self.records.iter().enumerate().filter(|(index, _)| self.is_referenced(*index));
        let kept: Vec<(usize, Box<[u8]>)> =
            referenced.map(|(index, record)| (index, bytes[record.start as usize..][..record.size()].into())).collect();
        let copied = Copied::of(kept.iter().map(|(_, bytes)| bytes.len()).sum());
        *store = Arc::new(Store::Kept(kept, copied));
    }
}

impl Task for Chunk {
    fn run(&self) {
        self.decode();
    }
}
