//! `rd_kafka_headers_t` of a message to be produced.

use super::{ffi, sys};

pub struct Headers {
    raw: *mut sys::rd_kafka_headers_t,
}

impl Headers {
    pub fn with_capacity(count: usize) -> Self {
        // SAFETY: no preconditions.
        Self { raw: unsafe { sys::rd_kafka_headers_new(count) } }
    }

    /// Appends one; the same name may come many times (KIP-82).
    pub fn add(&mut self, name: &[u8], value: Option<&[u8]>) {
        let (data, size) = value.map_or((std::ptr::null(), 0), |value| (value.as_ptr(), value.len() as isize));
        // SAFETY: librdkafka copies both.
        unsafe { ffi::rd_kafka_header_add(self.raw, name.as_ptr().cast(), name.len() as isize, data.cast(), size) };
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_headers_t {
        self.raw
    }

    /// librdkafka took them.
    pub(super) fn given_away(self) {
        std::mem::forget(self);
    }
}

impl Drop for Headers {
    fn drop(&mut self) {
        // SAFETY: still ours.
        unsafe { sys::rd_kafka_headers_destroy(self.raw) };
    }
}
