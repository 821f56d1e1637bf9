//! Ruby values at their lowest level: what magnus offers no safe function for, or none that is fast enough.
//!
//! # The GVL contract Every function here runs on a Ruby thread that holds the GVL, mark and free functions included.
//! `&magnus::Ruby` is the proof: it has no size, and only a thread that holds the GVL has one. The functions below
//! `build` take no such argument, because their caller had one. A `# Safety` section names what a function needs beyond
//! this contract.

pub mod build;
pub mod gc_root;
mod hash_templates;
mod keys;
pub mod message;
mod stack;
pub mod typed;

use magnus::rb_sys::{AsRawValue, FromRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Class, Error, Module, RArray, RModule, Ruby, Value, kwargs};
use rb_sys::{VALUE, ruby_value_type};
use std::ffi::{c_long, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A raw VALUE as magnus's.
pub fn cooked(raw: VALUE) -> Value {
    // SAFETY: every VALUE in this crate comes from Ruby.
    unsafe { Value::from_raw(raw) }
}

/// The module Pelton.
pub fn pelton(ruby: &Ruby) -> Result<RModule, Error> {
    ruby.class_object().const_get("Pelton")
}

pub fn is_string(value: Value) -> bool {
    // SAFETY: a live VALUE; special constants are checked by the macro.
    unsafe { rb_sys::RB_TYPE_P(value.as_raw(), ruby_value_type::RUBY_T_STRING) }
}

/// The bytes of a String (`None` for anything else). They are Ruby's own: no Ruby may be called, and the lock not be
/// given away, as long as the slice is in use.
pub fn bytes(value: &Value) -> Option<&[u8]> {
    if !is_string(*value) {
        return None;
    }
    // SAFETY: a live String, which the caller's stack keeps alive and (being there) in its place.
    unsafe {
        let pointer = rb_sys::RSTRING_PTR(value.as_raw()).cast::<u8>();
        let length = rb_sys::RSTRING_LEN(value.as_raw()) as usize;
        Some(if length == 0 { &[] } else { std::slice::from_raw_parts(pointer, length) })
    }
}

/// Whether a value is a String that, as a hash key, equals the UTF-8 String of the same bytes and no other. Not so for
/// subclasses, which may have their own idea of equality, and for other encodings.
pub fn is_utf8_key(value: Value) -> bool {
    // SAFETY: a live String from the second step on; the class is a constant of the process; nothing here raises.
    is_string(value)
        && unsafe {
            rb_sys::rb_obj_class(value.as_raw()) == rb_sys::rb_cString
                && (rb_sys::rb_enc_get_index(value.as_raw()) == rb_sys::rb_utf8_encindex()
                    || rb_sys::rb_enc_str_asciionly_p(value.as_raw()) != 0)
        }
}

/// The elements' number of an Array.
pub fn length(array: RArray) -> usize {
    // SAFETY: a live Array.
    unsafe { rb_sys::RARRAY_LEN(array.as_raw()) as usize }
}

/// An Array's element, nil beyond its end. Does not raise.
pub fn element(array: RArray, index: usize) -> Value {
    // SAFETY: a live Array; `rb_ary_entry` checks the bounds.
    cooked(unsafe { rb_sys::rb_ary_entry(array.as_raw(), index as c_long) })
}

/// Milliseconds since 1970 of a Time, rounded down; `None` where that is too far away, and for anything else. May make
/// Ruby objects (of a Time finer than a nanosecond).
pub fn time_millis(value: Value) -> Option<i64> {
    let (seconds, nanos) = time(value)?;
    seconds.checked_mul(1000)?.checked_add(i64::from(nanos) / 1_000_000)
}

/// The same as seconds, and nanoseconds of the next one.
pub fn time(value: Value) -> Option<(i64, u32)> {
    let time = if is_time(value) { value } else { time_inside(value)? };
    let (mut seconds, mut nanos) = (0, 0);
    let read = || {
        // SAFETY: a live Time; what it raises (a year without end, an uninitialised Time), `protect` catches.
        let time = unsafe { rb_sys::rb_time_timespec(time.as_raw()) };
        (seconds, nanos) = (time.tv_sec, time.tv_nsec);
        rb_sys::Qnil as VALUE
    };
    protect(read).ok()?;
    Some((seconds, nanos as u32))
}

fn is_time(value: Value) -> bool {
    // SAFETY: a live VALUE and a constant of the process.
    unsafe { rb_sys::rb_obj_is_kind_of(value.as_raw(), rb_sys::rb_cTime) != rb_sys::Qfalse as VALUE }
}

/// An ActiveSupport::TimeWithZone says that it is a Time, but has one.
fn time_inside(value: Value) -> Option<Value> {
    let ruby = Ruby::get_with(value);
    let says_so: bool = value.funcall("is_a?", (ruby.class_time(),)).ok()?;
    if says_so { value.funcall("to_time", ()).ok().filter(|time| is_time(*time)) } else { None }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StringEncoding {
    Binary,
    /// UTF-8 where the bytes are valid, else binary.
    Text,
}

const CODERANGE_7BIT: VALUE = rb_sys::ruby_coderange_type::RUBY_ENC_CODERANGE_7BIT as VALUE;
const CODERANGE_VALID: VALUE = rb_sys::ruby_coderange_type::RUBY_ENC_CODERANGE_VALID as VALUE;

/// A new String of `size` bytes that `write` fills in; `write` must not call Ruby.
pub fn string(size: usize, encoding: StringEncoding, write: impl FnOnce(&mut [u8])) -> Result<Value, Error> {
    let string = protect(|| {
        // SAFETY: allocates, or raises NoMemoryError, which `protect` catches.
        unsafe { rb_sys::rb_str_new(std::ptr::null(), size as c_long) }
    })?;
    // SAFETY: a new String of that size that no other code has seen; the encoding index is valid and the String not
    // frozen, so that `rb_enc_associate_index` does not raise; its flags word is the first of any object.
    unsafe {
        let pointer = rb_sys::RSTRING_PTR(string).cast_mut().cast::<u8>();
        std::ptr::write_bytes(pointer, 0, size);
        let bytes = std::slice::from_raw_parts_mut(pointer, size);
        write(bytes);
        if encoding == StringEncoding::Text {
            let range = match (bytes.is_ascii(), std::str::from_utf8(bytes).is_ok()) {
                (true, _) => CODERANGE_7BIT,
                (_, true) => CODERANGE_VALID,
                _ => return Ok(cooked(string)),
            };
            rb_sys::rb_enc_associate_index(string, rb_sys::rb_utf8_encindex());
            (*(string as *mut rb_sys::RBasic)).flags |= range;
        }
    }
    Ok(cooked(string))
}

/// The interned, frozen UTF-8 String of these characters: no new object when there is one already.
pub fn interned(text: &str) -> Result<Value, Error> {
    protect(|| {
        // SAFETY: a live slice, which Ruby copies; may raise NoMemoryError, which `protect` catches.
        unsafe { rb_sys::rb_enc_interned_str(text.as_ptr().cast(), text.len() as c_long, rb_sys::rb_utf8_encoding()) }
    })
    .map(cooked)
}

/// Reports to the garbage collector that native memory was added (or freed, if negative). More memory may start a
/// collection.
pub fn adjust_memory(difference: isize) {
    // SAFETY: no preconditions.
    unsafe { rb_sys::rb_gc_adjust_memory_usage(difference as _) };
}

/// Collects objects, all of them or the young ones.
pub fn collect(ruby: &Ruby, all: bool) -> Result<(), Error> {
    let collector: RModule = ruby.class_object().const_get("GC")?;
    collector.funcall::<_, _, Value>("start", (kwargs!("full_mark" => all),)).map(drop)
}

// ---- Ractors

/// A key whose value is set in the main Ractor only.
struct MainKey(rb_sys::rb_ractor_local_key_t);
// SAFETY: an opaque handle, made once, used with the GVL.
unsafe impl Send for MainKey {}
// SAFETY: as above.
unsafe impl Sync for MainKey {}

static MAIN: OnceLock<MainKey> = OnceLock::new();

/// To be called once, in the main Ractor.
fn mark_main_ractor() {
    static TYPE: rb_sys::rb_ractor_local_storage_type = rb_sys::rb_ractor_local_storage_type { mark: None, free: None };
    // SAFETY: the type lives for ever; the value is never dereferenced.
    let key = unsafe {
        let key = rb_sys::rb_ractor_local_storage_ptr_newkey(&TYPE);
        rb_sys::rb_ractor_local_storage_ptr_set(key, std::ptr::dangling_mut::<c_void>());
        key
    };
    let _ = MAIN.set(MainKey(key));
}

pub fn in_main_ractor() -> bool {
    // SAFETY: a key made at Init.
    MAIN.get().is_some_and(|key| unsafe { !rb_sys::rb_ractor_local_storage_ptr(key.0).is_null() })
}

// ---- the process's end

/// Ruby frees everything because the process ends: nothing is closed in an orderly way any more, since Ruby does not
/// wait for native threads.
static ENDING: AtomicBool = AtomicBool::new(false);

pub fn process_ends() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Finalizers of living objects run between the last Ruby code (at_exit) and the first freeing. Our own at_exit would
/// run too early: before blocks that were registered before it, such as minitest's, which runs the tests.
fn notice_the_end(ruby: &Ruby) -> Result<(), Error> {
    let sentinel: Value = ruby.class_object().new_instance(())?.as_value();
    keep_for_ever(sentinel);
    let ending = ruby.proc_from_fn(|_, _, _| {
        crate::producer::finish();
        ENDING.store(true, Ordering::Relaxed);
    });
    protect(|| {
        // SAFETY: a live object and something callable; what it may raise, `protect` catches.
        unsafe { rb_sys::rb_define_finalizer(sentinel.as_raw(), ending.as_raw()) }
    })?;
    Ok(())
}

/// Once, at Init.
pub fn set_up(ruby: &Ruby) -> Result<(), Error> {
    mark_main_ractor();
    build::set_up(ruby)?;
    gc_root::set_up(ruby)?;
    notice_the_end(ruby)?;
    // SAFETY: no preconditions but the promise itself: all of the extension's state is shared with native threads
    // anyway, and Ruby objects are kept per Ractor or per object.
    unsafe { rb_sys::rb_ext_ractor_safe(true) };
    Ok(())
}

/// `value`, kept alive and in place forever.
pub fn keep_for_ever<T: ReprValue>(value: T) {
    Ruby::get_with(value).gc_register_mark_object(value);
}
