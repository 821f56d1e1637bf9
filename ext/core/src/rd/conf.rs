//! `rd_kafka_conf_t`: librdkafka's option names and values pass through untouched.

use super::{ffi, resolver, sys, text};
use std::ffi::{CString, c_char, c_int, c_void};

/// A row of librdkafka's own table of options.
#[derive(Debug, Clone)]
pub struct Property {
    pub name: String,
    /// What is allowed: `"0 .. 900000"`, `"none, gzip, snappy, lz4, zstd"`; empty where anything is.
    pub range: String,
}

pub struct Conf {
    raw: *mut sys::rd_kafka_conf_t,
}

impl Default for Conf {
    fn default() -> Self {
        Self::new()
    }
}

impl Conf {
    pub fn new() -> Self {
        // SAFETY: no preconditions; never null. The callbacks are functions of ours that need no opaque.
        unsafe {
            let raw = sys::rd_kafka_conf_new();
            ffi::rd_kafka_conf_set_resolve_cb(raw, resolver::resolve);
            sys::rd_kafka_conf_set_closesocket_cb(raw, Some(hang_up));
            Self { raw }
        }
    }

    /// Sets one option; `Err` is librdkafka's own sentence.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (Ok(c_key), Ok(c_value)) = (CString::new(key), CString::new(value)) else {
            return Err("contains a NUL byte".into());
        };
        let mut reason = [0 as c_char; 512];
        // SAFETY: live strings, and a buffer with its length.
        let result = unsafe {
            ffi::rd_kafka_conf_set(self.raw, c_key.as_ptr(), c_value.as_ptr(), reason.as_mut_ptr(), reason.len())
        };
        if result == 0 { Ok(()) } else { Err(text(reason.as_ptr())) }
    }

    /// An option's value as librdkafka shows it.
    pub fn get(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        let mut value = [0 as c_char; 512];
        let mut size = value.len();
        // SAFETY: live conf and string, and a buffer with its length.
        let result = unsafe { sys::rd_kafka_conf_get(self.raw, key.as_ptr(), value.as_mut_ptr(), &mut size) };
        (result as i32 == 0).then(|| text(value.as_ptr()))
    }

    /// Which events come through queues instead of callbacks.
    pub fn set_events(&mut self, events: i32) {
        // SAFETY: a live conf.
        unsafe { sys::rd_kafka_conf_set_events(self.raw, events) };
    }

    /// Gives the raw conf away (to `rd_kafka_new`, which owns it on success).
    pub(super) fn into_raw(self) -> *mut sys::rd_kafka_conf_t {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }

    pub(super) fn from_raw(raw: *mut sys::rd_kafka_conf_t) -> Self {
        Self { raw }
    }

    /// librdkafka's table of options with what each allows (parsed from `rd_kafka_conf_properties_show`).
    pub fn properties() -> Vec<Property> {
        let (mut buffer, mut size) = (std::ptr::null_mut::<c_char>(), 0usize);
        // SAFETY: the memory stream is closed before its buffer is read; the buffer is ours to free.
        let table = unsafe {
            let stream = open_memstream(&mut buffer, &mut size);
            if stream.is_null() {
                return Vec::new();
            }
            sys::rd_kafka_conf_properties_show(stream);
            libc::fclose(stream);
            let table = text(buffer);
            libc::free(buffer.cast());
            table
        };
        table.lines().filter_map(parse_row).collect()
    }
}

/// Ends a connection: a forked child has a descriptor of it too, and a close alone would leave the broker waiting until
/// the child ends.
///
/// # Safety
/// librdkafka's contract: a socket of its own that it uses no more.
unsafe extern "C" fn hang_up(socket: c_int, _opaque: *mut c_void) -> c_int {
    // SAFETY: plain calls on a descriptor that is given away.
    unsafe {
        libc::shutdown(socket, libc::SHUT_RDWR);
        libc::close(socket)
    }
}

unsafe extern "C" {
    fn open_memstream(buffer: *mut *mut c_char, size: *mut usize) -> *mut libc::FILE;
}

/// `linger.ms | P | 0 .. 900000 | 5 | high | Delay in …`
fn parse_row(row: &str) -> Option<Property> {
    let mut cells = row.split('|').map(str::trim);
    let (name, scope, range) = (cells.next()?, cells.next()?, cells.next()?);
    matches!(scope, "*" | "C" | "P").then(|| Property { name: name.into(), range: range.into() })
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: still owned by us (`into_raw` forgets self).
        unsafe { sys::rd_kafka_conf_destroy(self.raw) };
    }
}

// SAFETY: a conf is plain memory without thread affinity.
unsafe impl Send for Conf {}
