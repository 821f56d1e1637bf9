//! Keeps the end of a transactional producer from aborting the process.
//!
//! librdkafka's main thread sends an AddPartitionsToTxn request, and counts it after that. When the client ends, a
//! broker thread drops the requests that it has not sent yet. It runs their handler itself, which asserts that the
//! request is counted. If the system stops the main thread in between, the assertion fails (`txn_req_cnt > 0`). So a
//! broker thread that drops this request waits here until the main thread has ended. That one joins the broker threads
//! later.

use super::{codes, ffi, sys};
use crate::lock;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

const NAME: &CStr = c"pelton";
const NO_ERROR: c_int = 0;
const ADD_PARTITIONS_TO_TXN: i16 = 24;
const MAIN: c_int = 0; // RD_KAFKA_THREAD_MAIN

/// The main thread of one client. It has to live longer than the client.
#[derive(Default)]
pub(super) struct MainThread {
    /// `None` before it starts and after it ends.
    running: Mutex<Option<libc::pthread_t>>,
    ended: Condvar,
}

impl MainThread {
    /// Of the client that will be opened with this conf.
    ///
    /// # Safety
    /// A live conf.
    pub(super) unsafe fn of(conf: *mut sys::rd_kafka_conf_t) -> Arc<Self> {
        let main = Arc::<Self>::default();
        // SAFETY: the caller's promise. The name is used once per conf, so there is no error.
        unsafe { ffi::rd_kafka_conf_interceptor_add_on_new(conf, NAME.as_ptr(), Some(on_new), opaque(&main)) };
        main
    }

    fn set_running(&self, thread: Option<libc::pthread_t>) {
        *lock(&self.running) = thread;
        self.ended.notify_all();
    }

    /// The main thread itself does not wait.
    fn wait_for_end(&self) {
        let own = this_thread();
        let runs = |main: &mut Option<libc::pthread_t>| main.is_some_and(|main| main != own);
        drop(self.ended.wait_while(lock(&self.running), runs).unwrap_or_else(PoisonError::into_inner));
    }
}

fn opaque(main: &MainThread) -> *mut c_void {
    std::ptr::from_ref(main).cast_mut().cast()
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() }
}

/// # Safety
/// The opaque of a client that lives.
unsafe fn main_thread<'a>(opaque: *mut c_void) -> &'a MainThread {
    // SAFETY: `MainThread::of` set it, and it lives longer than the client.
    unsafe { &*opaque.cast::<MainThread>() }
}

/// librdkafka calls this before the client's threads start.
unsafe extern "C" fn on_new(
    client: *mut sys::rd_kafka_t,
    _conf: *const sys::rd_kafka_conf_t,
    opaque: *mut c_void,
    _reason: *mut c_char,
    _reason_size: usize,
) -> c_int {
    let name = NAME.as_ptr();
    // SAFETY: a live client, and functions with the signatures that are asked for. The name is used once for each.
    unsafe {
        ffi::rd_kafka_interceptor_add_on_thread_start(client, name, Some(on_thread_start), opaque);
        ffi::rd_kafka_interceptor_add_on_thread_exit(client, name, Some(on_thread_exit), opaque);
        ffi::rd_kafka_interceptor_add_on_response_received(client, name, Some(on_response), opaque);
    }
    NO_ERROR
}

unsafe extern "C" fn on_thread_start(
    _client: *mut sys::rd_kafka_t,
    kind: c_int,
    _name: *const c_char,
    opaque: *mut c_void,
) -> c_int {
    if kind == MAIN {
        // SAFETY: one of the client's threads calls.
        unsafe { main_thread(opaque) }.set_running(Some(this_thread()));
    }
    NO_ERROR
}

/// The main thread calls this after its last request, and before it joins the broker threads.
unsafe extern "C" fn on_thread_exit(
    _client: *mut sys::rd_kafka_t,
    kind: c_int,
    _name: *const c_char,
    opaque: *mut c_void,
) -> c_int {
    if kind == MAIN {
        // SAFETY: one of the client's threads calls.
        unsafe { main_thread(opaque) }.set_running(None);
    }
    NO_ERROR
}

/// librdkafka calls this right before a request's handler, also for a request that is dropped. It holds no lock then.
unsafe extern "C" fn on_response(
    _client: *mut sys::rd_kafka_t,
    _socket: c_int,
    _broker: *const c_char,
    _broker_id: i32,
    api_key: i16,
    _version: i16,
    _correlation: i32,
    _size: usize,
    _round_trip: i64,
    code: c_int,
    opaque: *mut c_void,
) -> c_int {
    if api_key == ADD_PARTITIONS_TO_TXN && code == codes::DESTROY {
        // SAFETY: one of the client's threads calls.
        unsafe { main_thread(opaque) }.wait_for_end();
    }
    NO_ERROR
}
