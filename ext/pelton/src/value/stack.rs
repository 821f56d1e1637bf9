//! A stack of values that are in no container yet, in a Ruby object that marks them. Each build has its own stack. A
//! build may call Ruby code (an extension's decoder, a key's `hash`), in which another thread or fiber of the Ractor
//! builds.

use super::typed::{FREE_IMMEDIATELY, StaticType};
use rb_sys::{VALUE, rb_data_type_t};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;

/// A larger one (of one huge document) is not kept.
const KEPT: usize = 1 << 16;

/// Ruby's allocations may run the mark function at any time, therefore no Rust reference to the contents is held across
/// a call of Ruby.
pub type Stack = UnsafeCell<Vec<VALUE>>;

static TYPE: StaticType = {
    // SAFETY: plain data for which zero means "none".
    let mut raw: rb_data_type_t = unsafe { std::mem::zeroed() };
    raw.wrap_struct_name = c"Pelton's stack".as_ptr();
    raw.function.dmark = Some(mark);
    raw.function.dfree = Some(free);
    raw.function.dsize = Some(size);
    raw.flags = FREE_IMMEDIATELY;
    StaticType(raw)
};

extern "C" fn mark(data: *mut c_void) {
    // SAFETY: our stack; it is only read, while no Rust code of its Ractor runs. Values are pinned.
    unsafe {
        let stack = (*data.cast::<Stack>()).get();
        let (start, length) = ((*stack).as_ptr(), (*stack).len());
        for index in 0..length {
            rb_sys::rb_gc_mark(*start.add(index));
        }
    }
}

extern "C" fn free(data: *mut c_void) {
    // SAFETY: the box leaked by `take`, freed once.
    drop(unsafe { Box::from_raw(data.cast::<Stack>()) });
}

extern "C" fn size(data: *const c_void) -> rb_sys::size_t {
    // SAFETY: our stack, read only.
    let capacity = unsafe { (*(*data.cast::<Stack>()).get()).capacity() };
    (size_of::<Stack>() + capacity * size_of::<VALUE>()) as rb_sys::size_t
}

/// The object of an empty stack: the spare one (0: none), or a new one.
///
/// # Safety
/// Only the GVL contract (see `value`). Raises NoMemoryError.
pub unsafe fn take(spare: &Cell<VALUE>) -> VALUE {
    match spare.replace(0) {
        0 => {
            let stack = Box::into_raw(Box::new(Stack::new(Vec::with_capacity(256))));
            // SAFETY: the box is the object's own from now on.
            unsafe { rb_sys::rb_data_typed_object_wrap(0, stack.cast(), &TYPE.0) }
        }
        object => object,
    }
}

/// # Safety
/// An object of `take`'s; its stack lives as long as the object.
pub unsafe fn of(object: VALUE) -> *mut Vec<VALUE> {
    // SAFETY: the caller's promise.
    unsafe { (*rb_sys::RTYPEDDATA_GET_DATA(object).cast::<Stack>()).get() }
}

/// Makes a stack, empty again, the spare one.
///
/// # Safety
/// As of `of`, and nothing else uses the stack.
pub unsafe fn give(spare: &Cell<VALUE>, object: VALUE) {
    // SAFETY: the caller's promise.
    unsafe {
        let stack = of(object);
        (*stack).clear();
        if (*stack).capacity() <= KEPT {
            spare.set(object);
        }
    }
}
