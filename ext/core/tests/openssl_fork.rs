//! A forked child can use OpenSSL, whatever the threads of its parent did with it at the moment of the fork.
//!
//! The children start no thread of Rust's: see decode_fork.rs for why.
#![cfg(all(target_os = "linux", not(feature = "system")))]

mod support;

use pelton_core::poller::Poller;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::*;

const THREADS: usize = 4;
const FORKS: usize = 200;

unsafe extern "C" {
    fn CRYPTO_THREAD_lock_new() -> *mut c_void;
    fn CRYPTO_THREAD_write_lock(lock: *mut c_void) -> c_int;
    fn CRYPTO_THREAD_unlock(lock: *mut c_void) -> c_int;
    fn RAND_priv_bytes(bytes: *mut u8, count: c_int) -> c_int;
}

/// A lock of OpenSSL.
struct Lock(usize);

impl Lock {
    fn new() -> Self {
        // SAFETY: without preconditions.
        Self(unsafe { CRYPTO_THREAD_lock_new() } as usize)
    }

    fn held<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: a live lock, which this thread does not hold yet.
        assert_eq!(1, unsafe { CRYPTO_THREAD_write_lock(self.0 as *mut c_void) });
        let result = work();
        // SAFETY: this thread holds it.
        assert_eq!(1, unsafe { CRYPTO_THREAD_unlock(self.0 as *mut c_void) });
        result
    }
}

/// The first ones of a thread take locks.
fn random() -> bool {
    let mut bytes = [0; 4];
    // SAFETY: a live buffer with its length.
    unsafe { RAND_priv_bytes(bytes.as_mut_ptr(), 4) == 1 }
}

/// Forks children that run `child`, while threads run `parent` again and again.
fn fork_during(parent: impl Fn() + Sync, child: impl Fn() -> bool) {
    Poller::global().expect("a pipe"); // the fork handlers are there
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    parent();
                }
            });
        }
        let statuses: Vec<_> = (0..FORKS).map(|_| in_child(&child)).take_while(|status| *status == 0).collect();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(FORKS, statuses.len(), "children before one that hung");
    });
}

/// Some locks are taken while another one is held. A fork waits for both.
#[test]
fn a_lock_is_free_in_a_child() {
    let (outer, inner) = (Lock::new(), Lock::new());
    let work = || {
        let end = Instant::now() + Duration::from_micros(100);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    };
    fork_during(|| outer.held(|| inner.held(work)), || outer.held(|| inner.held(|| true)));
}

#[test]
fn a_child_gets_random_numbers() {
    fork_during(|| assert!(thread::spawn(random).join().expect("no panic")), random);
}
