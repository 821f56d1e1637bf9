//! Keeps librdkafka's main thread from ending a search for leaders that its caller still starts.
//!
//! Offsets are listed, and records deleted, by the leaders of the partitions. `rd_kafka_ListOffsets` begins the search
//! for them on the thread that calls it. If it does not know a leader, it first asks to be told of new metadata, and
//! then sets a timer. If metadata comes in between, because another thread asked for it, the main thread goes on with
//! the search, finds the leader, and frees what the caller still uses: the process crashes (also with librdkafka
//! 2.15.1). So the linker's `--wrap` puts a function in front, and `unanswered_request` lets no thread handle what it
//! took from a queue while a search starts.

use super::PerProcess;
use super::unanswered_heartbeat::ReplyQueue;
use crate::lock;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The searches that start.
#[derive(Default)]
struct Starting {
    running: Mutex<()>,
    /// Their number, to read without the lock.
    count: AtomicUsize,
}

static STARTING: PerProcess<Starting> = PerProcess::new();

impl Starting {
    fn start<T>(&self, search: impl FnOnce() -> T) -> T {
        self.count.fetch_add(1, Ordering::Relaxed);
        let held = lock(&self.running);
        let result = search();
        drop(held);
        self.count.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Who has taken something of a search from a queue also sees that it was counted.
    fn wait(&self) {
        if self.count.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.running));
        }
    }
}

unsafe extern "C" {
    fn __real_rd_kafka_topic_partition_list_query_leaders_async(
        client: *mut c_void,
        partitions: *const c_void,
        millis: c_int,
        queue: ReplyQueue,
        callback: *mut c_void,
        opaque: *mut c_void,
    );
}

/// Starts a search. The callback gets the leaders, on the main thread.
///
/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_topic_partition_list_query_leaders_async")]
unsafe extern "C" fn start(
    client: *mut c_void,
    partitions: *const c_void,
    millis: c_int,
    queue: ReplyQueue,
    callback: *mut c_void,
    opaque: *mut c_void,
) {
    STARTING.get_or_init(Starting::default).start(|| {
        // SAFETY: the caller's promise.
        unsafe {
            __real_rd_kafka_topic_partition_list_query_leaders_async(
                client, partitions, millis, queue, callback, opaque,
            );
        }
    });
}

/// Waits until no search starts. Call it before what was taken from a queue is handled.
pub(super) fn wait() {
    if let Some(starting) = STARTING.get() {
        starting.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn what_was_taken_from_a_queue_waits_for_a_search_that_starts() {
        let starting = Starting::default();
        let (sender, waited) = channel();
        starting.wait();
        std::thread::scope(|scope| {
            starting.start(|| {
                scope.spawn(|| {
                    starting.wait();
                    sender.send(()).expect("a receiver");
                });
                assert!(waited.recv_timeout(Duration::from_millis(100)).is_err(), "it did not wait");
            });
            waited.recv_timeout(Duration::from_secs(60)).expect("it ended with the search");
        });
        assert_eq!(0, starting.count.load(Ordering::Relaxed));
        starting.wait();
    }
}
