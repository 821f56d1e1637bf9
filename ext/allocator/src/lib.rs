//! The allocator of Pelton's extension: jemalloc, for what one thread allocates and another one frees. A producing
//! thread allocates a message, and librdkafka's or the event thread frees it, for which glibc takes the lock of an
//! arena each time. docs/decisions/0020-allocator.md has the measurements.
//!
//! The linker gives each call of `malloc` and its like in our shared object (librdkafka, OpenSSL, zlib, zstd, Rust) to
//! the functions here (`--wrap`). Ruby, and everything else in the process, keeps its own allocator. So no memory may
//! cross the border: what libc allocates for a caller to free must not be freed here, and the other way round. Of the
//! functions that do so, the extension calls `realpath` only, and that one is wrapped, too.
//! test/native/allocator_test.rb reads in the shared object that it imports no other one.
//!
//! Linux only: other linkers have no `--wrap`.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use libc::{c_char, c_int, c_void, size_t};
use std::ffi::CStr;
use std::ptr::{copy_nonoverlapping, null_mut};
use tikv_jemalloc_sys as jemalloc;

/// Read by jemalloc when it starts. Four arenas hold less memory than its own four a core, and producing is as fast.
/// Freed memory goes back to the system after a second, instead of ten.
// SAFETY: the first character of a text that lives forever.
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &c_char = unsafe { &*c"narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0".as_ptr() };

/// What the allocator holds, in bytes.
pub struct Memory {
    /// Asked for and not freed.
    pub allocated: usize,
    /// Of the process's RSS: `allocated`, the unused parts of its pages, and freed pages that the system gets back
    /// soon.
    pub resident: usize,
}

pub fn memory() -> Memory {
    let mut now = 1u64;
    let size = &mut size_of::<u64>();
    // SAFETY: writes and reads a number of that type, which renews the figures.
    unsafe {
        jemalloc::mallctl(c"epoch".as_ptr(), (&raw mut now).cast(), size, (&raw mut now).cast(), size_of::<u64>())
    };
    Memory { allocated: figure(c"stats.allocated"), resident: figure(c"stats.resident") }
}

/// Returns freed memory to the system: what has been free for a second, or all. jemalloc does it by itself only in
/// arenas that are being used.
pub fn give_back(all: bool) {
    let name = if all { c"arena.4096.purge" } else { c"arena.4096.decay" }; // 4096: all arenas
    // SAFETY: a command without a value.
    unsafe { jemalloc::mallctl(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
}

fn figure(name: &CStr) -> usize {
    let (mut value, mut size) = (0usize, size_of::<usize>());
    // SAFETY: reads a number of that type; unknown names leave it.
    unsafe { jemalloc::mallctl(name.as_ptr(), (&raw mut value).cast(), &mut size, null_mut(), 0) };
    value
}

unsafe extern "C" {
    fn __real_realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char;
}

// Below, "the contract" is libc's, which callers keep, and jemalloc as well. Pointers were made here, because the
// linker gives every call in this object to these functions.

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_malloc(size: size_t) -> *mut c_void {
    // SAFETY: the contract of this function.
    unsafe { jemalloc::malloc(size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_calloc(count: size_t, size: size_t) -> *mut c_void {
    // SAFETY: the contract of this function.
    unsafe { jemalloc::calloc(count, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_realloc(memory: *mut c_void, size: size_t) -> *mut c_void {
    // SAFETY: the contract of this function.
    unsafe { jemalloc::realloc(memory, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_free(memory: *mut c_void) {
    // SAFETY: the contract of this function.
    unsafe { jemalloc::free(memory) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_posix_memalign(to: *mut *mut c_void, alignment: size_t, size: size_t) -> c_int {
    // SAFETY: the contract of this function.
    unsafe { jemalloc::posix_memalign(to, alignment, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_strdup(text: *const c_char) -> *mut c_char {
    // SAFETY: the contract of this function.
    unsafe { copied(text, libc::strlen(text)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_strndup(text: *const c_char, limit: size_t) -> *mut c_char {
    // SAFETY: the contract of this function.
    unsafe { copied(text, libc::strnlen(text, limit)) }
}

/// Without a place for its result, libc's function allocates one that the caller frees.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    let mut buffer = [0 as c_char; libc::PATH_MAX as usize];
    // SAFETY: the contract of this function; the place is as long as libc requires.
    unsafe {
        if !resolved.is_null() {
            return __real_realpath(path, resolved);
        }
        let found = __real_realpath(path, buffer.as_mut_ptr());
        if found.is_null() { found } else { __wrap_strdup(found) }
    }
}

/// A copy with a zero at its end; null if memory runs out.
///
/// # Safety
/// A text of at least that length.
unsafe fn copied(text: *const c_char, length: usize) -> *mut c_char {
    // SAFETY: as promised; the copy has room for the zero.
    unsafe {
        let copy = jemalloc::malloc(length + 1).cast::<c_char>();
        if !copy.is_null() {
            copy_nonoverlapping(text, copy, length);
            *copy.add(length) = 0;
        }
        copy
    }
}
