//! Messages that a consumer fetched, still in librdkafka's memory.

use super::{Origin, ffi, sys};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::LazyLock;

/// A reusable buffer of fetched messages. Clearing or dropping it returns them to librdkafka, which must happen before
/// their client ends.
pub struct Fetched {
    raw: Vec<*mut sys::rd_kafka_message_t>,
    /// A child leaves its parent's messages alone.
    origin: Origin,
}

impl Default for Fetched {
    fn default() -> Self {
        Self { raw: Vec::new(), origin: Origin::here() }
    }
}

impl Fetched {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.raw.len()
    }

    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = FetchedMessage<'_>> {
        self.raw.iter().map(|raw| FetchedMessage { raw: *raw, _buffer: PhantomData })
    }

    pub fn clear(&mut self) {
        for raw in self.raw.drain(..) {
            // SAFETY: each pointer came from librdkafka, is ours, and leaves the buffer here.
            unsafe { sys::rd_kafka_message_destroy(raw) };
        }
    }

    /// The first message that is not an error.
    pub fn first(&self) -> Option<FetchedMessage<'_>> {
        self.iter().find(|message| message.error() == 0)
    }

    /// Moves all but the first `count` to the end of another buffer.
    pub fn move_rest(&mut self, count: usize, to: &mut Self) {
        to.raw.extend(self.raw.drain(count..));
    }

    /// Appends what `fill(buffer, room)` writes (it returns the count, negative on error). Returns how many came.
    pub(super) fn refill(
        &mut self,
        max: usize,
        fill: impl FnOnce(*mut *mut sys::rd_kafka_message_t, usize) -> isize,
    ) -> usize {
        self.raw.reserve(max);
        let start = self.raw.len();
        // SAFETY: within the reserved capacity.
        let count = fill(unsafe { self.raw.as_mut_ptr().add(start) }, max).max(0) as usize;
        // SAFETY: `fill` initialised that many entries.
        unsafe { self.raw.set_len(start + count) };
        count
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        if !self.origin.is_foreign() {
            self.clear();
        }
    }
}

// SAFETY: a fetched message has no thread affinity.
unsafe impl Send for Fetched {}

/// The head of librdkafka's private `rd_kafka_msg_t` (rdkafka_msg.h), in the versions of `KNOWN`. The test of headers
/// (tests/round_trip.rs) checks it too.
#[repr(C)]
struct PrivateMessage {
    public: sys::rd_kafka_message_t,
    link: [*mut c_void; 2],
    flags: c_int,
    timestamp_type: c_int,
    timestamp: i64,
    /// The headers, parsed on first use.
    headers: *mut c_void,
    status: c_int,
    broker: i32,
    raw_len: i32,
    raw: *const u8,
}

/// Versions whose `rd_kafka_msg_t` somebody looked at: 2.12.1, 2.15.1.
const KNOWN: [i32; 2] = [0x020c_01ff, 0x020f_01ff];
const _: () = assert!(sys::RD_KAFKA_VERSION == KNOWN[0], "look at rd_kafka_msg_t again");

// SAFETY: no preconditions.
static IS_KNOWN: LazyLock<bool> = LazyLock::new(|| KNOWN.contains(&unsafe { sys::rd_kafka_version() }));

#[derive(Clone, Copy)]
pub struct FetchedMessage<'a> {
    raw: *mut sys::rd_kafka_message_t,
    _buffer: PhantomData<&'a Fetched>,
}

impl<'a> FetchedMessage<'a> {
    /// 0, or why there is no message (−191 `_PARTITION_EOF`, …). Read as an integer: codes are an open set.
    pub fn error(self) -> i32 {
        // SAFETY: a live message; the field is a C enum of int's size.
        unsafe { std::ptr::addr_of!((*self.raw).err).cast::<i32>().read() }
    }

    /// librdkafka's sentence about the error (it replaces the payload).
    pub fn error_text(self) -> String {
        // SAFETY: a live message.
        super::text(unsafe { sys::rd_kafka_message_errstr(self.raw) })
    }

    pub fn partition(self) -> i32 {
        // SAFETY: alive as long as the buffer that lends it; so are the others.
        unsafe { (*self.raw).partition }
    }

