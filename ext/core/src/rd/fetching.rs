//! How much memory fetched messages may take in this process. librdkafka's own limit is one for each partition, it is
//! fixed when a client opens, and it does not bound the sum: a fetch brings at least one stored batch, often 1 MB. So
//! while too much waits, no partition is fetched. librdkafka asks `rd_kafka_toppar_fetch_decide` about each; the
//! linker's `--wrap` puts `decide` in front of it. With the system's librdkafka, which is another shared object,
//! nothing is bounded.
//!
//! A partition is stuck if it has messages, and for a second none was read and none came back: they wait for a long
//! job, or for a retry. What stuck partitions hold is no reason to keep others waiting. A partition that has nothing is
//! then fetched as long as the others' bytes are below the limit, and all are below the whole budget.

#![cfg_attr(not(wraps), allow(dead_code))]

use super::{PerProcess, sys};
use crate::lock;
use account::Account;
pub use account::{QueueRead, Watched};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

mod account;

/// Microseconds until a partition that is not fetched for want of memory is asked about again.
const PAUSE: i64 = 10_000;

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static ACCOUNT: PerProcess<Mutex<Account>> = PerProcess::new();

thread_local! {
    /// The partition, librdkafka's `rd_kafka_toppar_t`, that this thread looked up last.
    static FOUND: Cell<usize> = const { Cell::new(0) };
}

/// Sets the limit, in bytes.
pub fn configure(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

fn account() -> &'static Mutex<Account> {
    ACCOUNT.get_or_init(Mutex::default)
}

/// A batch was read from the queue.
pub fn taken(queue: Watched, read: QueueRead) {
    lock(account()).read(queue, read, now());
}

/// A batch of this size came back. The queue may be forgotten.
pub fn given_back(queue: Watched, bytes: usize) {
    lock(account()).give_back(queue, bytes, now());
}

/// The messages are dropped that had no room in the last batch.
pub fn drop_rest(queue: Watched) {
    lock(account()).drop_rest(queue);
}

/// Bytes of batches that are out, of partitions that are still read.
pub fn batches() -> usize {
    lock(account()).batches()
}

/// About how many bytes wait for a batch.
pub fn waiting() -> usize {
    lock(account()).waiting(queued)
}

/// The queue is read from now on, which this thread has just got. It must not be destroyed before `forget`.
pub(super) fn watch(queue: *mut sys::rd_kafka_queue_t) -> Watched {
    lock(account()).watch(queue as usize, FOUND.take(), now())
}

/// The partition is not read any more, and need not be fetched.
pub fn close(queue: Watched) {
    lock(account()).close(queue);
}

pub(super) fn forget(queue: Watched) {
    lock(account()).forget(queue);
}

/// Messages in a queue of the account.
fn queued(queue: usize) -> usize {
    // SAFETY: a live queue: `forget` comes before its end, and waits for the account's lock.
    unsafe { sys::rd_kafka_queue_length(queue as *mut sys::rd_kafka_queue_t) }
}

/// Microseconds, on librdkafka's clock.
fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// What the linker puts in front of librdkafka's functions. They run on its threads.
#[cfg(wraps)]
mod wrapped {
    use super::{FOUND, LIMIT, PAUSE, account, lock, now, queued};
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::atomic::Ordering;

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

    /// Whether this partition is to be fetched now, and else when to ask again.
    #[unsafe(export_name = "__wrap_rd_kafka_toppar_fetch_decide")]
    unsafe extern "C" fn decide(toppar: *mut c_void, broker: *mut c_void, remove: c_int) -> i64 {
        let limit = LIMIT.load(Ordering::Relaxed);
        let open = remove != 0 || lock(account()).is_open(toppar as usize, limit, now(), queued);
        // SAFETY: librdkafka's own arguments; `remove` takes the partition out of the next fetch, and nothing else.
        let again = unsafe { __real_rd_kafka_toppar_fetch_decide(toppar, broker, if open { remove } else { 1 }) };
        if open { again } else { now() + PAUSE }
    }

    /// Looks a partition up. `rd_kafka_queue_get_partition` does so, and `watch` then knows whose queue it is.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{Outcome, Parker};
    use std::time::{Duration, Instant};

    #[test]
    fn time_is_counted_in_microseconds() {
        let outer = Instant::now();
        let begun = now();
        let inner = Instant::now();
        // Into the next second.
        assert_eq!(Outcome::TimedOut, Parker::new().park_until(Some(inner + Duration::from_millis(1050)), || false));
        let least = inner.elapsed().as_micros() as i64;
        let passed = now() - begun;
        let most = outer.elapsed().as_micros() as i64;
        assert!((least - 1..=most + 1).contains(&passed), "{least} {passed} {most}");
    }
}
