//! Answers requests to a consumer that closed while they waited in its main thread's queue. librdkafka drops them, and
//! the thread that asked waits forever (`rd_kafka_cgrp_op_serve`, "terminated"). It can be the event thread: a close
//! during a rebalance brings a cooperative member two revocations, and librdkafka closes after the answer to the first.
//! So the linker's `--wrap` puts functions in front that note each request, and answer it with `_DESTROY` instead.

use super::{PerProcess, codes, leader_query, sys};
use crate::lock;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// librdkafka's `rd_kafka_op_res_t`.
const PASS: c_int = 0;
const HANDLED: c_int = 1;
const NO_LIMIT: c_int = -1;

/// Requests that wait for an answer, librdkafka's `rd_kafka_op_t`.
#[derive(Default)]
struct Requests {
    ops: Mutex<Vec<usize>>,
    /// Their number, to read without the lock.
    count: AtomicUsize,
}

static REQUESTS: PerProcess<Requests> = PerProcess::new();

thread_local! {
    /// The request whose answer this thread waits for.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

impl Requests {
    fn add(&self, op: usize) {
        lock(&self.ops).push(op);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, op: usize) {
        lock(&self.ops).retain(|other| *other != op);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Who has taken the op from a queue also sees that it was added.
    fn contains(&self, op: usize) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && lock(&self.ops).contains(&op)
    }
}

unsafe extern "C" {
    fn rd_kafka_op_new0(source: *const c_char, kind: c_int) -> *mut c_void;
    fn rd_kafka_op_reply(op: *mut c_void, error: c_int) -> c_int;
    fn __real_rd_kafka_op_req(queue: *mut c_void, op: *mut c_void, millis: c_int) -> *mut c_void;
    fn __real_rd_kafka_op_handle(
        client: *mut sys::rd_kafka_t,
        queue: *mut c_void,
        op: *mut c_void,
        kind: c_int,
        opaque: *mut c_void,
        callback: *mut c_void,
    ) -> c_int;
}

/// Sends a request and waits for its answer.
///
/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_op_req")]
unsafe extern "C" fn ask(queue: *mut c_void, op: *mut c_void, millis: c_int) -> *mut c_void {
    let requests = REQUESTS.get_or_init(Requests::default);
    requests.add(op as usize);
    ASKED.set(op as usize);
    // SAFETY: the caller's promise.
    let answer = unsafe { __real_rd_kafka_op_req(queue, op, millis) };
    ASKED.set(0);
    requests.remove(op as usize);
    answer
}

/// The same with a new request of that kind. librdkafka's own function calls `rd_kafka_op_req` where no `--wrap` sees
/// it.
///
/// # Safety
/// As above.
#[unsafe(export_name = "__wrap_rd_kafka_op_req2")]
unsafe extern "C" fn ask_new(queue: *mut c_void, kind: c_int) -> *mut c_void {
    // SAFETY: the caller's promise; the source is only for librdkafka's own debugging.
    unsafe { ask(queue, rd_kafka_op_new0(std::ptr::null(), kind), NO_LIMIT) }
}

/// Handles what was taken from a queue.
///
/// # Safety
/// As above.
#[unsafe(export_name = "__wrap_rd_kafka_op_handle")]
unsafe extern "C" fn handle(
    client: *mut sys::rd_kafka_t,
    queue: *mut c_void,
    op: *mut c_void,
    kind: c_int,
    opaque: *mut c_void,
    callback: *mut c_void,
) -> c_int {
    leader_query::wait();
    if ASKED.get() == op as usize {
        return PASS; // the answer, for who waits: librdkafka would still drop it
    }
    let waits = REQUESTS.get().is_some_and(|requests| requests.contains(op as usize));
    // SAFETY: a live client.
    if waits && unsafe { sys::rd_kafka_consumer_closed(client) } != 0 {
        // SAFETY: a request that has no answer yet; its thread gets it.
        unsafe { rd_kafka_op_reply(op, codes::DESTROY) };
        return HANDLED;
    }
    // SAFETY: the caller's promise.
    unsafe { __real_rd_kafka_op_handle(client, queue, op, kind, opaque, callback) }
}

#[cfg(test)]
mod tests {
    use crate::rd::{Client, ClientKind, Conf, Queue};
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    /// A request is on its way at any moment, also when the group ends.
    #[test]
    fn a_request_that_waits_while_the_consumer_closes_is_answered() {
        for _ in 0..20 {
            let mut conf = Conf::new();
            conf.set("group.id", "g").expect("a good option");
            let client = Client::new(ClientKind::Consumer, conf).expect("a client");
            let queue = Queue::consumer(&client).expect("a consumer");
            let (sender, done) = channel();
            for _ in 0..2 {
                let (client, sender) = (Arc::clone(&client), sender.clone());
                std::thread::spawn(move || {
                    while !client.consumer_closed() {
                        client.assignment();
                        client.assign(None);
                    }
                    let _ = sender.send(());
                });
            }
            client.close_consumer(&queue).expect("closing");
            let ends = Instant::now() + Duration::from_secs(60);
            for _ in 0..2 {
                let left = ends.saturating_duration_since(Instant::now());
                assert!(done.recv_timeout(left).is_ok(), "a request has no answer");
            }
        }
    }
}