    pub fn offset(self) -> i64 {
        // SAFETY: a live message.
        unsafe { (*self.raw).offset }
    }

    /// `None` for a tombstone.
    pub fn payload(self) -> Option<&'a [u8]> {
        // SAFETY: a live message.
        let (payload, len) = unsafe { ((*self.raw).payload, (*self.raw).len) };
        bytes(payload, len)
    }

    pub fn key(self) -> Option<&'a [u8]> {
        // SAFETY: a live message.
        let (key, len) = unsafe { ((*self.raw).key, (*self.raw).key_len) };
        bytes(key, len)
    }

    /// Milliseconds since 1970, −1 where the broker gave none.
    pub fn timestamp(self) -> i64 {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: a live message and a place for the kind.
        unsafe { sys::rd_kafka_message_timestamp(self.raw, &mut kind) }
    }

    /// −1 where unknown.
    pub fn leader_epoch(self) -> i32 {
        // SAFETY: a live message.
        unsafe { sys::rd_kafka_message_leader_epoch(self.raw) }
    }

    /// Whether there surely are no headers, without parsing them: librdkafka's own call builds and frees a buffer to
    /// read a zero (120 ns a message).
    fn is_headless(self) -> bool {
        if !*IS_KNOWN {
            return false;
        }
        let message = self.raw.cast::<PrivateMessage>();
        // SAFETY: every `rd_kafka_message_t` of a consumer is the first field of an `rd_kafka_msg_t`. `raw_len` bytes
        // follow; the first is the varint of the number of headers.
        unsafe { (*message).headers.is_null() && ((*message).raw_len <= 0 || *(*message).raw == 0) }
    }

    /// Calls `each(name, value)` per header, in order; a null value is `None`.
    pub fn headers(self, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        if self.is_headless() {
            return;
        }
        let mut headers = std::ptr::null_mut();
        // SAFETY: on success the headers belong to the message and live as long.
        let found = unsafe { ffi::rd_kafka_message_headers(self.raw, &mut headers) };
        if found != 0 {
            return;
        }
        for index in 0.. {
            let (mut name, mut value, mut size) = (std::ptr::null(), std::ptr::null(), 0);
            // SAFETY: out-parameters of the right types; the strings belong to the headers.
            let more = unsafe { ffi::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut size) };
            if more != 0 {
                return;
            }
            // SAFETY: a header's name is NUL-terminated.
            let name = unsafe { std::ffi::CStr::from_ptr(name) }.to_bytes();
            each(name, bytes(value, size));
        }
    }
}

fn bytes<'a>(pointer: *const c_void, len: usize) -> Option<&'a [u8]> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: librdkafka's pointer and length, valid as long as the message that the caller's lifetime stands for.
    Some(unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The pointer leads nowhere, so the test would crash.
    #[test]
    fn a_forked_child_does_not_give_its_parents_messages_back() {
        drop(Fetched { raw: vec![std::ptr::dangling_mut()], origin: Origin::of_another_process() });
    }
    /// The formats before Kafka 0.11 have none, and librdkafka keeps no bytes of them.
    #[test]
    fn messages_have_no_headers_if_there_is_no_byte_of_them_or_their_number_is_zero() {
        let is_headless = |parsed: bool, len: i32, bytes: &[u8]| {
            // SAFETY: numbers and pointers may be zero.
            let mut message: PrivateMessage = unsafe { std::mem::zeroed() };
            message.headers = if parsed { std::ptr::dangling_mut() } else { std::ptr::null_mut() };
            message.raw_len = len;
            message.raw = if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr() };
            FetchedMessage { raw: (&raw mut message).cast(), _buffer: PhantomData }.is_headless()
        };
        assert!(*IS_KNOWN);
        assert!(is_headless(false, 0, &[]) && is_headless(false, -1, &[]));
        assert!(is_headless(false, 1, &[0]));
        assert!(!is_headless(false, 3, &[2, 0, 1]));
        assert!(!is_headless(true, 0, &[]) && !is_headless(true, 1, &[0]));
    }
}
