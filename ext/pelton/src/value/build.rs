//! Builds Ruby objects from a decoded tree, with as few calls as Ruby allows. Values are pushed on a native stack,
//! which is marked. One call each makes an array or a hash of the stack's top. Keys come from a cache of interned
//! Strings.

mod rare;

use super::hash_templates::{self, HashTemplates};
use super::keys::Keys;
use super::message::SHAREABLE;
use super::typed::{FREE_IMMEDIATELY, StaticType};
use super::{cooked, stack};
use magnus::rb_sys::{AsRawValue, protect};
use magnus::{Error, RModule, Ruby, Value};
use pelton_core::decode::{Fields, Items, Kind, Node, Text};
use pelton_core::format::Shape;
use rb_sys::{VALUE, rb_data_type_t, ruby_value_type};
use std::cell::Cell;
use std::ffi::{c_char, c_long, c_void};
use std::sync::OnceLock;

/// The flags of a UTF-8 String. UTF-8's index is 1 in every Ruby. `rb_utf8_str_new` makes three calls for them.
const UTF_8: VALUE = 1 << rb_sys::ruby_encoding_consts::RUBY_ENCODING_SHIFT as VALUE;
/// Whether frozen objects are marked as shareable when they are built, so that another Ractor gets them without a walk
/// through all of them. From the Ruby version on whose Ractors Pelton uses.
const MARKS_SHAREABLE: bool = cfg!(ruby_gte_4_0);

/// A Ractor's cache for building. It lives in a Ruby object that marks it. Ruby's allocations may run the mark function
/// at any time, therefore cells.
struct RactorCache {
    /// A stack that no build uses; 0 for none.
    stack: Cell<VALUE>,
    keys: Keys,
    templates: HashTemplates,
}

static TYPE: StaticType = {
    // SAFETY: plain data for which zero means "none".
    let mut raw: rb_data_type_t = unsafe { std::mem::zeroed() };
    raw.wrap_struct_name = c"Pelton's Ractor cache".as_ptr();
    raw.function.dmark = Some(mark);
    raw.function.dfree = Some(free);
    raw.function.dsize = Some(size);
    raw.flags = FREE_IMMEDIATELY;
    StaticType(raw)
};

struct Key(rb_sys::rb_ractor_local_key_t);
// SAFETY: an opaque handle, made once, used with the GVL.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

static RACTOR_CACHE: OnceLock<Key> = OnceLock::new();

extern "C" fn mark(data: *mut c_void) {
    // SAFETY: our cache. Its objects are live, and pinned.
    unsafe {
        let ractor_cache = &*data.cast::<RactorCache>();
        let kept =
            ractor_cache.keys.objects().chain(ractor_cache.templates.objects()).chain([ractor_cache.stack.get()]);
        for object in kept.filter(|object| *object != 0) {
            rb_sys::rb_gc_mark(object);
        }
    }
}

extern "C" fn free(data: *mut c_void) {
    // SAFETY: the box leaked by `ractor_cache`, freed once.
    drop(unsafe { Box::from_raw(data.cast::<RactorCache>()) });
}

extern "C" fn size(_: *const c_void) -> rb_sys::size_t {
    (size_of::<RactorCache>() + Keys::BYTES + HashTemplates::BYTES) as rb_sys::size_t
}

/// Once, at Init.
pub fn set_up(ruby: &Ruby) -> Result<(), Error> {
    // SAFETY: no preconditions.
    let _ = RACTOR_CACHE.set(Key(unsafe { rb_sys::rb_ractor_local_storage_value_newkey() }));
    // SAFETY: Init holds the GVL. `protect` catches what it raises.
    protect(|| unsafe {
        hash_templates::try_out();
        rb_sys::Qnil as VALUE
    })?;
    let pelton: RModule = ruby.define_module("Pelton")?;
    let class = protect(|| {
        let (name, end) = (c"ExtensionValue".as_ptr(), std::ptr::null::<c_char>());
        // SAFETY: names that live for ever, ended by a null pointer; what it may raise, `protect` catches.
        unsafe { rb_sys::rb_struct_define_under(pelton.as_raw(), name, c"type".as_ptr(), c"payload".as_ptr(), end) }
    })?;
    super::keep_for_ever(cooked(class));
    let _ = rare::EXTENSION.set(class);
    Ok(())
}

/// Whether Hashes whose keys came before start as copies.
pub fn copies_hashes() -> bool {
    hash_templates::in_use()
}

