//! OpenSSL's locks survive a fork. Only the thread that forks goes on in the child, so a lock that another thread holds
//! at that moment stays locked there. OpenSSL has no fork handlers for its locks: the child's clients would hang when
//! they ask for random numbers, in a TLS handshake at the latest. So the linker's `--wrap` puts functions in front of
//! those that lock and unlock. A fork waits until no thread holds a lock, and meanwhile none is taken.

use super::PerProcess;
use crate::lock;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that a fork waits. OpenSSL holds its locks for much less.
const PATIENCE: Duration = Duration::from_secs(2);

/// A child makes its own, as of address lookups (resolver.rs).
static GATE: PerProcess<Gate> = PerProcess::new();

thread_local! {
    /// How many of these locks the thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

#[derive(Default)]
struct Gate {
    /// Threads that hold a lock, or are about to take one.
    inside: AtomicUsize,
    /// Threads between the two fork handlers. Changed with the mutex.
    forks: AtomicUsize,
    mutex: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    fn enter(&self) {
        // A thread that is inside already may not wait: the fork waits for it.
        if HELD.replace(HELD.get() + 1) > 0 {
            return;
        }
        loop {
            // Either a fork sees that this thread is inside, or this thread sees the fork.
            self.inside.fetch_add(1, Ordering::SeqCst);
            if self.forks.load(Ordering::SeqCst) == 0 {
                return;
            }
            self.step_out();
            let mut guard = lock(&self.mutex);
            while self.forks.load(Ordering::SeqCst) > 0 {
                guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn leave(&self) {
        let held = HELD.get();
        HELD.set(held.saturating_sub(1));
        if held == 1 {
            self.step_out();
        }
    }

    fn step_out(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
        if self.forks.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.mutex));
            self.changed.notify_all();
        }
    }

    fn fork_begins(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut guard = lock(&self.mutex);
        self.forks.fetch_add(1, Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            guard = self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn fork_ended(&self) {
        let guard = lock(&self.mutex);
        self.forks.fetch_sub(1, Ordering::SeqCst);
        drop(guard);
        self.changed.notify_all();
    }
}

fn gate() -> &'static Gate {
    GATE.get_or_init(Gate::default)
}

/// For the forking thread, just before.
pub(super) fn fork_begins() {
    gate().fork_begins();
}

/// For the parent's thread that forked. (The child's gate is new.)
pub(super) fn fork_ended() {
    gate().fork_ended();
}

/// Defines functions in front of OpenSSL's, with what is done around each.
macro_rules! wrap {
    ($($wrapped:literal $name:ident = $real:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)?: $way:ident;)*) => {
        unsafe extern "C" {
            $(fn $real($($argument: $type),*) $(-> $result)?;)*
        }
        $(
            /// # Safety
            /// OpenSSL's own arguments.
            #[unsafe(export_name = $wrapped)]
            unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: the caller's promise.
                $way(|| unsafe { $real($($argument),*) })
            }
        )*
    };
}

/// 0: it was not taken.
fn taking(take: impl FnOnce() -> c_int) -> c_int {
    gate().enter();
    let taken = take();
    if taken == 0 {
        gate().leave();
    }
    taken
}

fn taking_surely(take: impl FnOnce()) {
    gate().enter();
    take();
}

fn giving<R>(give: impl FnOnce() -> R) -> R {
    let result = give();
    gate().leave();
    result
}

/// Takes locks and gives them back.
fn inside(work: impl FnOnce()) {
    gate().enter();
    giving(work);
}

type Lock = *mut c_void;

wrap! {
    "__wrap_CRYPTO_THREAD_read_lock" read = __real_CRYPTO_THREAD_read_lock(lock: Lock) -> c_int: taking;
    "__wrap_CRYPTO_THREAD_write_lock" write = __real_CRYPTO_THREAD_write_lock(lock: Lock) -> c_int: taking;
    "__wrap_CRYPTO_THREAD_unlock" unlock = __real_CRYPTO_THREAD_unlock(lock: Lock) -> c_int: giving;
    "__wrap_ossl_rcu_read_lock" rcu_read = __real_ossl_rcu_read_lock(lock: Lock) -> c_int: taking;
    "__wrap_ossl_rcu_read_unlock" rcu_read_end = __real_ossl_rcu_read_unlock(lock: Lock): giving;
    "__wrap_ossl_rcu_write_lock" rcu_write = __real_ossl_rcu_write_lock(lock: Lock): taking_surely;
    "__wrap_ossl_rcu_write_unlock" rcu_write_end = __real_ossl_rcu_write_unlock(lock: Lock): giving;
    "__wrap_ossl_synchronize_rcu" rcu_synchronize = __real_ossl_synchronize_rcu(lock: Lock): inside;
}
