//! How much memory fetched messages may take in this process. librdkafka's own limit is one for each partition, it is fixed
//! when a client opens, and it does not bound the sum: a fetch brings at least one stored batch, often 1 MB. So while too
//! much waits, no partition is fetched. librdkafka asks `rd_kafka_toppar_fetch_decide` about each; the linker's `--wrap` puts
//! `decide` in front of it. With the system's librdkafka, which is another shared object, nothing is bounded.
//!
//! A partition is stuck if nothing was read from it and nothing came back for a second: its messages wait for a long job,
//! or for a retry. What stuck partitions hold is no reason to keep others waiting. A partition that has nothing is then
//! fetched as long as the others' bytes are below the limit, and all are below the whole budget.

#![cfg_attr(not(wraps), allow(dead_code))]

use super::{PerProcess, sys};
use crate::lock;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A message's place in librdkafka's queue, in bytes.
const ENTRY: usize = 400;
/// Microseconds until a partition that is not fetched for want of memory is asked about again.
const PAUSE: i64 = 10_000;
/// Microseconds that one count is valid.
const VALID: i64 = 1_000;
/// Microseconds without a movement after which a partition is stuck.
const STUCK: i64 = 1_000_000;
/// The whole budget is so many times the limit of fetched messages (`MemoryBudget` in Ruby).
const WHOLE: usize = 4;

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static ACCOUNT: PerProcess<Mutex<Account>> = PerProcess::new();

thread_local! {
    /// The partition, librdkafka's `rd_kafka_toppar_t`, that this thread looked up last.
    static FOUND: Cell<usize> = const { Cell::new(0) };
}

/// A partition's queue in the account.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Watched(u64);

#[derive(Default)]
struct Account {
    partitions: HashMap<Watched, Partition>,
    /// The same, by librdkafka's partition.
    by_toppar: HashMap<usize, Watched>,
    last: Watched,
    /// The size of messages of a partition that was not read yet.
    usual_size: usize,
    /// Bytes of batches that are out.
    batches: usize,
    counted: i64,
    /// As of that count: bytes that wait or are out, and those of stuck partitions.
    all: usize,
    stuck: usize,
}

struct Partition {
    queue: usize,
    toppar: usize,
    /// The size of its messages, as of the last read. 0: none was read.
    size: usize,
    /// Bytes of its batches that are out.
    out: usize,
    /// When a batch was read or came back last.
    moved: i64,
}

/// Sets the limit, in bytes.
pub fn configure(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

fn account() -> &'static Mutex<Account> {
    ACCOUNT.get_or_init(Mutex::default)
}

/// A batch of this size was read from the queue.
pub fn taken(queue: Watched, bytes: usize) {
    lock(account()).moved(queue, |out| out + bytes);
}

/// It came back. The queue may be forgotten.
pub fn given_back(queue: Watched, bytes: usize) {
    lock(account()).moved(queue, |out| out.saturating_sub(bytes));
}

/// Bytes of batches that are out, of partitions that are still read.
pub fn batches() -> usize {
    lock(account()).batches
}

/// About how many bytes wait in librdkafka's queues.
pub fn waiting() -> usize {
    let account = lock(account());
    account.partitions.values().map(|partition| partition.waiting(account.usual_size)).sum()
}

/// The queue is read from now on, which this thread has just got. It must not be destroyed before `forget`.
pub(super) fn watch(queue: *mut sys::rd_kafka_queue_t) -> Watched {
    let toppar = FOUND.take();
    let mut account = lock(account());
    account.last.0 += 1;
    let id = account.last;
    account.partitions.insert(id, Partition { queue: queue as usize, toppar, size: 0, out: 0, moved: now() });
    account.by_toppar.insert(toppar, id);
    id
}

pub(super) fn forget(queue: Watched) {
    let mut account = lock(account());
    let Some(partition) = account.partitions.remove(&queue) else { return };
    account.batches -= partition.out;
    if account.by_toppar.get(&partition.toppar) == Some(&queue) {
        account.by_toppar.remove(&partition.toppar);
    }
}

/// Messages of this size, on average, were read from a queue.
pub(super) fn measured(queue: Watched, bytes: usize) {
    let mut account = lock(account());
    account.usual_size = bytes;
    if let Some(partition) = account.partitions.get_mut(&queue) {
        partition.size = bytes;
    }
}

impl Partition {
    fn count(&self) -> usize {
        // SAFETY: a live queue: `forget` comes before its end, and waits for the account's lock.
        unsafe { sys::rd_kafka_queue_length(self.queue as *mut sys::rd_kafka_queue_t) }
    }

    fn waiting(&self, usual: usize) -> usize {
        self.count() * (ENTRY + if self.size == 0 { usual } else { self.size })
    }

    fn is_empty(&self) -> bool {
        self.out == 0 && self.count() == 0
    }
}

impl Account {
    fn moved(&mut self, queue: Watched, change: impl FnOnce(usize) -> usize) {
        let Some(partition) = self.partitions.get_mut(&queue) else { return };
        let before = partition.out;
        partition.out = change(before);
        partition.moved = now();
        self.batches = self.batches + partition.out - before;
    }

    fn count(&mut self, now: i64) {
        (self.all, self.stuck, self.counted) = (0, 0, now);
        for partition in self.partitions.values() {
            let bytes = partition.out + partition.waiting(self.usual_size);
            self.all += bytes;
            if now - partition.moved > STUCK {
                self.stuck += bytes;
            }
        }
    }

    /// Whether librdkafka's partition may be fetched now.
    fn is_open(&mut self, toppar: usize, limit: usize) -> bool {
        let now = now();
        if now - self.counted >= VALID {
            self.count(now);
        }
        self.all < limit
            || (self.all - self.stuck < limit
                && self.all / WHOLE < limit
                && self.find(toppar).is_none_or(Partition::is_empty))
    }

    fn find(&self, toppar: usize) -> Option<&Partition> {
        self.partitions.get(self.by_toppar.get(&toppar)?)
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
    fn __real_rd_kafka_toppar_get2(
        client: *mut c_void,
        topic: *const c_char,
        partition: i32,
        unassigned: c_int,
        create: c_int,
    ) -> *mut c_void;
}

/// Whether this partition is to be fetched now, and else when to ask again. On a thread of librdkafka's.
#[cfg(wraps)]
#[unsafe(export_name = "__wrap_rd_kafka_toppar_fetch_decide")]
unsafe extern "C" fn decide(toppar: *mut c_void, broker: *mut c_void, remove: c_int) -> i64 {
    let limit = LIMIT.load(Ordering::Relaxed);
    let open = remove != 0 || limit == usize::MAX || lock(account()).is_open(toppar as usize, limit);
    // SAFETY: librdkafka's own arguments; `remove` takes the partition out of the next fetch, and nothing else.
    let again = unsafe { __real_rd_kafka_toppar_fetch_decide(toppar, broker, if open { remove } else { 1 }) };
    if open { again } else { now() + PAUSE }
}

/// Looks a partition up. `rd_kafka_queue_get_partition` does so, and `watch` then knows whose queue it is.
#[cfg(wraps)]
#[unsafe(export_name = "__wrap_rd_kafka_toppar_get2")]
unsafe extern "C" fn get(
    client: *mut c_void,
    topic: *const c_char,
    partition: i32,
    unassigned: c_int,
    create: c_int,
) -> *mut c_void {
    // SAFETY: librdkafka's own arguments.
    let toppar = unsafe { __real_rd_kafka_toppar_get2(client, topic, partition, unassigned, create) };
    FOUND.set(toppar as usize);
    toppar
}