/// This Ractor's ractor_cache. May raise for want of memory.
fn ractor_cache() -> *const RactorCache {
    let key = RACTOR_CACHE.get().expect("set up at Init").0;
    // SAFETY: the key lives for ever; what is stored under it is an object of our type.
    unsafe {
        let mut object: VALUE = rb_sys::Qnil.into();
        if rb_sys::rb_ractor_local_storage_value_lookup(key, &raw mut object) {
            return rb_sys::RTYPEDDATA_GET_DATA(object).cast_const().cast();
        }
        let ractor_cache = Box::into_raw(Box::new(RactorCache {
            stack: Cell::new(0),
            keys: Keys::new(),
            templates: HashTemplates::new(),
        }));
        object = rb_sys::rb_data_typed_object_wrap(0, ractor_cache.cast(), &TYPE.0);
        rb_sys::rb_ractor_local_storage_value_set(key, object);
        ractor_cache
    }
}

/// How values are built.
#[derive(Clone, Copy, Default)]
pub struct BuildOptions {
    pub shape: Shape,
    /// A Hash from extension types to what decodes them (objects with `call(bytes)`).
    pub extensions: Option<Value>,
}

/// One build.
struct BuildContext {
    ractor_cache: *const RactorCache,
    /// Values not yet in a container.
    stack: *mut Vec<VALUE>,
    options: BuildOptions,
}

/// The Ruby object of a tree's node: what Ruby's own parser of that format returns, with the same options. Raises what
/// decoders of extensions raise.
pub fn build(node: Node<'_>, options: BuildOptions) -> Result<Value, Error> {
    protect(|| {
        let ractor_cache = ractor_cache();
        // SAFETY: the ractor_cache is this Ractor's own, the stack this build's; a build that raised leaves its stack
        // to the garbage collector. `room` is needed behind the build, so it is on the machine's stack and alive.
        unsafe {
            let room = stack::take(&(*ractor_cache).stack);
            let made = object(&BuildContext { ractor_cache, stack: stack::of(room), options }, node);
            stack::give(&(*ractor_cache).stack, room);
            made
        }
    })
    .map(cooked)
}

/// # Safety
/// The context is of this very build. Containers nest 128 deep at most (the decoders' limit).
// Inlined where values of containers are made, so that a node need not be written to memory for each.
#[inline(always)]
unsafe fn object(context: &BuildContext, node: Node<'_>) -> VALUE {
    // SAFETY: the caller's promise.
    unsafe {
        let shape = context.options.shape;
        match node.kind() {
            Kind::Null => rb_sys::Qnil.into(),
            Kind::True => rb_sys::Qtrue.into(),
            Kind::False => rb_sys::Qfalse.into(),
            Kind::Int(number) => rb_sys::LONG2NUM(number),
            Kind::Unsigned(number) => rb_sys::rb_ull2inum(number),
            Kind::Float(number) => rb_sys::DBL2NUM(number),
            Kind::Str(text) => finished(string(text), shape),
            Kind::Bytes(bytes) => finished(binary(bytes), shape),
            Kind::Array(items) => array(context, items),
            Kind::Object(fields) => hash(context, fields),
            rare => rare::rare(context.options, rare),
        }
    }
}

/// # Safety
/// As of `object`.
#[inline(never)]
unsafe fn array(context: &BuildContext, items: Items<'_>) -> VALUE {
    // SAFETY: `stack` is only touched between calls of Ruby. What was made and is not yet in a container lies on it.
    unsafe {
        let stack = context.stack;
        let bottom = (*stack).len();
        for item in items {
            let value = object(context, item);
            (*stack).push(value);
        }
        let count = (*stack).len() - bottom;
        let array = rb_sys::rb_ary_new_from_values(count as c_long, (*stack).as_ptr().add(bottom));
        finish_container(array, &*stack, bottom, context.options.shape);
        (*stack).truncate(bottom);
        array
    }
}

/// # Safety
/// As of `object`.
#[inline(never)]
unsafe fn hash(context: &BuildContext, fields: Fields<'_>) -> VALUE {
    // SAFETY: as in `array`.
    unsafe {
        let stack = context.stack;
        let bottom = (*stack).len();
        for (name, value) in fields {
            let name = name_of(context, name);
            (*stack).push(name);
            let value = object(context, value);
            (*stack).push(value);
        }
        let pairs = &(&*stack)[bottom..];
        let hash = (*context.ractor_cache).templates.cast(pairs).unwrap_or_else(|| new_hash(pairs));
        finish_container(hash, &*stack, bottom, context.options.shape);
        (*stack).truncate(bottom);
        hash
    }
}

/// # Safety
/// A new object.
unsafe fn finished(object: VALUE, shape: Shape) -> VALUE {
    // SAFETY: the caller's promise.
    if shape.frozen { unsafe { frozen(object) } } else { object }
}

/// For an object that refers to nothing that may change.
///
/// # Safety
/// As of `finished`.
unsafe fn frozen(object: VALUE) -> VALUE {
    // SAFETY: the caller's promise; a new object's flags word is the first.
    unsafe {
        rb_sys::RB_OBJ_FREEZE(object);
        if MARKS_SHAREABLE {
            (*(object as *mut rb_sys::RBasic)).flags |= SHAREABLE;
        }
    }
    object
}

