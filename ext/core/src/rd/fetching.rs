//! How much memory fetched messages may take in this process. librdkafka's own limit is one for each partition, it is fixed
//! when a client opens, and it does not bound the sum: a fetch brings at least one stored batch, often 1 MB. So while too
//! much waits, no partition is fetched. librdkafka asks `rd_kafka_toppar_fetch_decide` about each; the linker's `--wrap` puts
//! `decide` in front of it. With the system's librdkafka, which is another shared object, nothing is bounded.

#![cfg_attr(not(wraps), allow(dead_code))]

use super::{PerProcess, sys};
use crate::lock;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A message's place in librdkafka's queue, in bytes.
const ENTRY: usize = 400;
/// Microseconds until a partition that is not fetched for want of memory is asked about again.
const PAUSE: i64 = 10_000;
/// Microseconds that one count is valid.
const VALID: i64 = 1_000;
/// After so many microseconds in which no batch came back, one more fetch is allowed: what holds the memory may wait for
/// something else, and other partitions go on.
const STALLED: i64 = 1_000_000;

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static ACCOUNT: PerProcess<Account> = PerProcess::new();

/// The size of a partition's messages, as of its last read. 0: none was read.
pub type MessageSize = Arc<AtomicUsize>;

#[derive(Default)]
struct Account {
    /// The partitions' queues, by address.
    queues: Mutex<HashMap<usize, MessageSize>>,
    /// Of a partition that was not read yet.
    usual_size: AtomicUsize,
    /// Bytes of batches that are out.
    batches: AtomicUsize,
    /// When a batch came back last, or a fetch was allowed nevertheless.
    moved: AtomicI64,
    counted: AtomicI64,
    open: AtomicBool,
}

/// Sets the limit, in bytes.
pub fn configure(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

fn account() -> &'static Account {
    ACCOUNT.get_or_init(Account::default)
}

/// A batch of this size was read from its queue.
pub fn taken(bytes: usize) {
    account().batches.fetch_add(bytes, Ordering::Relaxed);
}

/// It came back.
pub fn given_back(bytes: usize) {
    let account = account();
    account.batches.fetch_sub(bytes, Ordering::Relaxed);
    account.moved.store(now(), Ordering::Relaxed);
}

/// Bytes of batches that are out.
pub fn batches() -> usize {
    account().batches.load(Ordering::Relaxed)
}

/// About how many bytes wait in librdkafka's queues.
pub fn waiting() -> usize {
    account().waiting(&lock(&account().queues))
}

/// The queue is read from now on. It must not be destroyed before `forget`.
pub(super) fn watch(queue: *mut sys::rd_kafka_queue_t) -> MessageSize {
    let size = MessageSize::default();
    lock(&account().queues).insert(queue as usize, Arc::clone(&size));
    size
}

pub(super) fn forget(queue: *mut sys::rd_kafka_queue_t) {
    lock(&account().queues).remove(&(queue as usize));
}

/// Messages of this size, on average, were read from a queue.
pub(super) fn measured(size: &MessageSize, bytes: usize) {
    size.store(bytes, Ordering::Relaxed);
    account().usual_size.store(bytes, Ordering::Relaxed);
}

impl Account {
    fn waiting(&self, queues: &HashMap<usize, MessageSize>) -> usize {
        let usual = self.usual_size.load(Ordering::Relaxed);
        let bytes = |(queue, size): (&usize, &MessageSize)| {
            // SAFETY: a live queue: `forget` comes before its end, and waits for this lock.
            let count = unsafe { sys::rd_kafka_queue_length(*queue as *mut sys::rd_kafka_queue_t) };
            let size = size.load(Ordering::Relaxed);
            count * (ENTRY + if size == 0 { usual } else { size })
        };
        queues.iter().map(bytes).sum()
    }

    /// Whether partitions may be fetched now.
    fn is_open(&self, limit: usize) -> bool {
        let now = now();
        if now - self.counted.load(Ordering::Relaxed) >= VALID
            && let Ok(queues) = self.queues.try_lock()
        {
            let bytes = self.waiting(&queues) + self.batches.load(Ordering::Relaxed);
            let stalled = bytes / 2 < limit && now - self.moved.load(Ordering::Relaxed) > STALLED;
            if bytes >= limit && stalled {
                self.moved.store(now, Ordering::Relaxed);
            }
            self.open.store(bytes < limit || stalled, Ordering::Relaxed);
            self.counted.store(now, Ordering::Relaxed);
        }
        self.open.load(Ordering::Relaxed)
    }
}

/// Microseconds, on librdkafka's clock.
fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

#[cfg(wraps)]
unsafe extern "C" {
    fn __real_rd_kafka_toppar_fetch_decide(toppar: *mut c_void, broker: *mut c_void, remove: c_int) -> i64;
}

/// Whether this partition is to be fetched now, and else when to ask again. On a thread of librdkafka's.
#[cfg(wraps)]
#[unsafe(export_name = "__wrap_rd_kafka_toppar_fetch_decide")]
unsafe extern "C" fn decide(toppar: *mut c_void, broker: *mut c_void, remove: c_int) -> i64 {
    let limit = LIMIT.load(Ordering::Relaxed);
    let open = remove != 0 || limit == usize::MAX || account().is_open(limit);
    // SAFETY: librdkafka's own arguments; `remove` takes the partition out of the next fetch, and nothing else.
    let again = unsafe { __real_rd_kafka_toppar_fetch_decide(toppar, broker, if open { remove } else { 1 }) };
    if open { again } else { now() + PAUSE }
}
