//! A transactional producer is closed while librdkafka registers a partition with the transaction
//! (`rd/main_thread.rs`).
//!
//! The crash needs two threads that get no time from the system at certain moments. So this program puts itself between
//! librdkafka and three functions of the C library, and stops the threads there. A child does that, because it may
//! crash.
#![cfg(all(target_os = "linux", target_env = "gnu"))] // elsewhere librdkafka locks with other functions

mod support;

use pelton_core::wait::{self, Outcome, Parker};
use std::ffi::{CStr, c_int, c_void};
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;
use support::*;

/// The address of the cluster; set in the child.
const CLUSTER: &str = "PELTON_TEST_CLUSTER";
/// Enough for the assertion to fail on a busy machine.
const MAIN_THREAD_STOPS: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
enum Phase {
    Before,
    /// The main thread's next request is the one.
    Armed,
    /// The request is in the queue of the coordinator's thread, and not counted yet. Both threads stop.
    Sent,
    /// The client ends. The coordinator's thread goes on.
    Ending,
    /// The main thread goes on, too.
    Over,
}

static PHASE: Mutex<Phase> = Mutex::new(Phase::Before);
static CHANGED: Condvar = Condvar::new();

fn phase() -> MutexGuard<'static, Phase> {
    PHASE.lock().expect("no panic")
}

fn enter(next: Phase) {
    *phase() = next;
    CHANGED.notify_all();
}

/// Whether it comes in time.
fn wait_until(wanted: Phase, limit: Duration) -> bool {
    let missing = |phase: &mut Phase| *phase < wanted;
    !CHANGED.wait_timeout_while(phase(), limit, missing).expect("no panic").1.timed_out()
}

fn is_phase(wanted: Phase) -> bool {
    *phase() == wanted
}

fn thread_is(name: &[u8]) -> bool {
    let mut buffer = [0u8; 16];
    // SAFETY: the kernel writes up to 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, buffer.as_mut_ptr()) };
    buffer.starts_with(name)
}

fn of_the_c_library(name: &CStr) -> *mut c_void {
    // SAFETY: a live string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Called when something is put into a queue, under the queue's lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_signal(condition: *mut c_void) -> c_int {
    if is_phase(Phase::Armed) && thread_is(b"rdk:main") {
        enter(Phase::Sent);
    }
    // SAFETY: C's signature, and the caller's argument.
    unsafe {
        let real: unsafe extern "C" fn(*mut c_void) -> c_int = std::mem::transmute(of_the_c_library(c"cnd_signal"));
        real(condition)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_unlock(mutex: *mut c_void) -> c_int {
    // SAFETY: C's signature, and the caller's argument.
    let result = unsafe {
        let real: unsafe extern "C" fn(*mut c_void) -> c_int = std::mem::transmute(of_the_c_library(c"mtx_unlock"));
        real(mutex)
    };
    if is_phase(Phase::Sent) {
        if thread_is(b"rdk:main") {
            wait_until(Phase::Over, MAIN_THREAD_STOPS);
            enter(Phase::Over);
        } else if thread_is(b"rdk:broker-1") {
            wait_until(Phase::Ending, SECONDS);
        }
    }
    result
}

/// The closing thread joins the main thread after it has said that the client ends.
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_join(thread: libc::pthread_t, result: *mut c_int) -> c_int {
    if is_phase(Phase::Sent) {
        enter(Phase::Ending);
    }
    // SAFETY: C's signature, and the caller's arguments.
    unsafe {
        let real: unsafe extern "C" fn(libc::pthread_t, *mut c_int) -> c_int =
            std::mem::transmute(of_the_c_library(c"thrd_join"));
        real(thread, result)
    }
}

fn close_while_a_partition_is_registered(bootstrap: &str) {
    let producer = producer(bootstrap, &[("transactional.id", "closing"), ("message.timeout.ms", "3000")]);
    let transactions = producer.transactions();
    let begin = || producer.begin_transaction(transactions.ticket(), wait::deadline(Some(SECONDS))).expect("begun");
    // The first transaction makes the topic's partitions known.
    begin();
    wait_for(&producer.produce(message("closing", 0, b"x")).expect("room"));
    producer.commit_transaction(transactions.ticket(), wait::deadline(Some(SECONDS))).expect("committed");
    begin();
    enter(Phase::Armed);
    let delivery = producer.produce(message("closing", 0, b"x")).expect("room");
    assert!(wait_until(Phase::Sent, SECONDS));
    wait_for(&delivery); // it times out
    // Makes the coordinator's thread look up from its connection right after it has received the request.
    producer.with_client(|client| client.flush(0)).expect("ours");
    producer.close(Duration::ZERO).expect("ours");
    assert_eq!(Outcome::Ready, producer.closing().wait(&Parker::new(), wait::deadline(Some(SECONDS))));
    assert_eq!(Phase::Over, *phase());
}

/// Without `rd/main_thread.rs`: "Assertion `rk->rk_eos.txn_req_cnt > 0' failed", and SIGABRT.
#[test]
fn closing_a_producer_while_it_registers_a_partition_aborts_the_process() {
    if let Ok(bootstrap) = std::env::var(CLUSTER) {
        return close_while_a_partition_is_registered(&bootstrap);
    }
    let cluster = cluster("closing", 1);
    let program = std::env::current_exe().expect("a path");
    let child = Command::new(program).env(CLUSTER, cluster.bootstrap_servers()).output().expect("a child");
    assert!(child.status.success(), "{}\n{}", child.status, String::from_utf8_lossy(&child.stderr));
}