/// An object with unknown contents: a Time beyond the year 2116 has a Bignum. If it is frozen, Ruby itself checks
/// whether all of it may be shared, and marks it.
///
/// # Safety
/// As of `finished`.
unsafe fn asked(object: VALUE, shape: Shape) -> VALUE {
    // SAFETY: the caller's promise; the object is on the machine's stack meanwhile.
    unsafe {
        if shape.frozen {
            rb_sys::RB_OBJ_FREEZE(object);
            #[cfg(ruby_gte_4_0)]
            rb_ractor_shareable_p_continue(object);
        }
    }
    std::hint::black_box(object)
}

#[cfg(ruby_gte_4_0)]
unsafe extern "C" {
    /// Of Ruby's ractor.h.
    fn rb_ractor_shareable_p_continue(object: VALUE) -> bool;
}

/// An Array or Hash of what lies on the stack from `bottom` on. Shareable only where all of that is.
///
/// # Safety
/// As of `finished`.
unsafe fn finish_container(object: VALUE, stack: &[VALUE], bottom: usize, shape: Shape) {
    // SAFETY: the caller's promise; what lies on the stack is alive.
    unsafe {
        if !shape.frozen {
            return;
        }
        if MARKS_SHAREABLE && stack[bottom..].iter().all(|value| is_shareable(*value)) {
            frozen(object);
        } else {
            rb_sys::RB_OBJ_FREEZE(object);
        }
    }
}

/// Also numbers that do not fit a word: Ruby freezes them, and sets the flag only when asked.
///
/// # Safety
/// A live VALUE.
unsafe fn is_shareable(value: VALUE) -> bool {
    // SAFETY: the caller's promise; a special constant has no flags word.
    unsafe {
        if rb_sys::SPECIAL_CONST_P(value) {
            return true;
        }
        let flags = &raw mut (*(value as *mut rb_sys::RBasic)).flags;
        if matches!(rb_sys::RB_BUILTIN_TYPE(value), ruby_value_type::RUBY_T_FLOAT | ruby_value_type::RUBY_T_BIGNUM) {
            *flags |= SHAREABLE;
        }
        *flags & SHAREABLE != 0
    }
}

/// A Hash of keys and values in turn.
///
/// # Safety
/// Only the GVL contract (see `value`). Keys that are extensions have their `hash` called, in Ruby.
unsafe fn new_hash(pairs: &[VALUE]) -> VALUE {
    // SAFETY: what lies on the stack of this build is alive and stays there.
    unsafe {
        #[cfg(ruby_gte_3_2)]
        let hash = rb_sys::rb_hash_new_capa(pairs.len() as c_long / 2);
        #[cfg(not(ruby_gte_3_2))]
        let hash = rb_sys::rb_hash_new();
        if !pairs.is_empty() {
            rb_sys::rb_hash_bulk_insert(pairs.len() as c_long, pairs.as_ptr(), hash);
        }
        hash
    }
}

/// # Safety
/// Only the GVL contract (see `value`).
unsafe fn string(text: Text<'_>) -> VALUE {
    let range = match text {
        Text { ascii: true, .. } => super::CODERANGE_7BIT,
        Text { valid: true, .. } => super::CODERANGE_VALID,
        _ => 0,
    };
    // SAFETY: a new object's flags word is the first, and has the encoding's index (0 in a binary String). The decoder
    // vouches for the range.
    unsafe {
        let string = binary(text.bytes);
        (*(string as *mut rb_sys::RBasic)).flags |= range | UTF_8;
        string
    }
}

/// # Safety
/// Only the GVL contract (see `value`).
unsafe fn binary(bytes: &[u8]) -> VALUE {
    // SAFETY: a live slice, which Ruby copies.
    unsafe { rb_sys::rb_str_new(bytes.as_ptr().cast(), bytes.len() as c_long) }
}

/// A key of a Hash. Bytes, too, become Symbols, as in Ruby's msgpack.
///
/// # Safety
/// As of `object`.
unsafe fn name_of(context: &BuildContext, node: Node<'_>) -> VALUE {
    // SAFETY: the caller's promise.
    unsafe {
        let (ractor_cache, shape) = (context.ractor_cache, context.options.shape);
        match node.text() {
            Some(text) if shape.symbols => (*ractor_cache).keys.symbol(text.bytes),
            Some(text) => (*ractor_cache).keys.string(text.bytes),
            None => match node.kind() {
                Kind::Bytes(bytes) if shape.symbols => rb_sys::rb_str_intern(binary(bytes)),
                // As Hash#[]= does.
                Kind::Bytes(bytes) => frozen(binary(bytes)),
                _ => object(context, node),
            },
        }
    }
}
