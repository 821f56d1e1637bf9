//! Message objects: no native memory of their own. The data pointer packs a chunk's address (48 bits, aligned to 8,
//! counted) and the message's index in it.
//!
//! A message keeps its built payload in a word of its chunk, or else the error. It keeps in the same way what
//! deserializers made of its key and headers. These values belong to the main Ractor; no other Ractor reads them.

use super::gc_root::is_collection;
use super::typed::{DataType, FREE_IMMEDIATELY, FROZEN_SHAREABLE, WB_PROTECTED, wrong_type};
use super::{cooked, in_main_ractor};
use magnus::rb_sys::{AsRawValue, protect};
use magnus::{Error, RArray, RClass, Ruby, TryConvert, Value};
use pelton_core::chunk::{CHUNK_MESSAGES, Chunk, MessagePart, Record};
use rb_sys::VALUE;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ADDRESS_BITS: u32 = 48;
const _: () = assert!(CHUNK_MESSAGES <= 1 << (64 - ADDRESS_BITS) && size_of::<usize>() == 8);
/// `RUBY_FL_SHAREABLE`: other Ractors may have the object (a message although it keeps a payload that they may not
/// have).
pub(super) const SHAREABLE: VALUE = 1 << 8;
/// Stands for `false` in a message's word, because `false` itself is 0, which means that nothing is kept. No Ruby
/// object has this address.
const FALSE: usize = rb_sys::Qundef as usize;

static KIND: DataType = DataType::new(
    c"Pelton::Message",
    FREE_IMMEDIATELY | WB_PROTECTED | FROZEN_SHAREABLE,
    free,
    size,
    Some(mark),
    Some(compact),
);

fn unpack(data: *const c_void) -> (*const Chunk, usize) {
    let word = data as u64;
    ((word & ((1 << ADDRESS_BITS) - 1)) as *const Chunk, (word >> ADDRESS_BITS) as usize)
}

extern "C" fn free(data: *mut c_void) {
    let (chunk, index) = unpack(data);
    // SAFETY: gives back the count that `wrap` took, once.
    let chunk = unsafe { Arc::from_raw(chunk) };
    let free = move || {
        if !chunk.is_foreign() {
            chunk.remove_object(index);
        }
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(free)) {
        std::mem::forget(panic);
    }
}

extern "C" fn size(_: *const c_void) -> rb_sys::size_t {
    0
}

extern "C" fn mark(data: *mut c_void) {
    let (chunk, index) = unpack(data);
    // SAFETY: Ruby marks objects that it has not freed; each holds a count of its chunk.
    let chunk = unsafe { &*chunk };
    chunk.thin();
    for object in chunk.words(index).filter_map(kept_object).filter(|object| is_shown(*object)) {
        // SAFETY: a live object, kept so by this very call; `compact` follows it when it moves.
        unsafe { rb_sys::rb_gc_mark_movable(object) };
    }
}

/// From Ruby 4.0 on, a shareable object may refer to shareable objects only, and Ruby's collector can check that. No
/// other Ractor reads what the main Ractor keeps. So it is shown to collections only, not to other callers of the mark
/// function.
fn is_shown(object: VALUE) -> bool {
    // SAFETY: a live object's flags word is the first.
    !cfg!(ruby_gte_4_0) || is_collection() || unsafe { (*(object as *const rb_sys::RBasic)).flags & SHAREABLE != 0 }
}

extern "C" fn compact(data: *mut c_void) {
    let (chunk, index) = unpack(data);
    // SAFETY: as in `mark`.
    for word in unsafe { &*chunk }.words(index) {
        if let Some(object) = kept_object(word) {
            // SAFETY: asked while compacting, of an object that was marked.
            word.store(unsafe { rb_sys::rb_gc_location(object) } as usize, Ordering::Release);
        }
    }
}

pub fn define(class: RClass) {
    KIND.define(class);
}

/// A frozen Array of new objects for the messages of these chunks, without those that a filter refused.
pub fn wrap_all(chunks: &[Arc<Chunk>]) -> Result<RArray, Error> {
    let count: usize = chunks.iter().map(|chunk| chunk.admitted().count()).sum();
    let array = protect(|| {
        // SAFETY: a new Array; what is pushed is live. May raise for want of memory, which `protect` catches.
        unsafe {
            let array = rb_sys::rb_ary_new_capa(count as _);
            for chunk in chunks {
                for index in chunk.admitted() {
                    rb_sys::rb_ary_push(array, wrap(chunk, index));
                }
            }
            rb_sys::rb_ary_freeze(array);
            // As all that is in it. A batch keeps it, and may have been found to be shareable before.
            (*(array as *mut rb_sys::RBasic)).flags |= SHAREABLE;
            array
        }
    })?;
    RArray::try_convert(cooked(array))
}

fn wrap(chunk: &Arc<Chunk>, index: usize) -> VALUE {
    let address = Arc::as_ptr(chunk) as u64;
    assert!(address >> ADDRESS_BITS == 0, "a chunk beyond 48 bits of address");
    std::mem::forget(Arc::clone(chunk));
    chunk.add_object(index);
    let object = KIND.wrap((address | (index as u64) << ADDRESS_BITS) as *mut c_void);
    // SAFETY: a new object, whose flags word is the first.
    unsafe { (*(object as *mut rb_sys::RBasic)).flags |= SHAREABLE };
    object
}

/// Access to a message's facts and bytes.
pub struct MessageRef {
    chunk: ManuallyDrop<Arc<Chunk>>,
    pub index: usize,
}

impl MessageRef {
    pub fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }

    pub fn record(&self) -> &Record {
        &self.chunk.records()[self.index]
    }
}

/// Valid as long as the object lives: for the time of a method.
pub fn message_ref(ruby: &Ruby, object: Value) -> Result<MessageRef, Error> {
    let (chunk, index) = unpack(KIND.data(object).ok_or_else(|| wrong_type(ruby))?);
    // SAFETY: the object holds a count of the chunk; `ManuallyDrop` leaves it there.
    Ok(MessageRef { chunk: ManuallyDrop::new(unsafe { Arc::from_raw(chunk) }), index })
}

/// The kept value.
pub fn kept(message: &MessageRef, part: MessagePart) -> Option<Value> {
    match message.chunk.word(message.index, part)?.load(Ordering::Acquire) {
        0 => None,
        _ if !in_main_ractor() => None,
        FALSE => Some(cooked(rb_sys::Qfalse as VALUE)),
        word => Some(cooked(word as VALUE)),
    }
}

/// Keeps what was made (of a payload also why there is none) as long as the message lives.
pub fn keep(object: Value, message: &MessageRef, part: MessagePart, made: Value) {
    let Some(word) = message.chunk.word(message.index, part).filter(|_| in_main_ractor()) else { return };
    let raw = made.as_raw();
    word.store(if raw == rb_sys::Qfalse as VALUE { FALSE } else { raw as usize }, Ordering::Release);
    if !rb_sys::SPECIAL_CONST_P(raw) {
        // SAFETY: two live objects: informs a generational collector about the new reference.
        unsafe { rb_sys::rb_gc_writebarrier(object.as_raw(), raw) };
    }
}

/// The object in a word, if the garbage collector collects it.
fn kept_object(word: &AtomicUsize) -> Option<VALUE> {
    let word = word.load(Ordering::Acquire) as VALUE;
    (!rb_sys::SPECIAL_CONST_P(word)).then_some(word)
}
